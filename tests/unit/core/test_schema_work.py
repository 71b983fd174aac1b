"""How much work a schema can make is counted without doing it."""

from typing import Any

import pytest

from authz.core.arguments import ArgumentSchema
from authz.core.json_schema import SchemaUnusable
from authz.core.schema_work import MAX_WAYS, ways_to_look


def ladder(word: str, width: int, levels: int) -> dict[str, Any]:
    """`width` alternatives on each of `levels`, each a reference to the next level."""
    defs: dict[str, Any] = {
        f"l{n}": {word: [{"$ref": f"#/$defs/l{n + 1}"} for _ in range(width)]} for n in range(levels)
    }
    defs[f"l{levels}"] = {"type": "string"}
    return {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/l0"}},
        "required": [],
        "additionalProperties": False,
        "$defs": defs,
    }


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
def test_alternatives_of_alternatives_are_refused(word: str) -> None:
    with pytest.raises(SchemaUnusable, match="ways"):
        ArgumentSchema(ladder(word, 8, 6))
    ArgumentSchema(ladder(word, 2, 3))


def test_anchors_and_encoded_pointers_are_followed() -> None:
    for spell in ("#l{}", "#/$defs/l%3{}"):
        schema = ladder("anyOf", 8, 6)
        for number in range(7):
            level = schema["$defs"].pop(f"l{number}")
            level["$anchor"] = f"l{number}"
            if "anyOf" in level:
                level["anyOf"] = [{"$ref": spell.format(number + 1)} for _ in range(8)]
            schema["$defs"][f"l{number}"] = level
        assert ways_to_look(schema) > MAX_WAYS, spell


def test_ways_are_counted_without_going_them() -> None:
    assert ways_to_look({"type": "object"}) == 1
    # A member meets one of the properties, however many there are.
    assert ways_to_look({"properties": {f"p{n}": {"type": "string"} for n in range(500)}}) == 2
    assert ways_to_look({"properties": {"a": {"anyOf": [True, {"not": True}]}}}) == 1 + 1 + 1 + 2
    assert ways_to_look(ladder("anyOf", 8, 60)) > MAX_WAYS


def test_a_part_that_contains_itself_is_counted_once() -> None:
    tree = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"properties": {"children": {"items": {"$ref": "#/$defs/node"}}}}},
    }
    assert ways_to_look(tree) < 12
