"""What tests of fetching share: the two ways to fetch, decisions on urls, and resolvers."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from authz_client import Decision
from authz_client.fetch import AddressClass, Fetched, Hop, Limits, fetch, fetch_async

from authz.core.canonical import canonicalize
from authz.model.resource import Base, NotCanonical
from tests.clients.python.deciding import access, clock, decision
from tests.clients.python.webs import Answer, Request
from tests.support.world import PINNED, TEXT, TOOLS, tool, tool_file

READING_TOOLS = {
    **TOOLS,
    "web": tool_file(
        "web",
        tool(
            "fetch",
            [{"verb": verb, "kind": "url", "at": "/url"} for verb in ("connect", "read")],
            {"url": TEXT},
            roles={"/url": "destination"},
            advertised_digest=PINNED,
        ),
        local=False,
        identity="https://web.example.com/mcp",
    ),
}
"""Those of the tests, with a `web/fetch` that declares, as the shipped one, that it reads."""
LOOPBACK = frozenset({AddressClass.LOOPBACK})
QUICK = Limits(deadline_seconds=10)

Fetch = Callable[..., Fetched]


def fetch_blocking(url: str, **more: Any) -> Fetched:
    return fetch(url, **{"clock": clock, "limits": QUICK} | more)


def fetch_asynchronously(url: str, *, ask: Callable[[Hop], Decision], **more: Any) -> Fetched:
    async def asking(hop: Hop) -> Decision:
        return ask(hop)

    return asyncio.run(fetch_async(url, ask=asking, **{"clock": clock, "limits": QUICK} | more))


VERBS = {"GET": "read", "HEAD": "read", "OPTIONS": "read", "DELETE": "delete"}


def using(url: str, method: str = "GET", *, has_body: bool = False) -> Decision:
    """An allow to connect to `url` and to use it by `method`."""
    verbs = ["connect", VERBS.get(method, "send"), *(["send"] if has_body else [])]
    return decision(*(access(verb, url) for verb in dict.fromkeys(verbs)))


class Asked:
    """Allows every hop, but for urls that hold one of `denied`. In the service's own canonical spelling."""

    def __init__(self, *denied: str) -> None:
        self.hops: list[Hop] = []
        self._denied = denied

    def __call__(self, hop: Hop) -> Decision:
        self.hops.append(hop)
        found = canonicalize("url", hop.url, Base())
        if isinstance(found, NotCanonical):
            return decision(effect="deny", code="canonical.refused")
        uri = found[0].uri
        if any(part in uri for part in self._denied):
            return decision(access("connect", uri, effect="deny"), effect="deny")
        return using(uri, hop.method, has_body=hop.has_body)

    @property
    def urls(self) -> list[str]:
        return [hop.url for hop in self.hops]


def answering(*answers: Sequence[str]) -> Callable[[str, int], Sequence[str]]:
    """A resolver that gives one answer after the other, the last one for ever."""
    rest = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda host, port: next(rest)


def ok(request: Request) -> Answer:
    return 200, {"Content-Type": "text/plain"}, b"page"
