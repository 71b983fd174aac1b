"""Each rule of `authz tools lint`, with a tool that breaks it and one that does not (spec section 3)."""

from typing import Any

import pytest

from authz.bundle.check import TOOL_LINTS, Report
from authz.core.lint.catalogue import CHARACTERS_PER_TOKEN, MAX_TOOL_TOKENS, catalogue_cost, tool_tokens
from authz.core.lint.tool_facts import ToolFacts
from authz.errors import BundleProblem
from tests.support.world import tool_file
from tests.unit.core.lint.bundles import check, found

TEXT = {"type": "string", "maxLength": 100}
READ = [{"verb": "read", "kind": "path", "at": "/path"}]
SEND = [{"verb": "send", "kind": "id", "type": "thing", "at": "/path"}]
NEUTRAL = '@id("ok") @reason("r") permit (principal, action, resource is Opaque);'
KEY = {"idempotency_key_at": "/key", "retention_seconds": 60}


def described(value: Any = None, *, root: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A tool with the argument `value` beside its path, or with members of its schema replaced."""
    properties: dict[str, Any] = {"path": TEXT} | ({} if value is None else {"value": value})
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["path"],
        "additionalProperties": False,
    } | (root or {})
    roles = {f"/{name}": "option" for name in schema["properties"]}
    return {
        "name": "t",
        "description": "A tool.",
        "input_schema": {name: member for name, member in schema.items() if member is not None},
        "roles": roles,
        "accesses": READ,
        "side_effect": "none",
    } | more


def named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return described(root={"properties": {"path": TEXT, name: schema}})


def lint(tool: dict[str, Any], **server: Any) -> Report:
    report = check(NEUTRAL, tools=tool_file("x", tool, **server), with_tools=True)
    assert not report.count("error"), [str(finding) for finding in report.findings]
    return report


def tool_findings(tool: dict[str, Any], **server: Any) -> list[BundleProblem]:
    return [finding for finding in lint(tool, **server).findings if finding.code.startswith("tool.")]


PERIOD = {"type": "integer", "minimum": 0, "maximum": 9}
KEYED = {"path": TEXT, "key": TEXT}
OPEN_OBJECT = {"type": "object", "properties": {"a": TEXT}, "required": []}
BY_KIND = [
    {
        "type": "object",
        "properties": {"kind": {"const": kind}, "name": TEXT},
        "required": ["kind"],
        "additionalProperties": False,
    }
    for kind in ("a", "b")
]

# (code, broken tool, JSON Pointer into its schema, tool that is fine)
CASES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("tool.open-properties", described(root={"additionalProperties": None}), "", described()),
    ("tool.open-properties", described(root={"additionalProperties": True}), "", described()),
    (
        "tool.open-properties",
        described(OPEN_OBJECT),
        "/properties/value",
        described({**OPEN_OBJECT, "additionalProperties": {"type": "string", "maxLength": 9}}),
    ),
    (
        "tool.open-properties",
        described({"type": "array", "maxItems": 3, "items": OPEN_OBJECT}),
        "/properties/value/items",
        described({"type": "array", "maxItems": 3, "items": {**OPEN_OBJECT, "unevaluatedProperties": False}}),
    ),
    ("tool.no-required", described(root={"required": None}), "", described(root={"required": []})),
    (
        "tool.no-required",
        described({"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}),
        "/properties/value",
        described(
            {"type": "object", "properties": {"a": TEXT}, "required": [], "additionalProperties": False}
        ),
    ),
    ("tool.unbounded-string", described({"type": "string"}), "/properties/value", described(TEXT)),
    (
        "tool.unbounded-string",
        described({"type": ["string", "null"]}),
        "/properties/value",
        described({"type": "string", "enum": ["a", "b"]}),
    ),
    (
        "tool.unbounded-string",
        described({"type": "array", "maxItems": 2, "items": {"type": "string"}}),
        "/properties/value/items",
        described({"type": "array", "maxItems": 2, "items": {"const": "a"}}),
    ),
    (
        "tool.unbounded-array",
        described({"type": "array", "items": TEXT}),
        "/properties/value",
        described({"type": "array", "items": TEXT, "maxItems": 9}),
    ),
    (
        "tool.unbounded-number",
        described({"type": "integer", "minimum": 0}),
        "/properties/value",
        described({"type": "integer", "minimum": 0, "exclusiveMaximum": 9}),
    ),
    (
        "tool.unbounded-number",
        described({"type": "number", "maximum": 0}),
        "/properties/value",
        described({"type": "number", "enum": [1, 2]}),
    ),
    ("tool.unitless-name", named("timeout", PERIOD), "/properties/timeout", named("timeout_seconds", PERIOD)),
    ("tool.unitless-name", named("maxSize", PERIOD), "/properties/maxSize", named("maxSizeBytes", PERIOD)),
    (
        "tool.unitless-name",
        named("amount", PERIOD),
        "/properties/amount",
        described(root={"properties": {"path": TEXT, "amount": PERIOD, "currency": TEXT}}),
    ),
    (
        "tool.unitless-name",
        named("delay", {**PERIOD, "description": "The delay of the start."}),
        "/properties/delay",
        named("delay", {**PERIOD, "description": "The delay of the start in milliseconds or seconds."}),
    ),
    (
        "tool.untagged-union",
        described({"anyOf": [TEXT, PERIOD]}),
        "/properties/value",
        described({"anyOf": [TEXT, {"type": "null"}]}),
    ),
    (
        "tool.untagged-union",
        described({"type": ["integer", "string"], "maxLength": 3, "minimum": 0, "maximum": 3}),
        "/properties/value",
        described({**PERIOD, "type": ["integer", "null"]}),
    ),
    (
        "tool.untagged-union",
        described({"oneOf": [{**option, "required": []} for option in BY_KIND]}),
        "/properties/value",
        described({"oneOf": BY_KIND}),
    ),
    (
        "tool.untagged-union",
        described({"oneOf": [BY_KIND[0], BY_KIND[0]]}),
        "/properties/value",
        described({"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]}),
    ),
    ("tool.untyped-bag", described({}), "/properties/value", described(TEXT)),
    ("tool.untyped-bag", described(True), "/properties/value", described(PERIOD)),
    (
        "tool.untyped-bag",
        described({"description": "Anything."}),
        "/properties/value",
        described(root={"properties": {"path": TEXT, "value": {"$ref": "#/$defs/t"}}, "$defs": {"t": TEXT}}),
    ),
    (
        "tool.untyped-bag",
        described({"type": "object"}),
        "/properties/value",
        described({"type": "object", "additionalProperties": {"type": "string", "maxLength": 9}}),
    ),
    (
        "tool.untyped-bag",
        described({"type": "array", "maxItems": 2}),
        "/properties/value",
        described({"type": "array", "maxItems": 2, "items": TEXT}),
    ),
    (
        "tool.authority-below",
        described(accesses=[{**SEND[0], "authority": "A2"}], side_effect="idempotent"),
        "",
        described(accesses=[{**SEND[0], "authority": "A3"}], side_effect="idempotent"),
    ),
    (
        "tool.no-settlement",
        described(accesses=SEND, side_effect="cumulative"),
        "",
        described(
            accesses=SEND, side_effect="cumulative", settlement={"probe": {"tool": "t", "when": "after"}}
        ),
    ),
    (
        "tool.no-retention",
        described(root={"properties": KEYED}, settlement={"idempotency_key_at": "/key"}),
        "",
        described(root={"properties": KEYED}, settlement=KEY),
    ),
    ("tool.unreviewed", described(reviewed=False), "", described(reviewed=True)),
    (
        "tool.unknown-keyword",
        described({**TEXT, "patern": "^a"}, reviewed=False),
        "/properties/value/patern",
        described({**TEXT, "pattern": "^a"}),
    ),
    (
        "tool.costly",
        named("path", {**TEXT, "description": "x" * CHARACTERS_PER_TOKEN * MAX_TOOL_TOKENS}),
        "",
        named("path", {**TEXT, "description": "x" * CHARACTERS_PER_TOKEN * (MAX_TOOL_TOKENS - 100)}),
    ),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)])
def test_it_is_found_in_the_broken_tool_and_not_in_the_other(number: int) -> None:
    code, broken, pointer, fine = CASES[number]
    (finding,) = [one for one in tool_findings(broken) if one.code == code]
    assert (finding.file, finding.pointer) == ("tools/main.yaml", pointer)
    assert finding.hint
    assert tool_findings(fine) == []


def test_every_rule_of_the_table_is_shown_here() -> None:
    shown = {case[0] for case in CASES} | {"tool.dash-allowed", "tool.dash-refused"}
    assert shown == {row.code for row in TOOL_LINTS}


@pytest.mark.parametrize(
    ("schema", "is_found"),
    [
        (TEXT, True),
        ({**TEXT, "pattern": "^.*$"}, True),
        ({**TEXT, "pattern": "^[^/]"}, True),
        ({**TEXT, "pattern": "^[^-]"}, False),
        ({**TEXT, "pattern": "^[a-z0-9_]+$"}, False),
        ({**TEXT, "not": {"pattern": "^-"}}, False),
        ({**TEXT, "format": "uuid"}, False),
        ({"type": "string", "enum": ["date", "-date"]}, True),
        ({"type": "string", "enum": ["date", "size"]}, False),
        ({"type": "integer", "minimum": -9, "maximum": 9}, False),
    ],
)
def test_a_schema_of_a_command_says_that_a_value_is_no_option(schema: dict[str, Any], is_found: bool) -> None:
    def codes(tool: dict[str, Any], identity: str) -> list[tuple[str, str]]:
        return [(one.code, one.pointer) for one in tool_findings(tool, identity=identity)]

    described_with = described(schema)
    expected = [("tool.dash-refused", "/properties/value")] if is_found else []
    assert codes(described_with, "npx -y git-server") == expected
    # The path is absolute once it is canonical, and nobody hands a url's or the runtime's own values on.
    assert codes(described_with, "https://tools.example.com/mcp") == []
    assert codes(described_with, "local:x") == []
    text = described(schema, roles={"/path": "target", "/value": "payload"})
    assert codes(text, "npx -y git-server") == []
    draft = described(schema, reviewed=False)
    assert ("tool.dash-refused", "/properties/value") not in codes(draft, "npx -y git-server")


def test_items_are_looked_at_too() -> None:
    listed = described({"type": "array", "items": TEXT, "maxItems": 3})
    (finding,) = tool_findings(listed, identity="uvx git-server")
    assert (finding.code, finding.pointer) == ("tool.dash-refused", "/properties/value/items")


def test_what_a_reviewer_lets_begin_with_a_dash_is_told_of_a_command() -> None:
    listed = described(TEXT, may_start_with_dash=["/value"])
    (finding,) = tool_findings(listed, identity="npx -y git-server")
    assert (finding.code, finding.severity) == ("tool.dash-allowed", "warning")
    assert finding.line is not None
    assert tool_findings(listed) == []
    reason = {"allow": [{"code": "tool.dash-allowed", "reason": "the tool ends its options by `--`"}]}
    accepted = lint({**listed, "lint": reason}, identity="npx -y git-server")
    assert [one for one in accepted.findings if one.severity == "warning"] == []


def test_a_finding_stands_at_the_line_of_the_yaml() -> None:
    text = """\
server: {alias: x, identity: local:x, local: true, profiles: [runtime]}
tools:
  - name: t
    description: A tool.
    input_schema:
      type: object
      properties:
        path: {type: string, maxLength: 9}
        steps:
          type: array
          maxItems: 3
          items:
            type: string
      required: []
      additionalProperties: false
    roles: {/path: target, /steps: option}
    accesses:
      - {verb: read, kind: path, at: /path}
    side_effect: none
"""
    (finding,) = found(check(tools=text, with_tools=True), "tool.unbounded-string")
    assert (finding.line, finding.pointer) == (12, "/properties/steps/items")


def test_what_tests_a_value_describes_none() -> None:
    """`not`, `if` and `contains` hold no values that a caller sends."""
    picky = {**TEXT, "not": {"pattern": "^-"}, "if": {"minLength": 3}, "then": {"pattern": "a"}}
    listed = {"type": "array", "items": TEXT, "maxItems": 3, "contains": {"pattern": "a"}}
    assert tool_findings(described(picky)) == tool_findings(described(listed)) == []


def test_an_argument_without_a_role_is_an_error_of_the_load_path() -> None:
    broken = described(TEXT)
    del broken["roles"]["/value"]
    report = check(tools=tool_file("x", broken), with_tools=True)
    (finding,) = found(report, "tool.no-role")
    assert (finding.severity, "`value`" in finding.message, "/value:" in finding.hint) == (
        "error",
        True,
        True,
    )


def test_the_cost_of_a_catalogue_is_turns_times_tools_times_tokens() -> None:
    def facts(name: str, description: str) -> ToolFacts:
        return ToolFacts(
            name=name,
            file="",
            line_of=lambda _: None,
            description=description,
            input_schema={},
            accesses=(),
            side_effect="none",
            has_idempotency_key=False,
            has_retention=False,
            has_probe=False,
        )

    short, long = facts("x/a", "a"), facts("x/b", "a" * (1 + 10 * CHARACTERS_PER_TOKEN))
    assert tool_tokens(long) == tool_tokens(short) + 10
    # An entry of 47 characters: name, description and an empty schema.
    assert tool_tokens(short) == 12
    cost = catalogue_cost([short, long], turns=7)
    assert cost.tokens == (("x/b", 22), ("x/a", 12))
    assert (cost.per_turn, cost.total) == (34, 34 * 7)
