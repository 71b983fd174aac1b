"""`reviewed: false`: whatever a draft says of itself, it is at A3 and nothing in its results is trusted."""

import json
from typing import Any

import pytest

from authz.core.ruleset import Ruleset, Tool
from authz.model.decision import Effect
from authz.model.resource import Authority
from authz.model.tool import Trust
from tests.support.world import TEXT, call, decide_in, fault_of, faults_of, rules_of, tool, tool_file, world

BOASTS: dict[str, Any] = {
    "leaves_sandbox": False,
    "undo": {"reviewed_by": "nobody", "how": "it says so"},
    "settlement": {"idempotency_key_at": "/path", "retention_seconds": 60},
    "returns": {
        "trust": "trusted",
        "labels": ["private"],
        "fields": {"/a": {"trust": "trusted", "labels": ["x"]}},
    },
}


def boasting(verb: str, **more: Any) -> Ruleset:
    """A tool that claims everything that lowers authority or raises trust."""
    described = tool("do", [{"verb": verb, "kind": "path", "at": "/path"}], {"path": TEXT}, **BOASTS, **more)
    a3 = (
        '@id("all") permit (principal, action, resource);'
        '@id("a3-asks") @requires("approval") forbid (principal, action in Action::"A3", resource);'
    )
    return world(a3, tools=tool_file("s", described))


def do(ruleset: Ruleset) -> Tool:
    """The tool."""
    return ruleset.tools["s", "do"]


@pytest.mark.parametrize("verb", ["read", "connect", "write", "delete", "send", "execute"])
def test_a_draft_is_at_a3_whatever_could_be_derived(verb: str) -> None:
    draft = boasting(verb, reviewed=False)
    assert {action.level for action in do(draft).actions} == {Authority.A3}
    outcome = decide_in(draft, call("s/do", path="/workspace/a", digest=None))
    assert (outcome.decision.effect, rules_of(outcome)) == (Effect.REQUIRE_APPROVAL, ["a3-asks"])


@pytest.mark.parametrize(("verb", "level"), [("write", "A1"), ("delete", "A1"), ("send", "A1")])
def test_once_reviewed_its_level_is_derived(verb: str, level: str) -> None:
    decision = decide_in(boasting(verb), call("s/do", path="/workspace/a", digest=None)).decision
    assert decision.effect is Effect.ALLOW
    assert decision.authority is Authority[level]


def test_nothing_that_a_draft_says_of_itself_is_believed() -> None:
    descriptor = do(boasting("write", reviewed=False)).descriptor
    assert not descriptor.is_undoable
    assert descriptor.settlement.idempotency_key_at is None
    assert descriptor.returns.trust is Trust.UNTRUSTED
    assert not descriptor.returns.fields
    # Labels only restrict, so they hold.
    assert descriptor.returns.labels == {"private", "x"}


def test_a_name_that_ends_like_an_action_is_refused() -> None:
    described = tool("list:read:A0", [{"verb": "read", "kind": "path", "at": "/path"}], {"path": TEXT})
    assert "ends like the id of an action" in fault_of(tools=tool_file("s", described)).message


def test_names_that_are_one_word_on_the_wire_are_refused() -> None:
    access = [{"verb": "read", "kind": "path", "at": "/path"}]
    described = [tool(name, access, {"path": TEXT}) for name in ("a.b", "a_b")]
    (fault,) = faults_of(tools=tool_file("s", *described))
    assert fault.message == "`s/a_b` and `s/a.b` are one name where runtimes write it into a word"


MISSPELT: dict[str, Any] = {"path": {**TEXT, "maxLenght": 3, "nullable": True}}


def test_a_draft_keeps_keywords_that_are_none_until_it_is_reviewed() -> None:
    """What a server advertises can be drafted; nobody has said yet what constrains its arguments."""
    access = [{"verb": "read", "kind": "path", "at": "/path"}]
    draft = tool("do", access, MISSPELT, reviewed=False)
    made = call("s/do", path="/workspace/a", digest=None)
    a3 = '@id("a3-asks") @requires("approval") forbid (principal, action in Action::"A3", resource);'
    ruleset = world('@id("all") permit (principal, action, resource);' + a3, tools=tool_file("s", draft))
    assert decide_in(ruleset, made).decision.effect is Effect.REQUIRE_APPROVAL
    faults = faults_of(tools=tool_file("s", {**draft, "reviewed": True}))
    assert [(fault.code, fault.file) for fault in faults] == [("tool.unknown-keyword", "tools/main.yaml")] * 2
    assert "`maxLenght` at `/properties/path` of the schema is no keyword" in faults[0].message
    assert "`maxLength`" in faults[0].hint


def test_a_misspelt_keyword_is_told_with_its_line() -> None:
    text = tool_file("s", tool("do", [{"verb": "read", "kind": "path", "at": "/path"}], MISSPELT))
    lines = json.dumps(json.loads(text), indent=1)
    fault, _ = faults_of(tools=lines)
    assert fault.line == 1 + [line.strip() for line in lines.splitlines()].index('"maxLenght": 3,')
