"""P: conditions on arguments, keyed by JSON Pointer (RFC 6901) or by the name of a top-level argument.

All members of all arguments must hold, and an argument that is constrained must be there.

| member | the value | holds when | tightened by |
|---|---|---|---|
| `max`, `min` | number | the argument is a number at most / at least this | a lower `max`, a higher `min` |
| `equals` | any JSON | the argument is this value | the same |
| `one_of` | list of JSON, not empty | the argument is one of these values | a part of the list |
| `within` | canonical URI, or several | each resource that the argument names lies in one | URIs in these |
| `max_length` | integer ≥ 0 | the argument is a string of at most so many code points | a lower one |
| `max_items` | integer ≥ 0 | the argument is an array of at most so many items | a lower one |

Values are compared as JSON: `1` is `1.0`, `true` is not `1`, objects by members, strings by code points.
There is no negation and no disjunction besides the lists, which is what makes implication decidable: a child
states every member of its parent, each the same or tighter, and may state more. Sound, and complete but for
members that follow from others (`equals: 5` does not stand for `max: 9`: repeat the `max`).
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.digests import canonical_json
from authz_client.capabilities.objects import Object, parse_object

MAX_VALUES: Final = 64
"""Elements of `one_of` and `within`."""
MAX_KEY_CHARACTERS: Final = 256
_MEMBERS: Final = frozenset({"max", "min", "equals", "one_of", "within", "max_length", "max_items"})
_POINTER: Final = re.compile(r"(?:/(?:[^/~]|~[01])*)+")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_ABSENT: Final = object()


class BadConstraint(ValueError):
    """A constraint that is not understood, and so refuses the whole capability. Says which rule it breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The members for one argument, in parsed form."""

    pointer: str
    """JSON Pointer; the key `path` is `/path`."""
    members: Mapping[str, Any]
    within: tuple[Object, ...] = ()
    within_keys: frozenset[str] = frozenset()
    one_of: frozenset[bytes] = frozenset()
    """RFC 8785 forms: equal where the values are."""


def as_pointer(key: str) -> str:
    """The JSON Pointer that a key of `constraints` means. Raises `BadConstraint`."""
    if not 0 < len(key) <= MAX_KEY_CHARACTERS:
        raise BadConstraint("a constraint is keyed by the name of an argument or a JSON Pointer")
    if not key.startswith("/"):
        return "/" + key.replace("~", "~0").replace("/", "~1")
    if _POINTER.fullmatch(key) is None:
        raise BadConstraint("a key of `constraints` is no JSON Pointer")
    return key


def parse_condition(key: str, members: Any) -> Condition:
    """The condition on one argument. Raises `BadConstraint`; an unknown member is not skipped."""
    pointer = as_pointer(key)
    if not isinstance(members, dict) or not members:
        raise BadConstraint(f"the constraint on `{pointer}` is empty, which would allow everything")
    if members.keys() - _MEMBERS:
        raise BadConstraint(f"the constraint on `{pointer}` holds an unknown member")
    within: tuple[Object, ...] = ()
    one_of: frozenset[bytes] = frozenset()
    for name, value in members.items():
        if name in ("max", "min") and not _is_number(value):
            raise BadConstraint(f"`{name}` of `{pointer}` is a number")
        if name in ("max_length", "max_items") and (type(value) is not int or value < 0):
            raise BadConstraint(f"`{name}` of `{pointer}` is an integer of at least 0")
        if name == "one_of" and not (isinstance(value, list) and 0 < len(value) <= MAX_VALUES):
            raise BadConstraint(f"`one_of` of `{pointer}` is a list of 1 to {MAX_VALUES} values")
        if name == "one_of":
            one_of = _forms(pointer, value)
        if name == "within":
            within = _locations(pointer, value)
    if "min" in members and "max" in members and members["min"] > members["max"]:
        raise BadConstraint(f"`min` of `{pointer}` is over its `max`")
    return Condition(
        pointer=pointer,
        members=members,
        within=within,
        within_keys=frozenset(item.key for item in within),
        one_of=one_of,
    )


def _forms(pointer: str, values: list[Any]) -> frozenset[bytes]:
    try:
        return frozenset(map(canonical_json, values))
    except ValueError as error:
        raise BadConstraint(f"`one_of` of `{pointer}`: {error}") from None


def _locations(pointer: str, value: Any) -> tuple[Object, ...]:
    uris = [value] if isinstance(value, str) else value
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_VALUES:
        raise BadConstraint(f"`within` of `{pointer}` is a canonical URI or a list of 1 to {MAX_VALUES}")
    found = tuple(parse_object(uri) for uri in uris if isinstance(uri, str))
    parsed = tuple(item for item in found if item is not None)
    if len(parsed) != len(uris):
        raise BadConstraint(f"`within` of `{pointer}` holds a URI that is not canonical")
    return parsed


def widened_member(child: Condition | None, parent: Condition) -> str | None:
    """The first member of `parent` that `child` leaves out or loosens; `None` when it implies them all."""
    if child is None:
        return next(iter(parent.members))
    for name, value in parent.members.items():
        if name not in child.members:
            return name
        if name == "within":
            tightens = not any(parent.within_keys.isdisjoint(item.above) for item in child.within)
        elif name == "one_of":
            tightens = child.one_of <= parent.one_of
        else:
            tightens = _TIGHTENS[name](child.members[name], value)
        if not tightens:
            return name
    return None


def unmet_member(
    condition: Condition, arguments: Mapping[str, Any], named: Callable[[str, Any], Iterable[str] | None]
) -> str | None:
    """The first member that `arguments` do not meet; `None` when all hold.

    `named` gives the canonical URIs that the argument at a pointer names, or `None` when it names none.
    """
    value = value_at(arguments, condition.pointer)
    if value is _ABSENT:
        return "absent"
    for name, bound in condition.members.items():
        if name == "within":
            uris = named(condition.pointer, value)
            met = uris is not None and _all_within(uris, condition.within_keys)
        else:
            met = _MEETS[name](value, bound)
        if not met:
            return name
    return None


def _all_within(uris: Iterable[str], places: frozenset[str]) -> bool:
    found = [parse_object(uri) for uri in uris]
    return bool(found) and not any(item is None or places.isdisjoint(item.above) for item in found)


def value_at(document: Any, pointer: str) -> Any:
    """What `pointer` names, or a value that is no JSON where there is nothing."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, Mapping) and token in document:
            document = document[token]
        elif isinstance(document, list) and _INDEX.fullmatch(token) and int(token) < len(document):
            document = document[int(token)]
        else:
            return _ABSENT
    return document


def same_json(one: Any, other: Any) -> bool:
    """Equality of JSON values. Python's own has `True == 1`."""
    if _is_number(one):
        return _is_number(other) and bool(one == other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same_json(value, other[name]) for name, value in one.items()
        )
    return bool(one == other)


def _is_one_of(value: Any, values: list[Any]) -> bool:
    return any(same_json(value, item) for item in values)


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


_TIGHTENS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "max": lambda child, parent: bool(child <= parent),
    "min": lambda child, parent: bool(child >= parent),
    "max_length": lambda child, parent: bool(child <= parent),
    "max_items": lambda child, parent: bool(child <= parent),
    "equals": same_json,
}

_MEETS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "max": lambda value, bound: _is_number(value) and bool(value <= bound),
    "min": lambda value, bound: _is_number(value) and bool(value >= bound),
    "max_length": lambda value, bound: isinstance(value, str) and len(value) <= bound,
    "max_items": lambda value, bound: isinstance(value, list) and len(value) <= bound,
    "equals": same_json,
    "one_of": _is_one_of,
}
