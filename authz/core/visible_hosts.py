"""Where a text really points: hosts of the urls and addresses in it, in both spellings.

An international name has an A-label, which is what is connected to, and a U-label, which is what people read;
one alone deceives. Of a url it is the WHATWG parser's word that counts, since what stands before an `@`, a
backslash or a full-width dot looks like the host and is not.
"""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

import can_ada

MAX_FOUND: Final = 20
"""Of one text; `more` says how many were left out."""
MAX_LOOKED_AT: Final = 500
"""Urls and addresses of one text; the text itself is shown whatever its hosts are."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}:[/\\]{2}[^\s\"'<>`]{1,2048}")
_ADDRESS: Final = re.compile(r"(?<=@)[^\s@/\\\"'<>`,;:()\[\]]{3,253}")
_A_LABEL: Final = re.compile(r"(?<![\w.-])(?:[\w-]+\.)*xn--[a-z0-9-]+(?:\.[\w-]+)*", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"[^:]+:[/\\]{2}([^/\\?#]*)")
_WEB: Final = frozenset({"http", "https", "ws", "wss", "ftp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host that a text names, where its spelling there is not the whole truth."""

    written: str
    """How the text names it: the part that looks like a host, user information included."""
    a_label: str
    """What is connected to; empty where the text names no host that can be."""
    u_label: str
    """The same as people read it; equal to `a_label` for an ASCII name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """What `odd_hosts` found."""

    found: tuple[Host, ...] = ()
    more: int = 0


def odd_hosts(text: str) -> Hosts:
    """Hosts in `text` whose spelling deceives, or hides one of the two forms of their name."""
    if text.isascii() and "@" not in text and "\\" not in text and "xn--" not in text.lower():
        return Hosts()
    found: dict[str, Host] = {}
    for url in islice(_URL.finditer(text), MAX_LOOKED_AT):
        written = _AUTHORITY.match(url[0])
        if url[0].partition(":")[0].lower() in _WEB and written:
            _add(found, url[0], _host_of(url[0]), url[0] if "\\" in url[0] else written[1])
    for pattern in (_ADDRESS, _A_LABEL):
        for name in islice(pattern.finditer(text), MAX_LOOKED_AT):
            spelling = name[0].rstrip(".")
            if "." in spelling and not any(spelling in host.written for host in found.values()):
                _add(found, spelling, _host_of(f"http://{spelling}/"), spelling)
    hosts = tuple(found.values())
    return Hosts(found=hosts[:MAX_FOUND], more=max(len(hosts) - MAX_FOUND, 0))


def u_label(host: str) -> str:
    """A host as people read it. A label that does not decode stays as it is."""
    return ".".join(map(_decoded, host.split(".")))


def _add(found: dict[str, Host], key: str, a_label: str, written: str) -> None:
    readable = u_label(a_label)
    # Upper case and a port are no deception; anything else beside the name is.
    plain = re.sub(r":\d*$", "", written).lower().rstrip(".") == a_label and readable == a_label
    if not plain:
        found.setdefault(key, Host(written=written, a_label=a_label, u_label=readable))


def _host_of(url: str) -> str:
    try:
        return can_ada.parse(url).hostname
    except (ValueError, UnicodeError):
        return ""


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
