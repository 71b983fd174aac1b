"""A fetch without I/O: what to ask, what to resolve, what to send, hop by hop, and when to stop."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Final
from urllib.parse import urljoin, urlsplit

from authz_client._covering import check_live
from authz_client._urls import canonical_url
from authz_client.addresses import AddressClass, address_classes
from authz_client.errors import AddressRefused, FetchFailed, HopRefused, NotCovered
from authz_client.model import Access, Decision, Effect

Headers = tuple[tuple[str, str], ...]

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEEPING_METHOD: Final = frozenset({307, 308})
_SEE_OTHER: Final = 303
# What is said to every server alike. Any other header may be a credential, whatever its name.
_FOR_EVERY_ORIGIN: Final = frozenset(
    {
        "accept",
        "accept-language",
        "user-agent",
        # Of the body, and dropped with it.
        "content-type",
        "content-encoding",
        "content-language",
    }
)
# What each method does. A method that is not here is sent on no decision.
_READING: Final = frozenset({"read"})
_SENDING: Final = frozenset({"send", "write"})
_VERBS: Final = {
    "GET": _READING,
    "HEAD": _READING,
    "OPTIONS": _READING,
    "POST": _SENDING,
    "PUT": _SENDING,
    "PATCH": _SENDING,
    "DELETE": frozenset({"delete"}),
}
# Names of what this module says itself.
_OWN: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te", "upgrade"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One request of a fetch, to be decided on: the first url, or the target of a redirect."""

    number: int
    """0 for the url that was asked for, then one for each redirect."""
    url: str
    """As it stands in the call, or as the redirect spells it, made absolute."""
    method: str
    has_body: bool
    previous: str | None = None
    """The url that redirected here: the target comes from there, untrusted, whoever chose the first url."""
    downgrade: bool = False
    """From https to http: what was private on the way no longer is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A url as a decision spells it, in the parts that a connection needs."""

    url: str
    scheme: str
    host: str
    """A name, or an address without brackets."""
    port: int
    path: str
    """With the query."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """What connections and credentials belong to."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of `Host`: without the scheme's default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """To be answered with the `Decision` on this hop."""

    hop: Hop


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolve:
    """To be answered with the addresses of a name."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """To be answered with the `Received`: one request, to one of these addresses and nowhere else."""

    target: Target
    addresses: tuple[str, ...]
    method: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One response."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The response at the end of all redirects."""

    status: int
    headers: Headers
    """In order, as sent."""
    body: bytes
    url: str
    """The decided url that it came from."""
    hops: tuple[Hop, ...]
    """Each was allowed by a decision of its own."""
    decision: Decision
    """The one on the last hop: its `obligations` bind."""


Step = Ask | Resolve | Exchange
Answer = Decision | Sequence[str] | Received
Flow = Generator[Step, Answer, Fetched]


def fetching(
    url: str,
    *,
    method: str,
    headers: Headers,
    body: bytes,
    allowed: frozenset[AddressClass],
    max_redirects: int,
    now: Callable[[], datetime],
) -> Flow:
    """The whole fetch. Every hop: ask, resolve, hold the addresses against the decision, exchange."""
    headers = _without(headers, lambda name: name in _OWN)
    hops: list[Hop] = []
    seen: set[tuple[str, str]] = set()
    origin: tuple[str, str, int] | None = None
    hop = Hop(number=0, url=url, method=method, has_body=bool(body))
    while True:
        decision = yield Ask(hop=hop)
        if not isinstance(decision, Decision):
            raise NotCovered("`ask` must return the decision of the service")
        target = _decided_target(decision, hop, now())
        hops.append(hop)
        if (hop.method, target.url) in seen:
            raise FetchFailed("the redirects go round in a circle")
        seen.add((hop.method, target.url))
        addresses: Sequence[str] = (target.host,)
        if not _is_address(target.host):
            answered = yield Resolve(host=target.host, port=target.port)
            if isinstance(answered, (Decision, Received, str)):
                raise FetchFailed("the resolver must return a list of addresses")
            addresses = _covered_addresses(answered, allowed)
        if origin not in (None, target.origin):
            headers = _without(headers, lambda name: name not in _FOR_EVERY_ORIGIN)
        origin = target.origin
        received = yield Exchange(
            target=target, addresses=tuple(addresses), method=hop.method, headers=headers, body=body
        )
        if not isinstance(received, Received):
            raise FetchFailed("there is no response")
        location = _location(received)
        if location is None:
            return Fetched(
                status=received.status,
                headers=received.headers,
                body=received.body,
                url=target.url,
                hops=tuple(hops),
                decision=decision,
            )
        if hop.number == max_redirects:
            raise FetchFailed(f"there are more than {max_redirects} redirects")
        hop, body = _next_hop(hop, target, received.status, location, body)
        if not body:
            headers = _without(headers, lambda name: name.startswith("content-"))


def _without(headers: Headers, is_dropped: Callable[[str], bool]) -> Headers:
    return tuple((name, value) for name, value in headers if not is_dropped(name.lower()))


def _decided_target(decision: Decision, hop: Hop, now: datetime) -> Target:
    """The one url that was decided on. It is what is fetched, whatever the spelling that led to it."""
    if decision.effect is not Effect.ALLOW:
        which = "the url" if hop.number == 0 else f"redirect {hop.number}"
        raise HopRefused(f"{which} is not allowed: `{decision.code}`", decision=decision)
    check_live(decision, now=now)
    urls = {access.uri for access in decision.accesses if access.uri.startswith(("http://", "https://"))}
    if len(urls) != 1:
        raise NotCovered(f"the decision names {len(urls)} urls, and a hop is one: ask for one url at a time")
    target = _split(urls.pop())
    if canonical_url(hop.url) != target.url:
        raise NotCovered("the decision is on another url than the hop: ask about `hop.url`")
    _check_verbs(decision, hop)
    return target


def _check_verbs(decision: Decision, hop: Hop) -> None:
    """Raises `NotCovered` unless the url may be used by this method, and be sent what the hop sends."""
    verbs = _VERBS.get(hop.method)
    if verbs is None:
        raise NotCovered(f"no verb stands for the method, use one of {', '.join(_VERBS)}")
    allowed = {access.verb for access in decision.accesses if _is_allowed_url(access)}
    # A body goes out, whatever the method is called.
    for needed in (verbs, _SENDING) if hop.has_body else (verbs,):
        if not needed & allowed:
            named = " or ".join(f"`{verb}`" for verb in sorted(needed))
            body = " with a body" if hop.has_body else ""
            raise NotCovered(
                f"the decision has no access {named} to the url, which a `{hop.method}`{body} needs:"
                " ask with a tool that declares it"
            )


def _is_allowed_url(access: Access) -> bool:
    # There is one url in the decision, so an access to a url is one to this url.
    return access.effect is Effect.ALLOW and access.uri.startswith(("http://", "https://"))


def _split(url: str) -> Target:
    """The parts of a url in its canonical spelling (WHATWG), which needs no reading between the lines."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname
    except ValueError:
        raise NotCovered("the url of the decision cannot be read: update this client") from None
    # `urlsplit` drops tabs and line ends; a canonical url has none, so anything that was lost is a fault.
    is_canonical = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if not is_canonical or not host or "@" in parts.netloc or "#" in url or not parts.path.startswith("/"):
        raise NotCovered("the url of the decision is not canonical: update this client")
    return Target(
        url=url,
        scheme=parts.scheme,
        host=host,
        port=port if port is not None else DEFAULT_PORTS[parts.scheme],
        path=url[url.index("/", len(parts.scheme) + 3) :],
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _covered_addresses(answered: Sequence[str], allowed: frozenset[AddressClass]) -> tuple[str, ...]:
    """All addresses of a name, if all are of a class that a decision on the name covers.

    One that is not refuses them all: whoever mixes addresses of his own network and of another's wants one
    to be tried after the other.
    """
    if not answered:
        raise FetchFailed("the name has no address")
    for address in answered:
        try:
            classes = address_classes(address)
        except ValueError:
            raise FetchFailed("the resolver answered with something that is no address") from None
        if beyond := classes - allowed:
            raise AddressRefused(
                f"the name leads to a {min(beyond)} address, which the decision on the name does not cover"
            )
    return tuple(dict.fromkeys(answered))


def _location(received: Received) -> str | None:
    if received.status not in _REDIRECTS:
        return None
    found = [value for name, value in received.headers if name.lower() == "location"]
    if not found:
        return None
    if len(found) > 1:
        raise FetchFailed("the redirect names several targets")
    return found[0]


def _next_hop(hop: Hop, target: Target, status: int, location: str, body: bytes) -> tuple[Hop, bytes]:
    """The hop that a redirect asks for (RFC 9110 15.4); a `POST` goes on as a `GET`, as everywhere."""
    try:
        url = urljoin(target.url, location)
        parts = urlsplit(url)
    except ValueError:
        raise FetchFailed("the target of the redirect is not a url") from None
    method = hop.method
    if status not in _KEEPING_METHOD and (method == "POST" or (status == _SEE_OTHER and method != "HEAD")):
        method, body = "GET", b""
    return (
        Hop(
            number=hop.number + 1,
            url=url,
            method=method,
            has_body=bool(body),
            previous=target.url,
            downgrade=target.scheme == "https" and parts.scheme != "https",
        ),
        body,
    )
