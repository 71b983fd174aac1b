"""Hosts in canonical URIs: lower-case names and addresses by value, in the one spelling of the service."""

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import idna

_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_ENDS_IN_A_NUMBER: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_MAX_NAME_CHARACTERS: Final = 253
_JOINERS: Final = "\u200c\u200d"
"""The zero-width non-joiner and joiner."""


@lru_cache(maxsize=2048)
def host_domains(text: str) -> tuple[str, ...] | None:
    """The domains that the host `text` is in, narrowest first: none for an address.

    `None` when `text` is no host in its one spelling: an IPv6 address stands in brackets.
    """
    if text.startswith("["):
        return () if _is_ipv6(text) else None
    if len(text) > _MAX_NAME_CHARACTERS:
        return None
    labels = text.split(".")
    if _ENDS_IN_A_NUMBER.fullmatch(labels[-1]):  # WHATWG URL, host parsing: then it is an IPv4 address
        return () if _is_ipv4(text) else None
    if not all(_LABEL.fullmatch(label) and (label[:4] != "xn--" or _is_a_label(label)) for label in labels):
        return None
    return tuple(".".join(labels[start:]) for start in range(len(labels)))


def split_port(text: str) -> tuple[str, str] | None:
    """Host and port of `host`, `host:port` or `[v6]:port`; the port is empty where there is none."""
    host, port = text, ""
    bracket = text.rfind("]")
    colon = text.find(":", bracket + 1)
    if colon >= 0:
        host, port = text[:colon], text[colon + 1 :]
        if not _PORT.fullmatch(port) or int(port) >= 2**16:
            return None
    return (host, port) if host_domains(host) is not None else None


def _is_ipv4(text: str) -> bool:
    try:
        return str(IPv4Address(text)) == text
    except AddressValueError:
        return False


def _is_ipv6(text: str) -> bool:
    try:
        address = IPv6Address(text[1:-1])
    except AddressValueError:
        return False
    number = int(address)
    top = number >> 32
    # What is an IPv4 address inside is spelled as one: mapped and compatible (RFC 4291), translated
    # (RFC 2765), NAT64 (RFC 6052, RFC 8215) and 6to4 (RFC 3056).
    wraps = (
        top in (0xFFFF, 0x64FF9B << 64, 0xFFFF << 16)
        or (top == 0 and number > 1)
        or number >> 112 == 0x2002
        or number >> 80 == 0x64FF9B0001
    )
    return not wraps and f"[{address}]" == text


def _is_a_label(label: str) -> bool:
    """Whether `xn--…` decodes to a label that UTS #46 leaves as it is."""
    try:
        decoded = label[4:].encode("ascii").decode("punycode")
        if not decoded or decoded.isascii() or decoded.encode("punycode").decode("ascii") != label[4:]:
            return False
        idna.check_initial_combiner(decoded)
        idna.check_bidi(decoded)
        # As a browser does (WHATWG URL, CheckJoiners): elsewhere nobody would see that they are there.
        if not all(idna.valid_contextj(decoded, at) for at, one in enumerate(decoded) if one in _JOINERS):
            return False
        return bool(idna.uts46_remap(decoded, std3_rules=False, transitional=False) == decoded)
    except UnicodeError:  # also idna.IDNAError
        return False
