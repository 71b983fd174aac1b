"""What an IP address is for: an explicit table from the IANA special-purpose address registries.

The standard `ipaddress` properties are not used: they call `64:ff9b::7f00:1` and `2002:7f00:1::`
global and `::ffff:127.0.0.1` not loopback, and they move with the Python version.
"""

from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network


class HostClass(StrEnum):
    """The fine class of a host. `name` and `local_name` are hosts that are no address."""

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
    NAME = "name"
    LOCAL_NAME = "local_name"


METADATA_ADDRESSES = frozenset(
    {
        "169.254.169.254",  # AWS, Azure, GCP, OpenStack, …
        "169.254.170.2",  # AWS ECS credentials
        "169.254.170.23",  # AWS EKS credentials
        "169.254.0.23",  # Tencent
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure host agent: registered as public, reachable only inside
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",  # GCP
        "fe80::a9fe:a9fe",  # OpenStack
    }
)

# https://www.iana.org/assignments/iana-ipv4-special-registry (most specific first), with multicast.
_IPV4 = tuple(
    (IPv4Network(network), host_class)
    for network, host_class in (
        ("0.0.0.0/32", HostClass.UNSPECIFIED),
        ("0.0.0.0/8", HostClass.RESERVED),
        ("10.0.0.0/8", HostClass.PRIVATE),
        ("100.64.0.0/10", HostClass.SHARED),
        ("127.0.0.0/8", HostClass.LOOPBACK),
        ("169.254.0.0/16", HostClass.LINK_LOCAL),
        ("172.16.0.0/12", HostClass.PRIVATE),
        ("192.0.0.9/32", HostClass.PUBLIC),  # PCP anycast
        ("192.0.0.10/32", HostClass.PUBLIC),  # TURN anycast
        ("192.0.0.0/24", HostClass.RESERVED),
        ("192.0.2.0/24", HostClass.DOCUMENTATION),
        ("192.88.99.0/24", HostClass.RESERVED),  # deprecated 6to4 relays
        ("192.168.0.0/16", HostClass.PRIVATE),
        ("198.18.0.0/15", HostClass.RESERVED),  # benchmarking
        ("198.51.100.0/24", HostClass.DOCUMENTATION),
        ("203.0.113.0/24", HostClass.DOCUMENTATION),
        ("224.0.0.0/4", HostClass.MULTICAST),
        ("240.0.0.0/4", HostClass.RESERVED),
    )
)

# https://www.iana.org/assignments/iana-ipv6-special-registry; outside 2000::/3 nothing is global.
_IPV6 = tuple(
    (IPv6Network(network), host_class)
    for network, host_class in (
        ("::/128", HostClass.UNSPECIFIED),
        ("::1/128", HostClass.LOOPBACK),
        ("2001:1::1/128", HostClass.PUBLIC),  # PCP anycast
        ("2001:1::2/128", HostClass.PUBLIC),  # TURN anycast
        ("2001:1::3/128", HostClass.PUBLIC),  # DNS-SD anycast
        ("2001:3::/32", HostClass.PUBLIC),  # AMT
        ("2001:4:112::/48", HostClass.PUBLIC),  # AS112
        ("2001:20::/28", HostClass.PUBLIC),  # ORCHIDv2
        ("2001:30::/28", HostClass.PUBLIC),  # drone remote id
        ("2001::/23", HostClass.RESERVED),  # Teredo, benchmarking and other IETF assignments
        ("2001:db8::/32", HostClass.DOCUMENTATION),
        ("3fff::/20", HostClass.DOCUMENTATION),
        ("2000::/3", HostClass.PUBLIC),
        ("fc00::/7", HostClass.PRIVATE),
        ("fe80::/10", HostClass.LINK_LOCAL),
        ("fec0::/10", HostClass.PRIVATE),  # deprecated site-local
        ("ff00::/8", HostClass.MULTICAST),
    )
)

_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_LOW_32 = 0xFFFFFFFF


def classify_address(address: IPv4Address | IPv6Address) -> HostClass:
    """The class of an address that `unwrap_address` has been through."""
    if str(address) in METADATA_ADDRESSES:
        return HostClass.METADATA
    if isinstance(address, IPv4Address):
        return next((host_class for network, host_class in _IPV4 if address in network), HostClass.PUBLIC)
    return next((host_class for network, host_class in _IPV6 if address in network), HostClass.RESERVED)


@lru_cache(maxsize=1024)
def unwrap_address(address: IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that packets to `address` end up at, or `address` itself.

    IPv4-mapped (RFC 4291 2.5.5.2), IPv4-compatible (2.5.5.1), NAT64 `64:ff9b::/96` (RFC 6052),
    6to4 (RFC 3056), and IPv4-translated `::ffff:0:0:0/96` (RFC 2765).
    """
    number = int(address)
    top = number >> 32
    if top in {0xFFFF, 0x64FF9B << 64, 0xFFFF << 16} or (top == 0 and number > 1):
        return IPv4Address(number & _LOW_32)
    if number >> 112 == 0x2002:
        return IPv4Address((number >> 80) & _LOW_32)
    if address in _LOCAL_NAT64:
        return _unwrap_local_nat64(address)
    return address


def _unwrap_local_nat64(address: IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside `64:ff9b:1::/48` (RFC 8215), if it matters which one it is.

    The network decides where in the /48 it stands (RFC 6052 2.2): at the end for a /96, around the
    u octet for a /48. A special address at either place is what the host is taken for. Two public
    ones leave the IPv6 address as it is, which is not global, so that one host has one class.
    """
    number = int(address)
    last = IPv4Address(number & _LOW_32)
    around = IPv4Address(((number >> 64) & 0xFFFF) << 16 | (number >> 40) & 0xFFFF)
    for embedded in (last, around):
        if classify_address(embedded) not in {HostClass.PUBLIC, HostClass.UNSPECIFIED, HostClass.RESERVED}:
            return embedded
    return address
