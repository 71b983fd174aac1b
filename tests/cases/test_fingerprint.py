"""The public failure cases of kind `fingerprint`: what was decided is exactly one canonical call."""

from typing import Any, Final

import pytest

from authz.core.decide import Outcome
from authz.core.facts import NO_APPROVALS
from authz.core.fingerprint import digest
from authz.core.strict_json import loads
from authz.errors import MalformedInput
from authz.model.decision import Effect
from tests.cases.judged import READS, check, runs
from tests.cases.served import SHELL, ids_of_kind, ids_of_tests
from tests.support.world import PERMIT_ALL, TEXT, call, decide_in, tool, tool_file, world, yes_to

ASK: Final = f'{PERMIT_ALL} @id("ask") @requires("approval") forbid (principal, action, resource);'
TOOLS: Final = tool_file(
    "db",
    tool(
        "delete",
        [{"verb": "delete", "kind": "id", "type": "row", "at": "/a"}],
        {"a": TEXT, "b": {"type": "integer", "default": 0}},
    ),
    tool(
        "note",
        [{"verb": "write", "kind": "id", "type": "note", "resource": "notes"}],
        {"text": TEXT},
        roles={"/text": "payload"},
    ),
    tool(
        "deploy",
        [{"verb": "write", "kind": "id", "type": "environment", "at": "/env"}],
        {"env": TEXT},
    ),
)


def asked(name: str, arguments: dict[str, Any], approved: dict[str, Any] | None = None) -> Outcome:
    """The decision on a call where one with the arguments `approved` was said yes to."""
    ruleset = world(ASK, tools=TOOLS)
    yes = NO_APPROVALS if approved is None else yes_to(ruleset, call(name, approved))
    return decide_in(ruleset, call(name, arguments), approvals=yes)


def test_bug_123_another_order_of_keys_is_the_same_call() -> None:
    first = asked("db/delete", {"a": "1", "b": 2})
    assert first.decision.effect is Effect.REQUIRE_APPROVAL
    again = asked("db/delete", {"b": 2, "a": "1"}, {"a": "1", "b": 2})
    assert again.decision.fingerprint == first.decision.fingerprint
    assert again.decision.effect is Effect.ALLOW
    other = asked("db/delete", {"b": 1, "a": "2"}, {"a": "1", "b": 2})
    assert other.decision.effect is Effect.REQUIRE_APPROVAL


def test_bug_124_nothing_is_cut_off() -> None:
    approved = {"text": "a" * 300 + "A"}
    assert asked("db/note", {"text": "a" * 300 + "A"}, approved).decision.effect is Effect.ALLOW
    for text in ("a" * 300 + "B", "a" * 300, "a" * 301 + "A", ""):
        assert asked("db/note", {"text": text}, approved).decision.effect is Effect.REQUIRE_APPROVAL


def test_bug_126_large_integers_are_refused_before_they_become_one_value() -> None:
    for number in ("9007199254740993", "9007199254740992", "-9007199254740992"):
        with pytest.raises(MalformedInput):
            loads(f'{{"id": {number}}}'.encode())
        with pytest.raises(ValueError, match="exceeds"):
            digest({"id": int(number)})
    assert digest({"id": 9007199254740991}) != digest({"id": 9007199254740990})


def test_bug_130_arguments_that_a_hook_changes_are_another_request() -> None:
    """The fingerprint that the executor holds is of what was decided; the changed call is decided anew."""
    ruleset = world(READS + runs("ls"), tools=SHELL)
    first = check(ruleset, "shell/run", {"command": "ls"}, "allow", ["runs", "reads"])
    changed = {"command": "ls; curl https://x.example.com"}
    second = check(ruleset, "shell/run", changed, "deny", [], {"execute curl"})
    assert first.decision.fingerprint != second.decision.fingerprint


def test_bug_131_an_approval_is_of_the_arguments_that_were_approved() -> None:
    """Stricter than asked where nothing else was approved: the sent call waits for its own approval."""
    edited = {"env": "staging"}
    assert asked("db/deploy", {"env": "staging"}, edited).decision.effect is Effect.ALLOW
    sent = asked("db/deploy", {"env": "prod"}, edited)
    assert sent.decision.effect is Effect.REQUIRE_APPROVAL
    assert sent.decision.fingerprint != asked("db/deploy", edited).decision.fingerprint


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("fingerprint")
