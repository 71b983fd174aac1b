"""A misspelt keyword of JSON Schema is found wherever a schema stands, and values are left alone."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.arguments import ArgumentSchema
from authz.core.pointer import format_pointer
from authz.core.schema_keywords import KNOWN, LEGACY, MAX_FOUND, VOCABULARIES, unknown_keywords

OBJECT = {"type": "object"}
BAD = {"type": "string", "maxLenght": 3}


def found(schema: dict[str, Any]) -> dict[str, str]:
    return {format_pointer(one.pointer): one.hint for one in unknown_keywords(schema)}


@pytest.mark.parametrize(
    ("keyword", "meant"),
    [
        ("maxLenght", "maxLength"),
        ("patern", "pattern"),
        ("minimun", "minimum"),
        ("addtionalProperties", "additionalProperties"),
        ("MaxLength", "maxLength"),
        ("requried", "required"),
        ("enums", "enum"),
        ("exclusiveMaximun", "exclusiveMaximum"),
        ("nullable", '["string", "null"]'),
        ("additionalItems", "`items` beside `prefixItems`"),
        ("$recursiveRef", "$dynamicRef"),
        ("id", "$id"),
    ],
)
def test_the_keyword_that_was_meant_is_told(keyword: str, meant: str) -> None:
    ((place, hint),) = found({**OBJECT, keyword: 7}).items()
    assert place == f"/{keyword}"
    assert meant in hint


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"properties": {"a": BAD}}, "/properties/a"),
        ({"properties": {"a": {"items": BAD}}}, "/properties/a/items"),
        ({"properties": {"a": {"prefixItems": [{}, BAD]}}}, "/properties/a/prefixItems/1"),
        ({"patternProperties": {"^a/b": BAD}}, "/patternProperties/^a~1b"),
        ({"additionalProperties": BAD}, "/additionalProperties"),
        ({"unevaluatedProperties": BAD}, "/unevaluatedProperties"),
        ({"properties": {"a": {"unevaluatedItems": BAD}}}, "/properties/a/unevaluatedItems"),
        ({"properties": {"a": {"contains": BAD}}}, "/properties/a/contains"),
        ({"propertyNames": BAD}, "/propertyNames"),
        ({"dependentSchemas": {"a": BAD}}, "/dependentSchemas/a"),
        ({"dependencies": {"a": BAD, "b": ["a"]}}, "/dependencies/a"),
        ({"allOf": [BAD]}, "/allOf/0"),
        ({"anyOf": [{}, BAD]}, "/anyOf/1"),
        ({"oneOf": [BAD]}, "/oneOf/0"),
        ({"not": BAD}, "/not"),
        ({"if": BAD}, "/if"),
        ({"then": BAD}, "/then"),
        ({"else": BAD}, "/else"),
        ({"$defs": {"a": BAD}}, "/$defs/a"),
        ({"definitions": {"a": BAD}}, "/definitions/a"),
        ({"properties": {"a": {"contentSchema": BAD}}}, "/properties/a/contentSchema"),
        ({"properties": {"a": {"$ref": "#/x-shelf/a"}}, "x-shelf": {"a": BAD}}, "/x-shelf/a"),
        ({"properties": {"a": {"$ref": "#/x-shelf/%61"}}, "x-shelf": {"a": BAD}}, "/x-shelf/a"),
        ({"properties": {"a": {"$ref": "#/examples/0"}}, "examples": [BAD]}, "/examples/0"),
        ({"properties": {"properties": {"properties": {"a": BAD}}}}, "/properties/properties/properties/a"),
    ],
)
def test_it_is_found_wherever_a_schema_stands(schema: dict[str, Any], place: str) -> None:
    schema = OBJECT | schema
    ArgumentSchema(schema)
    assert list(found(schema)) == [f"{place}/maxLenght"]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"maxLenght": {"type": "string"}}},
        {"default": {"maxLenght": 1}},
        {"examples": [{"maxLenght": 1}]},
        {"properties": {"a": {"const": {"maxLenght": 1}}, "b": {"enum": [{"maxLenght": 1}]}}},
        {"x-order": ["a"], "x-": {"maxLenght": 1}},
        {"required": ["maxLenght"], "dependentRequired": {"maxLenght": ["a"]}, "dependencies": {"b": ["a"]}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", "$comment": "c"},
        {"properties": {"a": True, "b": {"$ref": "#"}}},
    ],
)
def test_what_is_no_keyword_is_left_alone(schema: dict[str, Any]) -> None:
    assert found(OBJECT | schema) == {}


def test_the_known_keywords_are_those_of_the_meta_schemas() -> None:
    """Each is refused by the meta-schema of its vocabulary with a value that it cannot have."""
    for vocabulary, keywords in VOCABULARIES.items():
        meta = jsonschema_rs.Draft202012Validator(
            {"$ref": f"https://json-schema.org/draft/2020-12/meta/{vocabulary}"}
        )
        refused = {one for one in KNOWN if not all(meta.is_valid({one: bad}) for bad in (-1.5, {"a": 1}))}
        # Two may have any value, so nothing can refuse it.
        assert refused == keywords - {"default", "const"}, vocabulary


def test_the_validator_still_holds_calls_to_what_older_drafts_say() -> None:
    assert {"definitions", "dependencies"} == LEGACY
    schema = ArgumentSchema(
        {
            **OBJECT,
            "properties": {"a": {"$ref": "#/definitions/text"}},
            "definitions": {"text": {"type": "string"}},
            "dependencies": {"b": ["a"], "c": {"required": ["a"]}},
        }
    )
    assert isinstance(schema.check({"a": "x", "b": 1, "c": 1}), dict)
    assert all(isinstance(schema.check(bad), tuple) for bad in ({"a": 1}, {"b": 1}, {"c": 1}))


@given(st.sampled_from(sorted(KNOWN)), st.integers(0, 20), st.characters(categories=["Ll"]))
def test_one_letter_more_is_noticed_in_every_keyword(keyword: str, at: int, letter: str) -> None:
    misspelt = keyword[:at] + letter + keyword[at:]
    if not misspelt.startswith("x-"):
        assert list(found({**OBJECT, misspelt: {}})) == [f"/{misspelt}"]


def test_a_schema_of_many_and_long_ones_is_told_in_part() -> None:
    many = {"k" * number: 1 for number in range(1, 2_000)}
    assert len(unknown_keywords(many)) == MAX_FOUND
    ((one,)) = unknown_keywords({"k" * 100_000: 1})
    assert len(json.dumps([one.says, one.hint])) < 400
