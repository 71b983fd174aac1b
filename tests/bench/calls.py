"""The requests that are sent: the contract's example (spec section 11), each one a new operation."""

import json
from typing import Any, Final

ALLOWED: Final = b'"effect":"allow"'
"""What every answer must contain: a bench that measures refusals measures nothing."""

_MARK: Final = "@@@@@@@@@@@@"
"""Stands where the number of the request goes; as long as the number is written."""


def call_body(number: str) -> dict[str, Any]:
    """A file edit in the workspace: one access, one principal, ids that no other request has."""
    return {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
        "tool": {"server": "fs", "name": "file_edit"},
        "arguments": {
            "path": "/workspace/../workspace/app.py",
            "old_str": "def main():\n    run()\n",
            "new_str": "def main() -> int:\n    return run()\n",
        },
        "provenance": {
            "/path": {"source": "user"},
            "/old_str": {"source": "file", "uri": "file:///workspace/app.py"},
            "/new_str": {"source": "model"},
        },
        "context": {
            "trace_id": f"trace-{number}",
            "turn_id": f"turn-{number}",
            "tool_call_id": f"call-{number}",
            "cwd": "/workspace",
            "sandbox_root": "/workspace",
        },
    }


def render(method: str, path: str, body: bytes, key: str | None) -> bytes:
    """One HTTP/1.1 request as it goes over the socket."""
    headers = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    if key is not None:
        headers.append(f"Authorization: Bearer {key}")
    headers.append(f"Content-Length: {len(body)}")
    return "\r\n".join(headers).encode() + b"\r\n\r\n" + body


class DecideRequests:
    """Makes requests that no earlier batch of the same server had."""

    def __init__(self, key: str) -> None:
        body = json.dumps(call_body(_MARK)).encode()
        self._template = render("POST", "/decide", body, key)
        self._next = 0

    def take(self, count: int) -> list[bytes]:
        """`count` requests, rendered before the clock starts."""
        first, self._next = self._next, self._next + count
        mark = _MARK.encode()
        return [
            self._template.replace(mark, b"%0*d" % (len(mark), number))
            for number in range(first, first + count)
        ]


class SameRequest:
    """The baselines get one and the same request over and over."""

    def __init__(self, request: bytes) -> None:
        self._request = request

    def take(self, count: int) -> list[bytes]:
        """`count` times the request."""
        return [self._request] * count
