"""Fetches a url so that what was decided on is what is connected to, redirect by redirect.

    def ask(hop: Hop) -> Decision:
        return client.decide(hop_request(request, hop))

    page = fetch("https://example.com/a", ask=ask)

Every hop is a new request to the decision point (spec section 4): its target came from a page, so it is
untrusted whoever chose the first url, and an allow of the first url says nothing of it. A hop goes to the url
as its decision spells it, and only to addresses that the decision covers:

- A decision on an address covers that address.
- A decision on a name covers the public internet. A name that leads anywhere else (this machine, the network
  inside, a metadata service) is `AddressRefused`, unless the caller says by `allow_address_classes` what the
  name was allowed for. The name is resolved once for each hop and the connection goes to what was found then:
  a second answer (DNS rebinding) is never asked for.

The decision must be on `hop.url`, and have the verb of the method on it: `read` for GET, HEAD and OPTIONS,
`send` or `write` for POST, PUT and PATCH, `delete` for DELETE. A body needs `send` or `write` whatever the
method, and other methods are not sent. A redirect that turns a POST into a GET needs `read`, so `ask` has to
ask there with a tool that reads.

No proxy and no credentials are taken from the environment, no cookie is kept, and nothing is unpacked. To
another origin than the one before, only `Accept`, `Accept-Language`, `User-Agent` and what describes the body
(`Content-Type`, `-Encoding`, `-Language`) follow: any other header may be a credential.
"""

import asyncio
import queue
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import httpx

from authz_client import _hops
from authz_client._hops import Fetched, Hop
from authz_client._pinned import Deadline, exchange, exchange_async
from authz_client.addresses import AddressClass, address_classes
from authz_client.errors import AddressRefused, FetchFailed, HopRefused, NotCovered
from authz_client.model import Decision

__all__ = [
    "AddressClass",
    "AddressRefused",
    "FetchFailed",
    "Fetched",
    "Hop",
    "HopRefused",
    "Limits",
    "NotCovered",
    "Resolver",
    "address_classes",
    "fetch",
    "fetch_async",
    "hop_request",
    "system_resolver",
]

_T = TypeVar("_T")

Resolver = Callable[[str, int], Sequence[str]]
"""From a name and a port to its addresses, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one fetch may cost, all hops together but for the size."""

    max_redirects: int = 5
    max_bytes: int = 10 * 1024 * 1024
    """Of the body of each response."""
    deadline_seconds: float = 30.0
    """From the call to the last byte, decisions included."""


_LIMITS: Final = Limits()


def _utc_now() -> datetime:
    return datetime.now(UTC)


def system_resolver(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def fetch(
    url: str,
    *,
    ask: Callable[[Hop], Decision],
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    allow_address_classes: frozenset[AddressClass] = frozenset(),
    limits: Limits = _LIMITS,
    resolver: Resolver = system_resolver,
    tls: ssl.SSLContext | None = None,
    clock: Callable[[], datetime] = _utc_now,
) -> Fetched:
    """The response to `url`, all redirects followed, each hop decided on by `ask`.

    `ask` runs in a thread of its own, with the caller's context variables: at the deadline it is left behind
    there. What it raises comes through. Raises `HopRefused` for a hop that is not allowed, `NotCovered` for a
    decision that has ended, or is not about this url and this method, `AddressRefused`, and `FetchFailed`.
    """
    deadline = Deadline(limits.deadline_seconds)
    tls = tls or httpx.create_ssl_context(trust_env=False)
    flow = _flow(url, method, headers, body, allow_address_classes, limits, clock)
    step = _advance(flow, None)
    while not isinstance(step, Fetched):
        if isinstance(step, _hops.Ask):
            answer: _hops.Answer = _in_time(
                partial(ask, step.hop), deadline, what="the hop was not decided on"
            )
        elif isinstance(step, _hops.Resolve):
            answer = _resolved(resolver, step, deadline)
        else:
            answer = exchange(step, tls=tls, deadline=deadline, max_bytes=limits.max_bytes)
        step = _advance(flow, answer)
    return step


async def fetch_async(
    url: str,
    *,
    ask: Callable[[Hop], Awaitable[Decision]],
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    allow_address_classes: frozenset[AddressClass] = frozenset(),
    limits: Limits = _LIMITS,
    resolver: Resolver = system_resolver,
    tls: ssl.SSLContext | None = None,
    clock: Callable[[], datetime] = _utc_now,
) -> Fetched:
    """`fetch` for asyncio. `ask` is cancelled at the deadline. The resolver may block: it has a thread."""
    deadline = Deadline(limits.deadline_seconds)
    tls = tls or httpx.create_ssl_context(trust_env=False)
    flow = _flow(url, method, headers, body, allow_address_classes, limits, clock)
    step = _advance(flow, None)
    while not isinstance(step, Fetched):
        if isinstance(step, _hops.Ask):
            answer: _hops.Answer = await _asked(ask, step.hop, deadline)
        elif isinstance(step, _hops.Resolve):
            answer = await asyncio.to_thread(_resolved, resolver, step, deadline)
        else:
            answer = await exchange_async(step, tls=tls, deadline=deadline, max_bytes=limits.max_bytes)
        step = _advance(flow, answer)
    return step


def hop_request(request: Mapping[str, Any], hop: Hop, *, argument: str = "url") -> dict[str, Any]:
    """The body of `POST /decide` for one hop of the call `request`, whose argument `argument` is the url.

    For a redirect the url is the page's: its provenance is `web`, whatever that of the first url was. Each
    hop is an operation of its own, so its `tool_call_id` gets a suffix. It stays a call of the same tool: for
    the GET that a redirect makes of a POST, pass the request of a tool that reads.
    """
    asked: dict[str, Any] = deepcopy(dict(request))
    asked["arguments"] = {**asked.get("arguments", {}), argument: hop.url}
    if hop.previous is None:
        return asked
    pointer = "/" + argument.replace("~", "~0").replace("/", "~1")
    asked["provenance"] = {
        **asked.get("provenance", {}),
        pointer: {"source": "web", "uri": hop.previous},
    }
    context = dict(asked.get("context", {}))
    if "tool_call_id" in context:
        context["tool_call_id"] = f"{context['tool_call_id']}.hop-{hop.number}"
    asked["context"] = context
    return asked


def _flow(
    url: str,
    method: str,
    headers: Mapping[str, str] | None,
    body: bytes,
    allowed: frozenset[AddressClass],
    limits: Limits,
    clock: Callable[[], datetime],
) -> _hops.Flow:
    return _hops.fetching(
        url,
        method=method.upper(),
        headers=tuple((headers or {}).items()),
        body=body,
        allowed=allowed | {AddressClass.PUBLIC},
        max_redirects=limits.max_redirects,
        now=clock,
    )


def _advance(flow: _hops.Flow, answer: _hops.Answer | None) -> _hops.Step | Fetched:
    try:
        return flow.send(answer)  # type: ignore[arg-type] # a generator is begun with `None`
    except StopIteration as finished:
        fetched: Fetched = finished.value
        return fetched


async def _asked(ask: Callable[[Hop], Awaitable[Decision]], hop: Hop, deadline: Deadline) -> Decision:
    limit = asyncio.timeout(deadline.left())
    try:
        async with limit:
            return await ask(hop)
    except TimeoutError:
        if not limit.expired():  # it is one of `ask`'s own
            raise
        raise FetchFailed("the hop was not decided on at the deadline") from None


def _resolved(resolver: Resolver, asked: _hops.Resolve, deadline: Deadline) -> Sequence[str]:
    try:
        return _in_time(partial(resolver, asked.host, asked.port), deadline, what="the name was not resolved")
    except (OSError, UnicodeError) as error:
        raise FetchFailed("the name cannot be resolved") from error


def _in_time(run: Callable[[], _T], deadline: Deadline, *, what: str) -> _T:
    """What `run` returns or raises in time. It cannot be stopped, so it is left behind when it is late."""
    answers: queue.SimpleQueue[tuple[_T] | BaseException] = queue.SimpleQueue()

    def answer() -> None:
        try:
            answers.put((run(),))
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            answers.put(error)

    context = copy_context()
    threading.Thread(target=context.run, args=(answer,), name="authz-fetch", daemon=True).start()
    try:
        found = answers.get(timeout=deadline.left())
    except queue.Empty:
        raise FetchFailed(f"{what} at the deadline") from None
    if isinstance(found, BaseException):
        raise found
    return found[0]
