"""Kind `host`, the `Domain` chain, and what addresses are for."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical import canonicalize
from authz.core.canonical.addresses import classify_address, unwrap_address
from authz.model.resource import Base, NotCanonical
from tests.support.canonical import ancestors, is_in, refusal, resource


@pytest.mark.parametrize(
    ("spelled", "value", "uri"),
    [
        ("example.com", "example.com", "host:example.com"),
        ("Example.COM.", "example.com", "host:example.com"),
        ("example.com:5432", "example.com:5432", "host:example.com:5432"),
        ("example.com:05432", "example.com:5432", "host:example.com:5432"),
        ("bücher.example", "xn--bcher-kva.example", "host:xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example", "host:xn--fa-hia.example"),
        ("a_b.example", "a_b.example", "host:a_b.example"),
        ("localhost", "localhost", "host:localhost"),
        ("127.1", "127.0.0.1", "host:127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1", "host:127.0.0.1"),
        ("10.0.0.1:22", "10.0.0.1:22", "host:10.0.0.1:22"),
        ("::1", "::1", "host:[::1]"),
        ("[::1]", "::1", "host:[::1]"),
        ("[0:0::1]:080", "[::1]:80", "host:[::1]:80"),
        ("::ffff:127.0.0.1", "::ffff:7f00:1", "host:127.0.0.1"),
    ],
)
def test_one_host_has_one_spelling(spelled: str, value: str, uri: str) -> None:
    found = resource("host", spelled)
    assert (found.value, found.uri) == (value, uri)


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("", "host.invalid"),
        ("*", "host.invalid"),
        ("*.example.com", "host.invalid"),
        (".example.com", "host.invalid"),
        ("a..example.com", "host.invalid"),
        ("example.com..", "host.invalid"),
        ("-a.example.com", "host.invalid"),
        ("a-.example.com", "host.invalid"),
        ("a,b.example.com", "host.invalid"),
        ("exa mple.com", "host.invalid"),
        (" example.com", "host.invalid"),
        ("https://example.com", "host.invalid"),
        ("example.com/a", "host.invalid"),
        ("example.com\\a", "host.invalid"),
        ("ada@example.com", "host.invalid"),
        ("example.com?x", "host.invalid"),
        ("example.com#x", "host.invalid"),
        ("exa%6dple.com", "host.invalid"),
        ("fe80::1%eth0", "host.invalid"),
        ("[fe80::1%25eth0]", "host.invalid"),
        ("[::1", "host.invalid"),
        ("::1]", "host.invalid"),
        ("[example.com]", "host.invalid"),
        ("[127.0.0.1]", "host.invalid"),
        ("1:2:3", "host.invalid"),
        ("example.com:", "host.invalid"),
        ("example.com:http", "host.invalid"),
        ("example.com:-1", "host.invalid"),
        ("example.com:８０", "host.invalid"),
        ("1.2.3.4.5", "host.invalid"),
        ("256.1.1.1", "host.invalid"),
        ("xn--", "host.invalid"),
        ("xn--zzzzzzzz99999", "host.invalid"),
        ("0à.א", "host.invalid"),
        (f"{'a' * 64}.example", "host.invalid"),
        (f"{'a.' * 126}example", "host.too_long"),
        ("example.com:0", "host.port"),
        ("example.com:65536", "host.port"),
        ("exa\nmple.com", "host.control_character"),
        ("a\ud800.example", "host.surrogate"),
    ],
)
def test_what_is_no_host_is_refused(spelled: str, code: str) -> None:
    refused = refusal("host", spelled)
    assert (refused.code, refused.understood) == (code, True)


@pytest.mark.parametrize("value", [None, True, 80, 0.5])
def test_only_strings_are_hosts(value: bool | float | None) -> None:
    assert refusal("host", value).code == "host.type"


def test_a_port_is_a_host_of_its_own_inside_the_host() -> None:
    found = resource("host", "db.example.com:5432")
    assert ancestors(found) == [
        'Host::"db.example.com:5432"',
        'Host::"db.example.com"',
        'Domain::"db.example.com"',
        'Domain::"example.com"',
        'Domain::"com"',
    ]
    assert [entity.attributes.get("port") for entity in found.chain[:2]] == [5432, 0]
    assert not is_in(resource("host", "db.example.com:22"), "Host", "db.example.com:5432")
    assert ancestors(resource("host", "[::1]:80")) == ['Host::"[::1]:80"', 'Host::"::1"']


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", "public"),
        ("192.0.0.9", "public"),
        ("192.0.0.8", "reserved"),
        ("10.255.255.255", "private"),
        ("172.16.0.1", "private"),
        ("172.32.0.1", "public"),
        ("192.168.0.1", "private"),
        ("100.64.0.1", "shared"),
        ("100.128.0.1", "public"),
        ("127.255.0.1", "loopback"),
        ("169.254.1.1", "link_local"),
        ("169.254.169.254", "metadata"),
        ("169.254.170.2", "metadata"),
        ("100.100.100.200", "metadata"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "reserved"),
        ("192.0.2.1", "documentation"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("198.19.255.255", "reserved"),
        ("192.88.99.1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("2606:4700::1111", "public"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fd12::1", "private"),
        ("fd00:ec2::254", "metadata"),
        ("fe80::1", "link_local"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("2001::1", "reserved"),
        ("2001:2::1", "reserved"),
        ("2001:4:112::1", "public"),
        ("2001:20::1", "public"),
        ("100::1", "reserved"),
        ("5f00::1", "reserved"),
        ("4000::1", "reserved"),
        ("::ffff:10.0.0.1", "private"),
        ("::ffff:8.8.8.8", "public"),
        ("::10.0.0.1", "private"),
        ("::2", "reserved"),
        ("::ffff:0:127.0.0.1", "loopback"),
        ("64:ff9b::127.0.0.1", "loopback"),
        ("64:ff9b::8.8.8.8", "public"),
        ("64:ff9b:1::10.0.0.1", "private"),
        ("64:ff9b:1:a00:0:100::", "private"),
        ("64:ff9b:1::8.8.8.8", "reserved"),
        ("2002:7f00:1::", "loopback"),
        ("2002:808:808::1", "public"),
    ],
)
def test_class_of_an_address(address: str, expected: str) -> None:
    attributes = resource("host", address).entity.attributes
    coarse = "public-address" if expected == "public" else "non-global-address"
    assert attributes == {"class": expected, "host_class": coarse, "is_ip": True, "port": 0}


@pytest.mark.parametrize(
    ("name", "fine", "coarse"),
    [
        ("example.com", "name", "name"),
        ("localhost", "local_name", "localhost-name"),
        ("LOCALHOST.", "local_name", "localhost-name"),
        ("a.localhost", "local_name", "localhost-name"),
        ("printer.local", "local_name", "name"),
        ("db.internal", "local_name", "name"),
        ("nas.home.arpa", "local_name", "name"),
        ("intranet", "local_name", "name"),
        ("localhost.localdomain", "local_name", "name"),
        ("LocalHost.LocalDomain.", "local_name", "name"),
        ("a.localhost.localdomain", "local_name", "name"),
        ("localhost6", "local_name", "name"),
        ("localhost6.localdomain6", "local_name", "name"),
        ("ip6-localhost", "local_name", "name"),
        ("ip6-loopback", "local_name", "name"),
        ("web.localdomain", "local_name", "name"),
        ("api.default.svc", "local_name", "name"),
        ("api.default.svc.cluster.local", "local_name", "name"),
        ("nas.lan", "local_name", "name"),
        ("wiki.corp", "local_name", "name"),
        ("router.home", "local_name", "name"),
        ("wiki.intranet", "local_name", "name"),
        ("db.private", "local_name", "name"),
        ("db.domain", "local_name", "name"),
        ("domain", "local_name", "name"),
        ("notlocalhost.localdomain.example", "name", "name"),
        ("corp.example", "name", "name"),
        ("mycorp.example", "name", "name"),
        ("notlan.example", "name", "name"),
        ("metadata.google.internal", "metadata", "name"),
        ("notlocalhost.example", "name", "name"),
        ("localhost.example", "name", "name"),
        ("127.0.0.1.nip.io", "name", "name"),
    ],
)
def test_class_of_a_name(name: str, fine: str, coarse: str) -> None:
    attributes = resource("host", name).entity.attributes
    assert attributes == {"class": fine, "host_class": coarse, "is_ip": False, "port": 0}


LABEL = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
INNER = ["localhost", "localdomain", "local", "internal", "svc", "lan", "corp", "home", "intranet"]


@given(st.lists(LABEL, max_size=3), st.sampled_from([*INNER, "private", "domain", "localdomain6"]))
def test_names_that_only_an_inner_resolver_answers_are_local(labels: list[str], last: str) -> None:
    attributes = resource("host", ".".join([*labels, last])).entity.attributes
    assert attributes["class"] == "local_name"
    assert (attributes["host_class"] == "localhost-name") == (last == "localhost")


ADDRESSES = st.one_of(
    st.ip_addresses(v=4),
    st.ip_addresses(v=6),
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.builds(
        lambda prefix, low: IPv6Address(prefix << 32 | low),
        st.sampled_from([0, 0xFFFF, 0xFFFF << 16, 0x64FF9B << 64, 0x64FF9B0001 << 48]),
        st.integers(0, 2**32 - 1),
    ),
)


@given(ADDRESSES)
def test_one_host_id_has_one_class(address: IPv4Address | IPv6Address) -> None:
    found = resource("host", str(address)).chain[0]
    assert resource("host", found.id).chain[0] == found


@given(ADDRESSES)
def test_nothing_that_the_standard_library_calls_private_is_public(
    address: IPv4Address | IPv6Address,
) -> None:
    # It errs in the other direction only; what it does find must not get lost here.
    plain = unwrap_address(address) if isinstance(address, IPv6Address) else address
    if plain.is_private or plain.is_loopback or plain.is_link_local or plain.is_multicast:
        exceptions = {"192.0.0.9", "192.0.0.10", "2001:1::1", "2001:1::2", "2001:1::3"}
        carved = any(
            str(plain).startswith(prefix) for prefix in ("2001:3:", "2001:4:112:", "2001:2", "2001:3")
        )
        assert str(classify_address(plain)) != "public" or str(plain) in exceptions or carved


@given(st.text(max_size=30))
def test_canonical_is_stable(text: str) -> None:
    first = canonicalize("host", text, Base())
    if not isinstance(first, NotCanonical):
        assert canonicalize("host", first[0].value, Base()) == first
        assert resource("host", first[0].entity.id).chain == first[0].chain
        assert resource("host", first[0].uri.removeprefix("host:")).chain == first[0].chain
