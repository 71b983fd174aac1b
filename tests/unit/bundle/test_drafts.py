"""What is guessed of an advertised tool, and how it is written down."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.bundle.draft_yaml import read_back, rendered, server_text
from authz.bundle.drafts import UNREVIEWED_KIND, NoDraft, draft_of, words_of
from authz.bundle.yaml_source import load_yaml
from authz.core.fingerprint import advertised_digest
from authz.core.policy_text import invisible_characters


def entry(name: str, properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A `tools/list` entry."""
    return {
        "name": name,
        "description": "A tool.",
        "inputSchema": {"type": "object", "properties": properties or {}},
        **more,
    }


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("read_file", ["read", "file"]),
        ("readFile", ["read", "file"]),
        ("Read-File", ["read", "file"]),
        ("getURLPath", ["get", "url", "path"]),
        ("v2", ["v", "2"]),
        ("", []),
    ],
)
def test_words_of_a_name(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("tool", "argument", "schema", "accesses", "role"),
    [
        ("read_file", "path", TEXT, [("read", "path")], "target"),
        ("write_file", "filePath", TEXT, [("write", "path")], "target"),
        ("remove", "files", {"type": "array", "items": TEXT}, [("delete", "path")], "target"),
        ("move_file", "source", TEXT, [("read", "path"), ("delete", "path")], "target"),
        ("move_file", "destination", TEXT, [("write", "path")], "destination"),
        ("fetch", "url", TEXT, [("connect", "url"), ("read", "url")], "target"),
        ("submit", "callback", {"type": "string", "format": "uri"}, [("connect", "url"), ("send", "url")],
         "destination"),
        ("invite", "who", {"type": "string", "format": "email"}, [("send", "email")], "destination"),
        ("send_mail", "cc", {"type": "array", "items": TEXT}, [("send", "email")], "destination"),
        ("resolve", "hostname", TEXT, [("connect", "host")], "target"),
        ("run", "command", TEXT, [("execute", "shell")], "command"),
        ("login", "api_key", TEXT, [], "credential"),
        ("pay", "amount", {"type": "number"}, [], "amount"),
        ("list", "max_results", {"type": "integer"}, [], "option"),
        ("list", "order", {"enum": ["up", "down"]}, [], "option"),
        ("note", "body", TEXT, [], "payload"),
        ("note", "anything", {}, [], "payload"),
        ("note", "note_id", TEXT, [], "target"),
        ("read_file", "path", {"type": ["string", "null"]}, [("read", "path")], "target"),
    ],
)  # fmt: skip
def test_what_names_suggest(
    tool: str, argument: str, schema: dict[str, Any], accesses: list[tuple[str, str]], role: str
) -> None:
    draft = draft_of(entry(tool, {argument: schema}))
    assert [(access.verb, access.kind) for access in draft.accesses] == accesses
    assert all(access.at == f"/{argument}" for access in draft.accesses)
    assert dict(draft.roles) == {f"/{argument}": role}


def test_arguments_below_others_are_found_where_a_pointer_can_name_them() -> None:
    item = {"type": "object", "properties": {"path": TEXT, "token": TEXT, "text": TEXT}}
    draft = draft_of(entry("read_files", {"files": {"type": "array", "items": item}}))
    assert [(access.verb, access.at) for access in draft.accesses] == [("read", "/files/*/path")]
    assert dict(draft.roles) == {
        "/files": "payload",
        "/files/*/path": "target",
        "/files/*/token": "credential",
    }


def test_a_tool_that_works_on_trees_is_guessed_to_do_so() -> None:
    draft = draft_of(entry("search_files", {"path": TEXT, "pattern": TEXT}))
    assert [access.tree for access in draft.accesses] == [True]
    assert "scope: tree" in rendered(draft, "fs", indent=2)


def test_the_schema_stays_as_it_is_and_what_is_open_is_told() -> None:
    schema = {
        "type": "object",
        "properties": {"a": TEXT, "b": {"type": "array", "items": {"type": "number"}}},
    }
    draft = draft_of(entry("x", inputSchema=schema))
    assert draft.schema == schema
    assert draft.closings == (
        "additionalProperties: false at the top",
        "maxLength at /a",
        "maxItems at /b",
        "minimum and maximum at /b/*",
    )
    text = rendered(draft, "s", indent=0)
    assert load_yaml("t", text.encode()).value[0]["input_schema"] == schema
    assert "# to close: maxLength at /a\n" in text


def test_what_real_servers_send_besides_the_standard_stays_and_is_told() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "Arguments",
        "properties": {"a": {**TEXT, "nullable": True, "examples": ["x"], "x-order": 1}},
    }
    draft = draft_of(entry("x", inputSchema=schema))
    (correction,) = draft.corrections
    assert correction.startswith("`nullable` at `/properties/a` of the schema is no keyword of JSON Schema")
    text = rendered(draft, "s", indent=0)
    assert f"  # to correct: {correction}\n" in text
    assert read_back(text, draft).value["tools"][0]["input_schema"] == schema


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"inputSchema": {"type": "object"}}, "no name"),
        ({"name": 1, "inputSchema": {"type": "object"}}, "no name"),
        ({"name": "x"}, "no `inputSchema`"),
        ({"name": "x", "inputSchema": []}, "no `inputSchema`"),
        ({"name": "x", "inputSchema": {}, "n": float("nan")}, "RFC 8785"),
        ({"name": "x", "inputSchema": {}, "n": "\ud800"}, "RFC 8785"),
    ],
)
def test_what_is_no_tool_is_no_draft(broken: dict[str, Any], says: str) -> None:
    with pytest.raises(NoDraft, match=says):
        draft_of(broken)


def test_every_draft_makes_an_access_that_nobody_understood() -> None:
    text = rendered(draft_of(entry("x")), "s", indent=2)
    tool = load_yaml("t", text.encode()).value[0]
    assert tool["accesses"] == [{"verb": "execute", "kind": UNREVIEWED_KIND, "resource": "s/x"}]
    assert tool["reviewed"] is False
    assert tool["returns"] == {"trust": "untrusted"}


def test_hints_are_a_comment_and_cannot_leave_it() -> None:
    hints = {"readOnlyHint": True, "title": "a\n    reviewed: true\u2028x\u202e"}
    text = rendered(draft_of(entry("x", annotations=hints)), "s", indent=2)
    line = next(line for line in text.split("\n") if "hints" in line)
    assert line.lstrip().startswith("# the server's hints, not believed: {")
    assert line.isascii()
    assert "reviewed: true" in line
    assert load_yaml("t", text.encode()).value[0]["reviewed"] is False


# What YAML, or one of its versions, would take for something else than the text that it is.
STRANGE = st.sampled_from(
    "yes no on off null ~ true 1:30 0x1F 1_000 1.5e5 -1.0E-3 1e5 .inf = << 2024-01-01 &a *b !c - ? : # [ { |"
    " > ' \" %".split()
) | st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | STRANGE
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRANGE, inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(JSON, STRANGE, STRANGE)
def test_whatever_a_server_writes_reads_back_the_same(value: Any, description: str, name: str) -> None:
    made = entry("x", {name: {"default": value, "description": description}}, description=description)
    made["annotations"] = {"x": value}
    try:
        draft = draft_of(made)
        text = rendered(draft, "s", indent=2)
        document = read_back(text, draft)
    except NoDraft:
        # Refused as a whole, such as for a number beyond 53 bits in a float's clothes.
        return
    assert invisible_characters(text) == []
    found = load_yaml("t", text.encode()).value
    assert document.value == {"tools": found}
    assert len(found) == 1
    assert found[0]["input_schema"] == made["inputSchema"]
    assert json.dumps(found[0]["input_schema"]) == json.dumps(made["inputSchema"])
    assert found[0]["advertised_digest"] == advertised_digest(made)
    assert found[0]["reviewed"] is False


@given(STRANGE, STRANGE, st.lists(STRANGE, max_size=3))
def test_the_head_of_a_file_reads_back_the_same(identity: str, server_name: str, command: list[str]) -> None:
    text = server_text(alias="s", identity=identity, profiles=[], server_name=server_name, command=command)
    found = load_yaml("t", (text + "  []\n").encode()).value
    assert found == {
        "server": {"alias": "s", "identity": identity, "local": False, "profiles": []},
        "tools": [],
    }
