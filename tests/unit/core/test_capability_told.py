"""What is told of a capability besides the answer: explanations, `decisions show`, cases made of records."""

from dataclasses import replace
from typing import Any

import pytest

from authz.api.explain import ExplanationOut
from authz.api.wire import DecisionOut, decision_out
from authz.cli.decisions_show import as_test, show
from authz.core.explain import explain
from authz.core.explain.document import document
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.model.call import Call
from authz.model.decision import Code
from authz.model.record import Committed
from tests.support.chains import (
    decide_holding,
    entry,
    handed_on,
    holding,
    issued,
    presented,
    token_rules,
    verified,
)
from tests.support.world import NOW_MS, call, caller_of, facts, record_of, world

WORLD = world()
BUDGET = {"calls": 5}
ROOT = issued([entry("read", "file:///workspace", budget=BUDGET)])
CHILD = handed_on(ROOT, [entry("read", "file:///workspace/a", budget=BUDGET)])
INSIDE = call("fs/file_read", path="/workspace/a", agent="sub-1")
OUTSIDE = call("fs/file_read", path="/workspace/b", agent="sub-1")
COMMITTED = Committed(writer="w", sequence=1, recorded_at_ms=NOW_MS, hash="0" * 64)


def explained(made: Call) -> dict[str, Any]:
    known = facts(WORLD, tokens=token_rules(), presented=presented(CHILD, WORLD))
    told = document(explain(holding(made, CHILD), known))
    ExplanationOut.model_validate(told)
    return told


def stage(told: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in told["stages"] if one["stage"] == name]
    return dict(found)


def test_an_explanation_tells_the_chain_and_what_would_be_taken() -> None:
    told = explained(INSIDE)
    found = stage(told, "capability")
    assert found["outcome"] == "passed"
    assert found["summary"] == "entry 0 of the capability of `coder-1` → `sub-1` allows it"
    output = found["output"]
    assert (output["delegated"], output["agents"], output["depth"]) == (True, ["coder-1", "sub-1"], 1)
    assert (output["entries"], output["expires_at"]) == ([0], "2026-11-30T10:10:00.000Z")
    assert [link["link"] for link in output["links"]] == [link.link_hash for link in verified(CHILD).links]
    limits = stage(told, "limits")
    assert limits["summary"] == "would take of 2 counters of budgets"
    assert [taken["cap"] for taken in limits["output"]["would_take"]] == [5, 5]


def test_an_explanation_of_a_refusal_names_link_and_component() -> None:
    told = explained(OUTSIDE)
    found = stage(told, "capability")
    refused = {"reason": "object_outside", "link": 1, "agent": "sub-1", "component": "O"}
    assert (found["outcome"], found["output"]["refused"]) == ("settled", refused)
    assert told["decision"]["capability"] == refused
    assert told["decision"]["code"] == "capability.object_outside"
    assert explained(INSIDE)["decision"]["capability"] is None


def test_the_answer_on_the_wire_names_link_and_component() -> None:
    made = holding(OUTSIDE, CHILD)
    out = decision_out(made, decide_holding(WORLD, OUTSIDE, CHILD).decision, COMMITTED)
    assert out["capability"] == {
        "reason": "object_outside",
        "link": 1,
        "agent": "sub-1",
        "component": "O",
    }
    DecisionOut.model_validate(out)
    # Where no link is the one to name, none is named.
    bare = decide_holding(WORLD, OUTSIDE, CHILD, presented=None).decision
    assert decision_out(made, bare, COMMITTED)["capability"] == {"reason": "not_loaded"}
    allowed = decision_out(made, decide_holding(WORLD, INSIDE, CHILD).decision, COMMITTED, "a.ticket")
    assert ("capability" in allowed, allowed["ticket"]) == (False, "a.ticket")
    assert "ticket" not in decision_out(made, decide_holding(WORLD, INSIDE, CHILD).decision, COMMITTED)
    DecisionOut.model_validate(allowed)


def stored(made: Call) -> dict[str, Any]:
    """The record as the log gives it back."""
    record = record_of(WORLD, holding(made, CHILD), decide_holding(WORLD, made, CHILD))
    at = "2026-11-30T10:00:00.123Z"
    return record | {"occurred_at": at, "writer": "w", "sequence": 1, "type": "decision.made"}


def test_decisions_show_tells_the_chain(capsys: pytest.CaptureFixture[str]) -> None:
    show(stored(INSIDE))
    told = capsys.readouterr().out
    for part in ("coder-1, jti j-0", "hand-off 1", "sub-1, jti j-1", "by entries", '"amount": 1'):
        assert part in told
    for link in verified(CHILD).links:
        assert link.link_hash in told
    show(stored(OUTSIDE))
    assert "object_outside, O, link 1, sub-1" in capsys.readouterr().out


def test_a_record_with_a_capability_is_a_case_to_be_filled_in() -> None:
    """The log holds no token, so nobody can run the case as it is, nor make one of it to present."""
    text = as_test(stored(replace(INSIDE, ticket=True)))
    assert "/capability/0" in text
    assert "ticket: true" in text
    assert not any(token in text for token in CHILD)


def test_a_case_states_that_the_session_was_delegated_before() -> None:
    outcome = decide_holding(WORLD, OUTSIDE, CHILD)
    made, caller = holding(OUTSIDE, CHILD), caller_of(WORLD)
    event = decision_event(made, outcome, caller, WORLD, Redactor(b"r" * 32), NOW_MS, delegated=True)
    assert b'"delegated":true' in event.body
    assert "delegated: true" in as_test(stored(OUTSIDE) | {"delegated": True})


def test_names_that_a_holder_chose_are_redacted_where_they_look_secret() -> None:
    token = "ghp_" + "a1B2" * 8
    chain = handed_on(ROOT, [entry("read", "file:///workspace/a", budget=BUDGET)], jti=token)
    outcome = decide_holding(WORLD, INSIDE, chain)
    assert outcome.decision.code is Code.POLICY_PERMIT
    record = record_of(WORLD, holding(INSIDE, chain), outcome)
    assert token not in str(record)
    assert record["redacted"] == ["/capability/links/1/jti"]
