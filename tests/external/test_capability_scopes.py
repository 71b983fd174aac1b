"""Public containment choices against the locations of capabilities, as a service would use them.

What is asked for is canonicalized by the service; the scope is a canonical URI in a signed entry.
"""

from collections import Counter
from typing import Any, Final
from urllib.parse import quote

import pytest
from authz_client.capabilities.objects import parse_object

from authz.core.canonical import canonicalize
from authz.model.resource import Base, NotCanonical
from tests.support.shared import vectors

pytestmark = pytest.mark.external

Vector = dict[str, Any]

DEVIATIONS: Final = {
    # id of the vector → why the answer is another one here; each must still be needed
    "scope-8": "a host with a port lies in the host, so a location for the host covers it",
    "scope-70": "Linux and macOS take a leading `//` for `/`; the source refuses it",
    "scope-83": "a `file:` URI is another spelling of a path here, and another kind in the source",
    "scope-30": "a location may be a whole top-level domain; the source refuses to issue one",
    "scope-61": "how many hops are followed is the client's; each hop is a decision of its own",
    "scope-88": "`acme/*` is no canonical URI: `repo:github.com/acme` is the location that is meant",
}


def location(scope: dict[str, Any]) -> str:
    """The URI that a capability would carry for a scope of the source."""
    if "path_prefix" in scope:
        return f"file://{quote(scope['path_prefix'].rstrip('/'))}"
    if "repo" in scope:
        return f"repo:{scope['repo']}"
    if "suffix" in scope:
        return f"domain:{scope['suffix']}"
    if "scheme" in scope:
        port = f":{scope['port']}" if "port" in scope else ""
        return f"{scope['scheme']}://{scope['host']}{port}/"
    return f"host:{scope['host']}"


def asked(given: Vector) -> list[tuple[str, str]]:
    """(kind, value) of each resource that is asked for."""
    if "redirect_chain" in given:
        return [("url", hop) for hop in given["redirect_chain"]]
    if "path" in given:
        return [("path", given["path"])]
    if "repo" in given:
        remote = given["repo"] if "://" in given["repo"] else f"https://github.com/{given['repo']}"
        return [("repo", remote)]
    return [("url" if "scheme" in given["scope"] else "host", given["host"])]


def allowed(given: Vector) -> bool:
    """Whether a capability for the scope gives every resource that is asked for."""
    place = parse_object(location(given["scope"]))
    return place is not None and all(lies_in(kind, value, place) for kind, value in asked(given))


def lies_in(kind: str, value: str, place: Any) -> bool:
    found = canonicalize(kind, value, Base())
    if isinstance(found, NotCanonical):
        return False
    items = [parse_object(resource.uri) for resource in found]
    return bool(items) and all(item is not None and item.lies_in(place) for item in items)


def test_scopes() -> None:
    counts: Counter[str] = Counter()
    needed = set()
    for vector in vectors("domain_path_scope"):
        answer = allowed(vector["input"])
        counts["allowed" if answer else "refused"] += 1
        if answer != vector["expected"]["allowed"]:
            assert vector["id"] in DEVIATIONS, vector
            needed.add(vector["id"])
    assert needed == set(DEVIATIONS)
    assert counts["allowed"] >= 20
    assert counts["refused"] >= 30


def test_no_deviation_allows_what_the_source_refuses_but_by_a_stated_choice() -> None:
    wider = {
        vector["id"]
        for vector in vectors("domain_path_scope")
        if allowed(vector["input"]) and not vector["expected"]["allowed"]
    }
    assert wider == {"scope-8", "scope-30", "scope-61", "scope-70", "scope-83"}
