"""How arguments are told to Cedar: every row of the table evaluates, and nothing else gets through."""

from typing import Any

import pytest

from authz.core.cedar_values import UnencodableSchema, argument_encoder
from authz.core.pointer import format_pointer
from authz.core.ruleset import Ruleset
from authz.model.decision import Code, Effect
from tests.support.world import PERMIT_ALL, call, decide_in, fault_of, rules_of, tool, tool_file, world

NOWHERE = [{"verb": "read", "kind": "path", "resource": "/workspace"}]
MAX = 2**53 - 1


def probing(condition: str, described: Any, **more: Any) -> Ruleset:
    """A world in which calls of `x/t` are forbidden by `probe` when the condition holds."""
    rule = f'@id("probe") forbid (principal, action in Action::"x/t", resource) when {{ {condition} }};'
    entry = tool("t", NOWHERE, {"v": described}, required=[], **more)
    return world(PERMIT_ALL + rule, tools=tool_file("x", entry))


def holds(condition: str, described: Any, arguments: dict[str, Any], **more: Any) -> bool:
    """Whether the condition is true of these arguments, alone and where all of them are told."""
    answers = set()
    for whole in ("", "context.arguments == context.arguments && "):
        outcome = decide_in(probing(whole + condition, described, **more), call("x/t", arguments))
        assert outcome.decision.code in (Code.POLICY_FORBID, Code.POLICY_PERMIT), outcome.decision.internal
        answers.add(rules_of(outcome) == ["probe"])
    assert len(answers) == 1, "what is told depends on what is read"
    return answers.pop()


V = "context.arguments.v"
HAS = "context.arguments has v"
NAMED = 'context.arguments.nulls.contains("v")'
STRING = {"type": "string"}
LONG = {"type": "integer"}
NUMBER = {"type": "number"}
OBJECT = {"type": "object", "properties": {"x": STRING, "n": LONG}, "required": ["x"]}
TYPED = {"anyOf": [STRING, OBJECT]}
KEYED = {"type": "object", "patternProperties": {"^k": {}}, "additionalProperties": False}


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


@pytest.mark.parametrize(
    ("schema", "value", "condition"),
    [
        (STRING, "é\n\"'\\ 😀", '@ == "é\\n\\"\'\\\\ 😀"'),
        (STRING, "", '@ == ""'),
        ({"enum": ["a", "b"]}, "b", '["b"].contains(@)'),
        ({"const": "a"}, "a", '@ like "a*"'),
        (LONG, MAX, f"@ == {MAX}"),
        (LONG, -MAX, f"@ == -{MAX}"),
        (LONG, 5.0, "@ == 5"),
        ({"type": "boolean"}, False, "@ == false"),
        (NUMBER, 1.5, '@.text == "1.5" && @ has decimal && @.decimal == decimal("1.5") && !(@ has long)'),
        (NUMBER, 7, '@ has decimal && @.decimal == decimal("7.0") && @ has long && @.long == 7'),
        (NUMBER, 7.0, '@.text == "7" && @ has long && @.long == 7'),
        (NUMBER, -0.0, '@.text == "0" && @ has long && @.long == 0'),
        (NUMBER, 0.00001, '@.text == "0.00001" && !(@ has decimal) && !(@ has long)'),
        (NUMBER, 1e300, '@.text == "1e+300" && !(@ has decimal) && !(@ has long)'),
        (NUMBER, -1234.5678, '@ has decimal && @.decimal.lessThan(decimal("-1234.5677"))'),
        ({"type": ["string", "null"]}, "a", f'@ == "a" && !{NAMED}'),
        ({"oneOf": [{"type": "null"}, OBJECT]}, {"x": "y"}, '@.x == "y"'),
        (array(STRING), ["a", "b", "a"], '@.items == ["a", "b"] && @.count == 3'),
        (array(LONG), [], "@.items.isEmpty() && @.count == 0"),
        (array(LONG), [3, 4.0], "@.items == [3, 4]"),
        (array(NUMBER), [1.5, 2], '@.items == ["1.5", "2"]'),
        (array(TYPED), ["a", {"x": "b"}], r'@.items == ["a", "{\"x\":\"b\"}"]'),
        (array({}), [None, [1]], '@.items == ["null", "[1]"]'),
        (array({"type": ["string", "null"]}), ["a", None], '@.items == ["a", "null"]'),
        (array(STRING, prefixItems=[LONG]), [1, "a"], '@.items == ["1", "a"]'),
        (array(array(LONG)), [[1], []], '@.items == ["[1]", "[]"] && @.count == 2'),
        (array(OBJECT), [{"x": "a"}, {"x": "b", "n": 2}], '@.each.x == ["a", "b"] && @.each.n == [2]'),
        (array(OBJECT), [{"x": "a"}, {"x": "a"}], '@.each.x == ["a"] && @.count == 2'),
        (array(OBJECT), [{"x": "a", "q": 1}], r'@.items == ["{\"q\":1,\"x\":\"a\"}"]'),
        (OBJECT, {"x": "a"}, '@.x == "a" && !(@ has n)'),
        (OBJECT, {"x": "a", "q": [1]}, '@.extra == [{key: "q", value: "[1]"}]'),
        ({"type": "object"}, {"k": "w"}, '@.extra.contains({key: "k", value: "w"})'),
        (KEYED, {"k": 1}, '@.extra == [{key: "k", value: "1"}]'),
        ({"type": ["string", "integer"]}, "a", '@.text == "a" && @ has string && @.string == "a"'),
        ({"type": ["string", "integer"]}, 5, "@ has long && @.long == 5 && !(@ has string)"),
        ({"type": ["string", "boolean"]}, True, '@.text == "true" && @ has bool && @.bool'),
        ({}, None, '@.text == "null"'),
        ({}, [1, {"a": None}], r'@.text == "[1,{\"a\":null}]"'),
        (True, {"b": 1, "a": 2.0}, r'@.text == "{\"a\":2,\"b\":1}"'),
        ({"anyOf": [STRING, True]}, 5, '@.text == "5"'),
        (TYPED, {"x": "b"}, r'@.text == "{\"x\":\"b\"}"'),
        ({"type": "string", "anyOf": [{"minLength": 1}, {"const": ""}]}, "a", '@ == "a"'),
    ],
)
def test_every_encoding_evaluates_in_cedar(schema: Any, value: Any, condition: str) -> None:
    told = condition.replace("@", V)
    assert holds(f"{HAS} && ({told})", schema, {"v": value})
    assert not holds(f"{HAS} && !({told})", schema, {"v": value})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"type": ["null", "object"]},
        {"anyOf": [STRING, {"type": "null"}]},
        {"oneOf": [{"type": "null"}, OBJECT]},
        {"enum": ["a", None]},
    ],
)
def test_a_null_is_absent_and_named(schema: Any) -> None:
    assert holds(f"!({HAS}) && {NAMED}", schema, {"v": None})
    assert holds(f"!({HAS}) && !{NAMED}", schema, {})


def test_what_is_absent_is_absent() -> None:
    for schema in (STRING, {"type": ["string", "null"]}, {"type": "number"}, OBJECT, {}):
        assert holds(f"!({HAS})", schema, {})


def test_one_number_is_one_number_however_it_is_spelled() -> None:
    """5 and 5.0 have one fingerprint, so a rule must not tell them apart (FP1)."""
    for schema in ({}, {"type": ["integer", "string"]}, {"type": "number"}):
        for value in (5, 5.0):
            assert holds(f"{HAS} && {V} has long && {V}.long == 5", schema, {"v": value})
    assert not holds(f"{HAS} && {V} has long", {}, {"v": 5.5})


@pytest.mark.parametrize("amount", [1001, 1000.5, 1000.0001, 1000.00001, 1e15, 1e15 + 0.5, 1e20, 1e300])
def test_a_limit_on_a_number_holds_for_every_number_above_it(amount: float) -> None:
    """What is no `decimal` (a fifth place, a huge number) counts as too much: the limit is in an `unless`."""
    within = f'{V} has decimal && {V}.decimal.lessThanOrEqual(decimal("1000.0"))'
    assert holds(f"{HAS} && !({within})", NUMBER, {"v": amount})
    assert not holds(f"{HAS} && !({within})", NUMBER, {"v": 1000})


def test_a_null_is_named_only_where_null_is_not_told_as_a_value() -> None:
    """Whether a rule reads `nulls` alone or everything, it sees the same."""
    schema = {"properties": {"v": {}, "b": {"type": ["string", "null"]}}}
    found = {"v": None, "b": None}
    names = "context.arguments.nulls"
    for condition, answer in ((f'{names}.contains("v")', False), (f'{names}.contains("b")', True)):
        assert holds(condition, {}, found, schema=schema, roles={"/b": "option"}) is answer


def test_conditions_beside_the_properties_do_not_untype_them() -> None:
    """`anyOf` with `required` is how schemas say `one of these`: arguments stay typed."""
    alternatives = {"anyOf": [{"required": ["v"]}, {"maxProperties": 0}]}
    assert holds(f'{HAS} && {V} == "a"', STRING, {"v": "a"}, schema=alternatives)


def test_a_reference_keeps_what_stands_beside_it_and_what_it_names() -> None:
    definition = {"type": "object", "properties": {"y": STRING}, "required": ["y"]}
    schema = {"$ref": "#/$defs/a", "properties": {"z": STRING}, "required": ["z"]}
    assert holds(
        f'{HAS} && {V}.y == "1" && {V}.z == "2"',
        schema,
        {"v": {"y": "1", "z": "2"}},
        schema={"$defs": {"a": definition}},
    )


def test_beyond_a_depth_and_where_it_recurs_it_is_text() -> None:
    node = {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}, "s": STRING}}
    value: dict[str, Any] = {"s": "bottom"}
    for _ in range(20):
        value = {"n": value}
    assert holds(
        f"{HAS} && {V} has n.n.n.n.n.n",
        {"$ref": "#/$defs/node"},
        {"v": value},
        schema={"$defs": {"node": node}},
    )


def test_an_integer_that_no_long_holds_is_never_an_allow() -> None:
    """`1e30` is an integer to JSON Schema and no `Long`: the rules cannot be asked, so the answer is no."""
    for number in (1e30, -1e19):
        decision = decide_in(
            probing(f"{HAS} && {V} == 1", {"type": "integer"}), call("x/t", v=number)
        ).decision
        assert decision.effect is Effect.DENY


@pytest.mark.parametrize("name", ["__entity", "__extn", "__expr", "nulls"])
def test_names_that_are_taken_are_refused_at_load(name: str) -> None:
    for properties in ({name: STRING}, {"o": {"type": "object", "properties": {name: STRING}}}):
        described = tool("t", NOWHERE, properties)
        problem = fault_of(tools=tool_file("x", described))
        assert (problem.file, problem.line) == ("tools/main.yaml", 14)
        assert f"`{name}`" in problem.message


def test_extra_is_taken_only_where_members_may_be_undeclared() -> None:
    closed = {"type": "object", "properties": {"extra": STRING}, "additionalProperties": False}
    argument_encoder(closed)
    with pytest.raises(UnencodableSchema, match="extra"):
        argument_encoder({**closed, "additionalProperties": True})


AWKWARD = (
    "in if like is has then true principal Set Long Bool Entity type entity action namespace appliesTo tags "
    "enum attributes __cedar __x _ 1a a.b ${a} // ; é 😀"
).split() + ["", " ", "a b", 'a"b', "a\\b", "a\nb", "a\u0000b", "x\u0300", "\u202e", "a/b", "a~b"]


@pytest.mark.parametrize("name", AWKWARD)
def test_any_argument_name_can_be_told_and_asked_for(name: str) -> None:
    escaped = "".join(f"\\u{{{ord(char):x}}}" for char in name)
    rule = f"""@id("probe") forbid (principal, action in Action::"x/t", resource)
    when {{ context.arguments["{escaped}"] == "v" }};"""
    described = tool("t", NOWHERE, {name: STRING})
    described["roles"] = {format_pointer((name,)): "option"}
    ruleset = world(PERMIT_ALL + rule, tools=tool_file("x", described))
    assert rules_of(decide_in(ruleset, call("x/t", {name: "v"}))) == ["probe"]
    assert rules_of(decide_in(ruleset, call("x/t", {name: "w"}))) == ["everything"]
