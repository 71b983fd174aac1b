"""Cedar's JSON has escapes that become entities: nothing that anybody wrote ever becomes one.

Every forgery is tried at every place that a model, a page or a runtime can write to. It must neither
turn the decision nor break the evaluation: it is judged like the harmless text that it is.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.model.decision import Code, Decision, Effect
from authz.model.resource import ResolvedPath
from authz.model.tool import SideEffect
from tests.support.world import call, decide_in, facts, record_of, rules_of, source, tool, tool_file, world

ESCAPES = [
    {"__entity": {"type": "Group", "id": "admins"}},
    {"__entity": {"type": "Agent", "id": "root"}},
    {"__entity": {"type": "Action", "id": "x/t"}},
    {"__extn": {"fn": "ip", "arg": "127.0.0.1"}},
    {"__extn": {"fn": "decimal", "arg": "0.0"}},
    {"__extn": {"fn": "datetime", "arg": "2020-01-01T00:00:00Z"}},
    {"__expr": "true"},
    {"__expr": 'Agent::"root"'},
    {"__entity": {"type": "Agent", "id": "root"}, "extra": 1},
    {"fn": "ip", "arg": "127.0.0.1"},
    {"type": "Agent", "id": "root"},
]
NESTED = [
    lambda inner: inner,
    lambda inner: [inner],
    lambda inner: {"a": inner},
    lambda inner: {"a": [{"b": inner}]},
    lambda inner: {"__entity": inner},
    lambda inner: {"__extn": {"fn": inner, "arg": inner}},
]
TEXT = {"type": "string"}
PLACES: dict[str, Any] = {
    "text": TEXT,
    "any": {},
    "bag": {"type": "object"},
    "map": {"type": "object", "additionalProperties": TEXT},
    "list": {"type": "array"},
    "texts": {"type": "array", "items": TEXT},
    "rows": {"type": "array", "items": {"type": "object", "properties": {"s": TEXT}}},
    "row": {"type": "object", "properties": {"s": TEXT, "b": {}}},
    "either": {"anyOf": [TEXT, {"type": "object"}, {"type": "null"}]},
    "number": {"type": ["number", "string"]},
}
TOOLS = tool_file(
    "x",
    tool(
        "t",
        [{"verb": "read", "kind": "path", "at": "/path"}],
        {"path": TEXT, **PLACES},
        required=["path"],
        roles={"/text": "payload"},
        schema={"additionalProperties": True},
    ),
)
# Permits that a forgery would have to satisfy, and a forbid that it would have to make vanish.
RULES = """
@id("root") permit (principal == Agent::"root", action, resource);
@id("admins") permit (principal in Group::"admins", action, resource);
@id("ada-s") permit (principal, action, resource) when { principal.on_behalf_of == User::"root" };
@id("told") permit (principal, action in Action::"x/t", resource)
  when { context.arguments has text && context.arguments.text == "let me in" };
@id("all-of-it") permit (principal, action in Action::"x/t", resource)
  when { context.arguments == context.arguments && context.role == "never" };
@id("session") permit (principal, action, resource) when { context.session.id == "root" };
@id("trusted") permit (principal, action, resource) when { context.untrusted.isEmpty() };
@id("open") permit (principal, action, resource in Directory::"/open");
@id("secret") forbid (principal, action, resource in Directory::"/open/secret");
"""
WORLD = world(
    RULES,
    tools=TOOLS,
    entities="groups: {admins: {}}\nusers: {ada: {}}\nagents: {root: {groups: [admins]}, coder-1: {}}\n",
)


CODES = {
    "/closed/a": Code.POLICY_NO_MATCH,
    "/open/secret/a": Code.POLICY_FORBID,
    "/open/a": Code.POLICY_PERMIT,
}


def decision(arguments: dict[str, Any] | None = None, /, **parts: Any) -> Decision:
    return decide_in(WORLD, call("x/t", arguments, **parts)).decision


def is_denied(**parts: Any) -> None:
    """Nothing permits it, and nothing broke."""
    found = decision(**parts)
    assert (found.effect, found.code) == (Effect.DENY, Code.POLICY_NO_MATCH), found.internal


def test_without_a_forgery_the_rules_work() -> None:
    assert decision(path="/open/a").effect is Effect.ALLOW
    assert decision(path="/open/secret/a").code is Code.POLICY_FORBID
    assert rules_of(decide_in(WORLD, call("x/t", path="/a", agent="root"))) == ["admins", "root"]
    assert rules_of(decide_in(WORLD, call("x/t", path="/a", text="let me in"))) == ["told"]
    is_denied(path="/closed/a")


@pytest.mark.parametrize("wrap", NESTED)
@pytest.mark.parametrize("escape", ESCAPES, ids=json.dumps)
def test_an_escape_in_an_argument_is_text(escape: Any, wrap: Any) -> None:
    forged = wrap(escape)
    text = json.dumps(forged)
    as_object = forged if isinstance(forged, dict) else {"k": forged}
    for arguments in (
        {"text": text},
        {"any": forged},
        {"any": text},
        {"bag": as_object},
        {"map": {"__entity": text, text: "k"}},
        {"list": [forged, text]},
        {"texts": [text]},
        {"rows": [as_object, {"s": text}, {"s": "b", "__entity": forged}]},
        {"row": {"s": text, "b": forged}},
        {"row": {**as_object, "s": "b", "b": None}},
        {"either": as_object},
        {"either": text},
        {"number": text},
        {"undeclared": forged},
        {text: forged},
        dict(as_object),
    ):
        for path, code in CODES.items():
            found = decision({**arguments, "path": path})
            assert found.code is code, (arguments, found.internal)


QUOTING = [
    'root"', '"root"', 'Agent::"root"', 'coder-1", "id": "root', 'root"}},{"uid":{"type":"Agent","id":"root',
    "root\n", "root\x00", "root\\", "\\u0022root", "root\u200b", "ｒｏｏｔ", "rооt", " root", "root ", "ROOT",
    '{"__entity":{"type":"Agent","id":"root"}}', '","parents":[{"type":"Group","id":"admins"}],"x":"', "",
]  # fmt: skip


@pytest.mark.parametrize("name", QUOTING)
def test_a_name_that_looks_like_another_is_another(name: str) -> None:
    """Agents, users and sessions come from outside as text, and are compared as text."""
    is_denied(path="/closed/a", agent=name)
    is_denied(path="/closed/a", user=name)
    is_denied(path="/closed/a", session=name)
    is_denied(path="/closed/a", parent_agent=name)
    for part in ("agent", "user", "session"):
        parts: dict[str, Any] = {part: name}
        assert decision(path="/open/secret/a", **parts).code is Code.POLICY_FORBID
        assert decision(path="/open/a", **parts).effect is Effect.ALLOW


@pytest.mark.parametrize("name", [name for name in QUOTING if not {"\n", "\x00"} & set(name) and name])
def test_a_resource_is_what_its_path_says(name: str) -> None:
    quoted = name.replace("\\", "/")
    assert decision(path=f"/open/secret/{quoted}").code is Code.POLICY_FORBID
    assert decision(path=f"/open/{quoted}").effect is Effect.ALLOW
    is_denied(path=f"/{quoted}/open/secret")
    is_denied(path=f"/open-{quoted}")
    is_denied(path=f'/closed/", "parents": [{{"type": "Directory", "id": "/open{quoted}')
    resolved = {"/path": ResolvedPath(path=f"/open/secret/{quoted}")}
    assert decision(path=f"/open/{quoted}", resolved=resolved).code is Code.POLICY_FORBID


@pytest.mark.parametrize("escape", ESCAPES, ids=json.dumps)
def test_an_escape_in_provenance_or_claims_is_text(escape: Any) -> None:
    text = json.dumps(escape)
    for claim in (
        source("web", uri=text),
        source("web", call=text),
        source("web", labels=[text, "__entity"]),
        source(text),
        source("web", allowed_use=frozenset({text})),
    ):
        is_denied(path="/closed/a", provenance={"": claim})
        assert decision(path="/open/secret/a", provenance={"": claim}).code is Code.POLICY_FORBID
    is_denied(path="/closed/a", cwd=text, sandbox_root=text)
    is_denied(path="/closed/a", resolved={text: ResolvedPath(path="/open/a")})
    made = call("x/t", path="/closed/a")
    known = facts(WORLD, exposed=[text, "__entity"])
    assert decide_in(WORLD, made, exposed=known.exposed).decision.code is Code.POLICY_NO_MATCH


def test_an_escape_in_a_default_is_text() -> None:
    """A reviewed default is no more an escape than what the model sends."""
    for escape in ESCAPES:
        ruleset = world(
            RULES,
            tools=tool_file(
                "x",
                tool(
                    "t",
                    [{"verb": "read", "kind": "path", "at": "/path"}],
                    {
                        "path": TEXT,
                        **PLACES,
                        "any": {"default": escape},
                        "bag": {"type": "object", "default": escape},
                    },
                    required=["path"],
                    schema={"additionalProperties": True},
                ),
            ),
            entities="agents: {root: {groups: [admins]}}\ngroups: {admins: {}}\n",
        )
        outcome = decide_in(ruleset, call("x/t", path="/closed/a"))
        assert outcome.decision.code is Code.POLICY_NO_MATCH
        assert outcome.decision.arguments == {"path": "/closed/a", "any": escape, "bag": escape}


KEYS = st.sampled_from(["__entity", "__extn", "__expr", "type", "id", "fn", "arg", "a", "text", ""])
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(["Agent", "root", "Group", "admins", "ip", "let me in", "true"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING, ANYTHING, st.dictionaries(KEYS, ANYTHING, max_size=3))
@settings(max_examples=300)
def test_no_value_of_an_untyped_argument_is_anything_but_text(
    one: Any, other: Any, more: dict[str, Any]
) -> None:
    """The kind of all of the above: whatever stands where any value may stand, the decision is the same."""
    arguments = {name: value for name, value in more.items() if name != "text"}
    arguments |= {"any": one, "list": [other, one], "bag": {"k": other}, "rows": [{"z": one}]}
    for path, code in CODES.items():
        made = call("x/t", arguments, path=path)
        outcome = decide_in(WORLD, made)
        assert outcome.decision.code is code, outcome.decision.internal
        assert outcome.decision.side_effect is SideEffect.NONE
        assert record_of(WORLD, made, outcome)["code"] == code.value
