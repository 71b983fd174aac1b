"""Outcomes that are not taken: none is lost, none gives back, and what may have run runs no more."""

from dataclasses import replace

import pytest

from authz.core.contradiction import check_contradiction
from authz.core.settlement import (
    NEVER_ALLOWED,
    TRANSITIONS,
    By,
    Move,
    NotPossible,
    Outcome,
    check_resolve,
    check_settle,
    check_start,
    state_at,
)
from authz.model.operation import OperationState
from authz.model.record import EventType
from tests.unit.core.test_settlement import ENDED, NOW_MS, operation

S = OperationState
TOLD = [*ENDED, S.UNKNOWN]
RUNS = (S.RESERVED, S.EXECUTING, S.FAILED_RETRYABLE, S.NOT_EXECUTED)
MAY_STAND = (S.SUCCEEDED, S.FAILED_FINAL, S.UNKNOWN)


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("state", list(S))
def test_what_is_told_of_the_decision_that_holds_it(
    state: OperationState, told: OperationState, late: bool, is_read: bool
) -> None:
    """Every word after the end is taken, stands already, or is kept; before the end it is only too early."""
    found = operation(state, settles=True, ends_ms=NOW_MS if late else NOW_MS + 1)
    outcome = Outcome(state=told, external_id="x-1")
    change = check_settle(found, NOW_MS, outcome)
    kept = check_contradiction(found, found, NOW_MS, outcome, is_read=is_read)
    before = state_at(found, NOW_MS)
    if isinstance(change, NotPossible) and before not in (*NEVER_ALLOWED, S.RESERVED, S.EXECUTING):
        assert kept is not None, "lost"
    if kept is None:
        return
    assert kept.move.event is EventType.OPERATION_CONTRADICTED
    assert (kept.move.refunds, kept.superseded) == (False, False)
    assert kept.stops == (before in RUNS and told in MAY_STAND and not is_read)
    if not kept.stops:
        stands = replace(found, state=before)
        assert kept.after == kept.move.after == stands, "it moved nothing, and its lease's end counts"
        return
    assert (before, S.UNKNOWN, By.CONTRADICTION) in TRANSITIONS
    assert kept.after.is_contradicted
    assert (kept.after.external_id, kept.after.settled_at_ms) == ("x-1", NOW_MS)


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("state", [state for state in S if state not in NEVER_ALLOWED])
@pytest.mark.parametrize("left", [S.NOT_EXECUTED, S.FAILED_RETRYABLE])
def test_what_is_told_of_an_earlier_decision(
    left: OperationState, state: OperationState, told: OperationState
) -> None:
    own = operation(left, decision_id="d-0", settles=True)
    current = operation(state, settles=True)
    kept = check_contradiction(own, current, NOW_MS, Outcome(state=told), is_read=False)
    assert kept is not None
    assert kept.superseded
    assert kept.move.after == own, "its own record says how it ended itself"
    assert kept.stops == (state not in (S.SUCCEEDED, S.FAILED_FINAL) and told in MAY_STAND)
    assert kept.after.decision_id == "d-1"
    assert kept.after.is_contradicted == kept.stops
    read = check_contradiction(own, current, NOW_MS, Outcome(state=told), is_read=True)
    assert read is not None
    assert not read.stops, "a read may be tried again"


@pytest.mark.parametrize("told", TOLD)
def test_only_who_looked_ends_a_contradiction(told: OperationState) -> None:
    found = operation(S.UNKNOWN, settles=True, settled_at_ms=NOW_MS - 1, external_id="x-1", attempt="a")
    assert found.is_contradicted
    for outcome in (Outcome(state=told), Outcome(state=told, external_id="x-1")):
        assert isinstance(check_settle(found, NOW_MS, outcome), NotPossible)
        kept = check_contradiction(found, found, NOW_MS, outcome, is_read=False)
        assert kept is not None
        assert not kept.stops, "it is stopped already"
    assert isinstance(check_start(found, NOW_MS, "a", None), NotPossible)
    gone = Outcome(state=S.NOT_EXECUTED)
    assert isinstance(check_resolve(found, NOW_MS, gone), NotPossible), "somebody may be at it"
    assert isinstance(check_resolve(found, found.expires_at_ms, gone), Move)
    assert isinstance(check_resolve(found, NOW_MS, Outcome(state=S.SUCCEEDED)), Move)
    ended = replace(found, settled_at_ms=0)
    assert not ended.is_contradicted
