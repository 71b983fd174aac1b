"""`expect` of a case as a value, with what cannot be meant refused."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from authz.core.canonical import canonical_uri
from authz.core.cases.case import AccessExpectation, Expectation
from authz.model.resource import NotCanonical

Fault = tuple[tuple[str | int, ...], str, str]
"""Where in `expect`, what is wrong, and what to write."""

_PEOPLE: Final = ("may_approve", "may_not_approve")
_SETS: Final = frozenset({"rules", "overruled", "hidden_by"})
_OWN_SCHEMES: Final = ("opaque:", "sql:", "repo:", "program:")
"""Canonical URIs of kinds that have no literal form to check against."""


def expectation(expect: Mapping[str, Any]) -> tuple[Expectation, list[Fault]]:
    """The expectation and its faults; it is of use only without any. The format has been checked."""
    faults = list(_faults(expect))
    values: dict[str, Any] = {}
    for name, value in expect.items():
        if name in _SETS:
            values[name] = frozenset(value or ())
        elif name in _PEOPLE:
            values[name] = _people(value or ())
        elif name == "uris":
            values[name] = tuple(value or ())
        elif name == "accesses":
            values[name] = tuple(_access(access) for access in value or ())
        else:
            values[name] = value
    return Expectation(stated=frozenset(expect), **values), faults


def _people(value: Any) -> Mapping[str, frozenset[str] | None]:
    if isinstance(value, Mapping):
        return {person: frozenset(rules) for person, rules in value.items()}
    return dict.fromkeys(value)


def _access(access: Mapping[str, Any]) -> AccessExpectation:
    rules = access.get("rules")
    return AccessExpectation(**{**access, "rules": frozenset(rules) if rules is not None else None})


def _faults(expect: Mapping[str, Any]) -> Iterator[Fault]:
    if "refused" in expect:
        if len(expect) > 1:
            yield (), "`refused` stands alone: no decision is made, so nothing else can be expected", ""
        return
    if "effect" not in expect:
        yield (), "`effect` is missing", "allow, require_approval, deny, or `refused` in its place"
    if "rules" not in expect:
        yield (), "`rules` is missing", "name every rule that decides, or write `rules: []` and a `code`"
    elif not expect["rules"] and "code" not in expect:
        yield (), "`code` is missing: without rules nothing else says why", "such as `code: policy.no_match`"
    stated = [name for name in _PEOPLE if expect.get(name)]
    if stated and expect.get("effect") != "require_approval":
        yield (stated[0],), "nobody is asked to approve that", "expect `effect: require_approval` with it"
    for person in sorted(set(expect.get("may_approve") or ()) & set(expect.get("may_not_approve") or ())):
        yield ("may_not_approve",), f"`{person}` may approve and may not", "name everybody once"
    for path, uri in _uris(expect):
        yield from _canonical(path, uri)


def _uris(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every uri of a resource that the decision or its record is expected to have."""
    for index, uri in enumerate(value.get("uris") or ()):
        yield ("uris", index), uri
    record = value.get("record") or {}
    for at, accesses in (
        (("accesses",), value.get("accesses")),
        (("record", "accesses"), record.get("accesses")),
    ):
        for index, access in enumerate(accesses if isinstance(accesses, list) else ()):
            if isinstance(access, Mapping) and isinstance(access.get("uri"), str):
                yield (*at, index, "uri"), access["uri"]


def _canonical(path: tuple[str | int, ...], uri: str) -> Iterator[Fault]:
    """Like literals of rules, those of cases are not rewritten: one that is not canonical never matches."""
    if uri.startswith((*_OWN_SCHEMES, "redacted:")):
        return
    found = canonical_uri(uri)
    if isinstance(found, NotCanonical):
        yield path, f"`{uri}` is no canonical uri: {found.message}", "write it as decisions do, `file:///w/a`"
    elif found.uri != uri:
        yield path, f"`{uri}` is not canonical and can never be met", f"write {found.uri}"
