"""The registry: one way in for requests, capability objects and policy literals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical import (
    KINDS,
    canonical_literal,
    canonical_uri,
    canonicalize,
    opaque,
)
from authz.model.resource import Base, NotCanonical, Volume
from tests.support.canonical import WORKSPACE, resource

OBJECT_TYPE = "account"


def test_kinds() -> None:
    assert set(KINDS) == {"path", "url", "host", "email", "id", "repo"}


@pytest.mark.parametrize("kind", ["shell", "sql", "whatever", ""])
def test_other_kinds_are_opaque(kind: str) -> None:
    found = resource(kind, "rm -rf /")
    assert found.kind == "opaque"
    assert found.entity.type == "Opaque"
    assert found.entity.attributes == {"kind": kind, "reason": "kind.unknown"}
    assert found.uri == f"opaque:{found.entity.id}"
    assert len(found.chain) == 1


def test_opaque_is_named_by_a_digest() -> None:
    found = opaque("shell", "ls", "shell.unparsed")
    assert found.entity.id == "shell:c7b68ac37f364473e922936708e7f43c"
    assert found.value == "ls"
    assert opaque("shell", "\ud800", "shell.unparsed").entity.id != found.entity.id


@pytest.mark.parametrize(
    ("entity_type", "literal"),
    [
        ("File", "/workspace/a"),
        ("File", "/"),
        ("Directory", "/"),
        ("Directory", "/workspace"),
        ("Endpoint", "https://api.example.com/v1?x=1"),
        ("UrlPath", "https://api.example.com/"),
        ("UrlPath", "https://api.example.com/v1"),
        ("Host", "api.example.com"),
        ("Host", "db.example.com:5432"),
        ("Host", "::1"),
        ("Host", "127.0.0.1"),
        ("Domain", "example.com"),
        ("Domain", "com"),
        ("Mailbox", "ada@example.com"),
        ("Program", "git"),
        ("Program", "git/clean"),
        ("Repo", "git.example.com"),
        ("Repo", "git.example.com/team"),
        ("Repo", "git.example.com:2222/team/app"),
        ("Branch", "git.example.com/team/app#main"),
        ("Database", "prod"),
        ("Schema", "prod/shop"),
        ("Table", "prod/shop/a%2Fb"),
        ("Object", "account:a/b"),
        ("ObjectType", "account"),
        ("Tool", "Any Thing/"),
        ("Agent", "*"),
    ],
)
def test_canonical_literals_stand(entity_type: str, literal: str) -> None:
    assert canonical_literal(entity_type, literal) == literal


@pytest.mark.parametrize(
    ("entity_type", "literal", "canonical"),
    [
        ("Directory", "/workspace/", "/workspace"),
        ("Directory", "file:///workspace", "/workspace"),
        ("File", "//a/../b", "/b"),
        ("Endpoint", "https://API.example.com:443", "https://api.example.com/"),
        ("Endpoint", "https://api.example.com./a#b", "https://api.example.com/a"),
        ("UrlPath", "https://api.example.com/v1/", "https://api.example.com/v1"),
        ("UrlPath", "https://api.example.com/%76%31?x", "https://api.example.com/v1"),
        ("Host", "[::1]", "::1"),
        ("Host", "::ffff:127.0.0.1", "127.0.0.1"),
        ("Host", "0x7f.1", "127.0.0.1"),
        ("Domain", "Example.COM", "example.com"),
        ("Domain", "example.com.", "example.com"),
        ("Domain", "bücher.example", "xn--bcher-kva.example"),
        ("Mailbox", "Ada <Ada@Example.com>", "ada@example.com"),
        ("Object", "iban:de89 3704 0044 0532 0130 00", "iban:DE89370400440532013000"),
        ("Object", "account: 7 ", "account:7"),
    ],
)
def test_other_spellings_are_told_the_canonical_one(entity_type: str, literal: str, canonical: str) -> None:
    assert canonical_literal(entity_type, literal) == canonical


@pytest.mark.parametrize(
    ("entity_type", "literal"),
    [
        ("Directory", "workspace"),
        ("Directory", "."),
        ("Directory", ""),
        ("Directory", "~/x"),
        ("File", "C:\\x"),
        ("Endpoint", "javascript:alert(1)"),
        ("UrlPath", "/v1"),
        ("Host", "*.example.com"),
        ("Host", "https://example.com"),
        ("Domain", "*.example.com"),
        ("Domain", "*.com"),
        ("Domain", ".example.com"),
        ("Domain", "-a.example.com"),
        ("Domain", "exa mple.com"),
        ("Domain", "127.0.0.1"),
        ("Domain", "[::1]"),
        ("Domain", "http://example.com"),
        ("Domain", ""),
        ("Mailbox", "ada@a.example, bob@b.example"),
        ("Mailbox", "*@example.com"[1:]),
        ("Object", "account"),
        ("Object", "Account:1"),
        ("ObjectType", "Account"),
    ],
)
def test_what_no_request_could_ever_be_is_no_literal(entity_type: str, literal: str) -> None:
    assert isinstance(canonical_literal(entity_type, literal), NotCanonical)


def test_literals_are_case_keys_where_the_volume_folds_case() -> None:
    folding = Volume(case_sensitive=False, normalization="nfc")
    assert canonical_literal("Directory", "/W/A", volume=folding) == "/w/a"
    assert canonical_literal("Directory", "/w/a", volume=folding) == "/w/a"
    assert canonical_literal("Directory", "/W/A") == "/W/A"


@pytest.mark.parametrize(
    ("uri", "resource_text"),
    [
        ("file:///srv/work", 'File::"/srv/work"'),
        ("https://api.example.com/v1", 'Endpoint::"https://api.example.com/v1"'),
        ("host:db.example.com:5432", 'Host::"db.example.com:5432"'),
        ("host:[::1]", 'Host::"::1"'),
        ("domain:example.com", 'Domain::"example.com"'),
        ("mailto:ada%26co@example.com", 'Mailbox::"ada&co@example.com"'),
        ("id:account:a%2Fb%25", 'Object::"account:a/b%"'),
    ],
)
def test_canonical_uris_lead_back(uri: str, resource_text: str) -> None:
    found = canonical_uri(uri)
    assert not isinstance(found, NotCanonical)
    assert found.entity.cedar == resource_text
    assert found.uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "x",
        "opaque:shell:0",
        "repo:",
        "repo:a@b/c",
        "program:/bin/x",
        "sql:A/b",
        "domain:127.0.0.1",
        "mailto:a@x.example,b@x.example",
    ],
)
def test_other_uris_are_refused(uri: str) -> None:
    assert isinstance(canonical_uri(uri), NotCanonical)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=60))
KIND = st.sampled_from([*sorted(KINDS), "shell"])


@given(KIND, SCALARS)
def test_every_value_gets_an_answer_and_the_answer_is_stable(
    kind: str, value: str | float | bool | None
) -> None:
    result = canonicalize(kind, value, WORKSPACE, object_type=OBJECT_TYPE)
    assert canonicalize(kind, value, WORKSPACE, object_type=OBJECT_TYPE) == result
    if isinstance(result, NotCanonical):
        assert result.code.startswith(f"{kind}.")
        return
    assert result
    for found in result:
        again = canonicalize(kind, found.value, Base(), object_type=OBJECT_TYPE)
        assert again == (found,)
        assert len({(entity.type, entity.id) for entity in found.chain}) == len(found.chain)
        if kind in KINDS:
            assert found.uri.isascii()
            named = canonical_uri(found.uri)
            assert not isinstance(named, NotCanonical)
            # A url's fragment and the transport of a remote are no part of what is named.
            assert named.chain == found.chain or kind == "url"
            assert canonical_literal(found.entity.type, found.entity.id) == found.entity.id


@given(KIND, st.one_of(st.booleans(), st.floats(), st.none()))
def test_no_kind_takes_booleans_floats_or_null(kind: str, value: float | bool | None) -> None:
    if kind in KINDS:
        result = canonicalize(kind, value, WORKSPACE, object_type=OBJECT_TYPE)
        assert isinstance(result, NotCanonical)
        assert result.code == f"{kind}.type"


@given(KIND, st.text(min_size=12, max_size=40))
def test_refusals_do_not_echo(kind: str, value: str) -> None:
    result = canonicalize(kind, value, Base(), object_type=OBJECT_TYPE)
    if isinstance(result, NotCanonical):
        assert value not in result.message
        assert value not in result.code


@given(
    st.sampled_from(["File", "Directory", "Endpoint", "UrlPath", "Host", "Domain", "Mailbox", "Object"]),
    st.text(),
)
def test_the_canonical_spelling_of_a_literal_is_canonical(entity_type: str, literal: str) -> None:
    canonical = canonical_literal(entity_type, literal)
    if not isinstance(canonical, NotCanonical):
        assert canonical_literal(entity_type, canonical) == canonical
