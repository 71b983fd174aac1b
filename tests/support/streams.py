"""A stream of an application in this process, read as it comes: the usual client waits for its end."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stream:
    """What has come of an answer so far."""

    task: "asyncio.Task[None]"
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    number: int | None = None
    """The last id that was sent."""
    _pieces: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)

    async def piece(self) -> bytes | None:
        """The next piece as it was sent; `None` at the end."""
        return await self._pieces.get()

    async def events(self) -> list[dict[str, Any]]:
        """The data of the events of the next piece that has any. Fails at the end of the stream."""
        while (piece := await self.piece()) is not None:
            if found := self.read(piece):
                return found
        raise AssertionError("the stream has ended")

    def read(self, piece: bytes) -> list[dict[str, Any]]:
        """The data of the events in a piece; its id is remembered."""
        found = []
        for line in piece.decode().splitlines():
            name, _, value = line.partition(": ")
            if name == "data":
                found.append(json.loads(value))
            elif name == "id":
                self.number = int(value)
        return found


@asynccontextmanager
async def streaming(application: Any, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
    """A GET, from the moment that its head has come; at the end the client goes away."""
    left, begun = asyncio.Event(), asyncio.Event()
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            stream.status = message["status"]
            stream.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            begun.set()
        elif message.get("body"):
            stream._pieces.put_nowait(message["body"])
        if message["type"] == "http.response.body" and not message.get("more_body"):
            stream._pieces.put_nowait(None)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("authz.test", 80),
    }

    async def run() -> None:
        await application(scope, receive, send)

    stream = Stream(task=asyncio.create_task(run()))
    waiting = asyncio.create_task(begun.wait())
    try:
        await asyncio.wait([waiting, stream.task], return_when=asyncio.FIRST_COMPLETED)
        yield stream
    finally:
        waiting.cancel()
        left.set()
        await stream.task
