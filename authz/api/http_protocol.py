"""HTTP/1.1 by uvicorn and httptools, which by themselves bound neither a head nor the wait for one.

What is refused here never reaches the application: nobody has authenticated yet, so it has to be cheap.
"""

from asyncio import TimerHandle, Transport
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from authz.api.problems import PROBLEM_JSON, dump_problem
from authz.errors import AuthzError, MalformedInput

MAX_HEAD_BYTES: Final = 64 * 1024
"""Request line and headers; also everything else that is neither, such as trailers."""
HEAD_TIMEOUT_SECONDS: Final = 30.0
"""How long a connection may take to send a head, and the first piece of a body."""
MAX_CONNECTIONS: Final = 1000


class _HeadTooLarge(Exception):
    """Stops the parser. Never leaves this module."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Refuses heads over 64 KiB with 431, and those that do not arrive in time with 408."""

    max_head_bytes = MAX_HEAD_BYTES
    head_timeout_seconds = HEAD_TIMEOUT_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pending = 0
        """Bytes received that are no part of a complete head or of a body."""
        self._body_awaited = False
        """A head is complete, and nothing of its body has come."""
        self._deadline: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # as the base class
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._await_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; refuse what grows without becoming a request."""
        self._pending += len(data)
        super().data_received(data)
        if self._pending > self.max_head_bytes:
            self._refuse(_TOO_LARGE)
        elif (self._pending or self._body_awaited) and self._deadline is None:
            self._await_more()

    def on_headers_complete(self) -> None:
        """Hand the request on, unless its head is too large."""
        # A piece of data can hold a body too, so only when it is large is the head measured.
        if self._pending > self.max_head_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.max_head_bytes:
                raise _HeadTooLarge
        self._pending = 0
        self._body_awaited = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """The body's beginning has come; `authz.api.body` and `authz.ui.bodies` time the rest."""
        self._arrived()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request has come."""
        self._arrived()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser refuses."""
        self._refuse(_TOO_LARGE if self._pending > self.max_head_bytes else _NOT_HTTP)

    def _arrived(self) -> None:
        self._pending = 0
        self._body_awaited = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _await_more(self) -> None:
        self._deadline = self.loop.call_later(self.head_timeout_seconds, self._refuse, _TOO_LATE)

    def _refuse(self, error: AuthzError) -> None:
        self._arrived()
        if self.transport.is_closing():
            return
        # Where an answer has begun, another one would be read as its continuation.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            status, payload = dump_problem(error)
            self.transport.write(
                STATUS_LINE[status]
                + f"content-type: {PROBLEM_JSON}\r\ncontent-length: {len(payload)}\r\n".encode("ascii")
                + b"cache-control: no-store\r\nconnection: close\r\n\r\n"
                + payload
            )
        self.transport.close()


_TOO_LARGE: Final = MalformedInput(
    f"the headers are over {MAX_HEAD_BYTES} bytes", code="input.headers_too_large"
)
_TOO_LATE: Final = MalformedInput("the request did not arrive in time; send it at once", code="input.timeout")
_NOT_HTTP: Final = MalformedInput("that is no HTTP/1.1 request", code="input.not_http")
