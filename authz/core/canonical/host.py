"""Kind `host`, and the `Host` in `Domain` in … chain that urls and mailboxes end in (spec section 4).

Names are read as WHATWG URL hosts (IDNA by UTS #46, non-transitional), lower case, without the
trailing dot; IPs by value in every spelling. A `Host` always carries `class`, `host_class`,
`is_ip` and `port`. A host with a port is a `Host` of its own, `Host::"db.example.com:5432"`, in
`Host::"db.example.com"`, whose `port` is 0: one id never has two ports, and a grant for one port covers
no other. A url always has one, its scheme's default where none is stated.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

import can_ada
import idna

from authz.core.canonical.addresses import HostClass, classify_address, unwrap_address
from authz.core.canonical.spelling import JsonScalar, check_characters, wrong_type
from authz.model.resource import AttributeValue, Entity, NotCanonical, Resource

MAX_NAME_CHARACTERS = 253
"""RFC 1035: 255 octets on the wire are 253 characters without the trailing dot."""

_CACHED_NAME_CHARACTERS = 100
_CACHED_LABELS = 10
"""Longer names are not remembered, so that nobody can fill memory with their labels: of 2,048 names, at most
11 entities each, which is some 8 MB."""

_METADATA_NAMES = frozenset(
    {
        "metadata.google.internal",
        "metadata.goog",
        "metadata",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.tencentyun.com",
    }
)
LOOPBACK_NAMES = frozenset(
    {
        "localhost",
        "localhost.localdomain",
        "localhost6",
        "localhost6.localdomain6",
        "ip6-localhost",
        "ip6-loopback",
    }
)
"""What resolvers and `/etc/hosts` of common systems answer with a loopback address."""
# Names that only an inner resolver answers: reserved ones (RFC 6762 and its appendix G, RFC 8375,
# `.internal` by ICANN), those of clusters, and what networks have long used as if it were reserved.
_LOCAL_SUFFIXES = (
    ".localhost",
    ".localdomain",
    ".localdomain6",
    ".local",
    ".internal",
    ".home.arpa",
    ".svc",
    ".svc.cluster.local",
    ".lan",
    ".corp",
    ".home",
    ".intranet",
    ".private",
    ".domain",
)
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{1,8}))?")
_NAME_AND_PORT = re.compile(r"([^:]*)(?::([0-9]{1,8}))?")
_NOT_IN_A_HOST = re.compile(r"[\s/\\?#@%*<>^|\"'`{}\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """A host that WHATWG parsing accepted."""

    id: str
    """Dotless name or unwrapped address; IPv6 without brackets."""
    spelled: str
    """The same without unwrapping: what a client would connect to."""
    chain: tuple[Entity, ...]

    @property
    def in_url(self) -> str:
        """The id as a URL writes it."""
        return f"[{self.id}]" if ":" in self.id else self.id

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """`class`, `host_class`, `is_ip` and `port` of the `Host` entity."""
        return dict(self.chain[0].attributes)

    @property
    def is_ip(self) -> bool:
        """Whether this is an address."""
        return bool(self.chain[0].attributes["is_ip"])


def canonicalize_host(value: JsonScalar) -> tuple[Resource, ...] | NotCanonical:
    """The host, and the port if one is stated: `example.com`, `example.com:5432`, `[::1]:80`, `::1`."""
    if not isinstance(value, str):
        return wrong_type("host")
    if refused := check_characters("host", value):
        return refused
    split = _split_port(value)
    if isinstance(split, NotCanonical):
        return split
    text, port = split
    host = parse_host(text)
    if isinstance(host, NotCanonical):
        return host
    if not port:
        return (Resource(kind="host", uri=f"host:{host.in_url}", value=host.spelled, chain=host.chain),)
    spelled = f"[{host.spelled}]:{port}" if ":" in host.spelled else f"{host.spelled}:{port}"
    first = with_port(host, port)
    return (Resource(kind="host", uri=f"host:{first.id}", value=spelled, chain=(first, *host.chain)),)


def with_port(host: KnownHost, port: int) -> Entity:
    """The `Host` of one port of `host`. It stands in front of the chain of `host`, also of a url's."""
    return Entity(type="Host", id=f"{host.in_url}:{port}", attributes={**host.attributes, "port": port})


def parse_host(text: str) -> KnownHost | NotCanonical:
    """`text`, a host alone, by WHATWG host parsing, and as strict as DNS about names.

    Stricter than a url, because a host in a rule or a connection string is meant to be resolved:
    no wildcards, labels of letters, digits, `-` and `_` that do not begin or end with `-`.
    """
    if len(text) > 4 * MAX_NAME_CHARACTERS or not text or _NOT_IN_A_HOST.search(text):
        return _invalid("host")
    try:
        hostname = can_ada.parse(f"http://[{text}]/" if ":" in text else f"http://{text}/").hostname
    except ValueError:
        return _invalid("host")
    host = known_host(hostname)
    if isinstance(host, KnownHost) and not host.is_ip:
        labels = host.id.split(".")
        if not all(map(_LABEL.fullmatch, labels)):
            return _invalid("host")
        if "xn--" in host.id and not _keeps_bidi_rule(labels):
            return _invalid("host")
    return host


def known_host(hostname: str) -> KnownHost | NotCanonical:
    """What a host is that WHATWG parsing returned: lower case, A-labels, IPs by value, IPv6 in brackets."""
    if len(hostname) <= _CACHED_NAME_CHARACTERS and hostname.count(".") < _CACHED_LABELS:
        return _remembered_host(hostname)
    if len(hostname) > MAX_NAME_CHARACTERS + 1:
        return NotCanonical(
            code="host.too_long", message=f"the host is over {MAX_NAME_CHARACTERS} characters"
        )
    return _build_host(hostname)


def _build_host(hostname: str) -> KnownHost | NotCanonical:
    if hostname.startswith("["):
        spelled = hostname[1:-1]
        address = unwrap_address(IPv6Address(spelled))
        # Python versions differ in how they write mapped addresses; the parser's spelling stands.
        return _known_address(address, spelled if address.version == 6 else str(address), spelled)
    name = hostname.removesuffix(".")
    if _IPV4.fullmatch(name):
        return _known_address(IPv4Address(name), name, name)
    labels = name.split(".")
    if not all(labels):  # no resolver takes it, and its suffixes are no domains
        return _invalid("host")
    domains = [Entity(type="Domain", id=".".join(labels[start:])) for start in range(len(labels))]
    fine, coarse = classify_name(name)
    return KnownHost(id=name, spelled=name, chain=(_host_entity(name, fine, coarse, is_ip=False), *domains))


def classify_name(name: str) -> tuple[HostClass, str]:
    """The fine and coarse class of a name. Where it resolves to is decided at connect time, not here."""
    # RFC 6761 reserves `localhost` and what is below it; the others are customs of systems.
    is_localhost = name == "localhost" or name.endswith(".localhost")
    coarse = "localhost-name" if is_localhost else "name"
    if name in _METADATA_NAMES:
        return HostClass.METADATA, coarse
    if "." not in name or name.endswith(_LOCAL_SUFFIXES) or name == "home.arpa":
        return HostClass.LOCAL_NAME, coarse
    return HostClass.NAME, coarse


def domain_resource(text: str) -> Resource | NotCanonical:
    """`domain:example.com`: the domain itself and all its subdomains. No address is in a domain."""
    if refused := check_characters("domain", text):
        return refused
    host = parse_host(text)
    if isinstance(host, NotCanonical):
        return NotCanonical(code="domain.invalid", message="the domain is not a valid name")
    if host.is_ip:
        return NotCanonical(code="domain.address", message="an address is in no domain, name a host instead")
    return Resource(kind="host", uri=f"domain:{host.id}", value=host.id, chain=host.chain[1:])


_remembered_host = lru_cache(maxsize=2048)(_build_host)


def _known_address(address: IPv4Address | IPv6Address, text: str, spelled: str) -> KnownHost:
    fine = classify_address(address)
    coarse = "public-address" if fine is HostClass.PUBLIC else "non-global-address"
    return KnownHost(id=text, spelled=spelled, chain=(_host_entity(text, fine, coarse, is_ip=True),))


def _host_entity(name: str, fine: HostClass, coarse: str, *, is_ip: bool) -> Entity:
    attributes: dict[str, AttributeValue] = {
        "class": str(fine),
        "host_class": coarse,
        "is_ip": is_ip,
        "port": 0,
    }
    return Entity(type="Host", id=name, attributes=attributes)


def _split_port(text: str) -> tuple[str, int] | NotCanonical:
    """The host and its port, 0 if none is stated. A bare IPv6 address has no port."""
    if text.count(":") > 1 and not text.startswith("["):
        return text, 0
    found = (_BRACKETED if text.startswith("[") else _NAME_AND_PORT).fullmatch(text)
    if found is None or (text.startswith("[") and ":" not in found[1]):
        return _invalid("host")
    if found[2] is None:
        return found[1], 0
    port = int(found[2])
    if not 0 < port < 2**16:
        return NotCanonical(code="host.port", message="the port is not between 1 and 65535")
    return found[1], port


_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def _keeps_bidi_rule(labels: list[str]) -> bool:
    """The Bidi rule of RFC 5893: UTS #46 asks for it, and no WHATWG parser in use applies it.

    Without it, a right-to-left label can be displayed so that its neighbours seem to change places.
    It binds every label of a name that has a right-to-left one. A url is taken as browsers and Node
    take it, since their reading is what happens; a host that somebody writes into a rule is checked.
    """
    try:
        decoded = [_decoded(label) for label in labels]
        if not any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for label in decoded for char in label):
            return True
        return all(idna.check_bidi(label, check_ltr=True) for label in decoded)
    except UnicodeError:  # also idna.IDNAError, which says which condition failed
        return False


def _decoded(label: str) -> str:
    """The U-label of an A-label; can_ada has checked that it decodes."""
    return label[4:].encode().decode("punycode") if label.startswith("xn--") else label


def _invalid(kind: str) -> NotCanonical:
    return NotCanonical(
        code=f"{kind}.invalid",
        message="the host is not a valid name or address",
    )
