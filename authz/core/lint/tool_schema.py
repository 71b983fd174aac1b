"""Argument schemas that let more through than is meant (spec section 3)."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from authz.core.json_schema import resolve_reference
from authz.core.lint.table import Hit, Lint, Severity
from authz.core.lint.tool_facts import ToolFacts, ValueSchema, options_of, value_schemas
from authz.core.schema_keywords import unknown_keywords

_QUANTITIES: Final = frozenset(
    """
    age amount budget capacity cost delay deadline distance duration height interval latency length lifetime
    limit memory period pressure price quota radius rate retention size speed temperature timeout ttl volume
    wait weight width
    """.split()
)
"""Words for what is measured: a number of that name means nothing without its unit."""
_UNITS: Final = frozenset(
    """
    ns us ms s sec secs second seconds min mins minute minutes hour hours h day days week weeks month months
    year years byte bytes b kb kib mb mib gb gib tb bit bits px pixels char chars characters line lines item
    items row rows page pages token tokens word words percent pct ratio count times m cm mm km meter meters
    metre metres miles feet inch g kg gram grams celsius fahrenheit kelvin cents eur usd gbp chf
    """.split()
)
_SHORT_UNITS: Final = frozenset({"b", "g", "h", "m", "s", "us", "min", "page", "times", "count"})
"""Units that are words of their own in a sentence."""
_IN_TEXT: Final = re.compile(
    r"(?i)%|\b(?:number of|count of|" + "|".join(sorted(_UNITS - _SHORT_UNITS)) + r")\b"
)
_UNIT_SIBLINGS: Final = frozenset({"unit", "units", "currency"})
_LOWER: Final = ("minimum", "exclusiveMinimum")
_UPPER: Final = ("maximum", "exclusiveMaximum")
_SAYS_A_TYPE: Final = ("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties", "items")


def _typed(tool: ToolFacts, *kinds: str) -> Iterator[ValueSchema]:
    """The values of these types that are not a choice of listed ones."""
    for value in value_schemas(tool.input_schema):
        node = value.node
        if isinstance(node, Mapping) and "enum" not in node and "const" not in node:
            named = node.get("type")
            types = named if isinstance(named, list) else [named]
            if any(kind in types for kind in kinds):
                yield value


def unknown_keyword(tool: ToolFacts) -> Iterator[Hit]:
    """A keyword that is none constrains nothing. Of a reviewed tool it keeps the bundle from loading."""
    for found in () if tool.reviewed else unknown_keywords(tool.input_schema):
        yield tool.at(
            f"{found.says}; once it is reviewed it keeps the bundle from loading",
            found.hint,
            pointer=found.pointer,
        )


def open_properties(tool: ToolFacts) -> Iterator[Hit]:
    """Members that nobody has reviewed reach the tool, and no rule sees what they are."""
    for value in _typed(tool, "object"):
        node = value.node
        closed = (
            node.get("additionalProperties", True) is not True or node.get("unevaluatedProperties") is False
        )
        if not closed and node.get("properties"):
            yield tool.at(
                f"{value.shown} may hold members that are not declared",
                "write `additionalProperties: false`",
                pointer=value.pointer,
            )


def no_required(tool: ToolFacts) -> Iterator[Hit]:
    """Whether an argument may be left out should be said, not left to the server."""
    for value in _typed(tool, "object"):
        if value.node.get("properties") and "required" not in value.node:
            yield tool.at(
                f"{value.shown} does not say which members are required",
                "write `required: […]`, or `required: []` where none is",
                pointer=value.pointer,
            )


def unbounded_string(tool: ToolFacts) -> Iterator[Hit]:
    """A text of any length: what an approver is shown, and what a log keeps, has no end."""
    for value in _typed(tool, "string"):
        if "maxLength" not in value.node:
            yield tool.at(
                f"{value.shown} is a text of any length", "write `maxLength`", pointer=value.pointer
            )


def unbounded_array(tool: ToolFacts) -> Iterator[Hit]:
    """A list of any length: one call could touch any number of things."""
    for value in _typed(tool, "array"):
        if "maxItems" not in value.node:
            yield tool.at(f"{value.shown} is a list of any length", "write `maxItems`", pointer=value.pointer)


def unbounded_number(tool: ToolFacts) -> Iterator[Hit]:
    """A number without a least and a greatest value."""
    for value in _typed(tool, "integer", "number"):
        missing = [words[0] for words in (_LOWER, _UPPER) if not any(word in value.node for word in words)]
        if missing:
            yield tool.at(
                f"{value.shown} is a number without bounds",
                f"write {' and '.join(f'`{word}`' for word in missing)}",
                pointer=value.pointer,
            )


def unitless_name(tool: ToolFacts) -> Iterator[Hit]:
    """`timeout: 10`: seconds for one reader, milliseconds for the next."""
    for value in _typed(tool, "integer", "number"):
        words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", value.name).lower())
        if not words or words[-1] not in _QUANTITIES or _UNITS & set(words):
            continue
        if _UNIT_SIBLINGS & value.siblings or _IN_TEXT.search(str(value.node.get("description", ""))):
            continue
        yield tool.at(
            f"`{value.name}` is a number without a unit",
            f"call it `{value.name}_…` with its unit, or say the unit in its description",
            pointer=value.pointer,
        )


def untagged_union(tool: ToolFacts) -> Iterator[Hit]:
    """Values of several kinds that nothing tells apart: rule, approver and server may differ on them."""
    for value in value_schemas(tool.input_schema):
        node = value.node
        if not isinstance(node, Mapping):
            continue
        named = node.get("type")
        types = [kind for kind in named if kind != "null"] if isinstance(named, list) else []
        options = (
            [option for _, _, option in options_of(tool.input_schema, node)] if "type" not in node else []
        )
        if len(types) > 1 or (len(options) > 1 and not _is_tagged(tool.input_schema, options)):
            yield tool.at(
                f"{value.shown} may be of several kinds that nothing tells apart",
                "take one type, or objects with a required member whose `const` names the kind",
                pointer=value.pointer,
            )


def _is_tagged(root: Mapping[str, Any], options: list[Any]) -> bool:
    """Whether a member with a value of its own tells the objects apart, or every option is a listed value."""
    resolved = [
        resolve_reference(root, option) if isinstance(option, Mapping) else None for option in options
    ]
    found = [schema for schema in resolved if schema is not None]
    if len(found) < len(options):
        return False
    if all("const" in schema or "enum" in schema for schema in found):
        return True
    tags = [_tags(schema) for schema in found]
    shared = set(tags[0]).intersection(*tags[1:])
    return any(
        len(values := [value for tag in tags for value in tag[name]]) == len(set(values)) for name in shared
    )


def _tags(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """The required members of an object that only take listed values, with those values as text."""
    properties = schema.get("properties")
    required = schema.get("required", [])
    found = {}
    for name, member in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(member, Mapping) and name in required:
            values = [member["const"]] if "const" in member else member.get("enum")
            if isinstance(values, list):
                found[name] = [repr(value) for value in values]
    return found


def untyped_bag(tool: ToolFacts) -> Iterator[Hit]:
    """A value of which nothing is said: rules see it as text, approvers as a blob."""
    for value in value_schemas(tool.input_schema):
        node = value.node
        if node is False:
            continue
        anything = node is True or not any(word in node for word in _SAYS_A_TYPE)
        bag = isinstance(node, Mapping) and (
            (node.get("type") == "object" and not _says_members(node))
            or (node.get("type") == "array" and "items" not in node and "prefixItems" not in node)
        )
        if (anything or bag) and (value.pointer or node.get("type") != "object"):
            yield tool.at(
                f"{value.shown} may be anything",
                "declare its type, its `properties` or its `items`",
                pointer=value.pointer,
            )


def _says_members(node: Mapping[str, Any]) -> bool:
    others = node.get("additionalProperties", True)
    return bool(node.get("properties") or node.get("patternProperties")) or others is not True


def _row(code: str, says: str, find: Callable[[ToolFacts], Iterator[Hit]]) -> Lint[ToolFacts]:
    return Lint(code=code, severity=Severity.WARNING, says=says, find=find)


LINTS: Final = (
    _row("tool.open-properties", "an object that takes undeclared members", open_properties),
    _row("tool.no-required", "an object that does not say what is required", no_required),
    _row("tool.unbounded-string", "a text without `maxLength`", unbounded_string),
    _row("tool.unbounded-array", "a list without `maxItems`", unbounded_array),
    _row("tool.unbounded-number", "a number without both bounds", unbounded_number),
    _row("tool.unitless-name", "a measure without a unit", unitless_name),
    _row("tool.untagged-union", "values of several kinds that nothing tells apart", untagged_union),
    _row("tool.untyped-bag", "a value of which nothing is said", untyped_bag),
    _row("tool.unknown-keyword", "a keyword of a draft that is none of JSON Schema", unknown_keyword),
)
