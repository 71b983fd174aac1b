"""What Cedar's validator says, in words that name the slip and what to write instead.

The validator speaks once for every action that a rule can be about, in an order that changes, and of types
by their internal names. Here one slip is one problem, and the nearest real name stands beside it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from cedarpy import pst

from authz.core.cedar_schema import ALL_RESOURCE_TYPES, ENTITY_ATTRIBUTES, Action
from authz.core.policy.names import attribute_names
from authz.core.policy.narrow import ALWAYS_DECLARED, TypeFault, is_about
from authz.core.policy.scopes import scope_actions
from authz.errors import BundleProblem

NO_ACTION: Final = "rule.no-action"
UNKNOWN_ACTION: Final = "rule.unknown-action"
UNKNOWN_TOOL: Final = "rule.unknown-tool"
BY_MISSING_TOOLS: Final = frozenset({NO_ACTION, UNKNOWN_ACTION, UNKNOWN_TOOL, "rule.has-unknown"})
"""Codes of what a rule is told merely because a tool that it is about could not be compiled."""
_RESOURCES: Final = ALL_RESOURCE_TYPES
_LISTED: Final = 3
_NUMBER: Final = (
    'ask `… has long && ….long > 5`, or `… has decimal` and `.decimal.greaterThan(decimal("5.0"))`'
)
_INTERNAL: Final = (
    ("__cedar::internal::AnyEntity", "an entity"),
    ("__cedar::internal::OpenRecord{}", "a record"),
    ("__cedar::internal::Any", "anything"),
    ("__cedar::internal::", ""),
)


@dataclass(frozen=True, slots=True)
class _Slip:
    """One kind of fault: which name, where, and among which actions or types."""

    code: str
    name: str
    places: tuple[str, ...]
    fault: TypeFault


def type_problems(faults: Sequence[TypeFault], actions: Sequence[Action]) -> list[BundleProblem]:
    """One problem for each slip of each policy, in the order of the policies."""
    by_policy: dict[int, list[TypeFault]] = {}
    for fault in faults:
        by_policy.setdefault(id(fault.policy), []).append(fault)
    problems: list[BundleProblem] = []
    for own in by_policy.values():
        slips = _slips(own)
        if len({slip.code for slip in slips} & _ROOT_CAUSES):
            # A name that is not there leaves the rule without an action, which says nothing more.
            slips = [slip for slip in slips if slip.code != NO_ACTION]
        # Of agents and of people the same is said in the same words.
        told: dict[str, BundleProblem] = {}
        for slip in slips:
            problem = _problem(slip, actions)
            told.setdefault(problem.message, problem)
        problems += told.values()
    return problems


def _slips(faults: Iterable[TypeFault]) -> list[_Slip]:
    """The faults of one policy, those about the same name taken together."""
    places: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], TypeFault] = {}
    for fault in faults:
        code, name, place = _read(fault.message)
        places.setdefault((code, name), []).append(place)
        first.setdefault((code, name), fault)
    return [
        _Slip(code, name, tuple(sorted({place for place in found if place})), first[code, name])
        for (code, name), found in sorted(places.items())
    ]


_ATTRIBUTE: Final = "rule.unknown-attribute"
_UNSAFE: Final = "unable to guarantee safety of access to optional attribute"
_PATTERNS: Final = (
    (_ATTRIBUTE, r'attribute `(?P<name>[^`]+)` in context for Action::"(?P<place>[^"]*)" not found'),
    (_ATTRIBUTE, r"attribute `(?P<name>[^`]+)` on entity type `(?P<place>[^`]+)` not found"),
    (
        "rule.maybe-absent",
        rf"{_UNSAFE} `(?P<name>[^`]+)`(?: in context for Action::\"(?P<place>[^\"]*)\")?.*",
    ),
    (UNKNOWN_ACTION, r'unrecognized action `Action::"(?P<name>[^`]*)"`.*'),
    ("rule.unknown-type", r"unrecognized entity type `(?P<name>[^`]+)`.*"),
    (NO_ACTION, r"unable to find an applicable action given the policy scope constraints(?P<name>)"),
    ("rule.types", r"(?P<name>the types .* are not compatible)"),
    ("rule.types", r"unexpected type: (?P<name>.*)"),
)
_ROOT_CAUSES: Final = frozenset({UNKNOWN_ACTION, "rule.unknown-type"})


def _read(message: str) -> tuple[str, str, str]:
    """(code, name, place) of one message of the validator."""
    for code, pattern in _PATTERNS:
        found = re.fullmatch(pattern, message, re.DOTALL)
        if found:
            groups = found.groupdict()
            return code, groups["name"], groups.get("place") or ""
    return "rule.types", message, ""


def _problem(slip: _Slip, actions: Sequence[Action]) -> BundleProblem:
    message, hint = _WORDS[slip.code](slip, actions)
    match = slip.fault.policy.match
    return BundleProblem(
        f"`{match.rule}`: {message}", file=match.file or "", line=match.line, hint=hint, code=slip.code
    )


def _unknown_attribute(slip: _Slip, actions: Sequence[Action]) -> tuple[str, str]:
    if slip.places and slip.places[0] in ENTITY_ATTRIBUTES:
        return _unknown_of_entity(slip)
    path = ("context", *slip.name.split("."))
    name, base = ".".join(path), ".".join(path[:-1])
    about = [action for action in actions if is_about(slip.fault.policy.tree, action)]
    # One action of a kind was typed, so which tools lack the name is looked up for all of them.
    known = {
        action.id if action.verb is None else action.tool: attribute_names(path[:-1], [action])
        for action in about
    }
    lacking = sorted(tool for tool, names in known.items() if path[-1] not in names)
    if len(lacking) < len(known):
        hint = f"name only tools that have it in the scope, or ask `{base} has {path[-1]} && …` first"
        return f"`{name}` is not there for {_listed(lacking)}", hint
    tools = f" for {_listed(lacking)}" if path[1] == "arguments" else ""
    return f"there is no `{name}`{tools}", _nearest(path[-1], frozenset[str]().union(*known.values()))


def _unknown_of_entity(slip: _Slip) -> tuple[str, str]:
    types = [place for place in slip.places if place in ENTITY_ATTRIBUTES]
    owners = sorted(kind for kind in _RESOURCES if slip.name in ENTITY_ATTRIBUTES[kind])
    message = f"{_listed(types)} {'has' if len(types) == 1 else 'have'} no attribute `{slip.name}`"
    close = _close(slip.name, {name for kind in types for name in ENTITY_ATTRIBUTES[kind]})
    if owners and not close and not _RESOURCES.isdisjoint(types):
        return message, f"{' and '.join(owners)} would have it: ask `resource is {owners[0]} && …` first"
    return message, _nearest(slip.name, {name for kind in types for name in ENTITY_ATTRIBUTES[kind]})


def _maybe_absent(slip: _Slip, _: Sequence[Action]) -> tuple[str, str]:
    base, _dot, last = slip.name.rpartition(".")
    where = ".".join(part for part in ("context", base) if part) if slip.places else base or "…"
    return (
        f"the optional attribute `{where}.{last}` may be absent, and then the rule would fail",
        f"ask `{where} has {last} && …` first",
    )


def _unknown_action(slip: _Slip, actions: Sequence[Action]) -> tuple[str, str]:
    known = {name for action in actions for name in (action.id, *action.groups)} | ALWAYS_DECLARED
    return f'there is no action "{slip.name}"', _nearest(
        slip.name, known, "write a verb, a level (`A0` to `A3`) or `server/tool`"
    )


def _unknown_type(slip: _Slip, _: Sequence[Action]) -> tuple[str, str]:
    return f"there is no entity type `{slip.name}`", _nearest(slip.name, ENTITY_ATTRIBUTES)


def _no_action(slip: _Slip, actions: Sequence[Action]) -> tuple[str, str]:
    tree = slip.fault.policy.tree
    kind = scope_type(tree.principal)
    named = scope_actions(tree)
    acting = {action.principal for action in actions if is_about(tree, action)} or {"Agent", "User"}
    if kind is not None and kind not in (*acting, "Group"):
        who = "an Agent" if "Agent" in acting else "a User"
        return (
            f"it can never match: the principal is always {who}, never a{'n' * (kind == 'Agent')} {kind}",
            "write `principal.on_behalf_of` in a condition for the user behind the agent"
            if kind == "User"
            else f"write `principal`, `principal == {who.rpartition(' ')[2]}::…` or `principal in Group::…`",
        )
    if named == ():
        return (
            "an empty set of actions holds none, so it can never match",
            "name an action, or write `action`",
        )
    if named is not None and isinstance(tree.action, pst.ActionEq):
        groups = {name for action in actions for name in action.groups} | ALWAYS_DECLARED
        if named[0] in groups:
            return (
                f'it can never match: no call is the action "{named[0]}" itself, it is a group of actions',
                f'write `action in Action::"{named[0]}"`',
            )
    about = [action for action in actions if is_about(tree, action)]
    types = sorted({name for action in about for name in action.resource_types})
    wanted = scope_type(tree.resource) or "resource"
    if not about:
        return (
            f"it can never match: no tool has the action {_listed(list(named or ()))}",
            "name an action that some tool has",
        )
    return (
        f"it can never match: no action of its scope is about a {wanted}",
        f"these actions are about {_listed(types, len(types))}",
    )


def scope_type(scope: object) -> str | None:
    """The type that the principal's or resource's part of a scope says; `None` where it says none."""
    if isinstance(scope, pst.ScopeIs | pst.ScopeIsIn):
        return str(scope.entity_type)
    if isinstance(scope, pst.ScopeEq | pst.ScopeIn) and isinstance(scope.entity, pst.EntityUid):
        return str(scope.entity.type)
    return None


def _types(slip: _Slip, _: Sequence[Action]) -> tuple[str, str]:
    text = slip.name
    for internal, plain in _INTERNAL:
        text = text.replace(internal, plain)
    hint = "compare values of one type"
    if "decimal?: decimal,long?: Long" in text:
        return "a number is a record, of its text and what fits of long and decimal", _NUMBER
    if found := re.search(r"access to tag `(\"[^`]*\")`", text):
        return (
            f"the tag {found[1]} may be absent, and then the rule would fail",
            f"ask `hasTag({found[1]}) && …` first",
        )
    if "expected Set" in text:
        hint = "`contains` asks a set; compare a text with `==` or `like`"
        if "items: Set" in text:
            hint = "an argument that is a list is a record: ask its `items` or `count`"
    elif "Agent and User are not compatible" in text:
        hint = "people approve: name the actions that are meant, or ask `principal is Agent && …` first"
    elif "saw Bool" not in text and "expected Bool" in text:
        hint = "a condition is true or false: compare the value with something"
    return text, hint


_WORDS: Final[dict[str, Callable[[_Slip, Sequence[Action]], tuple[str, str]]]] = {
    _ATTRIBUTE: _unknown_attribute,
    "rule.maybe-absent": _maybe_absent,
    UNKNOWN_ACTION: _unknown_action,
    "rule.unknown-type": _unknown_type,
    NO_ACTION: _no_action,
    "rule.types": _types,
}


def _listed(names: Sequence[str], most: int = _LISTED) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _close(name: str, known: Iterable[str]) -> str:
    return next(iter(get_close_matches(name, sorted(known), n=1)), "")


def _nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    names = sorted(known)
    close = _close(name, names)
    if close:
        return f"did you mean `{close}`?"
    return otherwise or (f"there are {', '.join(names)}" if names else "there are none")
