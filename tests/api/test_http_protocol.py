"""What a connection may send before anybody has authenticated, over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from authz.api.body import read_body
from authz.api.http_protocol import BoundedHttpProtocol

LIMIT = BoundedHttpProtocol.max_head_bytes


class Impatient(BoundedHttpProtocol):
    head_timeout_seconds = 0.2


async def _echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    body = await read_body(receive, 1 << 20)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def _connected(
    protocol: type[BoundedHttpProtocol] = BoundedHttpProtocol,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    config = uvicorn.Config(_echo, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)  # type: ignore[arg-type,return-value]
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        server.close()
        await asyncio.gather(*state.tasks, return_exceptions=True)


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """(status, body); the connection may have been reset once it was read."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head.split()[1]), await reader.readexactly(int(length.partition(b":")[2]))


async def _refused(reader: asyncio.StreamReader, status: int, code: str) -> None:
    answered, body = await _answer(reader)
    problem = json.loads(body)
    assert (answered, problem["status"], problem["code"]) == (status, status, code)
    assert await reader.read() == b""


async def _sent_until_cut_off(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begun: bytes
) -> int:
    """How much of an endless header went out. The answer can be lost with what was not read any more."""
    writer.write(begun)
    sent = 0
    while sent < 60_000_000 and not (reader.at_eof() or reader.exception() or writer.is_closing()):
        writer.write(b"x" * 8192)
        sent += 8192
        await asyncio.sleep(0)
    return sent


async def test_one_endless_header_is_cut_off() -> None:
    async with _connected() as (reader, writer):
        assert await _sent_until_cut_off(reader, writer, b"GET / HTTP/1.1\r\nHost: a\r\nX: ") < 4 << 20


async def test_a_head_that_is_too_large_is_refused_and_one_just_below_is_not() -> None:
    for size, status in ((LIMIT - 100, 200), (LIMIT + 1, 431)):
        async with _connected() as (reader, writer):
            many = b"".join(b"X-%04d: %s\r\n" % (number, b"x" * 90) for number in range(size // 100))
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n" + many + b"X: " + b"x" * (size % 100) + b"\r\n\r\n")
            assert (await _answer(reader))[0] == status


async def test_a_large_url_is_refused() -> None:
    async with _connected() as (reader, writer):
        writer.write(b"GET /" + b"x" * LIMIT + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await _answer(reader))[0] == 431


async def test_a_large_body_and_the_next_request_are_no_head() -> None:
    body = b"x" * 300_000
    async with _connected() as (reader, writer):
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert await _answer(reader) == (200, body)
        chunk = b"%x\r\n%s\r\n" % (1000, b"y" * 1000)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(200):
            writer.write(chunk)
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        assert await _answer(reader) == (200, b"y" * 200_000)


async def test_endless_trailers_are_cut_off() -> None:
    begun = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nT: "
    async with _connected() as (reader, writer):
        assert await _sent_until_cut_off(reader, writer, begun) < 4 << 20


async def test_what_does_not_arrive_is_not_awaited_for_ever() -> None:
    for begun in (
        b"",
        b"GE",
        b"GET / HTTP/1.1\r\nHost:",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
    ):
        async with _connected(Impatient) as (reader, writer):
            writer.write(begun)
            await _refused(reader, 408, "input.timeout")


async def test_a_request_that_is_answered_late_is_not_cut_off() -> None:
    async with _connected(Impatient) as (reader, writer):
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
            assert await _answer(reader) == (200, b"ab")
            await asyncio.sleep(0.3)


async def test_what_is_no_http_is_refused_as_a_problem() -> None:
    async with _connected() as (reader, writer):
        writer.write(b"\x16\x03\x01 no http\r\n\r\n")
        await _refused(reader, 400, "input.not_http")
