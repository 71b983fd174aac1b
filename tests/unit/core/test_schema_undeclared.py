"""What of a call its tool's schema does not declare at its place."""

from typing import Any

import pytest

from authz.core.schema_undeclared import undeclared_places
from tests.support.world import TEXT, call, decide_in, record_of, tool, tool_file, world

MOST = 256
ITEM = {"type": "object", "properties": {"at": TEXT}}


@pytest.mark.parametrize(
    ("schema", "value", "places"),
    [
        (TEXT, "x", []),
        (TEXT, {"x": 1}, ["x"]),
        (TEXT, {"x": {"y": [1, 2]}, "z": 1}, ["x", "z"]),
        (TEXT, ["x"], ["0"]),
        ({"enum": ["a"]}, {"a": 1}, ["a"]),
        (ITEM, {"at": "x"}, []),
        (ITEM, {"at": "x", "more": 1}, ["more"]),
        (ITEM, {"at": {"x": 1}}, ["at/x"]),
        ({"type": "array", "items": TEXT}, ["x", {"y": 1}], ["1/y"]),
        ({"type": "array", "items": ITEM}, [{"at": "x"}, {"to": "x"}], ["1/to"]),
        ({"type": "array"}, ["x", 1], []),
        ({"type": "array", "prefixItems": [TEXT], "items": False}, ["x", "y"], ["1"]),
        ({"type": "array", "items": TEXT}, {"0": "x"}, ["0"]),
        ({"type": ["array", "string"], "items": TEXT}, ["x"], []),
        ({"anyOf": [TEXT, {"type": "array", "items": TEXT}]}, ["x"], []),
        ({"anyOf": [TEXT, {"type": "array", "items": TEXT}]}, {"x": 1}, ["x"]),
        ({"oneOf": [ITEM, {"type": "object", "properties": {"b": TEXT}}]}, {"at": 1, "b": 2, "x": 3}, ["x"]),
        ({"allOf": [ITEM], "type": "object"}, {"at": "x", "more": 1}, ["more"]),
        ({"$ref": "#/$defs/item"}, {"at": "x", "more": 1}, ["more"]),
        ({"$ref": "#item"}, {"at": "x"}, ["at"]),
        ({"type": "object", "additionalProperties": TEXT}, {"x": "y"}, []),
        ({"type": "object", "patternProperties": {"^x-": TEXT}}, {"x-a": "y", "y": 1}, ["y"]),
        ({**ITEM, "additionalProperties": True}, {"at": "x", "more": 1}, ["more"]),
        ({**ITEM, "if": {"properties": {"more": TEXT}}}, {"more": 1}, ["more"]),
        ({"type": "object"}, {"x": {"y": 1}}, []),
        ({"type": "object", "additionalProperties": False}, {"x": 1}, ["x"]),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, {"x": 1}, []),
        ({}, {"x": [{"y": 1}]}, []),
        ({"description": "Anything."}, [{"y": 1}], []),
        ({"allOf": [{}], "type": "string"}, {"x": 1}, ["x"]),
    ],
)  # fmt: skip
def test_what_is_declared_and_what_is_not(schema: Any, value: Any, places: list[str]) -> None:
    root = {"type": "object", "properties": {"a": schema}, "$defs": {"item": {"$anchor": "item", **ITEM}}}
    found = undeclared_places(root, {"a": value}, MOST)
    assert found == {("a", *place.split("/")) for place in places}


def test_of_an_argument_with_many_undeclared_values_the_whole_is_told() -> None:
    root = {"type": "object", "properties": {"a": TEXT, "b": ITEM}}
    many = {str(number): number for number in range(MOST + 1)}
    assert undeclared_places(root, {"a": many, "b": {"at": {"x": 1}}}, MOST) == {("a",), ("b", "at", "x")}
    assert undeclared_places(root, {"a": {"x": list(many)}}, MOST) == {("a",)}


def test_the_record_of_an_argument_with_many_undeclared_values_has_one_digest() -> None:
    ruleset = world(tools=tool_file("x", tool("note", [READ], {"path": TEXT, "more": ITEM})))
    many = {f"name-{number}": "knows" for number in range(MOST + 1)}
    asked = call("x/note", path=many, more={"at": "/b", "to": "knows"})
    record = record_of(ruleset, asked, decide_in(ruleset, asked))
    assert record["code"] == "schema.invalid"
    assert record["arguments"]["path"].keys() == {"redacted", "length", "leaves"}
    assert record["arguments"]["more"]["at"] == "/b"
    assert record["redacted"] == ["/arguments/more/to", "/arguments/path"]
    assert "knows" not in str(record)


READ = {"verb": "read", "kind": "path", "at": "/path"}
