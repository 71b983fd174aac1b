"""A url in the service's one spelling (spec section 4), to hold a decision against the url that it is on."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import can_ada

from authz_client.addresses import inner_address

_SCHEMES: Final = frozenset({"http", "https"})
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2[Ee]){1,2}(?:/|$)")


def canonical_url(text: str) -> str | None:
    """The canonical URI of the http(s) url `text`, or `None` when it is none, or names a user.

    By the WHATWG parser that the service uses. Whatever the service refuses beyond this has no decision to
    be compared with; where the two should differ, the comparison fails, and nothing is fetched.
    """
    try:
        text.encode()  # of a lone surrogate the parser says nothing but `TypeError`
        url = can_ada.parse(text)
    except ValueError:
        return None
    scheme = url.protocol[:-1]
    if scheme not in _SCHEMES or url.has_credentials():
        return None
    start = len(scheme) + 3 + len(url.host)  # no user is left, so `scheme://host` is a prefix
    path = _without_dot_segments(url.pathname)
    rest = path + str(url)[start + len(url.pathname) :].partition("#")[0]
    port = f":{url.port}" if url.port else ""
    return f"{scheme}://{_host(url.hostname)}{port}{rest}"


def _host(hostname: str) -> str:
    """Without the dot at the end, and an IPv6 address that stands for an IPv4 address as that one."""
    if not hostname.startswith("["):
        return hostname.removesuffix(".")
    spelled = hostname[1:-1]
    inner = inner_address(IPv6Address(spelled))
    return str(inner) if isinstance(inner, IPv4Address) else f"[{spelled}]"


def _without_dot_segments(path: str) -> str:
    """The parser leaves some standing, behind a segment that begins with a dot; servers resolve them."""
    if not _DOT_SEGMENT.search(path):
        return path
    segments: list[str] = []
    is_dots = False
    for segment in path.split("/")[1:]:
        plain = segment.lower().replace("%2e", ".")
        is_dots = plain in {".", ".."}
        if plain == ".." and segments:
            segments.pop()
        elif not is_dots:
            segments.append(segment)
    return "/" + "/".join([*segments, ""] if is_dots else segments)
