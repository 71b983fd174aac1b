"""How much work a schema can make for one value, bounded at load.

A schema whose parts refer to one another is small as text and may be large to follow: eight alternatives on
each of six levels are 262,144 ways to look at one value, and whoever calls the tool chooses the value. So the
schema is counted as if it were written out, without writing it out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from authz.core.pointer import parse_pointer

MAX_PARTS: Final = 20_000
"""Of a schema that is written out. Those of real tools have some hundreds."""

_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")
_ONES: Final = (
    *("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)


def written_out_parts(root: Mapping[str, Any]) -> int:
    """How many parts the schema has once every reference is replaced by what it refers to.

    A part that contains itself is counted once where it comes round again: how deep it is followed, the value
    says, whose size is bounded.
    """
    anchors = dict(_anchors(root))
    counted: dict[int, int] = {}
    open_: set[int] = set()

    def count(node: Any) -> int:
        if not isinstance(node, Mapping):
            return 1
        if id(node) in open_:
            return 1
        if id(node) not in counted:
            open_.add(id(node))
            total = 1
            for part in _parts(root, anchors, node):
                total += count(part)
                if total > MAX_PARTS:
                    break
            open_.discard(id(node))
            counted[id(node)] = total
        return counted[id(node)]

    return count(root)


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


def _parts(root: Mapping[str, Any], anchors: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[Any]:
    for name in _LISTS:
        if isinstance(found := node.get(name), list):
            yield from found
    for name in _MAPS:
        if isinstance(found := node.get(name), Mapping):
            yield from found.values()
    for name in _ONES:
        if name in node:
            yield node[name]
    for name in ("$ref", "$dynamicRef"):
        if isinstance(reference := node.get(name), str):
            yield _referred(root, anchors, reference)


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
