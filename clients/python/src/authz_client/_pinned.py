"""One request over one connection that can only lead to given addresses, within a time and a size.

Built on the network back ends of httpcore, the engine of httpx, for three reasons: the name stays the origin,
so that `Host`, SNI and the check of the certificate are about it while the socket goes to the address; the
request target is sent as it was decided on, byte for byte; and each read is bounded by what is left of the
deadline. A connection is used once: a second name at the same address would not be checked on it.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import httpcore

from authz_client._hops import Exchange, Received
from authz_client.errors import FetchFailed

_IDENTITY: Final = "identity"


class Deadline:
    """A moment of the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then. Raises `FetchFailed` when there are none."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise FetchFailed("the fetch was not complete at its deadline")
        return left


def exchange(asked: Exchange, *, tls: ssl.SSLContext, deadline: Deadline, max_bytes: int) -> Received:
    """Send the request and read the whole response. Raises `FetchFailed`."""
    backend = _Backend(asked.addresses, deadline)
    with (
        _failures(),
        httpcore.HTTPConnection(
            _request(asked).url.origin, ssl_context=tls, network_backend=backend
        ) as connection,
    ):
        response = connection.handle_request(_request(asked))
        try:
            body = _Body(response, max_bytes=max_bytes)
            for chunk in response.iter_stream():
                body.take(chunk)
        finally:
            response.close()
        return body.complete()


async def exchange_async(
    asked: Exchange, *, tls: ssl.SSLContext, deadline: Deadline, max_bytes: int
) -> Received:
    """`exchange` for asyncio."""
    backend = _AsyncBackend(asked.addresses)
    with _failures():
        async with (
            asyncio.timeout(deadline.left()),
            httpcore.AsyncHTTPConnection(
                _request(asked).url.origin, ssl_context=tls, network_backend=backend
            ) as connection,
        ):
            response = await connection.handle_async_request(_request(asked))
            try:
                body = _Body(response, max_bytes=max_bytes)
                chunks: AsyncIterator[bytes] = response.aiter_stream()
                async for chunk in chunks:
                    body.take(chunk)
            finally:
                await response.aclose()
            return body.complete()


def _request(asked: Exchange) -> httpcore.Request:
    target = asked.target
    headers = [
        ("Host", target.authority),
        ("Connection", "close"),
        # None is asked for, so there is nothing to unpack, and nothing that unpacks to gigabytes.
        ("Accept-Encoding", _IDENTITY),
        *asked.headers,
    ]
    if asked.body:
        headers.append(("Content-Length", str(len(asked.body))))
    return httpcore.Request(
        asked.method,
        httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
        headers=headers,
        content=asked.body,
    )


class _Body:
    """Collects a response within its size."""

    def __init__(self, response: httpcore.Response, *, max_bytes: int) -> None:
        self._status = response.status
        self._headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers
        )
        self._max_bytes = max_bytes
        self._bytes = bytearray()
        encodings = {value.lower() for name, value in self._headers if name.lower() == "content-encoding"}
        if encodings - {_IDENTITY, ""}:
            raise FetchFailed("the response is compressed, which was not asked for")

    def take(self, chunk: bytes) -> None:
        self._bytes += chunk
        if len(self._bytes) > self._max_bytes:
            raise FetchFailed(f"the response is longer than {self._max_bytes} bytes")

    def complete(self) -> Received:
        return Received(status=self._status, headers=self._headers, body=bytes(self._bytes))


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (httpcore.TimeoutException, TimeoutError) as error:
        raise FetchFailed("the fetch was not complete at its deadline") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        # Also a certificate that is not the name's: `ssl.SSLError` is an `OSError`, httpcore wraps it.
        raise FetchFailed(f"no complete response ({type(error).__name__})") from error


class _Backend(httpcore.NetworkBackend):
    """Connects to the given addresses, whatever host it is asked for."""

    def __init__(self, addresses: Sequence[str], deadline: Deadline) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError("there is no address")
        for address in self._addresses:
            try:
                stream = self._sockets.connect_tcp(
                    address, port, timeout=self._deadline.left(), socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _Stream(stream, self._deadline)
        raise failure


class _Stream(httpcore.NetworkStream):
    """A stream whose every step ends at the deadline, so that many small ones do too."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, timeout=self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout=self._deadline.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, timeout=self._deadline.left())
        return _Stream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    """`_Backend` for asyncio, where one timeout around everything bounds all steps."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError("there is no address")
        for address in self._addresses:
            try:
                return await self._sockets.connect_tcp(address, port, socket_options=socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure
