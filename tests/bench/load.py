"""The load generator: HTTP/1.1 keep-alive over raw asyncio protocols, requests rendered beforehand.

Closed loop: each connection sends its next request when its answer is complete. Every answer is checked.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import uvloop

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
TIMEOUT_SECONDS: Final = 120.0


class BadAnswer(RuntimeError):
    """The server answered something else than what is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the clients saw."""

    requests: int
    seconds: float
    latencies_ns: Sequence[int]
    """Sorted."""

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    def percentile_us(self, percent: float) -> float:
        """The latency that `percent` of the requests did not exceed."""
        index = min(len(self.latencies_ns) - 1, int(len(self.latencies_ns) * percent / 100))
        return self.latencies_ns[index] / 1000


class _Connection(asyncio.Protocol):
    """One keep-alive connection, without pipelining."""

    def __init__(
        self,
        requests: Iterator[bytes],
        expected: bytes,
        status: bytes,
        latencies_ns: list[int],
        done: asyncio.Future[None],
    ) -> None:
        self._requests = requests
        self._expected = expected
        self._status = status
        self._latencies_ns = latencies_ns
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._sent_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's, so this cannot be asserted.
        self._transport = cast("asyncio.Transport", transport)

    def start(self) -> None:
        """Send the first request."""
        self._send()

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        end = received.find(_HEAD_END)
        if end < 0:
            self._received = received
            return
        at = received.find(_LENGTH, 0, end)
        if at < 0:
            self._fail(received)
            return
        body = end + len(_HEAD_END)
        size = body + int(received[at + len(_LENGTH) : received.find(b"\r\n", at)])
        if len(received) < size:
            self._received = received
            return
        self._latencies_ns.append(time.perf_counter_ns() - self._sent_ns)
        if len(received) != size or received[9:12] != self._status or received.find(self._expected, body) < 0:
            self._fail(received)
            return
        self._received = b""
        self._send()

    def connection_lost(self, fault: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(fault or BadAnswer("the server closed a connection"))

    def _send(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is None:
            if not self._done.done():
                self._done.set_result(None)
            self._transport.close()
            return
        self._sent_ns = time.perf_counter_ns()
        self._transport.write(request)

    def _fail(self, received: bytes) -> None:
        if not self._done.done():
            self._done.set_exception(BadAnswer(f"unexpected answer: {received[:600]!r}"))
        if self._transport is not None:
            self._transport.close()


def send_all(
    port: int, requests: Sequence[bytes], *, connections: int, expected: bytes, status: bytes = b"200"
) -> Load:
    """Send every request once over `connections` connections. Raises `BadAnswer` at the first bad answer."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_send_all(port, requests, connections, expected, status))


async def _send_all(
    port: int, requests: Sequence[bytes], connections: int, expected: bytes, status: bytes
) -> Load:
    loop = asyncio.get_running_loop()
    pending = iter(requests)
    latencies_ns: list[int] = []
    opened: list[_Connection] = []
    ends: list[asyncio.Future[None]] = []
    for _ in range(connections):
        done: asyncio.Future[None] = loop.create_future()
        connection = _Connection(pending, expected, status, latencies_ns, done)
        await loop.create_connection(lambda made=connection: made, "127.0.0.1", port)  # type: ignore[misc]
        opened.append(connection)
        ends.append(done)
    started_ns = time.perf_counter_ns()
    for connection in opened:
        connection.start()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await asyncio.gather(*ends)
    seconds = (time.perf_counter_ns() - started_ns) / 1e9
    if len(latencies_ns) != len(requests):
        raise BadAnswer(f"{len(requests)} requests were sent and {len(latencies_ns)} answered")
    return Load(requests=len(requests), seconds=seconds, latencies_ns=sorted(latencies_ns))
