"""Reading JSON Schemas: what a reference, a union or a keyword stands for."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from authz.core.pointer import WILDCARD, Tokens

UNREAD_REFERENCES: Final = ("$dynamicRef", "$recursiveRef")
REFERENCES: Final = ("$ref", *UNREAD_REFERENCES)


class SchemaUnusable(ValueError):
    """A tool's schema that cannot be used to validate arguments; the message says why."""


LOCAL_POINTER: Final = re.compile(r"#(?:/[^%]*)?")
Placed = tuple[Tokens, Mapping[str, Any]]
"""Where a schema stands in the whole, and the schema."""


def resolve_reference(root: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What `node` stands for after its local `$ref`; `None` when that is not a schema object."""
    chain = references(root, (), node)
    if chain is None:
        return None
    resolved = chain[-1][1]
    for _, referring in reversed(chain[:-1]):
        resolved = with_siblings(resolved, referring)
    return resolved


def references(root: Mapping[str, Any], place: Tokens, node: Mapping[str, Any]) -> list[Placed] | None:
    """`node` and what its `$ref` stands for, one after the other; `None` when one is not understood."""
    chain = [(place, node)]
    while "$ref" in node:
        reference = node["$ref"]
        # Anchors and percent-encoded pointers are for the validator alone: here they are not understood.
        if len(chain) > 16 or not isinstance(reference, str) or not LOCAL_POINTER.fullmatch(reference):
            return None
        target: Any = root
        place = unescaped(reference)
        for name in place:
            if not isinstance(target, Mapping) or name not in target:
                return None
            target = target[name]
        if not isinstance(target, Mapping):
            return None
        node = target
        chain.append((place, node))
    return chain


def unescaped(reference: str) -> Tokens:
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in reference.split("/")[1:])


def with_siblings(target: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a `$ref` and the keywords beside it, which hold both."""
    siblings = {name: value for name, value in node.items() if name != "$ref"}
    if "properties" in siblings and "properties" in target:
        siblings["properties"] = {**target["properties"], **siblings["properties"]}
    if "required" in siblings and "required" in target:
        siblings["required"] = [*target["required"], *siblings["required"]]
    return {**target, **siblings}


def without_null(root: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """(the schema less its null alternative, whether it had one).

    The schema is `None` when what is left is a union of its own.
    """
    kind = schema.get("type")
    if isinstance(kind, list):
        types = [name for name in kind if name != "null"]
        return ({**schema, "type": types[0]} if len(types) == 1 else None), "null" in kind
    if isinstance(kind, str):
        # Whatever `anyOf` and `oneOf` say beside a type, they only narrow it.
        return schema, False
    union = alternatives(root, schema)
    if union is not None:
        others, nullable = union
        only = others[0] if nullable and len(others) == 1 else None
        return (resolve_reference(root, only) if isinstance(only, Mapping) else None), nullable
    if isinstance(schema.get("enum"), list) and None in schema["enum"]:
        return {**schema, "enum": [value for value in schema["enum"] if value is not None]}, True
    return schema, False


def alternatives(root: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[list[Any], bool] | None:
    """(the alternatives of a union but for null, whether null is one); `None` when it is no union."""
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            others = [option for option in options if not is_null(root, option)]
            return others, len(others) < len(options)
    return None


def is_null(root: Mapping[str, Any], option: Any) -> bool:
    resolved = resolve_reference(root, option) if isinstance(option, Mapping) else None
    return resolved is not None and resolved.get("type") == "null"


def map_values(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of members without one of their own; `None` when patterns would have to tell which."""
    others = schema.get("additionalProperties")
    return others if isinstance(others, Mapping) and not schema.get("patternProperties") else None


SHELVES: Final = ("$defs", "definitions")
"""Where schemas are kept that apply only by reference."""
MAPS_OF_SCHEMAS: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies", *SHELVES)
LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
SCHEMAS_OF_MEMBERS: Final = (
    "items", "additionalProperties", "contains", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
SCHEMAS: Final = (*SCHEMAS_OF_MEMBERS, "if", "then", "else", "not", "propertyNames", "contentSchema")


def members_of(node: Mapping[str, Any]) -> Iterator[Placed]:
    """The schemas directly in a schema, by the steps that lead there. Booleans are left out."""
    for keyword in MAPS_OF_SCHEMAS:
        members = node.get(keyword)
        for name, member in members.items() if isinstance(members, Mapping) else ():
            if isinstance(member, Mapping):
                yield (keyword, name), member
    for keyword in LISTS_OF_SCHEMAS:
        members = node.get(keyword)
        for index, member in enumerate(members if isinstance(members, list) else ()):
            if isinstance(member, Mapping):
                yield (keyword, str(index)), member
    for keyword in SCHEMAS:
        if isinstance(node.get(keyword), Mapping):
            yield (keyword,), node[keyword]


def subschemas(
    node: Mapping[str, Any], pointer: Tokens, described: Tokens
) -> Iterator[tuple[Tokens, Tokens, Mapping[str, Any]]]:
    """Every schema in a valid schema, itself first: (where it stands, what it describes, the schema)."""
    yield pointer, described, node
    for steps, member in members_of(node):
        place = described
        if steps[0] in ("properties", "prefixItems"):
            place = (*described, steps[1])
        elif steps[0] == "patternProperties" or steps[0] in SCHEMAS_OF_MEMBERS:
            place = (*described, WILDCARD)
        yield from subschemas(member, (*pointer, *steps), place)


def steps_of(schema: Any, pointer: Tokens) -> Iterator[str | int]:
    """The steps of a pointer into a schema as YAML knows them: numbers into lists."""
    node = schema
    for token in pointer:
        step = int(token) if isinstance(node, list) else token
        yield step
        node = node[step]
