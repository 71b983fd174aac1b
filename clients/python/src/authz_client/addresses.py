"""What an IP address is for, by value: facts that a decision on a name can be held against.

From the IANA special-purpose address registries, which the standard `ipaddress` properties follow only in
part: they call `64:ff9b::7f00:1` and `2002:7f00:1::` global and `::ffff:127.0.0.1` not loopback.
"""

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

__all__ = ["AddressClass", "address_classes"]

Address = IPv4Address | IPv6Address


class AddressClass(StrEnum):
    """The service's fine classes of an address (`class` of a `Host`)."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link_local"
    METADATA = "metadata"
    UNSPECIFIED = "unspecified"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    SHARED = "shared"
    DOCUMENTATION = "documentation"


_METADATA: Final = frozenset(
    map(
        ip_address,
        # AWS, Azure and others; ECS; EKS; Tencent; Alibaba; Oracle; Azure host agent; GCP; OpenStack.
        "169.254.169.254 169.254.170.2 169.254.170.23 169.254.0.23 100.100.100.200 192.0.0.192 168.63.129.16"
        " fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fe80::a9fe:a9fe".split(),
    )
)
# https://www.iana.org/assignments/iana-ipv4-special-registry, most specific first.
_IPV4: Final = tuple(
    (IPv4Network(network), found)
    for network, found in (
        ("0.0.0.0/32", AddressClass.UNSPECIFIED),
        ("0.0.0.0/8", AddressClass.RESERVED),
        ("10.0.0.0/8", AddressClass.PRIVATE),
        ("100.64.0.0/10", AddressClass.SHARED),
        ("127.0.0.0/8", AddressClass.LOOPBACK),
        ("169.254.0.0/16", AddressClass.LINK_LOCAL),
        ("172.16.0.0/12", AddressClass.PRIVATE),
        ("192.0.0.9/32", AddressClass.PUBLIC),
        ("192.0.0.10/32", AddressClass.PUBLIC),
        ("192.0.0.0/24", AddressClass.RESERVED),
        ("192.0.2.0/24", AddressClass.DOCUMENTATION),
        ("192.88.99.0/24", AddressClass.RESERVED),
        ("192.168.0.0/16", AddressClass.PRIVATE),
        ("198.18.0.0/15", AddressClass.RESERVED),
        ("198.51.100.0/24", AddressClass.DOCUMENTATION),
        ("203.0.113.0/24", AddressClass.DOCUMENTATION),
        ("224.0.0.0/4", AddressClass.MULTICAST),
        ("240.0.0.0/4", AddressClass.RESERVED),
    )
)
# https://www.iana.org/assignments/iana-ipv6-special-registry. Outside 2000::/3 nothing is global.
_IPV6: Final = tuple(
    (IPv6Network(network), found)
    for network, found in (
        ("::/128", AddressClass.UNSPECIFIED),
        ("::1/128", AddressClass.LOOPBACK),
        ("2001:1::1/128", AddressClass.PUBLIC),
        ("2001:1::2/128", AddressClass.PUBLIC),
        ("2001:1::3/128", AddressClass.PUBLIC),
        ("2001:3::/32", AddressClass.PUBLIC),
        ("2001:4:112::/48", AddressClass.PUBLIC),
        ("2001:20::/28", AddressClass.PUBLIC),
        ("2001:30::/28", AddressClass.PUBLIC),
        ("2001::/23", AddressClass.RESERVED),
        ("2001:db8::/32", AddressClass.DOCUMENTATION),
        ("3fff::/20", AddressClass.DOCUMENTATION),
        ("2000::/3", AddressClass.PUBLIC),
        ("fc00::/7", AddressClass.PRIVATE),
        ("fe80::/10", AddressClass.LINK_LOCAL),
        ("fec0::/10", AddressClass.PRIVATE),
        ("ff00::/8", AddressClass.MULTICAST),
    )
)
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_TEREDO: Final = IPv6Network("2001::/32")
_LOW_32: Final = 0xFFFFFFFF
_OF_NO_NETWORK: Final = frozenset({AddressClass.PUBLIC, AddressClass.UNSPECIFIED, AddressClass.RESERVED})


def address_classes(address: Address | str) -> frozenset[AddressClass]:
    """Every class that connecting to `address` touches; a decision has to cover them all.

    One for most: the class of the IPv4 address inside for mapped and compatible (RFC 4291), translated
    (RFC 2765), NAT64 (RFC 6052) and 6to4 (RFC 3056) forms. Where the network decides what is inside (the
    local NAT64 prefix of RFC 8215), or there are two addresses inside (Teredo, RFC 4380), the class of the
    IPv6 address itself and of each. Raises `ValueError` for what is no address.
    """
    found = ip_address(address) if isinstance(address, str) else address
    if isinstance(found, IPv4Address):
        return frozenset({_class_of(found)})
    if (wrapped := _wrapped(found)) is not None:
        return frozenset({_class_of(wrapped)})
    number = int(found)
    unscoped = IPv6Address(number)  # a zone (`%eth0`) is no part of the value
    inside: tuple[IPv4Address, ...] = ()
    if unscoped in _LOCAL_NAT64:
        inside = _in_local_nat64(unscoped)
    elif unscoped in _TEREDO:
        inside = (IPv4Address((number >> 64) & _LOW_32), IPv4Address(~number & _LOW_32))
    return frozenset({_class_of(unscoped), *map(_class_of, inside)})


def inner_address(address: IPv6Address) -> Address:
    """The address that the service spells for `address`: the IPv4 address that it stands for, or itself.

    In the local NAT64 prefix there are two places for one. A special address at either is what the host is
    taken for.
    """
    if (wrapped := _wrapped(address)) is not None:
        return wrapped
    if address in _LOCAL_NAT64:
        for inside in _in_local_nat64(address):
            if _class_of(inside) not in _OF_NO_NETWORK:
                return inside
    return address


def _wrapped(address: IPv6Address) -> IPv4Address | None:
    number = int(address)
    top = number >> 32
    if top in {0xFFFF, 0x64FF9B << 64, 0xFFFF << 16} or (top == 0 and number > 1):
        return IPv4Address(number & _LOW_32)
    return IPv4Address((number >> 80) & _LOW_32) if number >> 112 == 0x2002 else None


def _in_local_nat64(address: IPv6Address) -> tuple[IPv4Address, IPv4Address]:
    """At the end for a /96, around the u octet for a /48 (RFC 6052 2.2)."""
    number = int(address)
    around = ((number >> 64) & 0xFFFF) << 16 | (number >> 40) & 0xFFFF
    return IPv4Address(number & _LOW_32), IPv4Address(around)


def _class_of(address: Address) -> AddressClass:
    if address in _METADATA:
        return AddressClass.METADATA
    if isinstance(address, IPv4Address):
        return next((found for network, found in _IPV4 if address in network), AddressClass.PUBLIC)
    return next((found for network, found in _IPV6 if address in network), AddressClass.RESERVED)
