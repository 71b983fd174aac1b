"""The entries of a capability (RFC 9396 `authorization_details`): what they allow, and when one is narrower.

An entry is (R, O, P): rights, locations, constraints, and a budget. It **allows** an access (verb, resource)
of a call when a right covers the tool and the verb, a location contains the resource, and the call's
arguments meet every constraint. A call is allowed when each of its accesses is allowed by some entry, and it
has at least one access.

An entry is **narrower** than another (child ⪯ parent) when each right lies in one of the parent's, each
location in one of the parent's, each condition of the parent is repeated or tightened, and so is its budget.
So whatever the child allows, the parent allows: rights, locations and conditions are each monotone. A child
under several parents' entries fits under one of them whole; parts of two are not put together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.budgets import BadBudget, Budget, parse_budget, widened_budget
from authz_client.capabilities.constraints import BadConstraint, Condition, parse_condition, widened_member
from authz_client.capabilities.objects import Object, parse_object
from authz_client.capabilities.reasons import WIDENED, Component, Reason, Refusal, nearness
from authz_client.capabilities.rights import Right, RightKey, parse_right

DETAIL_TYPE: Final = "agent_tool_call"
MAX_ENTRIES: Final = 16
MAX_ACTIONS: Final = 64
MAX_LOCATIONS: Final = 64
MAX_CONSTRAINTS: Final = 32
_REQUIRED: Final = frozenset({"type", "actions", "locations"})
_MEMBERS: Final = _REQUIRED | {"constraints", "budget"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One element of `authorization_details`, in parsed form."""

    rights: tuple[Right, ...]
    locations: tuple[Object, ...]
    conditions: Mapping[str, Condition]
    """By JSON Pointer."""
    budget: Budget | None
    right_keys: frozenset[RightKey]
    location_keys: frozenset[str]
    as_json: Mapping[str, Any]
    """As it stood in the token."""


def parse_entries(details: Any) -> tuple[Entry, ...] | Refusal:
    """The entries of a link. All of them are understood, or the link is refused."""
    if not isinstance(details, list) or not 0 < len(details) <= MAX_ENTRIES:
        return _malformed(f"`authorization_details` is a list of 1 to {MAX_ENTRIES} entries")
    entries = []
    for detail in details:
        entry = _entry(detail)
        if isinstance(entry, Refusal):
            return entry
        entries.append(entry)
    return tuple(entries)


def _entry(detail: Any) -> Entry | Refusal:
    if not isinstance(detail, dict) or not detail.keys() >= _REQUIRED or detail.keys() - _MEMBERS:
        return _malformed("an entry has `type`, `actions`, `locations`, optional `constraints` and `budget`")
    if detail["type"] != DETAIL_TYPE:
        return _malformed(f"the type of an entry is `{DETAIL_TYPE}`")
    if not _is_list_of_strings(detail["actions"], MAX_ACTIONS):
        return Refusal(
            reason=Reason.ACTION_INVALID, detail=f"`actions` is a list of 1 to {MAX_ACTIONS} strings"
        )
    rights = [right for text in detail["actions"] if (right := parse_right(text))]
    if len(rights) != len(detail["actions"]):
        return Refusal(
            reason=Reason.ACTION_INVALID, detail="an action is a verb, a tool, or `tool:verb`; no wildcards"
        )
    if not _is_list_of_strings(detail["locations"], MAX_LOCATIONS):
        return Refusal(
            reason=Reason.LOCATION_INVALID, detail=f"`locations` is a list of 1 to {MAX_LOCATIONS} strings"
        )
    locations = [item for uri in detail["locations"] if (item := parse_object(uri))]
    if len(locations) != len(detail["locations"]):
        return Refusal(reason=Reason.LOCATION_INVALID, detail="a location is not a canonical URI")
    try:
        conditions = _conditions(detail.get("constraints", {}))
        budget = parse_budget(detail["budget"]) if "budget" in detail else None
    except BadConstraint as error:
        return Refusal(reason=Reason.CONSTRAINT_INVALID, detail=str(error))
    except BadBudget as error:
        return Refusal(reason=Reason.BUDGET_INVALID, detail=str(error))
    return Entry(
        rights=tuple(rights),
        locations=tuple(locations),
        conditions=conditions,
        budget=budget,
        right_keys=frozenset(right.key for right in rights),
        location_keys=frozenset(item.key for item in locations),
        as_json=detail,
    )


def _malformed(detail: str) -> Refusal:
    return Refusal(reason=Reason.DETAILS_INVALID, detail=detail)


def _is_list_of_strings(value: Any, most: int) -> bool:
    return isinstance(value, list) and 0 < len(value) <= most and all(isinstance(item, str) for item in value)


def _conditions(constraints: Any) -> dict[str, Condition]:
    if not isinstance(constraints, dict) or len(constraints) > MAX_CONSTRAINTS:
        raise BadConstraint(f"`constraints` is an object of at most {MAX_CONSTRAINTS} members")
    found: dict[str, Condition] = {}
    for key, members in constraints.items():
        condition = parse_condition(key, members)
        if condition.pointer in found:
            raise BadConstraint(f"`{condition.pointer}` is constrained twice, by name and by pointer")
        found[condition.pointer] = condition
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """What an entry has that another has not."""

    component: Component
    detail: str


def widening(child: Entry, parent: Entry) -> Widening | None:
    """What of `child` is not in `parent`, the first of R, O, P; `None` when child ⪯ parent."""
    # By look-up and not by pairs: a holder chooses how many there are.
    for right in child.rights:
        if parent.right_keys.isdisjoint(right.above):
            return Widening(
                component=Component.RIGHTS, detail=f"`{right.text}` is not in the parent's rights"
            )
    for item in child.locations:
        if parent.location_keys.isdisjoint(item.above):
            return Widening(
                component=Component.OBJECTS, detail=f"`{item.uri}` lies in none of the parent's locations"
            )
    for pointer, condition in parent.conditions.items():
        if member := widened_member(child.conditions.get(pointer), condition):
            return Widening(
                component=Component.PREDICATE,
                detail=f"`{member}` of `{pointer}` is left out or loosened",
            )
    if member := widened_budget(child.budget, parent.budget):
        return Widening(
            component=Component.PREDICATE, detail=f"`{member}` of the budget is left out or raised"
        )
    return None


def implies(child: Entry, parent: Entry) -> bool:
    """Whether child ⪯ parent: decidable, reflexive, transitive, and sound for `allows`."""
    return widening(child, parent) is None


def fit(children: Sequence[Entry], parents: Sequence[Entry]) -> tuple[int, ...] | Refusal:
    """For each child entry, the first parent entry that it fits under; or what widened.

    Where it fits under none, the refusal is about the parent entry that it comes nearest to: the one that
    gives it its rights, then its objects.
    """
    chosen = []
    for index, child in enumerate(children):
        nearest: Widening | None = None
        for position, parent in enumerate(parents):
            found = widening(child, parent)
            if found is None:
                chosen.append(position)
                break
            if nearest is None or nearness(found.component) > nearness(nearest.component):
                nearest = found
        else:
            if nearest is None:
                return Refusal(reason=Reason.DETAILS_INVALID, detail="there is no entry to fit under")
            return Refusal(
                reason=WIDENED[nearest.component],
                detail=f"entry {index}: {nearest.detail}",
                component=nearest.component,
            )
    return tuple(chosen)
