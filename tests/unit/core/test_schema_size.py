"""Schemas that are small as text and large once references are followed: refused, or walked once.

Eight members that refer to the next definition, eight definitions long, come to 16 million parts. Work is
counted here, not timed: how often a part of the schema is looked at.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.bundle.drafts import NoDraft, draft_of
from authz.core import cedar_values, schema_places
from authz.core.arguments import ArgumentSchema
from authz.core.cedar_values import MAX_EXPANDED_PARTS, UnencodableSchema, argument_encoder
from authz.core.lint.tool_facts import value_schemas
from authz.core.schema_places import Undeclared, check_declared
from tests.support.world import fault_of, tool, tool_file

TEXT = {"type": "string"}


def doubling(
    width: int, levels: int, *, arrays: bool = False, leaf: Mapping[str, Any] = TEXT
) -> dict[str, Any]:
    """A schema of `width * levels` properties that comes to `width ** levels` parts."""
    definitions: dict[str, Any] = {}
    for level in range(levels):
        below = leaf if level == levels - 1 else {"$ref": f"#/$defs/d{level + 1}"}
        member = {"type": "array", "items": below} if arrays else below
        properties = {f"p{index}": member for index in range(width)}
        definitions[f"d{level}"] = {"type": "object", "properties": properties, "required": []}
    return {"type": "object", "properties": {"all": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every part of a schema that a walker has resolved."""
    seen: list[Any] = []
    for module in (cedar_values, schema_places):
        real = module.resolve_reference

        def counted(root: Any, node: Any, real: Any = real) -> Any:
            seen.append(node)
            return real(root, node)

        monkeypatch.setattr(module, "resolve_reference", counted)
    return seen


def test_a_type_of_millions_of_parts_is_refused(looked_at: list[Any]) -> None:
    with pytest.raises(UnencodableSchema, match=f"over {MAX_EXPANDED_PARTS} parts"):
        argument_encoder(doubling(8, 8))
    assert len(looked_at) < 1000


def test_a_bundle_with_such_a_tool_is_refused_at_its_line() -> None:
    schema = doubling(8, 8)
    access = {"verb": "execute", "kind": "unreviewed", "resource": "x/t"}
    described = tool("t", [access], {}, schema=schema, roles={"/all": "payload"})
    problem = fault_of(tools=tool_file("x", described))
    assert (problem.file, problem.code) == ("tools/main.yaml", "tool.schema-unusable")
    assert "with its references followed" in problem.message


@pytest.mark.parametrize("arrays", [False, True])
def test_parts_that_are_shared_are_looked_at_once(arrays: bool, looked_at: list[Any]) -> None:
    """Wide or through arrays, within the bounds or not: the work goes with the text of the schema."""
    schema = doubling(20, 8, arrays=arrays)
    try:
        argument_encoder(schema)
    except UnencodableSchema:
        assert not arrays
    assert len(looked_at) < 20 * 8 * 10


def test_long_names_are_bounded_too() -> None:
    named = {"type": "object", "properties": {"n" * 100_000: TEXT}}
    properties = {f"p{index}": {"$ref": "#/$defs/d"} for index in range(20)}
    with pytest.raises(UnencodableSchema, match="characters"):
        argument_encoder({"type": "object", "properties": properties, "$defs": {"d": named}})


def test_large_parts_that_come_to_nothing_are_bounded_too() -> None:
    """Of the items of an array only scalars are told, but each type was made."""
    wide = {"type": "object", "properties": {f"p{index}": TEXT for index in range(4000)}}
    items = {"type": "object", "properties": {"a": {"$ref": "#/$defs/wide"}}}
    properties = {f"p{index}": {"type": "array", "items": dict(items)} for index in range(2000)}
    with pytest.raises(UnencodableSchema):
        argument_encoder({"type": "object", "properties": properties, "$defs": {"wide": wide}})


def test_the_largest_plain_schema_is_taken() -> None:
    """The bound counts what a type comes to, and depth alone does not use it up."""
    schema: dict[str, Any] = {"type": "object", "properties": {f"p{n}": TEXT for n in range(4900)}}
    for _ in range(6):
        schema = {"type": "object", "properties": {"in": schema}}
    assert argument_encoder(schema).parts == 4900 + 7


@given(st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_shared_parts_are_told_like_written_ones(width: int, levels: int, arrays: bool) -> None:
    """A definition that many refer to means what it would mean written out at each place."""
    schema = doubling(width, levels, arrays=arrays)

    def written(node: Any) -> Any:
        if isinstance(node, dict) and "$ref" in node:
            return written(schema["$defs"][node["$ref"].rpartition("/")[2]])
        return {name: written(member) for name, member in node.items()} if isinstance(node, dict) else node

    plain = written({name: member for name, member in schema.items() if name != "$defs"})
    assert argument_encoder(schema).cedar_type == argument_encoder(plain).cedar_type


def test_a_pointer_of_stars_walks_each_part_once(looked_at: list[Any]) -> None:
    check_declared(doubling(9, 7), ("all", *"*" * 7))
    with pytest.raises(Undeclared):
        check_declared(doubling(9, 7), ("all", *"*" * 8))
    assert len(looked_at) < 1000


def test_the_other_walkers_take_it() -> None:
    schema = doubling(8, 8)
    assert ArgumentSchema(schema).check({"all": {"p0": {"p1": {}}}}) == {"all": {"p0": {"p1": {}}}}
    assert len(list(value_schemas(schema))) < 200
    with_default = doubling(8, 8, leaf={"type": "string", "default": "x"})
    filled = ArgumentSchema({**with_default, "properties": {"all": {"$ref": "#/$defs/d7"}}}).check(
        {"all": {}}
    )
    assert filled == {"all": {f"p{index}": "x" for index in range(8)}}


def test_references_are_no_patterns() -> None:
    """`*` in a reference is a name: it neither leads to every definition nor hides the one of that name."""
    schema = {
        "type": "object",
        "properties": {"a": {"not": {"$ref": "#/$defs/*"}}, "b": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"properties": {"c": {"default": 1}}, "type": "object"}, "*": {"type": "string"}},
    }
    assert ArgumentSchema(schema).check({"b": {}}) == {"b": {"c": 1}}


def test_no_draft_is_made_of_more_arguments_than_anybody_reviews() -> None:
    with pytest.raises(NoDraft, match="over 1000 arguments"):
        draft_of({"name": "t", "inputSchema": doubling(20, 8)})
    wide = {"type": "object", "properties": {f"p{index}": TEXT for index in range(999)}}
    assert len(draft_of({"name": "t", "inputSchema": wide}).roles) == 999
    wide["properties"]["one-more"] = TEXT  # type: ignore[index]
    with pytest.raises(NoDraft, match="over 1000 arguments"):
        draft_of({"name": "t", "inputSchema": wide})
