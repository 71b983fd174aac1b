"""What an MCP server advertises, read over stdio or streamable HTTP and bounded on every side.

The server is nobody we trust: it may send too much, too long, for ever, or the same name twice. Only the
handshake and `tools/list` are sent. Every entry is kept as the server wrote it, unknown members too, because
its digest is over the whole of it.
"""

import ipaddress
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ListToolsRequest, PaginatedRequestParams
from pydantic import BaseModel, ValidationError

from authz.bundle.mcp_pipe import CLIENT_NAME, ServerPipe, pipe_transport
from authz.core.canonical import canonicalize
from authz.errors import AuthzError
from authz.model.resource import Base, NotCanonical

MAX_BYTES: Final = 8 * 1024 * 1024
"""Of everything that the server sends."""
MAX_TOOLS: Final = 1000
MAX_PAGES: Final = 200
MAX_CURSOR: Final = 4096
DEFAULT_TIMEOUT_SECONDS: Final = 30.0
KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG")
"""What a started server gets of our environment; anything else is named one by one."""


class _Page(BaseModel):
    """One answer to `tools/list`. The SDK's own type drops what it does not know of an entry."""

    tools: list[dict[str, Any]]
    nextCursor: Any = None  # noqa: N815 - as it is on the wire


class CatalogueUnavailable(AuthzError):
    """The server's tools could not be read whole: nothing is known of them, so nothing is written."""

    code = "catalogue.unavailable"


class _TooMuch(Exception):
    """The server sent more than is read of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A server that is started and spoken to over its standard streams."""

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Added to the minimal environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A server that is reached over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything that a server advertised, in its order."""

    entries: tuple[Mapping[str, Any], ...]
    server_name: str
    """What the server calls itself: for people, it proves nothing."""
    protocol: str


def canonical_url(text: str) -> str:
    """The one spelling of a server's URL. Raises `CatalogueUnavailable` for what is not safe to ask."""
    found = canonicalize("url", text, Base())
    if isinstance(found, NotCanonical):
        raise CatalogueUnavailable(f"`--url`: {found.message}")
    url = found[0].value
    parsed = httpx2.URL(url)
    if parsed.scheme != "https" and not (parsed.scheme == "http" and _is_loopback(parsed.host)):
        raise CatalogueUnavailable(f"`{url}`: write an `https` url; plain `http` is for this machine only")
    if parsed.fragment:
        raise CatalogueUnavailable(f"`{url}`: leave the fragment out, it never reaches the server")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def read_catalogue(
    source: Command | Remote, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> Catalogue:
    """Ask a server for its tools. Raises `CatalogueUnavailable` when it does not answer whole and in time."""
    return anyio.run(_read_within, source, timeout_seconds)


async def _read_within(source: Command | Remote, timeout_seconds: float) -> Catalogue:
    pipe = ServerPipe(max_bytes=MAX_BYTES)
    try:
        with anyio.fail_after(timeout_seconds):
            return await _read(source, pipe, timeout_seconds)
    except TimeoutError:
        raise CatalogueUnavailable(
            f"the server did not list its tools within {timeout_seconds:g} s{pipe.last_words()}"
        ) from None
    except BaseExceptionGroup as group:
        # The transports run in task groups; one fault may come out with those that it caused.
        raise _explained(_first(group), pipe) from None
    except (MCPError, ValidationError, httpx2.HTTPError, OSError, ValueError, _TooMuch) as error:
        raise _explained(error, pipe) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    leaves: list[BaseException] = []

    def collect(error: BaseException) -> None:
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                collect(inner)
        else:
            leaves.append(error)

    collect(group)
    unexpected = [leaf for leaf in leaves if not isinstance(leaf, Exception)]
    if unexpected:
        raise unexpected[0]
    known = (CatalogueUnavailable, _TooMuch, MCPError, ValidationError, httpx2.HTTPError, OSError)
    return next((leaf for kind in known for leaf in leaves if isinstance(leaf, kind)), leaves[0])


def _explained(error: BaseException, pipe: ServerPipe) -> CatalogueUnavailable:
    if isinstance(error, CatalogueUnavailable):
        return error
    if isinstance(error, _TooMuch) or pipe.has_overflowed:
        return CatalogueUnavailable(f"the server sent more than {MAX_BYTES} bytes; nothing of it was kept")
    if isinstance(error, MCPError):
        if pipe.has_ended:
            return CatalogueUnavailable(f"the server ended before it listed its tools{pipe.last_words()}")
        return CatalogueUnavailable(
            f"the server refused to list its tools: {_short(str(error))}{pipe.last_words()}"
        )
    if isinstance(error, ValidationError):
        places = ", ".join("/".join(map(str, fault["loc"])) for fault in error.errors()[:3])
        return CatalogueUnavailable(f"what the server sent is no list of tools (at `{_short(places)}`)")
    if isinstance(error, FileNotFoundError):
        return CatalogueUnavailable(f"there is no such command: `{_short(str(error.filename))}`")
    if isinstance(error, (httpx2.HTTPError, OSError)):
        return CatalogueUnavailable(f"the server cannot be reached: {_short(str(error) or repr(error))}")
    return CatalogueUnavailable(f"the server could not be read: {_short(str(error))}")


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"


async def _read(source: Command | Remote, pipe: ServerPipe, timeout_seconds: float) -> Catalogue:
    async with AsyncExitStack() as stack:
        if isinstance(source, Command):
            environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
            transport: AbstractAsyncContextManager[Any] = pipe_transport(
                source.words, environment | dict(source.variables), pipe
            )
        else:
            transport = await _http_transport(stack, source, pipe, timeout_seconds)
        client = await stack.enter_async_context(Client(transport, cache=None, client_info=CLIENT_NAME))
        entries = await _list_all(client)
        info = client.server_info
        return Catalogue(
            entries=tuple(entries),
            server_name=f"{info.name} {info.version}".strip() if info is not None else "",
            protocol=client.protocol_version,
        )


async def _list_all(client: Client) -> Sequence[Mapping[str, Any]]:
    """All pages, in order. Raises `CatalogueUnavailable` for a list without an end."""
    entries: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        page = await client.session.send_request(ListToolsRequest(params=params), _Page)
        entries += page.tools
        if len(entries) > MAX_TOOLS:
            raise CatalogueUnavailable(
                f"the server lists more than {MAX_TOOLS} tools; nothing of it was kept"
            )
        cursor = page.nextCursor
        if cursor is None:
            return entries
        if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR:
            raise CatalogueUnavailable("the server's `nextCursor` is no text of a sensible length")
        if cursor in seen:
            raise CatalogueUnavailable("the server's list has no end: it sent the same `nextCursor` twice")
        seen.add(cursor)
    raise CatalogueUnavailable(f"the server's list has no end: it is longer than {MAX_PAGES} pages")


async def _http_transport(
    stack: AsyncExitStack, source: Remote, pipe: ServerPipe, timeout_seconds: float
) -> AbstractAsyncContextManager[Any]:
    client = httpx2.AsyncClient(
        transport=_Counted(httpx2.AsyncHTTPTransport(), pipe),
        # A compressed answer could be a thousand times what was counted, so none is asked for.
        headers={"accept-encoding": "identity", **source.headers},
        timeout=timeout_seconds,
        follow_redirects=False,
    )
    await stack.enter_async_context(client)
    return streamable_http_client(source.url, http_client=client, max_sse_event_size=MAX_BYTES)


class _Counted(httpx2.AsyncBaseTransport):
    """Counts what comes in, over all answers, and stops when it is too much."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, pipe: ServerPipe) -> None:
        self._inner = inner
        self._pipe = pipe

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ProtocolError("the server compressed its answer, which was not asked for")
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise httpx2.ProtocolError("the answer cannot be read")
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_CountedStream(stream, self._pipe),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CountedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, pipe: ServerPipe) -> None:
        self._inner = inner
        self._pipe = pipe

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if not self._pipe.count(len(chunk)):
                raise httpx2.ReadError("the server sent too much")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


__all__ = [
    "Catalogue",
    "CatalogueUnavailable",
    "Command",
    "Remote",
    "canonical_url",
    "read_catalogue",
]
