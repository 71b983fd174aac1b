"""For any schema and any valid value Cedar decides, and no object that a model wrote is copied."""

import json
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from authz.core.cedar_values import RESERVED_NAMES
from authz.errors import BundleError
from authz.model.decision import Code
from tests.support.world import PERMIT_ALL, call, decide_in, tool, tool_file, world

NOWHERE = [{"verb": "read", "kind": "path", "resource": "/workspace"}]
MAX = 2**53 - 1

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


READS_ALL = """@id("reads-all") forbid (principal, action in Action::"x/t", resource)
when { context.arguments has v && context.arguments.v == context.arguments.v && false };"""


@given(st.data())
@settings(max_examples=150)
def test_whatever_the_schema_its_values_are_told_to_cedar(data: st.DataObject) -> None:
    """For any schema and valid value Cedar decides, and no object that a model wrote is copied."""
    schema, values = data.draw(shapes(3))
    described = tool("t", NOWHERE, {"v": schema}, required=[], schema={"$defs": DEFINITIONS})
    try:
        ruleset = world(PERMIT_ALL + READS_ALL, tools=tool_file("x", described))
    except BundleError as error:
        # A default inside a union is refused at load, and then there is no call to decide.
        if all("is never filled in" in problem.message for problem in error.problems):
            reject()
        raise
    for value in data.draw(st.lists(values, min_size=1, max_size=4)):
        made = call("x/t", {"v": value})
        decision = decide_in(ruleset, made).decision
        assert decision.code is Code.POLICY_PERMIT, (decision.code, decision.internal, decision.message)
        assert decision.arguments is not None
        check_names(ruleset.tools[("x", "t")].encoder.encode(decision.arguments))
