"""How the parts of a case are laid over one another: the file, the case, the row."""

from collections.abc import Mapping
from typing import Any

from authz.bundle.case_format import moment_ms
from authz.core.cases.case import Given, GivenCapability


def merged(base: Mapping[str, Any], over: Mapping[str, Any], *, null_removes: bool = True) -> dict[str, Any]:
    """`over` laid over `base`, member by member. Inside `arguments` null is a value like any other."""
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        if value is None and null_removes:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inside = below if isinstance(below, Mapping) else {}
            result[name] = merged(inside, value, null_removes=null_removes and name != "arguments")
        else:
            result[name] = value
    return result


def over(expect: Mapping[str, Any], row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row's expectation over the case's; a refusal and a decision share nothing."""
    if row and ("refused" in row) != ("refused" in expect):
        return row
    return {**expect, **row}


def given_of(section: Mapping[str, Any], base: Given) -> Given:
    """What is given, over what is given above it. The format has been checked."""
    groups = dict(base.groups)
    for kind, name in (("Agent", "agents"), ("User", "users")):
        groups |= {
            (kind, member): tuple(named) for member, named in section.get("groups", {}).get(name, {}).items()
        }
    return Given(
        profile=section.get("profile", base.profile),
        exposed=frozenset(section.get("exposed", base.exposed)),
        delegated=section.get("delegated", base.delegated),
        fresh_ids=section.get("fresh_ids", base.fresh_ids),
        now_ms=moment_ms(section["now"]) if "now" in section else base.now_ms,
        groups=groups,
        approved=frozenset(section.get("approved", base.approved)),
        reached=frozenset(section.get("reached", base.reached)),
        capability=_capability(section["capability"]) if "capability" in section else base.capability,
    )


def _capability(section: Mapping[str, Any]) -> GivenCapability:
    """As a whole: one capability is not laid over another."""
    stated: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in section.items()
    }
    return GivenCapability(**stated)
