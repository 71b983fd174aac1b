"""Stage 3: schemas that are usable, arguments that fit, defaults filled in, faults a model can act on."""

import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.arguments import MAX_REPORTED_ERRORS, ArgumentSchema
from authz.core.json_schema import SchemaUnusable
from authz.model.decision import ArgumentError


def schema_of(properties: dict[str, Any], **more: Any) -> ArgumentSchema:
    return ArgumentSchema({"type": "object", "properties": properties, **more})


def filled(schema: ArgumentSchema, arguments: dict[str, Any]) -> Any:
    """The arguments that the schema makes of these."""
    found = schema.check(arguments)
    assert not isinstance(found, tuple), found
    return found


def faults(schema: ArgumentSchema, arguments: Any) -> tuple[ArgumentError, ...]:
    """What the schema finds wrong with these."""
    found = schema.check(arguments)
    assert isinstance(found, tuple)
    assert found
    return found


def fault(schema: ArgumentSchema, arguments: Any) -> ArgumentError:
    (found,) = faults(schema, arguments)
    return found


def test_defaults_are_filled_in_at_every_depth() -> None:
    schema = schema_of(
        {
            "path": {"type": "string"},
            "mode": {"enum": ["r", "w"], "default": "r"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}},
            "list": {"items": {"type": "object", "properties": {"x": {"default": None}}}},
            "maybe": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/o"}]},
            "named": {"$ref": "#/$defs/o"},
            "whole": {"type": "object", "properties": {"y": {"default": 2}}, "default": {"y": 2}},
        },
        **{"$defs": {"o": {"type": "object", "properties": {"z": {"type": "string", "default": "d"}}}}},
    )
    assert filled(schema, {"path": "a"}) == {"path": "a", "mode": "r", "whole": {"y": 2}}
    assert filled(schema, {"deep": {}, "list": [{}, {"x": 1}], "maybe": {}, "named": {"z": "e"}}) == {
        "mode": "r",
        "deep": {"n": 1},
        "list": [{"x": None}, {"x": 1}],
        "maybe": {"z": "d"},
        "named": {"z": "e"},
        "whole": {"y": 2},
    }
    assert filled(schema, {"maybe": None})["maybe"] is None


def test_what_was_sent_is_left_as_it_was() -> None:
    schema = schema_of({"a": {"default": 1}, "b": {"type": "object", "properties": {"c": {"default": 1}}}})
    sent: dict[str, Any] = {"b": {}}
    filled(schema, sent)
    assert sent == {"b": {}}
    complete = {"a": None, "b": {"c": 2}}
    assert filled(schema, complete) == complete


def test_the_members_before_items_have_schemas_of_their_own() -> None:
    item = {"type": "object", "properties": {"x": {"default": 1}}}
    schema = schema_of({"l": {"type": "array", "prefixItems": [{"type": "object"}], "items": item}})
    assert filled(schema, {"l": [{}, {}]}) == {"l": [{}, {"x": 1}]}
    assert filled(schema, {"l": []}) == {"l": []}


X: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}
Y = {"type": "object", "properties": {"x": {"type": "integer", "default": 2}}}
XS = {"type": "array", "items": X}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"anyOf": [{"type": "array", "items": X}, NULL]}, [{}, {"x": 5}], [{"x": 1}, {"x": 5}]),
        ({"oneOf": [NULL, {"type": "array", "items": X}]}, [{}], [{"x": 1}]),
        ({"anyOf": [{"$ref": "#/$defs/xs"}, NULL]}, [{}], [{"x": 1}]),
        ({"anyOf": [{"$ref": "#/$defs/xs"}, NULL]}, None, None),
        ({"type": ["array", "null"], "items": X}, [{}], [{"x": 1}]),
        ({"type": "array", "prefixItems": [X, Y]}, [{}, {}, {}], [{"x": 1}, {"x": 2}, {}]),
        ({"type": "array", "prefixItems": [X, Y]}, [{}], [{"x": 1}]),
        ({"type": "array", "prefixItems": [Y], "items": X}, [{}, {}], [{"x": 2}, {"x": 1}]),
        ({"type": "array", "items": {"anyOf": [X, NULL]}}, [{}, None], [{"x": 1}, None]),
        ({"type": "object", "additionalProperties": X}, {"k": {}, "l": {}}, {"k": {"x": 1}, "l": {"x": 1}}),
        ({"type": "object", "properties": {"k": Y}, "additionalProperties": X}, {"k": {}, "l": {}},
         {"k": {"x": 2}, "l": {"x": 1}}),
        ({"anyOf": [{"type": "object", "additionalProperties": X}, NULL]}, {"k": {}}, {"k": {"x": 1}}),
        # A default of a member of what is itself absent is not filled in: there is nothing to fill.
        ({"type": "object", "properties": {"in": X}}, {}, {}),
        ({"type": "object", "properties": {"in": X}}, {"in": {}}, {"in": {"x": 1}}),
    ],
)  # fmt: skip
def test_defaults_are_filled_in_wherever_one_schema_applies(schema: Any, value: Any, expected: Any) -> None:
    compiled = schema_of({"v": schema, "xs": {"$ref": "#/$defs/xs"}}, **{"$defs": {"xs": XS}})
    assert filled(compiled, {"v": value}) == {"v": expected}
    assert filled(compiled, {}) == {}


DEFS = {
    "t": X,
    "named": {"$anchor": "here", **X},
    "colour": {"type": "string", "default": "red"},
}
USED = {"t": {"$ref": "#/$defs/t"}, "n": {"$ref": "#/$defs/named"}, "c": {"$ref": "#/$defs/colour"}}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"anyOf": [X, Y]}, "/properties/v/anyOf/0/properties/x/default"),
        ({"anyOf": [X, Y, NULL]}, "/properties/v/anyOf/0/properties/x/default"),
        ({"oneOf": [X, {"type": "string"}]}, "/properties/v/oneOf/0/properties/x/default"),
        ({"allOf": [X]}, "/properties/v/allOf/0/properties/x/default"),
        ({"allOf": [{"$ref": "#/$defs/t"}]}, "/$defs/t/properties/x/default"),
        ({"type": "object", "anyOf": [X, NULL]}, "/properties/v/anyOf/0/properties/x/default"),
        ({"properties": X["properties"], "anyOf": [{"type": "object"}, NULL]}, "/v/properties/x/default"),
        ({"anyOf": [{"type": "string", "default": "a"}, NULL]}, "/properties/v/anyOf/0/default"),
        ({"anyOf": [{"$ref": "#/$defs/colour"}, NULL]}, "/$defs/colour/default"),
        ({"anyOf": [{"anyOf": [X, NULL]}, NULL]}, "/anyOf/0/anyOf/0/properties/x/default"),
        ({"patternProperties": {"^k": X}}, "/patternProperties/^k/properties/x/default"),
        ({"patternProperties": {"^k": {}}, "additionalProperties": X}, "/additionalProperties/properties/x"),
        ({"unevaluatedProperties": X}, "/unevaluatedProperties/properties/x/default"),
        ({"unevaluatedItems": X}, "/unevaluatedItems/properties/x/default"),
        ({"contains": X}, "/contains/properties/x/default"),
        ({"if": X, "then": {}}, "/if/properties/x/default"),
        ({"then": X, "if": {}}, "/then/properties/x/default"),
        ({"not": X}, "/not/properties/x/default"),
        ({"dependentSchemas": {"k": X}}, "/dependentSchemas/k/properties/x/default"),
        ({"propertyNames": {"default": "a"}}, "/propertyNames/default"),
        # A sibling of `$ref` that says the same keyword stands in front of what the target says.
        ({"$ref": "#/$defs/t", "properties": {"x": {"type": "integer"}}}, "/$defs/t/properties/x/default"),
        ({"$ref": "#/$defs/t", "additionalProperties": X}, "/additionalProperties/properties/x/default"),
        # References that only the validator understands.
        ({"$ref": "#here", "default": {}}, "/$defs/named/properties/x/default"),
        ({"$ref": "#here"}, "/$defs/named/properties/x/default"),
        ({"$dynamicRef": "#here"}, "/$defs/named/properties/x/default"),
        ({"$ref": "#/%24defs/t"}, "/$defs/t/properties/x/default"),
        # Places that cannot be absent have nothing to fill in.
        ({"items": {"type": "string", "default": "a"}}, "/properties/v/items/default"),
        ({"prefixItems": [{"type": "string", "default": "a"}]}, "/properties/v/prefixItems/0/default"),
        ({"additionalProperties": {"default": "a"}}, "/properties/v/additionalProperties/default"),
        ({"$defs": {"unused": {"default": "a"}}}, "/properties/v/$defs/unused/default"),
    ],
)
def test_a_default_that_is_not_filled_in_is_refused(schema: Any, pointer: str) -> None:
    with pytest.raises(SchemaUnusable, match="is never filled in") as caught:
        schema_of({**USED, "v": schema}, **{"$defs": DEFS})
    assert pointer in str(caught.value)
    assert "delete it" in str(caught.value)


def test_a_default_of_the_whole_is_refused() -> None:
    with pytest.raises(SchemaUnusable, match="`/default` is never filled in"):
        schema_of({}, default={})


def test_what_is_only_called_default_is_no_default() -> None:
    schema = schema_of(
        {
            "default": {"type": "object", "properties": {"default": {"type": "string"}}},
            "e": {"enum": [{"default": 1}]},
            "c": {"const": {"default": 1}},
            "x": {"examples": [{"default": 1}]},
            "d": {"type": "object", "default": {"default": {"default": 1}}},
            "u": {"anyOf": [{"const": {"default": 2}}, {"type": "object", "required": ["default"]}]},
        }
    )
    assert filled(schema, {}) == {"d": {"default": {"default": 1}}}


def test_the_default_nearest_to_a_property_is_filled_in() -> None:
    schema = schema_of(
        {
            **USED,
            "v": {"$ref": "#/$defs/colour", "default": "blue"},
            "l": {"items": {"$ref": "#/$defs/colour"}},
        },
        **{"$defs": DEFS},
    )
    assert filled(schema, {"l": []}) == {"c": "red", "v": "blue", "l": []}


NAMES = st.sampled_from(["a", "b"])


def _nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(NAMES, inner, max_size=2)
    objects = st.builds(lambda found: {"type": "object", "properties": found}, members)
    return (
        objects
        | st.builds(lambda found, rest: {**found, "additionalProperties": rest}, objects, inner)
        | st.builds(lambda found, rest: {**found, "patternProperties": {"^k": rest}}, objects, inner)
        | st.builds(lambda found, one: {**found, "allOf": [one]}, objects, objects)
        | st.builds(lambda found: {"type": "array", "items": found}, inner)
        | st.builds(lambda one, found: {"prefixItems": [one], "items": found}, inner, inner)
        | st.builds(lambda found: {"anyOf": [found, {"type": "null"}]}, inner)
        | st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner)
        | st.builds(lambda found: {"$ref": "#/$defs/o", **found}, objects)
        | st.just({"$ref": "#/$defs/o"})
    )


LEAF = {"type": "integer"}
NODES = st.recursive(st.sampled_from([LEAF, {**LEAF, "default": 7}]), _nodes, max_leaves=5)


def _value(draw: st.DrawFn, shared: dict[str, Any], node: dict[str, Any], depth: int = 0) -> Any:
    """A value that is likely to fit."""
    if "$ref" in node:
        own = node.get("properties", {})
        node = {**shared, **node, "properties": {**shared["properties"], **own}}
    if "anyOf" in node:
        return _value(draw, shared, draw(st.sampled_from(node["anyOf"])), depth)
    if node.get("type") == "null":
        return None
    if node.get("type") == "integer":
        return draw(st.integers(0, 2))
    if "items" in node:
        items = [*node.get("prefixItems", []), node["items"], node["items"]]
        count = draw(st.integers(0, len(items))) if depth < 4 else 0
        return [_value(draw, shared, item, depth + 1) for item in items[:count]]
    members = dict(node["properties"])
    for one in node.get("allOf", []):
        members = {**one["properties"], **members}
    for keyword, rest in (("additionalProperties", "z"), ("patternProperties", "k")):
        if keyword in node:
            members[rest] = node[keyword]["^k"] if rest == "k" else node[keyword]
    names: set[str] = draw(st.sets(st.sampled_from(sorted(members)))) if members and depth < 4 else set()
    return {name: _value(draw, shared, members[name], depth + 1) for name in sorted(names)}


def _demanding(node: Any) -> Any:
    """The schema with every property that has a default required."""
    if isinstance(node, list):
        return [_demanding(member) for member in node]
    if not isinstance(node, dict):
        return node
    changed = {name: _demanding(member) for name, member in node.items()}
    members = node.get("properties", {})
    needed = [name for name, member in members.items() if "default" in member]
    return {**changed, "required": needed} if needed else changed


@given(st.dictionaries(NAMES, NODES, min_size=1, max_size=2), NODES, st.data())
def test_no_default_of_a_usable_schema_is_left_out(
    properties: dict[str, Any], inner: dict[str, Any], data: st.DataObject
) -> None:
    """Wherever a schema with defaults applies to an object, the object has them all."""
    shared = {"type": "object", "properties": {"a": inner, "b": {**LEAF, "default": 8}}}
    raw = {
        "type": "object",
        "properties": {**properties, "o": {"$ref": "#/$defs/o"}},
        "$defs": {"o": shared},
    }
    try:
        schema = ArgumentSchema(raw)
    except SchemaUnusable:
        return
    found = schema.check(data.draw(st.composite(_value)(shared, raw)))
    if isinstance(found, tuple):
        return
    assert jsonschema_rs.Draft202012Validator(_demanding(raw)).is_valid(found)
    assert schema.check(found) is found


def test_a_default_is_judged_with_the_rest() -> None:
    """A default can complete a condition elsewhere: the whole is judged again."""
    schema = schema_of(
        {"a": {"type": "boolean", "default": True}, "b": {"type": "string"}},
        **{"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    )
    assert fault(schema, {}).pointer == "/b"
    assert filled(schema, {"b": "x"}) == {"a": True, "b": "x"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, '"type": "object"'),
        ({"type": "array"}, '"type": "object"'),
        ({"type": ["object", "null"]}, '"type": "object"'),
        ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, "$schema"),
        ({"type": "object", "$schema": 7}, "$schema"),
        ({"type": "object", "properties": []}, "invalid"),
        ({"type": "object", "required": "a"}, "invalid"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "invalid"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "invalid"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}}, "invalid"),
        ({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}, "default of `/a`"),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/n"}},
                "$defs": {"n": {"type": "null", "default": 1}},
            },
            "default of `/a`",
        ),
        (
            {"type": "object", "properties": {"a": {"properties": {"b": {"default": 1}}, "default": {}}}},
            "leaves out defaults",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"properties": {"b": {"minimum": 2, "default": 1}}}]}},
            },
            "default of `/a/b`",
        ),
        ({"type": "object", "properties": {"a": {"items": {"$id": "http://x.example.com/"}}}}, "$id"),
    ],
)
def test_schemas_that_are_refused_at_load(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaUnusable, match=r".") as caught:
        ArgumentSchema(schema)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


REMOTE = [
    "http://127.0.0.1:9/s.json", "https://example.com/s.json#/a", "file:///etc/passwd", "//example.com/s",
    "other.json", "urn:uuid:1", "/s.json", "", "../s.json#/$defs/a",
]  # fmt: skip


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("reference", REMOTE)
def test_references_outside_the_schema_are_refused(reference: str, keyword: str) -> None:
    for node in (
        {keyword: reference},
        {"items": {"anyOf": [{keyword: reference}]}},
        {"$defs": {"unused": {keyword: reference}}},
        {"if": {"not": {keyword: reference}}},
    ):
        with pytest.raises(SchemaUnusable, match="must stay inside"):
            schema_of({"a": node})


def test_references_inside_the_schema_are_taken() -> None:
    schema = schema_of(
        {
            "a": {"$ref": "#/$defs/t/properties/x~1y"},
            "b": {"$ref": "#/properties/a"},
            "c": {"$ref": "#anchor"},
        },
        **{
            "$defs": {
                "t": {"properties": {"x/y": {"type": "integer", "default": 4}}},
                "n": {"$anchor": "anchor", "type": "string"},
            }
        },
    )
    assert filled(schema, {}) == {"a": 4, "b": 4}
    assert fault(schema, {"a": "x"}).expected == "integer"
    assert fault(schema, {"c": 1}).expected == "string"


def test_a_recursive_schema_is_walked_with_the_value() -> None:
    node = {"type": "object", "properties": {"n": {"default": 0}, "next": {"$ref": "#/$defs/node"}}}
    schema = schema_of({"top": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": node}})
    assert filled(schema, {"top": {"next": {"next": {}}}}) == {
        "top": {"n": 0, "next": {"n": 0, "next": {"n": 0}}}
    }


@pytest.mark.parametrize("pattern", ["^(?=a)b", "(a)\\1", "(?<!x)y"])
def test_patterns_that_need_backtracking_are_refused(pattern: str) -> None:
    with pytest.raises(SchemaUnusable, match="invalid"):
        schema_of({"a": {"type": "string", "pattern": pattern}})
    with pytest.raises(SchemaUnusable, match="invalid"):
        schema_of({"a": {"patternProperties": {pattern: {}}}})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)*$", "^([a-z]+)*[a-z]$", "(.*)*x"])
def test_matching_is_linear_in_the_length(pattern: str) -> None:
    """What takes a backtracking matcher longer than the universe ends here at once."""
    schema = schema_of({"a": {"type": "string", "pattern": pattern}})
    began = time.perf_counter()
    assert isinstance(schema.check({"a": "a" * 20_000 + "!"}), tuple)
    assert time.perf_counter() - began < 2


SURPLUS = "an argument that the tool does not have"
BOX = schema_of(
    {
        "path": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "n": {"type": "integer", "minimum": 3},
        "even": {"type": "integer", "multipleOf": 2},
        "mode": {"enum": ["r", "w"]},
        "fixed": {"const": 7},
        "when": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}, "maxItems": 2, "uniqueItems": True},
    },
    required=["path"],
    additionalProperties=False,
)


@pytest.mark.parametrize(
    ("arguments", "pointer", "found", "expected"),
    [
        ({}, "/path", "nothing", "a value"),
        ({"path": 1}, "/path", "integer", "string"),
        ({"path": None}, "/path", "null", "string"),
        ({"path": "a"}, "/path", "string", "min length 2"),
        ({"path": "AB"}, "/path", "string", "pattern ^[a-z]+$"),
        ({"path": "ab", "n": 4.5}, "/n", "number", "integer"),
        ({"path": "ab", "n": True}, "/n", "boolean", "integer"),
        ({"path": "ab", "n": 2}, "/n", "integer", "minimum 3"),
        ({"path": "ab", "even": 5}, "/even", "integer", "multiple of 2"),
        ({"path": "ab", "mode": "x"}, "/mode", "string", "one of `r`, `w`"),
        ({"path": "ab", "fixed": {}}, "/fixed", "object", "`7`"),
        ({"path": "ab", "when": "tomorrow"}, "/when", "string", "format date-time"),
        ({"path": "ab", "tags": ["a", 1]}, "/tags/1", "integer", "null or string"),
        ({"path": "ab", "tags": {"a": 1}}, "/tags", "object", "array"),
        ({"path": "ab", "pth": 1}, "/pth", SURPLUS, "only declared arguments"),
        ({"path": "ab", "a/b~": 1}, "/a~1b~0", SURPLUS, "only declared arguments"),
    ],
)
def test_a_fault_says_where_what_was_found_and_what_was_expected(
    arguments: dict[str, Any], pointer: str, found: str, expected: str
) -> None:
    error = fault(BOX, arguments)
    assert (error.pointer, error.found, error.expected) == (pointer, found, expected)
    assert error.message.startswith(("add ", "remove ", "change "))
    assert not error.message.endswith(".")


def test_the_values_of_the_model_are_not_echoed() -> None:
    """A schema error goes to the log and back to the model: the value may be a secret."""
    for error in faults(
        BOX, {"path": "S3CRET-9", "n": "S3CRET-9", "mode": "S3CRET-9", "tags": ["S3CRET-9"] * 2}
    ):
        assert "S3CRET-9" not in error.message + error.expected + error.found


def test_every_fault_is_reported_up_to_twenty() -> None:
    schema = schema_of({f"p{n:02}": {"type": "string"} for n in range(30)})
    assert len(faults(schema, {"p00": 1, "p01": 2, "p02": "x"})) == 2
    found = faults(schema, {f"p{n:02}": n for n in range(30)})
    assert len(found) == MAX_REPORTED_ERRORS == 20
    assert len({error.pointer for error in found}) == 20


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-11-30T10:00:00Z", "2026-11-30 10:00"),
        ("date", "2026-11-30", "2026-13-30"),
        ("email", "ada@example.com", "ada"),
        ("ipv4", "192.0.2.1", "192.0.2.256"),
        ("ipv6", "2001:db8::1", "2001:db8::g"),
        ("uuid", "0190d5a4-7d2c-7b1e-8f00-000000000000", "0190d5a4"),
        ("uri", "https://example.com/a", "no uri"),
    ],
)
def test_formats_are_checked(name: str, good: str, bad: str) -> None:
    schema = schema_of({"a": {"type": "string", "format": name}})
    assert filled(schema, {"a": good}) == {"a": good}
    assert fault(schema, {"a": bad}).expected == f"format {name}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "n", "mode", "tags", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["path", "n", "mode", "fixed", "tags", "x"]), JSON, max_size=5))
def test_whatever_is_sent_the_answer_is_arguments_or_faults(arguments: dict[str, Any]) -> None:
    found = BOX.check(arguments)
    if isinstance(found, tuple):
        assert 0 < len(found) <= MAX_REPORTED_ERRORS
        assert all(error.pointer == "" or error.pointer.startswith("/") for error in found)
    else:
        assert BOX.check(found) == found  # filling in again changes nothing
