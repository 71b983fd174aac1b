"""Canonical objects: spelled as the service spells them, containing what the service's contain."""

from typing import Any

import pytest
from authz_client.capabilities.objects import Object, parse_object
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.canonical import canonical_uri
from authz.model.resource import NotCanonical, Resource
from tests.clients.python.capabilities.golden_tables import CANONICAL, CONTAINED, NOT_CANONICAL, OUTSIDE

TEXT = st.text(
    st.sampled_from("abzAZ019-_.~!$&'()*+,;=:@/%?#[]{}^|`\\\" \t\u00e9\u0430\u200b\u0301")
    | st.characters(codec="utf-8"),
    max_size=12,
)
NAMES = st.sampled_from(["a", "b", "a.b", "x1", "git", "main"])
HOSTS = st.sampled_from(
    [
        "a.example",
        "b.a.example",
        "example",
        "localhost",
        "192.0.2.1",
        "[2001:db8::1]",
        "[::ffff:1.2.3.4]",
        "xn--bcher-kva.example",
        # Joiners, where a script has them and where nobody would see them.
        "xn--11b4d3a9jb.example",
        "xn--ab-j1t.example",
        "1.2.3",
        "a-.example",
    ]
)
PORTS = st.sampled_from(["", ":443", ":80", ":8443", ":0", ":65536"])
PATHS = st.lists(NAMES | TEXT | st.sampled_from(["..", ".", "%2e%2e", "%2F", ";x", "%252e"]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
URIS = st.one_of(
    st.builds("file://{}".format, PATHS),
    st.builds(
        "{}://{}{}{}{}".format,
        st.sampled_from(["http", "https", "wss", "ftp"]),
        HOSTS,
        PORTS,
        PATHS,
        st.sampled_from(["", "?", "?a=1"]),
    ),
    st.builds("host:{}{}".format, HOSTS, PORTS),
    st.builds("domain:{}".format, HOSTS | TEXT),
    st.builds("mailto:{}@{}".format, NAMES | TEXT, HOSTS),
    st.builds(
        "repo:{}{}{}{}".format,
        HOSTS,
        PORTS,
        PATHS,
        st.sampled_from(["", "#main", "#refs/tags/v1", "#heads/x", "#HEAD"]),
    ),
    st.builds("repo:a.example/x#{}".format, TEXT),
    st.builds("sql:prod{}".format, PATHS),
    st.builds("program:{}".format, NAMES | TEXT),
    st.builds("program:git/{}".format, NAMES | TEXT),
    st.builds("id:account:{}".format, NAMES | TEXT),
    st.builds("{}:{}".format, st.sampled_from(["opaque", "urn", "FILE"]), TEXT),
)


def known(uri: str) -> Resource:
    """The service's resource of a canonical URI."""
    found = canonical_uri(uri)
    assert isinstance(found, Resource), (uri, found)
    assert found.uri == uri
    return found


@pytest.mark.parametrize("host", ["xn--ab-j1t", "xn--ab-k1t", "a.xn--ab-j1t.example"])
def test_a_joiner_that_nobody_sees_is_in_no_host(host: str) -> None:
    assert parse_object(f"host:{host}") is None
    assert not isinstance(canonical_uri(f"host:{host}"), Resource)


def parsed(uri: str) -> Object:
    found = parse_object(uri)
    assert found is not None, uri
    return found


@given(URIS)
@settings(max_examples=1500, deadline=None)
def test_what_the_client_takes_is_spelled_as_the_service_spells_it(uri: str) -> None:
    if parse_object(uri) is not None:
        known(uri)


@given(URIS)
@settings(max_examples=1500, deadline=None)
def test_what_the_service_writes_the_client_takes(uri: str) -> None:
    try:
        found = canonical_uri(uri)
    except ValueError:
        return
    if isinstance(found, NotCanonical) or found.kind == "opaque":
        return
    # Narrower here: urls whose host is no host name (`!`, a label that begins with `-`), names of tables with
    # `/`, `%` or controls in them.
    if parse_object(found.uri) is None:
        assert found.kind == "url" or (found.kind == "sql" and "%" in found.uri), (uri, found.uri)


@pytest.mark.parametrize("uri", CANONICAL)
def test_canonical(uri: str) -> None:
    known(uri)
    assert parsed(uri).lies_in(parsed(uri))


@pytest.mark.parametrize("uri", NOT_CANONICAL)
def test_not_canonical(uri: str) -> None:
    assert parse_object(uri) is None


@pytest.mark.parametrize(("wide", "narrow"), [pair[1:] for pair in CONTAINED])
def test_contained(wide: str, narrow: str) -> None:
    assert parsed(narrow).lies_in(parsed(wide))
    assert wide.rstrip("/") == narrow.rstrip("/") or not parsed(wide).lies_in(parsed(narrow))


@pytest.mark.parametrize(("wide", "other"), [pair[1:] for pair in OUTSIDE])
def test_outside(wide: str, other: str) -> None:
    assert not parsed(other).lies_in(parsed(wide))


PLAIN = st.lists(NAMES, max_size=4).map(lambda parts: "".join(f"/{part}" for part in parts))
GOOD_HOSTS = st.sampled_from(["a.example", "b.a.example", "example", "192.0.2.1", "[2001:db8::1]"])
GOOD = st.one_of(
    st.builds(lambda path: f"file://{path or '/'}", PLAIN),
    st.builds(
        lambda host, port, path: f"https://{host}{port}{path or '/'}",
        GOOD_HOSTS,
        st.sampled_from(["", ":8443"]),
        PLAIN,
    ),
    st.builds("host:{}{}".format, GOOD_HOSTS, st.sampled_from(["", ":443", ":8443"])),
    st.sampled_from(
        ["domain:a.example", "domain:example", "domain:b.a.example", "mailto:x@a.example", "mailto:x@example"]
    ),
    st.builds("repo:a.example{}{}".format, PLAIN, st.just("")),
    st.builds("repo:a.example/a{}#{}".format, PLAIN, NAMES),
    st.builds("sql:prod{}".format, st.sampled_from(["", "/a", "/a/b", "/b"])),
    st.builds("program:{}".format, st.sampled_from(["git", "git/a", "git/b", "a"])),
    st.builds("id:account:{}".format, NAMES),
)


def service_contains(outer: Resource, inner: Resource) -> bool:
    """By the hierarchy of entities that policies see: spec section 4."""
    first = outer.chain[0]
    container = {"File": "Directory", "Endpoint": "UrlPath"}.get(first.type, first.type)
    name = next((item.id for item in outer.chain if item.type == container), first.id)
    return (container, name) in {(item.type, item.id) for item in inner.chain}


@given(GOOD, GOOD)
@settings(max_examples=1500, deadline=None)
def test_containment_is_that_of_policies(outer: str, inner: str) -> None:
    assert parsed(inner).lies_in(parsed(outer)) == service_contains(known(outer), known(inner))


@given(GOOD, GOOD, GOOD)
@settings(max_examples=1500, deadline=None)
def test_containment_is_transitive(one: str, two: str, three: str) -> None:
    first, second, third = map(parsed, (one, two, three))
    if first.lies_in(second) and second.lies_in(third):
        assert first.lies_in(third)


@given(URIS, URIS)
@settings(max_examples=1000, deadline=None)
def test_a_url_inside_is_inside_for_policies_too(outer: str, inner: str) -> None:
    """Whatever servers make of escapes, slashes and parameters, this never contains more than policies do."""
    wide, narrow = parse_object(outer), parse_object(inner)
    if wide is None or narrow is None or not narrow.lies_in(wide):
        return
    if outer != inner:
        assert service_contains(known(outer), known(inner))


def test_a_very_long_uri_is_no_object() -> None:
    assert parse_object("file:///" + "a/" * 200 + "b") is not None
    assert parse_object("file:///" + "a/" * 300 + "b") is None
    assert parse_object("https://a.example/" + "a" * 9_000) is None


def test_every_kind_is_in_the_table() -> None:
    kinds: set[Any] = {uri.partition(":")[0] for uri in CANONICAL}
    assert kinds >= {
        "file",
        "http",
        "https",
        "wss",
        "ftp",
        "host",
        "domain",
        "mailto",
        "repo",
        "sql",
        "program",
        "id",
    }
