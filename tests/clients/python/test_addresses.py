"""Classes of addresses: those of the service, and more where an address holds several."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from authz_client.addresses import AddressClass, address_classes
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical.addresses import METADATA_ADDRESSES, classify_address, unwrap_address


@pytest.mark.parametrize(
    ("address", "classes"),
    [
        ("93.184.216.34", "public"),
        ("10.1.2.3", "private"),
        ("172.31.255.255", "private"),
        ("172.32.0.0", "public"),
        ("192.168.0.1", "private"),
        ("127.255.255.255", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.0.0.1", "reserved"),
        ("100.64.0.1", "shared"),
        ("169.254.1.1", "link_local"),
        ("169.254.169.254", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("198.18.0.1", "reserved"),
        ("203.0.113.1", "documentation"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fe80::1", "link_local"),
        ("fe80::1%eth0", "link_local"),
        ("fc00::1", "private"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("fd00:ec2::254", "metadata"),
        ("2001:db8::1", "documentation"),
        ("2606:4700::1111", "public"),
        ("4000::1", "reserved"),
        # IPv4 inside.
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:169.254.169.254", "metadata"),
        ("::ffff:93.184.216.34", "public"),
        ("::127.0.0.1", "loopback"),
        ("::ffff:0:10.0.0.1", "private"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::93.184.216.34", "public"),
        ("2002:7f00:1::", "loopback"),
        ("2002:a9fe:a9fe::1", "metadata"),
        ("2002:5db8:d822::1", "public"),
        # Two addresses inside, or one that the network places.
        ("64:ff9b:1::10.0.0.1", "private reserved unspecified"),
        ("2001:0:5db8:d822:0:0:80ff:fffe", "loopback public reserved"),
        ("2001:0:5db8:d822:0:0:a247:27dd", "public reserved"),
    ],
)
def test_classes(address: str, classes: str) -> None:
    assert sorted(address_classes(address)) == classes.split()
    assert address_classes(ip_address(address)) == address_classes(address)


@pytest.mark.parametrize("text", ["", "example.com", "127.1", "0x7f.1", "2130706433", "127.0.0.01", "[::1]"])
def test_only_addresses_have_one(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        address_classes(text)


def is_as_the_service_says(address: IPv4Address | IPv6Address) -> bool:
    """The service's class is among ours, and it is the only one unless ours is the stricter reading."""
    unwrapped = unwrap_address(address) if isinstance(address, IPv6Address) else address
    theirs = AddressClass(classify_address(unwrapped).value)
    ours = address_classes(address)
    return theirs in ours and (ours == {theirs} or not ours <= {AddressClass.PUBLIC})


EDGES = [0, 1, 2**32 - 1, 2**32, 2**96, 0xFFFF << 32, 0x64FF9B << 96, 0x64FF9B0001 << 80, 0x2002 << 112]
EDGES += [0x2000 << 112, 0x20010000 << 96, 0x2001 << 112 | 0x0200 << 96, 0xFC00 << 112, 0xFE80 << 112]
EDGES += [int(ip_address(address)) for address in METADATA_ADDRESSES if ":" in address]


@given(
    edge=st.sampled_from(EDGES) | st.integers(0, 2**128 - 1),
    offset=st.integers(-2, 2) | st.integers(0, 2**32 - 1) | st.integers(0, 2**100),
)
def test_the_service_agrees_on_ipv6(edge: int, offset: int) -> None:
    assert is_as_the_service_says(IPv6Address((edge + offset) % 2**128))


@given(
    number=st.integers(0, 2**32 - 1)
    | st.sampled_from([int(ip_address(address)) for address in METADATA_ADDRESSES if ":" not in address])
    | st.builds(
        lambda first, second, offset: ((first << 24 | second << 16) + offset) % 2**32,
        st.sampled_from([0, 10, 100, 127, 169, 172, 192, 198, 203, 224, 240, 255]),
        st.sampled_from([0, 16, 18, 31, 32, 51, 64, 88, 127, 128, 168, 254]),
        st.integers(-1, 2**17),
    )
)
def test_the_service_agrees_on_ipv4(number: int) -> None:
    assert is_as_the_service_says(IPv4Address(number))
