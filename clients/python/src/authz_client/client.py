"""The two clients: one flow, driven over a blocking and over an asynchronous connection."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from authz_client import _flow
from authz_client.errors import MalformedAnswer, RequestNotEncodable, Timeout, Unreachable
from authz_client.model import Decision

DEFAULT_DEADLINE_SECONDS: Final = 5.0

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""A longer answer is not read to its end."""

_T = TypeVar("_T")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Client:
    """Asks for decisions and waits for them. Keeps its connections, and may be shared by threads.

    `deadline_seconds` bounds the wait for a connection, for the answer to begin, and for its body as a
    whole. A transport of one's own (`httpx.BaseTransport`) takes the place of the network. Proxies and
    credentials from the environment are not used, and redirects are not followed.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str,
        deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._deadline_seconds = _checked_deadline(deadline_seconds)
        self._clock = clock
        self._http = httpx.Client(
            base_url=_checked_base_url(base_url),
            headers=_headers(api_key),
            timeout=deadline_seconds,
            transport=transport,
            follow_redirects=False,
            trust_env=False,
        )

    def decide(self, request: Mapping[str, Any]) -> Decision:
        """The decision on one call (the body of `POST /decide`, spec section 11).

        Raises `DecisionUnavailable`, always as one of its subclasses, when there is none.
        """
        return self._drive(_flow.decide(request, read_now=self._clock))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drive(self, flow: _flow.Flow[_T]) -> _T:
        try:
            outgoing = next(flow)
            while True:
                outgoing = flow.send(self._exchange(outgoing))
        except StopIteration as finished:
            result: _T = finished.value
            return result

    def _exchange(self, outgoing: _flow.Outgoing) -> _flow.Incoming:
        body = _Body(ends_at=time.monotonic() + self._deadline_seconds)
        with (
            _refusals(body),
            self._http.stream("POST", outgoing.path, content=outgoing.body) as response,
        ):
            body.begin(response)
            for chunk in response.iter_bytes():
                body.take(chunk)
        return body.complete(response)


class AsyncClient:
    """`Client` for asyncio. Its deadline bounds the whole exchange."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str,
        deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._deadline_seconds = _checked_deadline(deadline_seconds)
        self._clock = clock
        self._http = httpx.AsyncClient(
            base_url=_checked_base_url(base_url),
            headers=_headers(api_key),
            timeout=deadline_seconds,
            transport=transport,
            follow_redirects=False,
            trust_env=False,
        )

    async def decide(self, request: Mapping[str, Any]) -> Decision:
        """The decision on one call; see `Client.decide`."""
        return await self._drive(_flow.decide(request, read_now=self._clock))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _drive(self, flow: _flow.Flow[_T]) -> _T:
        try:
            outgoing = next(flow)
            while True:
                outgoing = flow.send(await self._exchange(outgoing))
        except StopIteration as finished:
            result: _T = finished.value
            return result

    async def _exchange(self, outgoing: _flow.Outgoing) -> _flow.Incoming:
        body = _Body(ends_at=time.monotonic() + self._deadline_seconds)
        with _refusals(body):
            async with (
                asyncio.timeout(self._deadline_seconds),
                self._http.stream("POST", outgoing.path, content=outgoing.body) as response,
            ):
                body.begin(response)
                async for chunk in response.aiter_bytes():
                    body.take(chunk)
        return body.complete(response)


class _Body:
    """Collects an answer, within its size and its time."""

    def __init__(self, *, ends_at: float) -> None:
        self.begun = False
        self._ends_at = ends_at
        self._bytes = bytearray()

    def begin(self, response: httpx.Response) -> None:
        self.begun = True
        # None was asked for, so there is nothing to unpack, and nothing that unpacks to gigabytes.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise MalformedAnswer("the answer is compressed, which was not asked for")

    def take(self, chunk: bytes) -> None:
        self._bytes += chunk
        if len(self._bytes) > MAX_ANSWER_BYTES:
            raise MalformedAnswer(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > self._ends_at:
            raise MalformedAnswer("the answer was not complete at the deadline")

    def complete(self, response: httpx.Response) -> _flow.Incoming:
        media_type = response.headers.get("content-type", "").split(";")[0].strip().lower()
        return _flow.Incoming(status=response.status_code, media_type=media_type, body=bytes(self._bytes))


@contextmanager
def _refusals(body: _Body) -> Iterator[None]:
    """Turns failures of the transport into this package's types.

    `Timeout` and `Unreachable` mean that no answer began. What breaks off later is malformed: a caller
    that makes an exception for a dead network must not make it for an answer that was cut short.
    """
    try:
        yield
    except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise RequestNotEncodable("the request cannot be sent: check the base url and the api key") from error
    except (httpx.HTTPError, TimeoutError) as error:
        if body.begun or isinstance(error, httpx.RemoteProtocolError):
            raise MalformedAnswer("the answer broke off, or is not HTTP") from error
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            raise Timeout("no answer within the deadline") from error
        raise Unreachable("the service cannot be reached") from error


def _headers(api_key: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {api_key}",
        "Content-Type": "application/json",
        "Accept": "application/json, application/problem+json",
        "Accept-Encoding": "identity",
    }


def _checked_base_url(base_url: str) -> str:
    url = httpx.URL(base_url)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("`base_url` must be an absolute http or https url")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("`base_url` must have no user, query or fragment")
    return base_url


def _checked_deadline(deadline_seconds: float) -> float:
    if not 0 < deadline_seconds < float("inf"):
        raise ValueError("`deadline_seconds` must be positive and finite")
    return deadline_seconds
