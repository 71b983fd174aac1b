"""How much work a schema can make for one value, bounded at load.

A schema whose parts refer to one another is small as text and may be large to follow: eight alternatives on
each of six levels are 262,144 ways to look at one value, and whoever calls the tool chooses the value. So the
ways are counted, without going them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from authz.core.pointer import parse_pointer

MAX_WAYS: Final = 20_000
"""In which a schema may look at one value. Those of real tools have some tens."""

_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "dependentSchemas", "not", "if", "then", "else")
_ONE_OF_MANY: Final = ("properties", "prefixItems")
"""Of these a member meets one."""
_EVERY_MEMBER: Final = (
    *("patternProperties", "items", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_REFERENCES: Final = ("$ref", "$dynamicRef")


def ways_to_look(root: Mapping[str, Any]) -> int:
    """In how many ways the schema looks at the value that it looks at most.

    A part that contains itself is counted once where it comes round again: how deep it is followed, the value
    says, whose size is bounded.
    """
    anchors = dict(_anchors(root))
    counted: dict[int, int] = {}
    open_: set[int] = set()

    def count(node: Any) -> int:
        if not isinstance(node, Mapping) or id(node) in open_:
            return 1
        if id(node) not in counted:
            open_.add(id(node))
            # Every number only grows with depth, so beyond the bound the rest need not be known.
            here = 1 + _capped(map(count, _in_place(root, anchors, node)))
            members = _capped(map(count, _parts(node, _EVERY_MEMBER)))
            one = max(map(count, _parts(node, _ONE_OF_MANY)), default=0)
            open_.discard(id(node))
            counted[id(node)] = min(here + members + one, MAX_WAYS + 1)
        return counted[id(node)]

    return count(root)


def _capped(numbers: Iterable[int]) -> int:
    total = 0
    for number in numbers:
        total += number
        if total > MAX_WAYS:
            break
    return total


def _in_place(root: Mapping[str, Any], anchors: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[Any]:
    yield from _parts(node, _IN_PLACE)
    for name in _REFERENCES:
        if isinstance(reference := node.get(name), str):
            yield _referred(root, anchors, reference)


def _parts(node: Mapping[str, Any], names: Iterable[str]) -> Iterator[Any]:
    for name in names:
        found = node.get(name)
        if isinstance(found, list):
            yield from found
        elif name in ("properties", "patternProperties", "dependentSchemas") and isinstance(found, Mapping):
            yield from found.values()
        elif found is not None:
            yield found


def _anchors(root: Any) -> Iterator[tuple[str, Any]]:
    """(name, part) of every anchor, wherever it stands."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(anchor := node.get(name), str):
                    yield anchor, node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _referred(root: Mapping[str, Any], anchors: Mapping[str, Any], reference: str) -> Any:
    """What a reference leads to, as the validator follows it; other documents are refused elsewhere."""
    place = unquote(reference.removeprefix("#"))
    if place in anchors:
        return anchors[place]
    found: Any = root
    try:
        for token in parse_pointer(place):
            found = found[int(token)] if isinstance(found, list) else found[token]
    except (KeyError, IndexError, ValueError, TypeError):
        return True
    return found
