"""Stage 3: validate arguments against the tool's JSON Schema (2020-12) and fill in its defaults.

What policy judges, the approver sees and the executor runs includes the defaults. A `$ref` never
fetches: only references inside the schema are taken, and the validator itself is offline as well.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

from authz.core.pointer import Tokens, format_pointer
from authz.core.strict_json import type_names
from authz.model.decision import ArgumentError

MAX_REPORTED_ERRORS: Final = 20
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class SchemaUnusable(ValueError):
    """A tool's schema that cannot be used to validate arguments; the message says why."""


class ArgumentSchema:
    """One tool's argument schema, compiled once at load."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `SchemaUnusable` for a schema that is invalid, foreign or refers outside itself."""
        self.schema = schema
        _check_dialect(schema)
        _check_references(schema, is_root=True)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema),
                offline=True,
                validate_formats=True,
                mask="the value",
                # Linear-time matching: a pattern that backtracks would let a model stop the service.
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise SchemaUnusable(f"the schema is invalid: {_first_line(error)}") from None
        _check_defaults(schema)

    def check(self, arguments: Mapping[str, Any]) -> "Mapping[str, Any] | tuple[ArgumentError, ...]":
        """The arguments with defaults filled in, or every fault found (at most 20)."""
        if not self._validator.is_valid(arguments):
            return self._errors(arguments)
        filled: Mapping[str, Any] = _fill(self.schema, self.schema, arguments)
        if filled is arguments:
            return arguments
        # A default may complete a condition elsewhere in the schema, so the whole is judged again.
        if not self._validator.is_valid(filled):
            return self._errors(filled)
        return filled

    def _errors(self, arguments: Mapping[str, Any]) -> tuple[ArgumentError, ...]:
        found = []
        for error in self._validator.iter_errors(arguments):
            found.append(_argument_error(arguments, error))
            if len(found) == MAX_REPORTED_ERRORS:
                break
        return tuple(found)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _check_dialect(schema: Mapping[str, Any]) -> None:
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        raise SchemaUnusable(f"`$schema` must be absent or `{DIALECT}`")
    if schema.get("type") != "object":
        raise SchemaUnusable('the schema of arguments must say `"type": "object"`')


_LOCAL_POINTER: Final = re.compile(r"#(?:/[^%]*)?")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def _check_references(node: Any, *, is_root: bool = False) -> None:
    if isinstance(node, Mapping):
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str) and not reference.startswith("#"):
                raise SchemaUnusable(f"`{keyword}` must stay inside the schema (`#/…`), not `{reference}`")
        if not is_root and isinstance(node.get("$id"), str):
            # Below one, `#/…` would mean another place to the validator than to `resolve_reference`.
            raise SchemaUnusable("`$id` may stand only at the top of the schema")
        for value in node.values():
            _check_references(value)
    elif isinstance(node, list):
        for value in node:
            _check_references(value)


def resolve_reference(root: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What `node` stands for after its local `$ref`; `None` when that is not a schema object."""
    seen = 0
    while "$ref" in node:
        reference = node["$ref"]
        seen += 1
        # Anchors and percent-encoded pointers are for the validator alone: here they are not understood.
        if seen > 16 or not isinstance(reference, str) or not _LOCAL_POINTER.fullmatch(reference):
            return None
        target: Any = root
        for token in reference.split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                return None
            target = target[name]
        if not isinstance(target, Mapping):
            return None
        node = _with_siblings(target, node)
    return node


def _with_siblings(target: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
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
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if not isinstance(options, list):
            continue
        resolved = [resolve_reference(root, one) if isinstance(one, Mapping) else None for one in options]
        others = [option for option in resolved if option is None or option.get("type") != "null"]
        nullable = len(others) < len(options)
        return (others[0] if len(others) == 1 and nullable else None), nullable
    if isinstance(schema.get("enum"), list) and None in schema["enum"]:
        return {**schema, "enum": [value for value in schema["enum"] if value is not None]}, True
    return schema, False


def _fill(root: Mapping[str, Any], node: Any, value: Any) -> Any:
    """`value` with the defaults of its schema; the same object when there is nothing to fill."""
    schema = resolve_reference(root, node) if isinstance(node, Mapping) else None
    if schema is None:
        return value
    if isinstance(value, Mapping):
        return _fill_object(root, without_null(root, schema)[0] or schema, value)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        others = len(schema.get("prefixItems", ()))
        items = value[:others] + [_fill(root, schema["items"], item) for item in value[others:]]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _fill_object(root: Mapping[str, Any], schema: Mapping[str, Any], value: Mapping[str, Any]) -> Any:
    changed: dict[str, Any] = {}
    for name, member in schema.get("properties", {}).items():
        if not isinstance(member, Mapping):
            continue
        if name in value:
            filled = _fill(root, member, value[name])
            if filled is not value[name]:
                changed[name] = filled
        else:
            resolved = resolve_reference(root, member)
            if resolved is not None and "default" in resolved:
                changed[name] = resolved["default"]
    return {**value, **changed} if changed else value


def _check_defaults(root: Mapping[str, Any]) -> None:
    """Every default fits its own schema and is complete: defaults are filled in once, not in defaults."""
    registry = jsonschema_rs.Registry([(_SELF, dict(root))])
    for pointer, described, schema in _subschemas(root, (), ()):
        for name, member in schema.get("properties", {}).items():
            resolved = resolve_reference(root, member) if isinstance(member, Mapping) else None
            if resolved is None or "default" not in resolved:
                continue
            default, where = resolved["default"], format_pointer((*described, name))
            # Judged where it stands in the schema, so that its references resolve.
            alone = {"$ref": _SELF + "#" + quote(format_pointer((*pointer, "properties", name)))}
            if not jsonschema_rs.Draft202012Validator(alone, registry=registry, offline=True).is_valid(
                default
            ):
                raise SchemaUnusable(f"the default of `{where}` does not fit its own schema")
            if _fill(root, member, default) is not default:
                raise SchemaUnusable(
                    f"the default of `{where}` leaves out defaults inside it: write them out"
                )


_SELF: Final = "urn:arguments"
_MAPS_OF_SCHEMAS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS: Final = ("items", "additionalProperties", "if", "then", "else", "not", "contains")


def _subschemas(
    node: Any, pointer: Tokens, described: Tokens
) -> Iterator[tuple[Tokens, Tokens, Mapping[str, Any]]]:
    """Every schema in a valid schema, itself first: (where it stands, what it describes, the schema)."""
    if not isinstance(node, Mapping):
        return
    yield pointer, described, node
    for keyword in _MAPS_OF_SCHEMAS:
        for name, member in node.get(keyword, {}).items():
            place = (*described, name) if keyword == "properties" else described
            yield from _subschemas(member, (*pointer, keyword, name), place)
    for keyword in _LISTS_OF_SCHEMAS:
        for index, member in enumerate(node.get(keyword, ())):
            yield from _subschemas(member, (*pointer, keyword, str(index)), described)
    for keyword in _SCHEMAS:
        place = (*described, "*") if keyword == "items" else described
        yield from _subschemas(node.get(keyword), (*pointer, keyword), place)


def _argument_error(arguments: Mapping[str, Any], error: Any) -> ArgumentError:
    tokens = tuple(str(part) for part in error.instance_path)
    kind = type(error.kind).__name__.rpartition("_")[2]
    detail = error.kind.as_dict()
    found = arguments
    for part in error.instance_path:
        found = found[part]
    # A missing or surplus member is reported at its own place, where the model has to act.
    if "property" in detail and kind == "Required":
        tokens = (*tokens, str(detail["property"]))
        return ArgumentError(
            pointer=format_pointer(tokens),
            found="nothing",
            expected="a value",
            message=f"add the required argument `{detail['property']}`",
        )
    if detail.get("unexpected"):
        tokens = (*tokens, str(detail["unexpected"][0]))
        return ArgumentError(
            pointer=format_pointer(tokens),
            found="an argument that the tool does not have",
            expected="only declared arguments",
            message=f"remove {', '.join(f'`{_short(name)}`' for name in detail['unexpected'][:5])}",
        )
    expected = _expected(kind, detail)
    where = format_pointer(tokens) or "the arguments"
    return ArgumentError(
        pointer=format_pointer(tokens),
        found=type_names.get(type(found), "value"),
        expected=expected,
        message=f"change `{where}`: expected {expected}, found {type_names.get(type(found), 'a value')}",
    )


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 60 else text[:57] + "…"


def _expected(kind: str, detail: Mapping[str, Any]) -> str:
    if "types" in detail:
        return " or ".join(str(name) for name in detail["types"])
    if "options" in detail:
        options = detail["options"]
        listed = ", ".join(f"`{option}`" for option in options[:20])
        return f"one of {listed}" if len(options) > 1 else listed
    if "expected_value" in detail:
        return f"`{detail['expected_value']}`"
    words = "".join(" " + char.lower() if char.isupper() else char for char in kind).strip()
    for name in ("limit", "pattern", "format", "multiple_of"):
        if name in detail:
            return f"{words} {detail[name]}"
    return f"a value that satisfies `{words}`"
