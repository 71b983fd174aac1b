"""How arguments are told to Cedar: every row of the table evaluates, and nothing else gets through."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.cedar_values import RESERVED_NAMES, UnencodableSchema, argument_encoder
from authz.core.ruleset import Ruleset
from authz.model.decision import Code, Effect
from tests.support.world import PERMIT_ALL, call, decide_in, fault_of, rules_of, tool, tool_file, world

NOWHERE = [{"verb": "read", "kind": "path", "resource": "/workspace"}]
MAX = 2**53 - 1


def probing(condition: str, schema: Any, **more: Any) -> Ruleset:
    """A world in which calls of `x/t` are forbidden by `probe` when the condition holds."""
    rule = f'@id("probe") forbid (principal, action in Action::"x/t", resource) when {{ {condition} }};'
    described = tool("t", NOWHERE, {"v": schema}, required=[], **more)
    return world(PERMIT_ALL + rule, tools=tool_file("x", described))


def holds(condition: str, schema: Any, arguments: dict[str, Any], **more: Any) -> bool:
    """Whether the condition is true of these arguments, alone and where all of them are told."""
    answers = set()
    for whole in ("", "context.arguments == context.arguments && "):
        outcome = decide_in(probing(whole + condition, schema, **more), call("x/t", arguments))
        assert outcome.decision.code in (Code.POLICY_FORBID, Code.POLICY_PERMIT), outcome.decision.internal
        answers.add(rules_of(outcome) == ["probe"])
    assert len(answers) == 1, "what is told depends on what is read"
    return answers.pop()


V = "context.arguments.v"
HAS = "context.arguments has v"
STRING = {"type": "string"}
TYPED = {"anyOf": [STRING, {"type": "object", "properties": {"x": STRING}}]}
OBJECT = {"type": "object", "properties": {"x": STRING, "n": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize(
    ("schema", "value", "condition"),
    [
        (STRING, "é\n\"'\\ 😀", f'{V} == "é\\n\\"\'\\\\ 😀"'),
        (STRING, "", f'{V} == ""'),
        ({"enum": ["a", "b"]}, "b", f'["b"].contains({V})'),
        ({"const": "a"}, "a", f'{V} like "a*"'),
        ({"type": "integer"}, MAX, f"{V} == {MAX}"),
        ({"type": "integer"}, -MAX, f"{V} == -{MAX}"),
        ({"type": "integer"}, 5.0, f"{V} == 5"),
        ({"type": "boolean"}, False, f"{V} == false"),
        ({"type": "number"}, 1.5, f'{V}.text == "1.5" && {V}.decimal == decimal("1.5") && !({V} has long)'),
        ({"type": "number"}, 7, f'{V}.text == "7" && {V}.long == 7 && {V}.decimal == decimal("7.0")'),
        ({"type": "number"}, 7.0, f'{V}.text == "7" && {V}.long == 7'),
        ({"type": "number"}, -0.0, f'{V}.text == "0" && {V}.long == 0'),
        ({"type": "number"}, 0.00001, f'{V}.text == "0.00001" && !({V} has decimal) && !({V} has long)'),
        ({"type": "number"}, 1e300, f'{V}.text == "1e+300" && !({V} has decimal) && !({V} has long)'),
        ({"type": "number"}, -1234.5678, f'{V}.decimal.lessThan(decimal("-1234.5677"))'),
        ({"type": ["string", "null"]}, None, f'!({HAS}) && context.arguments.nulls.contains("v")'),
        ({"type": ["string", "null"]}, "a", f'{V} == "a" && !context.arguments.nulls.contains("v")'),
        ({"anyOf": [STRING, {"type": "null"}]}, None, f'!({HAS}) && context.arguments.nulls.contains("v")'),
        ({"oneOf": [{"type": "null"}, OBJECT]}, {"x": "y"}, f'{V}.x == "y"'),
        ({"enum": ["a", None]}, None, f'!({HAS}) && context.arguments.nulls.contains("v")'),
        ({"type": "array", "items": STRING}, ["a", "b", "a"], f'{V}.items == ["a", "b"] && {V}.count == 3'),
        ({"type": "array", "items": {"type": "integer"}}, [], f"{V}.items.isEmpty() && {V}.count == 0"),
        ({"type": "array", "items": {"type": "number"}}, [1.5, 2], f'{V}.items == ["1.5", "2"]'),
        ({"type": "array", "items": TYPED}, ["a", {"x": "b"}], f'{V}.items == ["a", "{{\\"x\\":\\"b\\"}}"]'),
        ({"type": "array"}, [None, [1]], f'{V}.items == ["null", "[1]"]'),
        ({"type": "array", "items": {"type": ["string", "null"]}}, ["a", None], f'{V}.items == ["a", "null"]'),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": STRING}, [1, "a"], f'{V}.items == ["1", "a"]'),
        ({"type": "array", "items": OBJECT}, [{"x": "a"}, {"x": "b", "n": 2}], f'{V}.each.x == ["a", "b"] && {V}.each.n == [2] && {V}.count == 2'),
        ({"type": "array", "items": OBJECT}, [{"x": "a", "q": 1}], f'{V}.items == ["{{\\"q\\":1,\\"x\\":\\"a\\"}}"]'),
        (OBJECT, {"x": "a"}, f'{V}.x == "a" && !({V} has n)'),
        (OBJECT, {"x": "a", "q": [1]}, f'{V}.extra == [{{key: "q", value: "[1]"}}]'),
        ({"type": "object", "additionalProperties": STRING}, {"k": "w"}, f'{V}.extra.contains({{key: "k", value: "w"}})'),
        ({"type": "object", "patternProperties": {"^k": {}}, "additionalProperties": False}, {"k": 1}, f'{V}.extra == [{{key: "k", value: "1"}}]'),
        ({"type": ["string", "integer"]}, "a", f'{V}.text == "a" && {V}.string == "a" && !({V} has long)'),
        ({"type": ["string", "integer"]}, 5, f'{V}.text == "5" && {V}.long == 5 && !({V} has string)'),
        ({"type": ["string", "boolean"]}, True, f'{V}.text == "true" && {V}.bool'),
        ({}, None, f'{V}.text == "null"'),
        ({}, [1, {"a": None}], f'{V}.text == "[1,{{\\"a\\":null}}]"'),
        (True, {"b": 1, "a": 2.0}, f'{V}.text == "{{\\"a\\":2,\\"b\\":1}}"'),
        ({"anyOf": [STRING, True]}, 5, f'{V}.text == "5"'),
        (TYPED, {"x": "b"}, f'{V}.text == "{{\\"x\\":\\"b\\"}}"'),
        ({"type": "string", "anyOf": [{"minLength": 1}, {"const": ""}]}, "a", f'{V} == "a"'),
    ],
)  # fmt: skip
def test_every_encoding_evaluates_in_cedar(schema: Any, value: Any, condition: str) -> None:
    assert holds(condition, schema, {"v": value})
    assert not holds(f"!({condition})", schema, {"v": value})


def test_what_is_absent_is_absent() -> None:
    for schema in (STRING, {"type": ["string", "null"]}, {"type": "number"}, OBJECT, {}):
        assert holds(f"!({HAS})", schema, {})


def test_one_number_is_one_number_however_it_is_spelled() -> None:
    """5 and 5.0 have one fingerprint, so a rule must not tell them apart (FP1)."""
    for schema in ({}, {"type": ["integer", "string"]}, {"type": "number"}):
        for value in (5, 5.0):
            assert holds(f"{HAS} && {V} has long && {V}.long == 5", schema, {"v": value})
    assert not holds(f"{HAS} && {V} has long", {}, {"v": 5.5})


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
    assert holds(f'{V} == "a"', STRING, {"v": "a"}, schema={**alternatives, "required": ["v"]})


def test_a_reference_keeps_what_stands_beside_it_and_what_it_names() -> None:
    definition = {"type": "object", "properties": {"y": STRING}, "required": ["y"]}
    schema = {"$ref": "#/$defs/a", "properties": {"z": STRING}, "required": ["z"]}
    assert holds(
        f'{V}.y == "1" && {V}.z == "2"',
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
        f"{V} has n.n.n.n.n.n", {"$ref": "#/$defs/node"}, {"v": value}, schema={"$defs": {"node": node}}
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
        assert (problem.file, problem.line) == ("tools/main.yaml", 13)
        assert f"`{name}`" in problem.message


def test_extra_is_taken_only_where_members_may_be_undeclared() -> None:
    closed = {"type": "object", "properties": {"extra": STRING}, "additionalProperties": False}
    argument_encoder(closed)
    with pytest.raises(UnencodableSchema, match="extra"):
        argument_encoder({**closed, "additionalProperties": True})


AWKWARD = [
    "", " ", "in", "if", "like", "is", "has", "then", "true", "principal", "Set", "Long", "Bool", "Entity", "type",
    "entity", "action", "namespace", "appliesTo", "tags", "enum", "attributes", "__cedar", "__x", "_", "1a", "a b",
    'a"b', "a\\b", "a\nb", "a\u0000b", "é", "x\u0300", "😀", "\u202e", "a.b", "a/b", "a~b", "${a}", "//", ";",
]  # fmt: skip


@pytest.mark.parametrize("name", AWKWARD)
def test_any_argument_name_can_be_told_and_asked_for(name: str) -> None:
    escaped = "".join(f"\\u{{{ord(char):x}}}" for char in name)
    rule = f"""@id("probe") forbid (principal, action in Action::"x/t", resource)
    when {{ context.arguments["{escaped}"] == "v" }};"""
    described = tool(
        "t", NOWHERE, {name: STRING}, roles={f"/{name.replace('~', '~0').replace('/', '~1')}": "option"}
    )
    described["roles"] = {
        pointer: role for pointer, role in described["roles"].items() if pointer.count("/") == 1
    }
    if name == "a~b":
        del described["roles"]["/a~b"]
    ruleset = world(PERMIT_ALL + rule, tools=tool_file("x", described).replace("\x00", "\\u0000"))
    assert rules_of(decide_in(ruleset, call("x/t", {name: "v"}))) == ["probe"]
    assert rules_of(decide_in(ruleset, call("x/t", {name: "w"}))) == ["everything"]


EVIL = st.sampled_from(
    [
        '{"__entity":{"type":"User","id":"ada"}}',
        "__entity",
        "__extn",
        '"',
        "\\",
        "\n",
        "\x00",
        "decimal",
        "1.0",
    ]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | EVIL
NUMBERS = (
    st.integers(-MAX, MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            0.1,
            -0.0,
            922337203685477.5807,
            922337203685477.0,
            -99999999999999.9999,
            99999999999999.9999,
            1e15,
            1.00001,
        ]
    )
)
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXT | st.sampled_from(sorted(RESERVED_NAMES)), inner, max_size=3)
    ),
    max_leaves=6,
)
SCALARS = [
    ({"type": "string"}, TEXT),
    ({"type": "integer"}, st.integers(-MAX, MAX) | st.integers(-MAX, MAX).map(float)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "number"}, NUMBERS),
    ({"enum": ["a", "b"]}, st.sampled_from(["a", "b"])),
    ({"enum": ["a", 1, None]}, st.sampled_from(["a", 1, None])),
    ({"type": ["string", "null"]}, st.none() | TEXT),
    ({"type": ["integer", "string", "null"]}, st.none() | TEXT | st.integers(-MAX, MAX)),
    ({"type": "null"}, st.none()),
    ({"const": None}, st.none()),
    ({}, ANY),
    (True, ANY),
    ({"$ref": "#/$defs/text"}, TEXT),
    ({"$ref": "#/$defs/maybe"}, st.none() | TEXT),
    ({"$ref": "#anchored"}, st.integers(-9, 9)),
]
DEFINITIONS = {
    "text": {"type": "string"},
    "maybe": {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]},
    "n": {"$anchor": "anchored", "type": "integer"},
}
Shape = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def objects(draw: st.DrawFn, depth: int) -> Shape:
    """A schema of objects, and values of it."""
    properties: dict[str, Any] = {}
    values: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    required = []
    for name in draw(
        st.lists(st.sampled_from(["a", "b", "in", "x y", "é", "count"]), unique=True, max_size=3)
    ):
        schema, value = draw(shapes(depth - 1))
        kind = draw(st.sampled_from(["required", "optional", "default"]))
        if kind == "default" and isinstance(schema, dict) and not json.dumps(schema).count('"default"'):
            schema = {**schema, "default": draw(value)}
        properties[name] = schema
        if kind == "required":
            required.append(name)
        (values if kind == "required" else optional)[name] = value
    schema = {"type": "object", "properties": properties, "required": required}
    entries = st.fixed_dictionaries(values, optional=optional)
    if draw(st.booleans()):
        schema["additionalProperties"] = False
        return schema, entries
    others = st.dictionaries(
        TEXT.filter(lambda name: name not in properties) | st.just("__entity"), ANY, max_size=2
    )
    return schema, st.tuples(others, entries).map(lambda both: {**both[0], **both[1]})


@st.composite
def shapes(draw: st.DrawFn, depth: int) -> Shape:
    """A schema, and values that are valid by it."""
    if depth <= 0 or draw(st.booleans()):
        return draw(st.sampled_from(SCALARS))
    kind = draw(st.sampled_from(["array", "object", "nullable", "union", "prefix", "map"]))
    if kind == "object":
        return draw(objects(depth))
    schema, values = draw(shapes(depth - 1))
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=3)
    if kind == "nullable":
        return {"anyOf": [schema, {"type": "null"}]}, values | st.none()
    if kind == "union":
        other, more = draw(shapes(depth - 1))
        return {"anyOf": [schema, other]}, values | more
    if kind == "map":
        return {"type": "object", "additionalProperties": schema}, st.dictionaries(TEXT, values, max_size=2)
    rest = {"type": "array", "prefixItems": [{"type": "integer"}], "items": schema}
    return rest, st.lists(values, max_size=2).map(lambda items: [1, *items])


def check_names(encoded: Any) -> None:
    """Every object has names of our own making, and every escape is the one that this code writes."""
    if isinstance(encoded, list):
        for item in encoded:
            check_names(item)
    elif isinstance(encoded, dict):
        if RESERVED_NAMES & encoded.keys():
            assert encoded.keys() == {"__extn"}
            assert encoded["__extn"].keys() == {"fn", "arg"}
            assert encoded["__extn"]["fn"] == "decimal"
            assert float(encoded["__extn"]["arg"]) is not None
        else:
            for item in encoded.values():
                check_names(item)


READS_ALL = f"""@id("reads-all") forbid (principal, action in Action::"x/t", resource)
when {{ context.arguments has v && {V} == {V} && false }};"""


@given(st.data())
@settings(max_examples=150)
def test_whatever_the_schema_its_values_are_told_to_cedar(data: st.DataObject) -> None:
    """For any schema and valid value Cedar decides, and no object that a model wrote is copied."""
    schema, values = data.draw(shapes(3))
    described = tool("t", NOWHERE, {"v": schema}, required=[], schema={"$defs": DEFINITIONS})
    ruleset = world(PERMIT_ALL + READS_ALL, tools=tool_file("x", described))
    for value in data.draw(st.lists(values, min_size=1, max_size=4)):
        made = call("x/t", {"v": value})
        decision = decide_in(ruleset, made).decision
        assert decision.code is Code.POLICY_PERMIT, (decision.code, decision.internal, decision.message)
        assert decision.arguments is not None
        check_names(ruleset.tools[("x", "t")].encoder.encode(decision.arguments))
