"""A receiver of webhooks on the loopback address, which verifies as the Standard Webhooks specification says.

Written from the specification and apart from the service: it shares no code with what signs.
"""

import base64
import hashlib
import hmac
import json
import threading
from collections import deque
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OLD_SECRET = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


def verifies(received: Received, secret: str) -> bool:
    """Whether one of the signatures was made with that secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    parts = (received.headers["webhook-id"], received.headers["webhook-timestamp"])
    signed = ".".join(parts).encode() + b"." + received.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = [one.split(",", 1) for one in received.headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(value, expected) for version, value in given)


class Receiver:
    """Answers as it is told, 204 when it is told nothing more, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[Received] = []
        self.answers: deque[tuple[int, dict[str, str]]] = deque()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with receiver._lock:
                    receiver.got.append(Received(path=self.path, headers=headers, body=body))
                    status, more = receiver.answers.popleft() if receiver.answers else (204, {})
                receiver.may_answer.wait()
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def will_answer(self, *statuses: int, **headers: str) -> None:
        """In this order, each once."""
        self.answers += [(status, headers) for status in statuses]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
