"""Stage 3: schemas that are usable, arguments that fit, defaults filled in, faults a model can act on."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.arguments import MAX_REPORTED_ERRORS, ArgumentSchema, SchemaUnusable
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
    sent = {"b": {}}
    filled(schema, sent)
    assert sent == {"b": {}}
    complete = {"a": None, "b": {"c": 2}}
    assert filled(schema, complete) == complete


def test_the_members_before_items_have_schemas_of_their_own() -> None:
    item = {"type": "object", "properties": {"x": {"default": 1}}}
    schema = schema_of({"l": {"type": "array", "prefixItems": [{"type": "object"}], "items": item}})
    assert filled(schema, {"l": [{}, {}]}) == {"l": [{}, {"x": 1}]}


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
