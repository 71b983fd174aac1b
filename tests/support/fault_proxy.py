"""A proxy between a client and a service that does to their messages what networks do, on demand.

with FaultProxy("127.0.0.1", server.port) as proxy:
    proxy.plan("/settle", Fault.DROP_REPLY)
    ... a client that asks proxy.url ...
    assert proxy.seen == [("POST", "/decide"), ("POST", "/operations/d/settle")]

Each planned fault meets one request whose path holds its text, in the order they were planned; every other
request passes. It listens on a free port of the loopback address, or on a Unix socket.
"""

import http.client
import json
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

UPSTREAM_SECONDS: Final = 60


class Fault(Enum):
    """What happens to one exchange."""

    DROP_REQUEST = auto()
    """The connection is reset before anything arrives."""
    HANG_REQUEST = auto()
    """Nothing arrives, and nothing is answered."""
    DROP_REPLY = auto()
    """It arrives; the connection closes without an answer."""
    HANG_REPLY = auto()
    """It arrives, and nothing is answered."""
    DUPLICATE = auto()
    """It arrives twice; the second answer comes back."""
    CUT = auto()
    """The answer ends in the middle of its body."""
    STATUS_500 = auto()
    """It arrives; a failure comes back in place of the answer."""
    STATUS_503 = auto()
    """It does not arrive: 503, and the same request may help."""
    HTML = auto()
    """It arrives; a page comes back, with status 200."""
    EMPTY = auto()
    """It arrives; an answer without a body comes back."""
    TRUNCATED_JSON = auto()
    """It arrives; half of the body comes back as if it were whole."""
    WRONG_ID = auto()
    """It arrives; the answer names another decision."""


class FaultProxy:
    """One upstream, and the faults that are planned."""

    def __init__(self, host: str, port: int, *, uds: Path | None = None) -> None:
        self._upstream = (host, port)
        self._faults: list[tuple[str, Fault]] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.seen: list[tuple[str, str]] = []
        """(method, path) of every request that came, in order."""
        self.connections = 0
        self.after: Callable[[str, str], None] = lambda method, path: None
        """Called once the service has answered, before the client is."""
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server: socketserver.BaseServer
        if uds is None:
            self._server = _TcpServer(("127.0.0.1", 0), handler)
        else:
            self._server = _UnixServer(str(uds), handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = cast("tuple[str, int]", self._server.server_address)[:2]
        return f"http://{host}:{port}"

    def plan(self, text: str, *faults: Fault) -> None:
        """What meets the next requests whose path holds `text`."""
        with self._lock:
            self._faults += [(text, fault) for fault in faults]

    @property
    def planned(self) -> int:
        """How many faults have met nothing yet."""
        return len(self._faults)

    def __enter__(self) -> Self:
        # Polled often, so that the end of a test does not wait for it.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def next_fault(self, method: str, path: str) -> Fault | None:
        """Note a request, and take the fault that meets it."""
        with self._lock:
            self.seen.append((method, path))
            for index, (text, fault) in enumerate(self._faults):
                if text in path:
                    del self._faults[index]
                    return fault
        return None

    def hang(self, connection: socket.socket) -> None:
        """Until the client gives up, or the test is over."""
        connection.settimeout(0.05)
        while not self._over.is_set():
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        """(status, media type, body) of the service's answer."""
        connection = http.client.HTTPConnection(*self._upstream, timeout=UPSTREAM_SECONDS)
        try:
            connection.request(method, path, body=body or None, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("content-type", ""), answer.read()
        finally:
            connection.close()


class _TcpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False


_NOT_FORWARDED: Final = {"host", "connection", "content-length", "accept-encoding"}
_SILENT: Final = {Fault.DROP_REQUEST, Fault.DROP_REPLY, Fault.HANG_REQUEST, Fault.HANG_REPLY}
_INSTEAD: Final = {
    Fault.STATUS_500: (500, "text/plain", b"failed"),
    Fault.HTML: (200, "text/html", b"<html>please log in</html>"),
    Fault.EMPTY: (200, "application/json", b""),
}
_RESET: Final = struct.pack("ii", 1, 0)
_ARRIVES_NOT: Final = {Fault.DROP_REQUEST, Fault.HANG_REQUEST, Fault.STATUS_503}


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = False

    def setup(self) -> None:
        super().setup()
        self.proxy.connections += 1

    def do_POST(self) -> None:
        self._exchange()

    def do_GET(self) -> None:
        self._exchange()

    def _exchange(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        fault = self.proxy.next_fault(self.command, self.path)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_FORWARDED}
        answer = (503, "application/problem+json", _UNAVAILABLE)
        if fault not in _ARRIVES_NOT:
            for _ in range(2 if fault is Fault.DUPLICATE else 1):
                answer = self.proxy.forward(self.command, self.path, headers, body)
            self.proxy.after(self.command, self.path)
        self._answer(fault, *answer)

    def _answer(self, fault: Fault | None, status: int, media_type: str, body: bytes) -> None:
        if fault in _SILENT:
            self.close_connection = True
            if fault is Fault.DROP_REQUEST:
                # Reset, not closed: the client is told that nobody took it.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self.connection.close()
            elif fault is not Fault.DROP_REPLY:
                self.proxy.hang(self.connection)
            return
        if fault in _INSTEAD:
            status, media_type, body = _INSTEAD[fault]
        elif fault is Fault.WRONG_ID:
            body = _renamed(body)
        half = body[: len(body) // 2]
        if fault is Fault.CUT:
            self._send(status, media_type, half, declared=len(body))
            self.close_connection = True
        else:
            self._send(status, media_type, half if fault is Fault.TRUNCATED_JSON else body)

    def _send(self, status: int, media_type: str, body: bytes, *, declared: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body) if declared is None else declared))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the standard library
        pass


_UNAVAILABLE: Final = json.dumps(
    {
        "type": "urn:authz:problem:store.unavailable",
        "title": "the store is unavailable",
        "status": 503,
        "code": "store.unavailable",
        "detail": "try again",
        "next": ["wait"],
        "retry_unchanged": True,
    }
).encode()


def _renamed(body: bytes) -> bytes:
    answer = json.loads(body)
    for name in ("decision_id", "id"):
        if name in answer:
            answer[name] = "of-somebody-else"
    return json.dumps(answer).encode()
