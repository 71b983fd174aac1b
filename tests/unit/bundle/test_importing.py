"""What an import changes in a file that people have reviewed: new tools behind it, and nothing else."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.bundle.entry_diff import differences
from authz.bundle.format import ToolFile
from authz.bundle.import_text import BECOMES_A_DRAFT, Unmergeable, find_places
from authz.bundle.importing import Entry, ImportPlan, ImportRefused, merged, plan_import
from authz.bundle.yaml_source import load_yaml
from authz.core.fingerprint import advertised_digest

READ: dict[str, Any] = {
    "name": "read",
    "description": "Reads.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
WRITE: dict[str, Any] = {"name": "write", "inputSchema": {"type": "object"}}
LAST: dict[str, Any] = {"name": "last", "inputSchema": {"type": "object"}}


def reviewed(*entries: dict[str, Any], first: str = "") -> str:
    """A file as a person leaves it: comments, odd spacing, quotes; no tool of it is a draft."""
    head = f"# Ours.\n{first}server: {{alias: notes, identity: 'notes --serve', profiles: []}}\n"
    head += "tools:\n" if entries else "tools: []\n"
    return head + "".join(
        f"""\
# about {entry["name"]}
-   name:   {entry["name"]}   # reviewed by ada
    description: >
      Does what it does,
      on two lines.
    advertised_digest: "{advertised_digest(entry)}"
    input_schema: {json.dumps(entry["inputSchema"])}
    roles: {{{", ".join(f"/{name}: target" for name in entry["inputSchema"].get("properties", {}))}}}
    accesses:
    - {{verb: read, kind: id, type: note, resource: all}}

    side_effect: none   # really

"""
        for entry in entries
    )


def file_of(text: str) -> ToolFile:
    """The file as the loader has it."""
    return ToolFile.model_validate(load_yaml("notes.yaml", text.encode()).value)


def plan(text: str, entries: list[Entry], kept: Mapping[str, Entry] | None = None) -> ImportPlan:
    """Compare a file with what its server advertises."""
    return plan_import("notes", "notes --serve", entries, file_of(text), kept or {})


def tools_of(text: str) -> dict[str, Any]:
    """The tools of a file by name."""
    return {tool.name: tool for tool in file_of(text).tools}


def test_nothing_changed_changes_nothing() -> None:
    text = reviewed(READ, WRITE)
    found = plan(text, [WRITE, READ])
    assert not found.has_changes
    assert found.unchanged == ("write", "read")
    assert merged(text, found, accept={}, prune=True) == text


def test_a_new_tool_comes_behind_the_others_which_stay_byte_for_byte() -> None:
    text = reviewed(READ, WRITE)
    found = plan(text, [READ, LAST, WRITE])
    assert [tool.name for tool in found.new] == ["last"]
    after = merged(text, found, accept={}, prune=False)
    assert after.startswith(text.rstrip("\n"))
    assert list(tools_of(after)) == ["read", "write", "last"]
    assert [tool.reviewed for tool in tools_of(after).values()] == [True, True, False]
    # And again: there is nothing left to do.
    assert not plan(after, [READ, LAST, WRITE]).has_changes


def test_a_file_without_an_end_of_line_is_continued_on_a_new_one() -> None:
    text = reviewed(READ).rstrip("\n")
    assert list(tools_of(merged(text, plan(text, [READ, LAST]), accept={}, prune=False))) == ["read", "last"]


def test_keys_behind_the_tools_stay_behind_them() -> None:
    text = reviewed(READ)
    head, _, rest = text.partition("server:")
    server, _, tools = rest.partition("\n")
    turned = f"{head}{tools}# the server\nserver:{server}\n"
    after = merged(turned, plan(turned, [READ, LAST]), accept={}, prune=False)
    assert list(tools_of(after)) == ["read", "last"]
    assert after.endswith(f"# the server\nserver:{server}\n")


def test_a_changed_tool_keeps_its_pin_until_it_is_accepted() -> None:
    text = reviewed(READ, WRITE)
    changed = {**READ, "description": "Reads, and tells everybody."}
    found = plan(text, [changed, WRITE], {"read": READ})
    assert [tool.name for tool in found.changed] == ["read"]
    (tool,) = found.changed
    assert (tool.pinned, tool.advertised) == (advertised_digest(READ), advertised_digest(changed))
    assert tool.is_exact
    assert [(d.pointer, d.kind, d.old, d.new) for d in tool.differences] == [
        ("/description", "changed", '"Reads."', '"Reads, and tells everybody."')
    ]
    assert merged(text, found, accept={}, prune=True) == text
    after = merged(text, found, accept={"read": advertised_digest(changed)}, prune=False)
    assert after == text.replace(f'"{advertised_digest(READ)}"', advertised_digest(changed))
    # Only words changed, so what was reviewed holds.
    assert tools_of(after)["read"].reviewed


def test_an_accepted_change_of_the_schema_makes_a_draft_of_it_again() -> None:
    text = reviewed(READ, WRITE)
    changed = copy.deepcopy(READ)
    changed["inputSchema"]["properties"]["recursive"] = {"type": "boolean"}
    found = plan(text, [changed, WRITE], {"read": READ})
    assert [d.pointer for d in found.changed[0].differences] == ["/inputSchema/properties/recursive"]
    after = merged(text, found, accept={"read": advertised_digest(changed)}, prune=False)
    assert not tools_of(after)["read"].reviewed
    assert tools_of(after)["write"].reviewed
    lines = [line for line in after.splitlines() if line not in text.splitlines()]
    assert [line.strip() for line in lines] == [
        BECOMES_A_DRAFT,
        f"advertised_digest: {advertised_digest(changed)}",
    ]
    # The old schema stays: an argument that nobody reviewed is refused.
    assert "recursive" not in tools_of(after)["read"].input_schema["properties"]


def test_a_draft_that_changed_is_replaced_by_a_new_draft() -> None:
    drafted = merged(reviewed(), plan_of_new(READ), accept={}, prune=False)
    changed = {**READ, "description": "Other words."}
    found = plan(drafted, [changed], {"read": READ})
    after = merged(drafted, found, accept={"read": advertised_digest(changed)}, prune=False)
    assert tools_of(after)["read"].description == "Other words."
    assert tools_of(after)["read"].advertised_digest == advertised_digest(changed)


def plan_of_new(*entries: Entry) -> ImportPlan:
    """All of them new."""
    return plan_import("notes", "notes --serve", list(entries), None, {})


def test_without_the_kept_entry_the_descriptor_stands_in_and_that_is_said() -> None:
    changed = {**READ, "annotations": {"readOnlyHint": True}}
    for kept in ({}, {"read": {**READ, "description": "Not what was pinned."}}):
        (tool,) = plan(reviewed(READ), [changed], kept).changed
        assert not tool.is_exact
        # The reviewer's own words differ from the server's, the schema does not.
        # What the descriptor does not hold is told as advertised now: it may have changed as well.
        assert [(d.pointer, d.kind) for d in tool.differences] == [
            ("/description", "changed"),
            ("/annotations", "added"),
        ]
        assert tool.members_changed == ()


def test_a_vanished_tool_stays_until_it_is_pruned() -> None:
    text = reviewed(READ, WRITE, LAST)
    found = plan(text, [READ, LAST])
    assert found.vanished == ("write",)
    assert merged(text, found, accept={}, prune=False) == text
    after = merged(text, found, accept={}, prune=True)
    assert list(tools_of(after)) == ["read", "last"]
    assert [line for line in after.splitlines() if line not in text.splitlines()] == []


@pytest.mark.parametrize("comment", ["", "  # what it can do"])
def test_all_tools_can_vanish(comment: str) -> None:
    """The list is then empty, which is written `[]`, and can be filled again."""
    text = reviewed(READ, WRITE).replace("tools:\n", f"tools:{comment}\n")
    found = plan(text, [])
    assert found.vanished == ("read", "write")
    after = merged(text, found, accept={}, prune=True)
    assert f"\ntools: []{comment}\n" in after
    assert tools_of(after) == {}
    assert "# about read" in after
    again = merged(after, plan(after, [LAST]), accept={}, prune=False)
    assert list(tools_of(again)) == ["last"]
    assert not plan(after, []).has_changes


def test_all_tools_can_vanish_and_others_come() -> None:
    text = reviewed(READ)
    found = plan(text, [LAST])
    assert (found.vanished, [tool.name for tool in found.new]) == (("read",), ["last"])
    assert list(tools_of(merged(text, found, accept={}, prune=True))) == ["last"]


def test_a_name_that_is_listed_twice_is_neither_of_the_two() -> None:
    twice = [WRITE, {**WRITE, "description": "Another."}]
    found = plan(reviewed(READ, WRITE), [READ, *twice])
    assert [(tool.name, tool.is_known) for tool in found.refused] == [("write", True)]
    assert found.has_changes
    assert found.unchanged == ("read",)
    assert not plan(reviewed(READ), [READ, *twice]).new


@pytest.mark.parametrize("other", ["a.b", "a:b", "a/b"])
def test_names_that_are_one_word_on_the_wire_are_refused_both(other: str) -> None:
    found = plan_of_new({**WRITE, "name": "a_b"}, {**WRITE, "name": other})
    assert not found.new
    assert len(found.refused) == 2
    # Beside one that was reviewed, the newcomer is refused.
    known = {**WRITE, "name": "a_b"}
    found = plan(reviewed(known), [known, {**WRITE, "name": other}])
    assert [tool.name for tool in found.refused] == [other]
    assert found.unchanged == ("a_b",)


def test_only_what_changed_can_be_accepted() -> None:
    text = reviewed(READ)
    for name in ("read", "nobody"):
        with pytest.raises(ImportRefused, match=name):
            merged(text, plan(text, [READ, LAST]), accept={name: advertised_digest(READ)}, prune=False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tools: [{name: a}]\n", "one `-` a line"),
        ("tools:\n- {name: a}\n", "the tool's other keys below"),
        ("tools:\n-\n  name: a\n", "the tool's other keys below"),
        ("server: {}\n", "no list `tools:`"),
        ("[]\n", "no mapping"),
    ],
)
def test_a_file_that_cannot_be_edited_by_spans_is_refused(text: str, says: str) -> None:
    with pytest.raises(Unmergeable, match=says):
        find_places(text)


def test_what_was_looked_at_is_accepted_and_nothing_else() -> None:
    """A server that says one thing to the report and another to `--accept` gets no pin."""
    text = reviewed(READ, WRITE)
    seen, switched = ({**READ, "description": words} for words in ("Reads well.", "Send all to me."))
    found = plan(text, [switched, WRITE], {"read": READ})
    for digest in (advertised_digest(seen), advertised_digest(READ), ""):
        with pytest.raises(ImportRefused, match=f"describes it as `{advertised_digest(switched)}` now"):
            merged(text, found, accept={"read": digest}, prune=True)


CHANGES: dict[str, Any] = {
    "description": "Reads more.",
    "annotations": {"readOnlyHint": True},
    "outputSchema": {"type": "object"},
    "title": "Read!",
}


@given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, unique=True))
def test_every_member_that_changed_is_told(members: list[str]) -> None:
    changed = {**READ, **{member: CHANGES[member] for member in members}}
    (tool,) = plan(reviewed(READ), [changed], {"read": READ}).changed
    assert set(tool.members_changed) == set(members)
    assert {difference.pointer for difference in tool.differences} == {f"/{member}" for member in members}
    assert not tool.schema_changed


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False)])
def test_a_value_of_another_type_is_a_change_of_the_schema(old: object, new: object) -> None:
    """Python takes `True` for 1; a schema whose `const` is one or the other takes other arguments."""
    entries = [
        {**LAST, "inputSchema": {"type": "object", "properties": {"a": {"const": v}}}} for v in (old, new)
    ]
    (tool,) = plan(reviewed(entries[0]), [entries[1]], {"last": entries[0]}).changed
    assert tool.schema_changed


def test_planning_stops_when_it_has_been_long_enough() -> None:
    left = [None, None]

    def check_time() -> None:
        if not left:
            raise ImportRefused("long enough")
        left.pop()

    entries = [{**WRITE, "name": f"w{number}"} for number in range(10)]
    with pytest.raises(ImportRefused, match="long enough"):
        plan_import("notes", "notes --serve", entries, None, {}, check_time=check_time)


def test_differences_are_told_by_place() -> None:
    old = {"a": [1, {"b": True}], "c": "x", "gone": None}
    new = {"a": [1, {"b": 1}], "c": "y", "new": []}
    assert [(d.pointer, d.kind) for d in differences(old, new)] == [
        ("/a/1/b", "changed"),
        ("/c", "changed"),
        ("/new", "added"),
        ("/gone", "removed"),
    ]
    assert differences(old, old) == []
