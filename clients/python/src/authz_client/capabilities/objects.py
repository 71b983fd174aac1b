"""O: canonical URIs, and which of them lie in which (spec section 4).

`parse_object` takes a URI only in the one spelling that the service gives it (`authz canonicalize`); a test
holds the two equal. Nothing is normalized here: what is spelled otherwise is refused.

| location | contains |
|---|---|
| `file:///srv/work` | itself and what is beneath it, by path components |
| `https://h[:port]/v1` | the same scheme, host and port, and paths beneath it by segment, with any query |
| `https://h/v1?q` | exactly itself |
| `host:h`, `host:h:443` | the host at any port, or at that one: hosts, urls; without a port repositories |
| `domain:example.com` | it and its subdomains: domains, hosts, urls, mailboxes, repositories |
| `mailto:ada@example.com` | exactly itself |
| `repo:server/team` | repositories beneath it by component, with their branches |
| `repo:server/team/app#main` | exactly that branch |
| `sql:db`, `sql:db/schema`, `sql:db/schema/table` | what is beneath it |
| `program:git`, `program:git/push` | the program with its subcommands, the subcommand |
| `id:account:7` | exactly itself |

A url is compared by its segments as they are spelled, so that no server's habit of decoding, merging slashes
or dropping parameters moves a call into a location. Empty segments at the end of a location do not count.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from authz_client.capabilities.hosts import host_domains, split_port
from authz_client.capabilities.spelling import (
    PORTS,
    decodes_to_dots,
    has_odd_character,
    is_file_path,
    is_iban,
    is_ref,
)

MAX_URI_CHARACTERS: Final = 8_192
_CACHED_CHARACTERS: Final = 200
_SAFE: Final = "!$&'()*+,;=:@/"
"""RFC 3986: pchar and `/` stand in a path as they are; the rest is percent-encoded UTF-8."""
_URL: Final = re.compile(r"(https?|wss?|ftp)://([^/?#@]*)(/[!$-;=@-\[\]^_a-z|~]*)(\?[!$-&(-;=?-~]*)?")
_MAX_SEGMENTS: Final = 128
_DATABASE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_PROGRAM: Final = re.compile(r"[^\s/\x00-\x1f\x7f]+(?:/[A-Za-z0-9][A-Za-z0-9_-]*)?")
_OBJECT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,255}")
_LOCAL_PART: Final = re.compile(
    r"[^\x00-\x20\x7f()<>\[\]:;@\\,.\"%!]+(?:\.[^\x00-\x20\x7f()<>\[\]:;@\\,.\"%!]+)*"
)
_NOT_IN_A_REPO: Final = frozenset("\\%?# ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """A canonical URI, and the keys of all that it lies in (its own among them)."""

    uri: str
    key: str
    above: frozenset[str]

    def lies_in(self, location: "Object") -> bool:
        """Whether `location` contains this object. Reflexive and transitive."""
        return location.key in self.above


def parse_object(uri: str) -> Object | None:
    """The object of a canonical URI; `None` for another spelling or a kind that no capability can name."""
    if len(uri) <= _CACHED_CHARACTERS:
        return _known_object(uri)
    return _parsed(uri) if len(uri) <= MAX_URI_CHARACTERS else None


def _parsed(uri: str) -> Object | None:
    # ASCII and no white space: everything else is percent-encoded in a canonical URI.
    if not uri.isascii() or not uri.isprintable() or " " in uri:
        return None
    scheme, _, rest = uri.partition(":")
    parse = _KINDS.get(scheme)
    keys = parse(uri, rest) if parse else None
    return None if keys is None else Object(uri=uri, key=keys[0], above=frozenset(keys))


_known_object = lru_cache(maxsize=4096)(_parsed)

_Keys = list[str] | None
"""The key of the object, then those of what contains it."""


def _decoded(text: str, *, also_encoded: str = "") -> str | None:
    """`text` percent-decoded once, if it is the one encoding of what it decodes to."""
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        return None
    safe = "".join(char for char in _SAFE if char not in also_encoded)
    return decoded if quote(decoded, safe=safe) == text else None


def _prefixes(scheme: str, path: str, root: str) -> list[str]:
    """`path` and every path above it, by `/`, as keys; `root` where nothing is left."""
    found = []
    while path:
        found.append(f"{scheme}:{path}")
        path = path.rpartition("/")[0]
    return [*found, *([root] if root else [])]


def _file(uri: str, rest: str) -> _Keys:
    if not rest.startswith("///"):
        return None
    path = _decoded(rest[2:])
    if path is None or not is_file_path(path):
        return None
    return _prefixes("file", rest[2:].rstrip("/"), "file:/")


def _url(uri: str, rest: str) -> _Keys:
    found = _URL.fullmatch(uri)
    if found is None or (split := split_port(found[2])) is None:
        return None
    scheme, authority, path, query = found.groups()
    host, port = split
    segments = path.split("/")
    if PORTS[scheme] == port or len(segments) > _MAX_SEGMENTS or decodes_to_dots(path):
        return None
    beneath = _prefixes(scheme, f"//{authority}{path.rstrip('/')}", "")
    # The last two are the two slashes in front of the host.
    keys = [key for key in beneath if len(key) > len(scheme) + 3]
    own = [f"{scheme}:query:{uri}"] if query is not None else []
    return [*own, *keys, *_host_keys(host, port or PORTS[scheme])]


def _host_keys(host: str, port: str) -> list[str]:
    domains = host_domains(host) or ()
    with_port = [f"host:{host}:{port}"] if port else []
    return [*with_port, f"host:{host}", *(f"domain:{domain}" for domain in domains)]


def _host(uri: str, rest: str) -> _Keys:
    split = split_port(rest)
    return None if split is None else _host_keys(*split)


def _domain(uri: str, rest: str) -> _Keys:
    domains = host_domains(rest)
    return [f"domain:{domain}" for domain in domains] if domains else None


def _mailto(uri: str, rest: str) -> _Keys:
    address = _decoded(rest, also_encoded="&/")
    if address is None or address.count("@") != 1:
        return None
    local, _, domain = address.partition("@")
    domains = host_domains(domain)
    spelled = unicodedata.normalize("NFC", unicodedata.normalize("NFC", local).lower())
    if (
        not domains
        or local != spelled
        or _LOCAL_PART.fullmatch(local) is None
        or has_odd_character(local)
        or "=?" in local
        or len(local.encode()) > 64
        or len(address.encode()) > 254
    ):
        return None
    return [uri, *(f"domain:{name}" for name in domains)]


def _repo(uri: str, rest: str) -> _Keys:
    name, mark, branch = rest.partition("#")
    server, slash, path = (_decoded(name) or "").partition("/")  # brackets of an address are encoded
    split = split_port(server)
    if split is None or (slash and not _is_repo_path(path)):
        return None
    own = []
    if mark:
        ref = _decoded(branch)
        if ref is None or not is_ref(ref):
            return None
        own = [uri]
    return [*own, *_prefixes("repo", name, ""), *_host_keys(split[0], "")]


def _is_repo_path(path: str) -> bool:
    parts = path.split("/")
    return (
        len(parts) <= 32
        and not parts[-1].endswith(".git")
        and all(part and part not in (".", "..") and not set(part) & _NOT_IN_A_REPO for part in parts)
        and not has_odd_character(path)
    )


def _sql(uri: str, rest: str) -> _Keys:
    database, *names = rest.split("/")
    if not _DATABASE.fullmatch(database) or len(names) > 2:
        return None
    for name in names:
        plain = _decoded(name, also_encoded="/")
        if (
            not plain
            or set(plain) & {"/", "%"}
            or len(plain) > 128
            or has_odd_character(plain, may_hold_spaces=True)
        ):
            return None
    return _prefixes("sql", rest, "")


def _program(uri: str, rest: str) -> _Keys:
    name = _decoded(rest)
    if name is None or len(name) > 256 or _PROGRAM.fullmatch(name) is None:
        return None
    return _prefixes("program", rest, "")


def _id(uri: str, rest: str) -> _Keys:
    object_type, _, encoded = rest.partition(":")
    value = _decoded(encoded, also_encoded="/")
    if (
        value is None
        or _OBJECT_TYPE.fullmatch(object_type) is None
        or not 0 < len(value) <= 256
        or value != unicodedata.normalize("NFC", value).strip()
        or has_odd_character(value, may_hold_spaces=True)
        or (object_type == "iban" and not is_iban(value))
    ):
        return None
    return [uri]


_KINDS: Final[Mapping[str, Callable[[str, str], _Keys]]] = {
    "file": _file,
    "http": _url,
    "https": _url,
    "ws": _url,
    "wss": _url,
    "ftp": _url,
    "host": _host,
    "domain": _domain,
    "mailto": _mailto,
    "repo": _repo,
    "sql": _sql,
    "program": _program,
    "id": _id,
}
