"""Server-sent events (HTML standard, section 9.2): a stream that ends when it should, and not later."""

import asyncio
import logging
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import ExitStack, aclosing
from typing import Any, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from authz.api.wire import dump
from authz.errors import AuthzError

logger = logging.getLogger("authz.api")

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_SECONDS: Final = 15.0
"""How often something is sent at least: so that proxies keep the connection, and dead ones are noticed."""
HEARTBEAT: Final = b": still here\n\n"
SEND_SECONDS: Final = 20.0
"""How long a client may leave unread what fills its connection, before it is cut off."""


def event(name: str, data: Any) -> bytes:
    """One event."""
    # JSON on one line: no value in it can begin a field of its own.
    return f"event: {name}\ndata: ".encode() + dump(data) + b"\n\n"


def bookmark(number: int) -> bytes:
    """Where a client goes on when it comes back (`Last-Event-ID`): after all that was sent before this."""
    return f"id: {number}\n\n".encode()


async def _until_fault(events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The head of the answer is out, so a fault can only end it: the client comes back and is told then."""
    try:
        async for piece in events:
            yield piece
    except AuthzError as error:
        logger.warning("a stream ended before its time", extra={"why": error.message})


class EventStream(StreamingResponse):
    """Sends what a generator yields. Whatever ends it, the generator and `place` are closed with it."""

    def __init__(self, events: AsyncGenerator[bytes], place: ExitStack) -> None:
        super().__init__(
            _until_fault(events),
            media_type=EVENT_STREAM,
            # Proxies that buffer would keep events back; nginx is told by its own header.
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._events = events
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the stream."""

        async def send_in_time(message: MutableMapping[str, Any]) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        with self._place:
            async with aclosing(self._events):
                await super().__call__(scope, receive, send_in_time)

    async def stream_response(self, send: Send) -> None:
        """See the base class. A client that does not read loses its connection."""
        try:
            await super().stream_response(send)
        except TimeoutError:
            # Not complete, so the server closes the connection; the client comes back and resumes.
            return
