"""The requests that are sent, each one a new operation: spread over tools, principals and places."""

import json
from typing import Any, Final

from tests.bench.bundle import PEOPLE

ALLOWED: Final = b'"effect":"allow"'
"""What every answer must contain: a bench that measures refusals measures nothing."""

_MARK: Final = "@@@@@@@@@@@@"
"""Stands where the number of the request goes; as long as the number is written."""


VARIANTS: Final = 512
"""Calls that differ in who calls, which tool, and on what; a bench goes through them in turn."""


def call_body(number: str) -> dict[str, Any]:
    """A file edit in the workspace: one access, one principal, ids that no other request has."""
    return _body("coder-1", "ada", "file_edit", "/workspace/../workspace/app.py", number)


def spread_body(variant: int, number: str) -> dict[str, Any]:
    """One of the calls that are spread over tools, principals and places, all of which are allowed.

    Half of them edit files all over the workspace, a quarter reads a team's service, a quarter fetches pages.
    """
    who = variant % PEOPLE
    agent, user = f"agent-{who}", f"user-{who}"
    if variant % 4 < 2:
        place = f"service-{variant % 211}" if variant % 3 else f"library-{variant}"
        return _body(agent, user, "file_edit", f"/workspace/{place}/src/module_{variant % 17}.py", number)
    # There is a block of rules about the first of everything in each bundle, of ten rules and of thousands.
    if variant % 4 == 2:
        return _body(agent, user, "file_read", f"/data/set-0/part-{variant}.csv", number)
    return _body(agent, user, "fetch", f"https://www{variant}.site-0.example.com/page", number)


def _body(agent: str, user: str, tool: str, place: str, number: str) -> dict[str, Any]:
    edit = {
        "path": place,
        "old_str": "def main():\n    run()\n",
        "new_str": "def main() -> int:\n    return run()\n",
    }
    provenance = {
        "/path": {"source": "user"},
        "/old_str": {"source": "file", "uri": "file:///workspace/app.py"},
        "/new_str": {"source": "model"},
    }
    arguments = {"file_edit": edit, "file_read": {"path": place}, "fetch": {"url": place}}[tool]
    return {
        "subject": {"agent": agent, "on_behalf_of": user, "session": "s-1"},
        "tool": {"server": "net" if tool == "fetch" else "fs", "name": tool},
        "arguments": arguments,
        "provenance": {f"/{name}": provenance.get(f"/{name}", {"source": "user"}) for name in arguments},
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
        self._templates = [
            render("POST", "/decide", json.dumps(spread_body(variant, _MARK)).encode(), key)
            for variant in range(VARIANTS)
        ]
        self.key = key
        self._next = 0

    def take(self, count: int) -> list[bytes]:
        """`count` requests, rendered before the clock starts."""
        first, self._next = self._next, self._next + count
        mark = _MARK.encode()
        return [
            self._templates[number % VARIANTS].replace(mark, b"%0*d" % (len(mark), number))
            for number in range(first, first + count)
        ]


class SameRequest:
    """The baselines get one and the same request over and over."""

    def __init__(self, request: bytes) -> None:
        self._request = request

    def take(self, count: int) -> list[bytes]:
        """`count` times the request."""
        return [self._request] * count
