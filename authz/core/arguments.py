"""Stage 3: validate arguments against the tool's JSON Schema (2020-12) and fill in its defaults.

What policy judges, the approver sees and the executor runs includes the defaults. A `$ref` never
fetches: only references inside the schema are taken, and the validator itself is offline as well.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from authz.core.json_schema import REFERENCES, SchemaUnusable
from authz.core.pointer import format_pointer, leaves
from authz.core.schema_defaults import FilledDefaults, check_defaults, fill_defaults
from authz.core.schema_work import MAX_WAYS, ways_to_look
from authz.core.strict_json import type_names
from authz.model.decision import ArgumentError

MAX_REPORTED_ERRORS: Final = 20
MAX_EXAMINED_VALUES: Final = 500
"""Arguments of more values than this are told their first fault only."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class ArgumentSchema:
    """One tool's argument schema, compiled once at load."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `SchemaUnusable` for a schema that is invalid, foreign or refers outside itself."""
        self.schema = schema
        _check_dialect(schema)
        _check_references(schema, is_root=True)
        if ways_to_look(schema) > MAX_WAYS:
            raise SchemaUnusable(f"the schema looks at a value in over {MAX_WAYS} ways: nest less")
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
        check_defaults(schema)
        FilledDefaults(schema).check()

    def check(self, arguments: Mapping[str, Any]) -> "Mapping[str, Any] | tuple[ArgumentError, ...]":
        """The arguments with defaults filled in, or every fault found (at most 20)."""
        if not self._validator.is_valid(arguments):
            return self._errors(arguments)
        filled: Mapping[str, Any] = fill_defaults(self.schema, self.schema, arguments)
        if filled is arguments:
            return arguments
        # A default may complete a condition elsewhere in the schema, so the whole is judged again.
        if not self._validator.is_valid(filled):
            return self._errors(filled)
        return filled

    def _errors(self, arguments: Mapping[str, Any]) -> tuple[ArgumentError, ...]:
        found = []
        # Every error is made before the first is given, so of large arguments only the first is asked for.
        large = sum(1 for _ in islice(leaves(arguments), MAX_EXAMINED_VALUES + 1)) > MAX_EXAMINED_VALUES
        for error in self._first(arguments) if large else self._validator.iter_errors(arguments):
            found.append(_argument_error(arguments, error))
            if len(found) == MAX_REPORTED_ERRORS:
                break
        return tuple(found)

    def _first(self, arguments: Mapping[str, Any]) -> list[Any]:
        try:
            self._validator.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _check_dialect(schema: Mapping[str, Any]) -> None:
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        raise SchemaUnusable(f"`$schema` must be absent or `{DIALECT}`")
    if schema.get("type") != "object":
        raise SchemaUnusable('the schema of arguments must say `"type": "object"`')


def _check_references(node: Any, *, is_root: bool = False) -> None:
    if isinstance(node, Mapping):
        for keyword in REFERENCES:
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
