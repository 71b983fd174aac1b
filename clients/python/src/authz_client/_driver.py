"""Takes the steps of flows: over a blocking and over an asynchronous connection."""

import asyncio
import inspect
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx

from authz_client._flow import Do, Flow, HandOver, Incoming, Outgoing, Pause, Step
from authz_client.errors import MalformedAnswer, RequestNotEncodable, Timeout, Unreachable

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""A longer answer is not read to its end."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Finished:
    """A flow has ended with this."""

    result: Any


class Driver:
    """Blocking. May be shared by threads; a flow may not."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def run(self, flow: Flow[_T]) -> _T:
        """The result of a flow that hands nothing over."""
        finished = self.advance(flow)
        assert isinstance(finished, Finished)  # noqa: S101 - only the guard's flow hands over
        result: _T = finished.result
        return result

    def advance(self, flow: Flow[Any], sent: Any = None) -> HandOver | Finished:
        """Take the steps of the flow up to where it hands over, or to its end."""
        try:
            step: Step = flow.send(sent)
            while not isinstance(step, HandOver):
                try:
                    came = self._take(step)
                except Exception as error:  # noqa: BLE001 - the flow goes on, or raises it again
                    step = flow.throw(error)
                else:
                    step = flow.send(came)
        except StopIteration as finished:
            return Finished(finished.value)
        return step

    def _take(self, step: Outgoing | Pause | Do) -> Any:
        if isinstance(step, Outgoing):
            return self._exchange(step)
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        return step.function()

    def _exchange(self, outgoing: Outgoing) -> Incoming:
        body = _Body(ends_at=time.monotonic() + outgoing.seconds)
        with _refusals(body), self.http.stream(**_stream_of(outgoing)) as response:
            body.begin(response)
            for chunk in response.iter_bytes():
                body.take(chunk)
        return body.complete(response)


class AsyncDriver:
    """For asyncio. What is awaited is bounded as a whole."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def run(self, flow: Flow[_T]) -> _T:
        """See `Driver.run`."""
        finished = await self.advance(flow)
        assert isinstance(finished, Finished)  # noqa: S101 - only the guard's flow hands over
        result: _T = finished.result
        return result

    async def advance(self, flow: Flow[Any], sent: Any = None) -> HandOver | Finished:
        """See `Driver.advance`."""
        try:
            step: Step = flow.send(sent)
            while not isinstance(step, HandOver):
                try:
                    came = await self._take(step)
                except Exception as error:  # noqa: BLE001 - the flow goes on, or raises it again
                    step = flow.throw(error)
                else:
                    step = flow.send(came)
        except StopIteration as finished:
            return Finished(finished.value)
        return step

    async def _take(self, step: Outgoing | Pause | Do) -> Any:
        if isinstance(step, Outgoing):
            return await self._exchange(step)
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        came = step.function()
        return await came if inspect.isawaitable(came) else came

    async def _exchange(self, outgoing: Outgoing) -> Incoming:
        body = _Body(ends_at=time.monotonic() + outgoing.seconds)
        with _refusals(body):
            async with (
                asyncio.timeout(outgoing.seconds),
                self.http.stream(**_stream_of(outgoing)) as response,
            ):
                body.begin(response)
                async for chunk in response.aiter_bytes():
                    body.take(chunk)
        return body.complete(response)


def _stream_of(outgoing: Outgoing) -> dict[str, Any]:
    return {
        "method": outgoing.method,
        "url": outgoing.path,
        "content": outgoing.body,
        "headers": {} if outgoing.body is None else {"Content-Type": "application/json"},
        "timeout": outgoing.seconds,
    }


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
            raise MalformedAnswer("the answer was not complete at the deadline", broke_off=True)

    def complete(self, response: httpx.Response) -> Incoming:
        media_type = response.headers.get("content-type", "").split(";")[0].strip().lower()
        return Incoming(status=response.status_code, media_type=media_type, body=bytes(self._bytes))


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
            raise MalformedAnswer("the answer broke off, or is not HTTP", broke_off=True) from error
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            raise Timeout("no answer within the deadline") from error
        raise Unreachable("the service cannot be reached") from error
