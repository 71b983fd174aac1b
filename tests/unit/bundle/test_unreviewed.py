"""`reviewed: false`: whatever a draft says of itself, it is at A3 and nothing in its results is trusted."""

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
