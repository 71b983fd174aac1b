"""Kind `url`: WHATWG spelling, and containment by host label and path segment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical import canonical_literal, canonicalize
from authz.model.resource import Base, NotCanonical
from tests.support.canonical import ancestors, is_in, refusal, resource


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("https://API.Example.COM", "https://api.example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:0080/", "http://example.com/"),
        ("http://example.com:/", "http://example.com/"),
        ("http:example.com/a", "http://example.com/a"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("https:///example.com", "https://example.com/"),
        ("https://example.com/a/../b/./c", "https://example.com/b/c"),
        ("https://example.com/a/%2e%2E/b", "https://example.com/b"),
        ("https://example.com/x/.a/.", "https://example.com/x/.a/"),
        ("https://example.com/x/.a/../b", "https://example.com/x/b"),
        ("https://example.com/public/.a/../../admin?q=/../#/..", "https://example.com/admin?q=/../#/.."),
        ("https://example.com/x/.a/../../../..", "https://example.com/"),
        ("https://example.com:8443/x//.a/..", "https://example.com:8443/x//"),
        ("https://example.com/a b", "https://example.com/a%20b"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example\u3002com/", "https://example.com/"),
        ("https://exa\u00admple.com/", "https://example.com/"),
        ("https://@example.com/", "https://example.com/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[0:0::1]/", "http://[::1]/"),
        ("https://example.com./a", "https://example.com./a"),
        ("https://example.com/a#b", "https://example.com/a#b"),
        ("https://example.com:8443\\@evil.test/", "https://example.com:8443/@evil.test/"),
        ("wss://example.com/s", "wss://example.com/s"),
        ("ftp://example.com/f", "ftp://example.com/f"),
    ],
)
def test_value_is_the_whatwg_serialization(spelled: str, canonical: str) -> None:
    assert resource("url", spelled).value == canonical


@pytest.mark.parametrize(
    ("spelled", "code", "understood"),
    [
        ("", "url.invalid", True),
        ("example.com/a", "url.invalid", True),
        ("//example.com/a", "url.invalid", True),
        ("/a", "url.invalid", True),
        ("https://", "url.invalid", True),
        ("https://?x", "url.invalid", True),
        ("https://exa mple.com/", "url.invalid", True),
        ("https://example.com:65536/", "url.invalid", True),
        ("https://example.com:-1/", "url.invalid", True),
        ("https://a%00.example/", "url.invalid", True),
        ("https://a%40b.example/", "url.invalid", True),
        ("https://[::1/", "url.invalid", True),
        ("https://[fe80::1%25eth0]/", "url.invalid", True),
        ("https://1.2.3.4.5/", "url.invalid", True),
        ("https://a..example/", "url.host_invalid", True),
        ("https://example.com../", "url.host_invalid", True),
        (f"https://{'a.' * 130}example/", "url.host_too_long", True),
        ("https://ada@example.com/", "url.userinfo", True),
        ("https://ada:x@example.com/", "url.userinfo", True),
        ("https://:x@example.com/", "url.userinfo", True),
        ("https://allowed.example:80@evil.test/", "url.userinfo", True),
        (" https://example.com/", "url.control_character", True),
        ("https://example.com/\u00a0", "url.control_character", True),
        ("\ufeffhttps://example.com/", "url.control_character", True),
        ("ht\ntps://example.com/", "url.control_character", True),
        ("https://exa\tmple.com/", "url.control_character", True),
        ("https://example.com/\0", "url.control_character", True),
        ("https://example.com/\ud800", "url.surrogate", True),
        ("https://example.com/" + "a" * 20_000, "url.too_long", True),
        ("https://example.com/" + "é" * 4_000, "url.too_long", True),
        ("https://example.com" + "/a" * 200, "url.too_deep", True),
        ("javascript:alert(1)", "url.scheme", False),
        ("data:text/html,x", "url.scheme", False),
        ("file:///etc/passwd", "url.scheme", False),
        ("gopher://example.com:6379/_x", "url.scheme", False),
        ("blob:https://example.com/x", "url.scheme", False),
        ("mailto:ada@example.com", "url.scheme", False),
    ],
)
def test_what_is_not_one_endpoint_has_no_canonical_form(spelled: str, code: str, understood: bool) -> None:
    refused = refusal("url", spelled)
    assert (refused.code, refused.understood) == (code, understood)


@pytest.mark.parametrize("value", [None, False, 1, 1.5])
def test_only_strings_are_urls(value: bool | float | None) -> None:
    assert refusal("url", value).code == "url.type"


def test_chain() -> None:
    assert ancestors(resource("url", "https://api.example.com:8443/v1/users/?x=1#f")) == [
        'Endpoint::"https://api.example.com:8443/v1/users/?x=1"',
        'UrlPath::"https://api.example.com:8443/v1/users"',
        'UrlPath::"https://api.example.com:8443/v1"',
        'UrlPath::"https://api.example.com:8443/"',
        'Host::"api.example.com:8443"',
        'Host::"api.example.com"',
        'Domain::"api.example.com"',
        'Domain::"example.com"',
        'Domain::"com"',
    ]
    assert ancestors(resource("url", "http://127.1/")) == [
        'Endpoint::"http://127.0.0.1/"',
        'UrlPath::"http://127.0.0.1/"',
        'Host::"127.0.0.1:80"',
        'Host::"127.0.0.1"',
    ]


def test_attributes() -> None:
    found = resource("url", "https://api.example.com/v1/?")
    assert found.entity.attributes == {
        "scheme": "https",
        "host": "api.example.com",
        "port": 443,
        "class": "name",
        "host_class": "name",
        "path": "/v1",
        "has_query": True,
    }
    assert resource("url", "ws://[::1]:8080/").entity.attributes == {
        "scheme": "ws",
        "host": "::1",
        "port": 8080,
        "class": "loopback",
        "host_class": "non-global-address",
        "path": "/",
        "has_query": False,
    }


def test_the_hosts_above_a_url_are_those_of_kind_host() -> None:
    """A forbid on `Host::"db.example.com:8443"` holds for a url as well, and for no other port."""
    found = resource("url", "https://db.example.com:8443/x")
    assert found.chain[3:] == resource("host", "db.example.com:8443").chain
    assert found.chain[4].attributes == {"class": "name", "host_class": "name", "is_ip": False, "port": 0}
    assert is_in(found, "Host", "db.example.com:8443")
    assert is_in(found, "Host", "db.example.com")
    assert not is_in(found, "Host", "db.example.com:443")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/", "example.com:443"),
        ("https://example.com:443/", "example.com:443"),
        ("wss://example.com/", "example.com:443"),
        ("http://example.com/", "example.com:80"),
        ("ftp://example.com/", "example.com:21"),
        ("http://[::1]/", "[::1]:80"),
        ("http://[::ffff:10.0.0.1]:5000/", "10.0.0.1:5000"),
        ("https://EXAMPLE.com.:8443/", "example.com:8443"),
    ],
)
def test_a_default_port_is_a_port(url: str, host: str) -> None:
    assert is_in(resource("url", url), "Host", host)
    assert is_in(resource("host", host), "Host", host)


def test_the_fragment_never_reaches_the_server() -> None:
    with_fragment = resource("url", "https://example.com/a#/admin")
    assert with_fragment.chain == resource("url", "https://example.com/a").chain
    assert with_fragment.uri == "https://example.com/a"


def test_matching_uses_the_dotless_unwrapped_host() -> None:
    assert resource("url", "https://example.com./a").chain == resource("url", "https://example.com/a").chain
    for spelled in (
        "[::ffff:a9fe:a9fe]",
        "[::169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
    ):
        found = resource("url", f"http://{spelled}:81/latest")
        assert found.chain == resource("url", "http://169.254.169.254:81/latest").chain
        assert found.entity.attributes["class"] == "metadata"


@pytest.mark.parametrize(
    ("spelled", "contained_in"),
    [
        ("https://h.example/%61dmin/x", "/admin"),
        ("https://h.example//admin", "/admin"),
        ("https://h.example/admin/", "/admin"),
        ("https://h.example/admin//", "/admin"),
        ("https://h.example/admin%2Fx", "/admin"),
        ("https://h.example/admin%5cx", "/admin"),
        ("https://h.example/public/../admin", "/admin"),
        ("https://h.example/a%40b", "/a@b"),
        ("https://h.example/%C3%A9", "/%C3%A9"),
        ("https://h.example/é", "/%C3%A9"),
        ("https://h.example/%ff%00", "/%FF%00"),
        ("https://h.example/x%5Ey", "/x%5Ey"),
        ("https://h.example/x^y", "/x%5Ey"),
        ("https://h.example/100%", "/100%25"),
        ("https://h.example/100%25", "/100%25"),
        ("https://h.example/admin;x=1/users", "/admin"),
        ("https://h.example/admin;x=1/users", "/admin/users"),
        ("https://h.example/;/admin", "/admin"),
        ("https://h.example/;x=1;y/admin", "/admin"),
        ("https://h.example/admin%3bx/users", "/admin"),
        ("https://h.example/admin%3Bx/users", "/admin/users"),
        ("https://h.example/%61dmin;", "/admin"),
        ("https://h.example/%3b%2fadmin", "/admin"),
        ("https://h.example/admin;%2fx", "/admin"),
    ],
)
def test_a_url_path_is_where_the_most_eager_server_finds_it(spelled: str, contained_in: str) -> None:
    assert is_in(resource("url", spelled), "UrlPath", f"https://h.example{contained_in}")


@pytest.mark.parametrize(
    "path",
    [
        "/public/%2e%2e%2fadmin",
        "/public/..%2fadmin",
        "/public/..%5cadmin",
        "/public%2f..%2fadmin",
        "/public/%252e%252e/admin",
        "/public/%252e%252e%252fadmin",
        "/public/%25252e%25252e/admin",
        "/public/.%252e/admin",
        "/public/..;/admin",
        "/public/..;x=1/admin",
        "/public/%2e%2e;/admin",
        "/public/%c0%ae%c0%ae/admin",
        "/public/..%c0%afadmin",
        "/public/..%252fadmin",
        "/public/%2f..",
        "/public/.%2fadmin",
    ],
)
def test_a_path_that_servers_resolve_differently_is_placed_nowhere(path: str) -> None:
    refused = refusal("url", f"https://h.example{path}")
    assert (refused.code, refused.understood) == ("url.ambiguous_path", False)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v4/projects/group%2Fproject",
        "/@scope%2fname",
        "/web/https%253A%252F%252Fexample.com%252Fa",
        "/a;b=1/c",
        "/...",
        "/..a",
        "/a..",
        "/a%20b%25",
        "/.well-known/x",
    ],
)
def test_ordinary_encoded_paths_stay_ordinary(path: str) -> None:
    assert resource("url", f"https://h.example{path}").value == f"https://h.example{path}"


@pytest.mark.parametrize(
    ("url", "domain", "expected"),
    [
        ("https://trusted.example/x", "trusted.example", True),
        ("https://a.b.trusted.example/x", "trusted.example", True),
        ("https://nottrusted.example/x", "trusted.example", False),
        ("https://trusted.example.evil.test/", "trusted.example", False),
        ("https://evil.test?https://trusted.example/", "trusted.example", False),
        ("https://evil.test/trusted.example", "trusted.example", False),
        ("https://evil.test#@trusted.example/", "trusted.example", False),
        ("https://trusted.example#@evil.test/", "evil.test", False),
        ("https://tru\u0455ted.example/", "trusted.example", False),
        ("https://TRUSTED.example.:8443/", "trusted.example", True),
    ],
)
def test_only_labels_of_the_parsed_host_count(url: str, domain: str, expected: bool) -> None:
    assert is_in(resource("url", url), "Domain", domain) == expected


def test_segments_are_not_prefixes() -> None:
    found = resource("url", "https://h.example/v1beta/x")
    assert not is_in(found, "UrlPath", "https://h.example/v1")
    assert not is_in(found, "UrlPath", "http://h.example/")
    assert not is_in(found, "UrlPath", "https://h.example:8443/")


def test_an_endpoint_keeps_its_path_parameters() -> None:
    found = resource("url", "https://h.example/admin;x=1/users%3by?q=;")
    assert found.value == found.uri == found.entity.id == "https://h.example/admin;x=1/users%3by?q=;"
    assert found.entity.attributes["path"] == "/admin/users"
    assert canonical_literal("UrlPath", "https://h.example/admin;x=1") == "https://h.example/admin"


# Properties.

LABEL = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
HOST = st.lists(LABEL, min_size=2, max_size=5).map(".".join)
SEGMENT = st.text(
    st.characters(min_codepoint=33, exclude_characters="/\\?#%;", exclude_categories=["Cs", "Cc", "Z"])
)
PLAIN_SEGMENT = SEGMENT.filter(
    lambda text: text not in {"", ".", ".."} and text.strip("\ufeff\u200b") == text
)


@given(HOST, st.lists(PLAIN_SEGMENT, max_size=4), st.data())
def test_spelling_does_not_matter(host: str, segments: list[str], data: st.DataObject) -> None:
    plain = resource("url", f"https://{host}/{'/'.join(segments)}")
    spelled_host = "".join(
        data.draw(st.sampled_from([char, char.upper(), f"%{ord(char):02x}"])) for char in host
    )
    detour = data.draw(st.sampled_from(["/", "/./", "/x/../", "/%2e/", "/x/%2E%2e/"]))
    port = data.draw(st.sampled_from(["", ":", ":443", ":0443"]))
    dot = data.draw(st.sampled_from(["", "."]))
    encoded = "/".join(
        "".join(
            data.draw(st.sampled_from([char, "".join(f"%{byte:02x}" for byte in char.encode())]))
            for char in segment
        )
        for segment in segments
    )
    if "." in segments or any(set(segment) <= {"."} for segment in segments):
        return
    found = resource("url", f"https://{spelled_host}{dot}{port}{detour}{encoded}")
    assert found.chain[1:] == plain.chain[1:]


PARAMETERS = st.from_regex(r"(?:(?:;|%3[bB])[a-z0-9=;,]{0,6})?", fullmatch=True)


@given(st.lists(st.tuples(PLAIN_SEGMENT, PARAMETERS), max_size=4), PARAMETERS, st.integers(0, 4))
def test_path_parameters_move_no_url(spelled: list[tuple[str, str]], alone: str, at: int) -> None:
    plain = resource("url", "https://h.example/" + "/".join(segment for segment, _ in spelled))
    segments = [segment + parameters for segment, parameters in spelled]
    segments.insert(at, alone)
    found = canonicalize("url", "https://h.example/" + "/".join(segments), Base())
    # Segments of dots before a parameter have no place at all.
    if not isinstance(found, NotCanonical):
        assert found[0].chain[1:] == plain.chain[1:]


@given(HOST, st.integers(1, 2**16 - 1), st.sampled_from(["http", "https", "ws", "wss", "ftp"]))
def test_a_url_is_in_its_host_with_its_port_and_in_no_other(host: str, port: int, scheme: str) -> None:
    found = resource("url", f"{scheme}://{host}:{port}/x")
    hosts = [entity for entity in found.chain if entity.type == "Host"]
    assert hosts == [resource("host", f"{host}:{port}").entity, resource("host", host).entity]


@given(HOST, HOST)
def test_containment_is_by_label(host: str, domain: str) -> None:
    for url_host in (host, f"{host}.{domain}", f"{host}{domain}", f"{domain}.{host}"):
        found = resource("url", f"https://{url_host}/")
        inside = url_host == domain or url_host.endswith(f".{domain}")
        assert is_in(found, "Domain", domain) == inside
        assert is_in(found, "Host", domain) == (url_host == domain)


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_addresses_are_judged_by_value(number: int) -> None:
    octets = number.to_bytes(4, "big")
    high, low = number >> 16, number & 0xFFFF
    spellings = [
        ".".join(map(str, octets)),
        str(number),
        hex(number),
        ".".join(f"0{octet:o}" for octet in octets),
        f"{octets[0]}.{number & 0xFFFFFF}",
        f"[::ffff:{high:x}:{low:x}]",
        f"[64:ff9b::{high:x}:{low:x}]",
        f"[2002:{high:x}:{low:x}::1]",
    ]
    chains = {tuple(ancestors(resource("url", f"http://{spelled}/"))) for spelled in spellings}
    assert len(chains) == 1


@given(
    st.text(max_size=30), st.sampled_from(["https://", "https://h.example/", "https://h.example/a/", "http:"])
)
def test_canonical_is_stable(text: str, lead: str) -> None:
    first = canonicalize("url", lead + text, Base())
    if isinstance(first, NotCanonical):
        return
    assert canonicalize("url", first[0].value, Base()) == first
    again = canonicalize("url", first[0].uri, Base())
    assert not isinstance(again, NotCanonical)
    assert again[0].chain == first[0].chain


@given(
    st.lists(st.sampled_from(["a", "%2e", "%2E", ".", "%2f", "%5c", "%25", "2e", "2f", "/", ";", "%c0%ae"]))
)
def test_no_encoding_walks_out_of_a_path_unnoticed(pieces: list[str]) -> None:
    result = canonicalize("url", "https://h.example/public/" + "".join(pieces), Base())
    if isinstance(result, NotCanonical):
        return
    segments = str(result[0].entity.attributes["path"]).split("/")
    assert not {".", ".."}.intersection(segment.partition(";")[0] for segment in segments)


def whatwg_path(pathname: str) -> str:
    """The path state of the WHATWG parser for a path of plain characters, as the standard states it."""
    path: list[str] = []
    pieces = pathname.replace("\\", "/").split("/")[1:]
    for at, piece in enumerate(pieces):
        last = at == len(pieces) - 1
        dots = piece.lower().replace("%2e", ".")
        if dots == "..":
            path = path[:-1]
        if dots in {".", ".."}:
            path += [""] * last
        else:
            path.append(piece)
    return "/" + "/".join(path)


DOTTED = st.lists(
    st.sampled_from(["a", ".", "..", "/", "/", "\\", "%2e", "%2E", ".a", "a.", "b"]), max_size=12
)


@given(DOTTED)
def test_dot_segments_are_resolved_as_the_standard_says(pieces: list[str]) -> None:
    path = "/x/" + "".join(pieces)
    assert resource("url", f"https://h.example{path}").value == f"https://h.example{whatwg_path(path)}"
