"""Public vectors against the canonical forms.

Where this package differs from what a source expects, the difference has a name, a reason and a
bound here: a deviation that no name covers fails, and so does a name that nothing uses any more.
"""

import json
import posixpath
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from authz.core.canonical import canonical_literal, canonicalize
from authz.model.resource import Base, NotCanonical, Resource
from tests.support.canonical import is_in
from tests.support.shared import vectors

pytestmark = pytest.mark.external

Vector = dict[str, Any]
Outcome = tuple[Resource, ...] | NotCanonical

URL_DEVIATIONS = {
    "url.scheme": "only http, https, ws, wss and ftp are endpoints; others are opaque",
    "url.userinfo": "credentials in a url are refused",
    "url.control_character": "what WHATWG strips is refused, because it hides a host from a reader",
    "url.host_invalid": "an empty label names no host that a resolver takes",
    "url.ambiguous_path": "servers resolve encoded dot segments differently, so the place is unknown",
    "url.invalid": "a relative reference has no canonical form without a base url",
}


def tally(name: str, judge: Callable[[Vector], str]) -> Counter[str]:
    """How often `judge` said what about the vectors of a file; `WRONG` fails at once."""
    counts: Counter[str] = Counter()
    for vector in vectors(name):
        verdict = judge(vector)
        assert not verdict.startswith("WRONG"), (verdict, vector)
        counts[verdict] += 1
    return counts


def judge_url(vector: Vector) -> str:
    expected = vector["expected"]
    result = canonicalize("url", vector["input"]["url"], Base())
    if expected.get("failure"):
        return "refused as expected" if isinstance(result, NotCanonical) else "WRONG: accepted"
    if isinstance(result, NotCanonical):
        return result.code if justified(result.code, expected) else f"WRONG: {result.code}"
    attributes = result[0].entity.attributes
    if result[0].value != expected["href"]:
        return "WRONG: href"
    if attributes["scheme"] != expected["protocol"].removesuffix(":"):
        return "WRONG: scheme"
    if str(attributes["port"]) != (expected["port"] or str(attributes["port"])):
        return "WRONG: port"
    if attributes["host_class"] != expected.get("host_class", attributes["host_class"]):
        return "WRONG: host_class"
    return "equal"


def justified(code: str, expected: dict[str, str]) -> bool:
    """Whether a refusal of what WHATWG accepts is one of the stated deviations."""
    if code == "url.scheme":
        return expected["protocol"] not in {"http:", "https:", "ws:", "wss:", "ftp:"}
    if code == "url.userinfo":
        return bool(expected["username"] or expected["password"])
    if code == "url.host_invalid":
        return "" in expected["hostname"].removesuffix(".").split(".")
    if code == "url.ambiguous_path":
        return "%" in expected["pathname"]
    return code in URL_DEVIATIONS


def test_whatwg_urls() -> None:
    counts = tally("url_whatwg", judge_url)
    assert counts["equal"] >= 93
    assert counts.keys() - {"equal", "refused as expected"} <= URL_DEVIATIONS.keys()
    assert not counts["url.invalid"]
    assert counts["url.host_invalid"] <= 2
    assert counts["url.control_character"] <= 7


def test_urls_that_hide_where_they_lead() -> None:
    counts = tally("url_ssrf", judge_url)
    assert counts["equal"] >= 150
    assert counts.keys() - {"equal", "refused as expected"} <= URL_DEVIATIONS.keys()
    assert counts["url.host_invalid"] <= 1
    assert counts["url.ambiguous_path"] <= 4
    assert counts["url.control_character"] <= 2
    # Open-redirect payloads, which the source resolves against a base url.
    assert counts["url.invalid"] <= 16


def test_a_relative_reference_is_the_only_invalid_url_that_the_source_accepts() -> None:
    for vector in vectors("url_ssrf"):
        result = canonicalize("url", vector["input"]["url"], Base())
        if isinstance(result, NotCanonical) and result.code == "url.invalid":
            absolute = vector["input"]["url"].partition(":")[0].isalpha() and "://" in vector["input"]["url"]
            assert vector["expected"].get("failure") or not absolute


def test_no_address_of_the_source_is_called_public_by_mistake() -> None:
    for vector in vectors("url_ssrf"):
        result = canonicalize("url", vector["input"]["url"], Base())
        if vector["expected"]["host_class"] == "non-global-address" and not isinstance(result, NotCanonical):
            assert result[0].entity.attributes["class"] != "public"


def test_internationalized_names() -> None:
    """All agree: what can_ada lets pass (the Bidi rule, `?` and other STD3 characters) is refused here."""

    def judge(vector: Vector) -> str:
        result = canonicalize("host", vector["input"]["domain"], Base())
        found = None if isinstance(result, NotCanonical) else result[0].value
        return "equal" if found == vector["expected"]["to_ascii"] else "WRONG"

    assert tally("idna_uts46", judge)["equal"] >= 100


def inside(result: Outcome, root: str) -> bool:
    return not isinstance(result, NotCanonical) and is_in(result[0], "Directory", root)


SCOPE_DEVIATIONS = {
    "host with port": "a host with a port is in the host, so a grant for the host covers it",
    "leading slashes": "Linux and macOS take a leading `//` for `/`; the source refuses it",
    "file uri": "a `file:` URI is another spelling of a path here, and another kind in the source",
    "public suffix": "a rule may name a whole top-level domain; the source refuses to issue one",
}


def judge_host_scope(scope: dict[str, Any], host: str) -> bool:
    """Whether a rule on a host or a domain would cover `host`."""
    result = canonicalize("host", host, Base())
    if isinstance(result, NotCanonical):
        return False
    if "suffix" in scope:
        literal = canonical_literal("Domain", scope["suffix"])
        return not isinstance(literal, NotCanonical) and is_in(result[0], "Domain", literal)
    return is_in(result[0], "Host", scope["host"])


def judge_origin_scope(scope: dict[str, Any], url: str) -> bool:
    """Whether a rule on an origin would cover `url`."""
    port = f":{scope['port']}" if "port" in scope else ""
    origin = canonical_literal("UrlPath", f"{scope['scheme']}://{scope['host']}{port}/")
    assert isinstance(origin, str)
    result = canonicalize("url", url, Base())
    return not isinstance(result, NotCanonical) and is_in(result[0], "UrlPath", origin)


def judge_path_scope(scope: dict[str, Any], path: str) -> bool:
    """Whether a rule on a directory would cover `path`."""
    prefix = scope["path_prefix"]
    literal = canonical_literal("Directory", prefix)
    return isinstance(literal, str) and inside(canonicalize("path", path, Base()), literal)


def judge_scope(vector: Vector) -> str:
    given, scope = vector["input"], vector["input"]["scope"]
    if "repo" in given:
        return "not a kind of this package"
    if "redirect_chain" in given:
        if len(given["redirect_chain"]) > scope["max_redirects"] + 1:
            return "the hop limit is the client's"
        allowed = all(judge_origin_scope(scope, hop) for hop in given["redirect_chain"])
    elif "path" in given:
        allowed = judge_path_scope(scope, given["path"])
    elif "scheme" in scope:
        allowed = judge_origin_scope(scope, given["host"])
    else:
        allowed = judge_host_scope(scope, given["host"])
    if allowed == vector["expected"]["allowed"]:
        return "equal"
    return deviation_of_scope(given, scope)


def deviation_of_scope(given: dict[str, Any], scope: dict[str, Any]) -> str:
    if given.get("host") == "example.com:443":
        return "host with port"
    if given.get("path", "").startswith("//"):
        return "leading slashes"
    if given.get("path", "").startswith("file:"):
        return "file uri"
    if scope.get("suffix") and "." not in scope["suffix"]:
        return "public suffix"
    return "WRONG"


def test_scopes() -> None:
    counts = tally("domain_path_scope", judge_scope)
    assert counts["equal"] >= 52
    for deviation in SCOPE_DEVIATIONS:
        assert counts[deviation] == 1, deviation
    assert counts["not a kind of this package"] <= 8
    assert counts["the hop limit is the client's"] <= 1


def joined(cwd: str, path: str) -> str:
    return "/" + posixpath.normpath(posixpath.join(cwd, path)).lstrip("/")


def judge_clean(vector: Vector) -> str:
    """Go keeps relative results relative, so both sides are joined to a directory."""
    path = vector["input"]["path"]
    result = canonicalize("path", path, Base(cwd="/a/b/c/d"))
    if vector["input"]["os"] != "posix":
        if isinstance(result, NotCanonical):
            return "windows, recognised" if result.code == "path.windows" else "WRONG"
        # Forward slashes only: also a POSIX path, and judged as the one it is.
        return "windows, plain posix too" if path.startswith("/") and ":" not in path else "WRONG"
    if not path:
        return "empty, refused" if isinstance(result, NotCanonical) else "WRONG"
    expected = joined("/a/b/c/d", vector["expected"]["path"])
    return "equal" if not isinstance(result, NotCanonical) and result[0].value == expected else "WRONG"


def judge_local(vector: Vector) -> str:
    """Whether a path stays inside the directory that it is relative to."""
    result = canonicalize("path", vector["input"]["path"], Base(cwd="/srv/work"))
    local = vector["expected"]["local"]
    return (
        ("equal" if vector["input"]["os"] == "posix" else "windows, recognised")
        if (inside(result, "/srv/work") == local)
        else "WRONG"
    )


def judge_localize(vector: Vector) -> str:
    """Go refuses what is not clean; here only names matter, and what they would be elsewhere."""
    path = vector["input"]["path"]
    result = canonicalize("path", path, Base(cwd="/srv/work"))
    expected = vector["expected"].get("path")
    if isinstance(result, NotCanonical):
        # One POSIX name holds a backslash: never an ordinary file here, as it is another on Windows.
        return "windows, recognised" if expected is None or "\\" in path else "WRONG"
    if expected is not None:
        return "equal" if result[0].value == joined("/srv/work", expected) else "WRONG"
    clean = posixpath.normpath(path) == path and not path.startswith(("/", ".."))
    if not clean and result[0].value == joined("/srv/work", path):
        return "not clean, resolved instead"
    # `a/b:c`: one colon inside a path is ordinary on Linux.
    return "colon, ordinary on posix" if ":" in path else "WRONG"


def test_go_filepath() -> None:
    judges = {"clean": judge_clean, "is_local": judge_local, "localize": judge_localize}
    counts = tally("path_go_filepath", lambda vector: judges[vector["input"]["op"]](vector))
    assert counts["equal"] >= 52
    assert counts["windows, recognised"] >= 49
    assert counts["windows, plain posix too"] <= 4
    assert counts["empty, refused"] <= 1
    assert counts["not clean, resolved instead"] <= 6
    assert counts["colon, ordinary on posix"] <= 1


@pytest.mark.parametrize("spell", ["/srv/work/{}", "{}", "file:///srv/work/{}"])
def test_traversal_payloads_are_inside_only_if_they_really_are(spell: str) -> None:
    for vector in vectors("path_traversal_payloads"):
        path = spell.format(vector["input"]["path"])
        result = canonicalize("path", path, Base(cwd="/srv/work"))
        if isinstance(result, NotCanonical):
            continue
        value = result[0].value
        assert inside(result, "/srv/work") == (value == "/srv/work" or value.startswith("/srv/work/"))
        assert posixpath.normpath(value) == value
        assert "\\" not in value
        # Lexical escapes, counted by the source: in a plain path as written, in a URI decoded once.
        escapes = set(json.loads(vector["note"])["escapes_if"])
        if path.startswith("/srv/work/"):
            assert not inside(result, "/srv/work") or not escapes & {"raw_posix", "raw_win"}
        elif path.startswith("file:"):
            assert not inside(result, "/srv/work") or not escapes & {"decode1_posix", "decode1_win"}
