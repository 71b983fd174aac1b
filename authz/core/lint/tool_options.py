"""Values that a program could take for options (`authz.core.option_values`).

Only of servers that are run by a command: it is they whose tools are thin covers of other commands.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from authz.core.json_schema import resolve_reference
from authz.core.lint.table import Hit, Lint, Severity
from authz.core.lint.tool_facts import ToolFacts, ValueSchema, value_schemas
from authz.core.option_values import is_word
from authz.core.pointer import WILDCARD, Tokens, format_pointer
from authz.core.provenance import RoleTable

_ABSOLUTE: Final = frozenset(("path", "url"))
"""Kinds whose canonical form begins with `/` or a scheme."""
_PROBES: Final = ("-", "-x", "--x", "--output=x", "-rf", "--upload-pack=/tmp/x", "-oProxyCommand=x")


def dash_allowed(tool: ToolFacts) -> Iterator[Hit]:
    """A reviewer says that no option can come of it, and the server looks as if one could."""
    for index, pointer in enumerate(tool.may_start_with_dash if tool.is_command else ()):
        yield tool.at(
            f"`{format_pointer(pointer)}` may begin with `-`, and the server is run by a command",
            "delete it from `may_start_with_dash`, or accept this and say how the tool ends its options",
            ("may_start_with_dash", index),
        )


def dash_refused(tool: ToolFacts) -> Iterator[Hit]:
    """The schema lets a value through that is refused afterwards: a model should learn it from the schema."""
    if not tool.is_command or not tool.reviewed:
        return
    roles = RoleTable(tool.roles)
    absolute = {pointer for access in tool.accesses for pointer in (access.at,) if access.kind in _ABSOLUTE}
    for value in value_schemas(tool.input_schema):
        pointer = _argument(value)
        if pointer is None or not is_word(roles.role_of(pointer)):
            continue
        places = {pointer, pointer[:-1] if pointer[-1] == WILDCARD else pointer}
        if places & (absolute | set(tool.may_start_with_dash)):
            continue
        if _lets_dash_through(tool.input_schema, value.node):
            yield tool.at(
                f"the schema lets `{format_pointer(pointer)}` begin with `-`, and such a value is refused",
                "write `pattern: '^[^-]'`, or list it in `may_start_with_dash` where no program gets it",
                pointer=value.pointer,
            )


def _argument(value: ValueSchema) -> Tokens | None:
    """The pointer pattern of the argument; `None` for what stands behind a reference or in a union."""
    found: list[str] = []
    steps = list(value.pointer)
    while steps:
        step = steps.pop(0)
        if step == "properties" and steps:
            found.append(steps.pop(0))
        elif step == "items":
            found.append(WILDCARD)
        else:
            return None
    return tuple(found) or None


def _lets_dash_through(root: Mapping[str, Any], node: Any) -> bool:
    resolved = resolve_reference(root, node) if isinstance(node, Mapping) else None
    if resolved is None or resolved.get("type") not in ("string", ["string", "null"]):
        return False
    told = resolved.get("enum", [resolved["const"]] if "const" in resolved else None)
    if isinstance(told, list):
        return any(isinstance(value, str) and value.startswith("-") for value in told)
    try:
        check = jsonschema_rs.Draft202012Validator(
            {**resolved, "minLength": 0},
            offline=True,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ReferencingError):
        return False  # the loader says what is wrong with it
    return any(check.is_valid(probe) for probe in _PROBES)


LINTS: Final = (
    Lint(
        code="tool.dash-allowed",
        severity=Severity.WARNING,
        says="an argument that may begin with `-`, of a server that is run by a command",
        find=dash_allowed,
    ),
    Lint(
        code="tool.dash-refused",
        severity=Severity.WARNING,
        says="a schema that lets a value begin with `-` where it is refused, of such a server",
        find=dash_refused,
    ),
)
