"""Pointers of a descriptor, held against its schema: what is misspelt there is never found in a call."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from authz.core.json_schema import alternatives, resolve_reference, without_null
from authz.core.pointer import WILDCARD, Tokens, format_pointer


class Undeclared(ValueError):
    """A pointer to what a schema does not declare; the message says where it leaves the schema."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
        """What is declared there instead."""


def check_declared(root: Mapping[str, Any], pattern: Tokens) -> None:
    """Walk a pointer pattern through the schema of arguments. Raises `Undeclared` where it leaves it.

    What leads on must be typed: where anything goes, or a text as well as an object, another value
    would pass the schema, and what the pattern was to name would silently not be there. Of several
    objects (of a tagged union) one has to declare it.
    """
    places: list[Any] = [root]
    for depth, token in enumerate(pattern):
        declared = [schema for place in places for schema in _typed(root, place)]
        if depth == 0 and token == WILDCARD:
            # Arguments are named one by one: no role is looked up for all of them.
            declared = []
        # What is declared once is one place, however many paths lead to it: there can be millions.
        found = [member for schema in declared for member in _places_at(schema, token)]
        places = list({id(member): member for member in found}.values())
        if not places:
            names = {name: None for schema in declared for name in _names_in(schema)}
            raise _undeclared(pattern, depth, list(names))


def _typed(root: Mapping[str, Any], node: Any) -> list[Mapping[str, Any]]:
    """The schemas of an object, an array, or a union of only objects or only arrays, and null."""
    schema = resolve_reference(root, node) if isinstance(node, Mapping) else None
    if schema is None:
        return []
    only = without_null(root, schema)[0]
    options: list[Mapping[str, Any] | None] = [only] if only is not None else []
    if only is None and "type" not in schema:
        others, _ = alternatives(root, schema) or ([], False)
        options = [(resolve_reference(root, one) if isinstance(one, Mapping) else None) for one in others]
    kinds = [option.get("type") if option is not None else None for option in options]
    if any(kind not in ("object", "array") or kind != kinds[0] for kind in kinds):
        return []
    return [option for option in options if option is not None]


_INDEX: Final = re.compile(r"0|[1-9][0-9]*")


def _places_at(schema: Mapping[str, Any], token: str) -> list[Any]:
    """The schemas of what `token` names in a value of this schema: what `pointer.find` would go into."""
    named, others = _parts(schema)
    if token == WILDCARD:
        return [*named.values(), *others]
    if token in named:
        return [named[token]]
    return others if schema.get("type") == "array" and _INDEX.fullmatch(token) else []


def _names_in(schema: Mapping[str, Any]) -> list[str]:
    named, others = _parts(schema)
    return [*named, WILDCARD] if others else [*named]


def _parts(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Any]]:
    """(members or items with a schema of their own, the schemas that the others share)."""
    if schema.get("type") == "array":
        named = {str(index): item for index, item in enumerate(schema.get("prefixItems", ()))}
        others = [schema["items"]] if "items" in schema else []
    else:
        named = schema.get("properties", {})
        others = [*schema.get("patternProperties", {}).values()]
        # `true` lets anything through, which declares nothing.
        others += (
            [schema["additionalProperties"]] if schema.get("additionalProperties", True) is not True else []
        )
    declared = {name: member for name, member in named.items() if member is not False}
    return declared, [member for member in others if member is not False]


def _undeclared(pattern: Tokens, depth: int, names: list[str]) -> Undeclared:
    parent = pattern[:depth]
    message = f"`{format_pointer(pattern)}` is no declared argument"
    if depth and names:
        message += f": `{format_pointer(parent)}` has no `{pattern[depth]}`"
    elif depth:
        message += f": nothing is declared in `{format_pointer(parent)}`, or it is not always of one type"
    close = get_close_matches(pattern[depth], names, n=1, cutoff=0)
    if close:
        return Undeclared(message, f"the nearest that is declared is `{format_pointer((*parent, close[0]))}`")
    if not depth:
        return Undeclared(message, "name one argument of `properties`")
    return Undeclared(message, "give it `type: object` and `properties`, or `type: array` and `items`")
