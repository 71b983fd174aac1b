"""What leads from one state of an operation to another, by whose word, and what is given back."""

import itertools
from dataclasses import replace

import pytest
from authz_client.capabilities import NOTHING_REVOKED, Ancestor, Revocations, generate_key

from authz.core.settlement import (
    KEY_RETENTION_MS,
    LEASE_MARGIN_MS,
    TRANSITIONS,
    By,
    Move,
    NotPossible,
    Outcome,
    ReportCode,
    Unmoved,
    check_cancel,
    check_resolve,
    check_settle,
    check_start,
    is_due,
    is_lease_token,
    is_past_retention,
    lapse,
    lease_token,
    state_at,
)
from authz.model.capability import TokenRules
from authz.model.operation import Basis, OperationRecord, OperationState
from authz.model.record import EventType

NOW_MS = 1_800_000_000_000
S = OperationState
ENDED = (S.SUCCEEDED, S.FAILED_RETRYABLE, S.FAILED_FINAL, S.NOT_EXECUTED)


def operation(state: OperationState, *, ends_ms: int = NOW_MS + 60_000, **more: object) -> OperationRecord:
    record = OperationRecord(
        key="k",
        fingerprint="sha256:f",
        state=state,
        decision_id="d-1",
        expires_at_ms=ends_ms,
        version=7,
        first_at_ms=NOW_MS - 1000,
    )
    return replace(record, **more)  # type: ignore[arg-type]


def test_the_table_is_the_contract() -> None:
    """Spec section 9, written out once more."""
    reserved, executing, unknown = "reserved", "executing", "unknown"
    ends = ("succeeded", "failed_retryable", "failed_final", "unknown")
    expected = {
        (reserved, executing, "holder"),
        *((source, end, "holder") for source in (reserved, executing) for end in ends),
        (reserved, "not_executed", "holder"),
        (unknown, "succeeded", "holder"),
        (unknown, "succeeded", "examiner"),
        (unknown, "not_executed", "examiner"),
        (reserved, "not_executed", "lease_end"),
        (reserved, "unknown", "lease_end"),
        (executing, "unknown", "lease_end"),
        # Beyond the contract: what is told too late stops what could run, and gives nothing back.
        *((source, unknown, "contradiction") for source in (reserved, executing, unknown)),
        *((source, unknown, "contradiction") for source in ("failed_retryable", "not_executed")),
    }
    assert {(source.value, target.value, by.value) for source, target, by in TRANSITIONS} == expected


@pytest.mark.parametrize(
    ("state", "settles", "late", "now"),
    [
        (S.RESERVED, True, False, S.RESERVED),
        (S.RESERVED, False, False, S.RESERVED),
        (S.EXECUTING, True, False, S.EXECUTING),
        (S.RESERVED, True, True, S.NOT_EXECUTED),
        (S.RESERVED, False, True, S.UNKNOWN),
        (S.EXECUTING, True, True, S.UNKNOWN),
        (S.EXECUTING, False, True, S.UNKNOWN),
        *((state, settles, True, state) for state in ENDED for settles in (True, False)),
        (S.UNKNOWN, True, True, S.UNKNOWN),
        (S.REFUSED, False, True, S.REFUSED),
        (S.WAITING, False, True, S.WAITING),
    ],
)
def test_the_end_of_a_lease_is_told_from_the_time_alone(
    state: OperationState, settles: bool, late: bool, now: OperationState
) -> None:
    found = operation(state, ends_ms=NOW_MS if late else NOW_MS + 1, settles=settles)
    assert state_at(found, NOW_MS) is now


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("state", list(S))
def test_the_end_of_a_lease_is_written_down_where_something_was_to_be_said(
    state: OperationState, settles: bool
) -> None:
    """Of a runtime that says nothing at all, nothing is written: its operations are unknown by the time."""
    found = operation(state, ends_ms=NOW_MS, settles=settles)
    move = lapse(found, NOW_MS)
    assert lapse(found, NOW_MS - 1) is None
    assert is_due(found, NOW_MS) == (move is not None)
    if state is S.EXECUTING:
        assert move is not None
        assert (move.after.state, move.refunds, move.event) == (
            S.UNKNOWN,
            False,
            EventType.OPERATION_UNKNOWN,
        )
    elif state is S.RESERVED and settles:
        assert move is not None
        assert (move.after.state, move.refunds, move.event) == (
            S.NOT_EXECUTED,
            True,
            EventType.OPERATION_EXPIRED,
        )
    else:
        assert move is None


def test_what_a_ticket_was_given_for_is_unknown_at_its_end() -> None:
    """A tool server takes a ticket offline: that its holder said nothing proves nothing."""
    found = operation(S.RESERVED, settles=True, ticketed=True, ends_ms=NOW_MS)
    move = lapse(found, NOW_MS)
    assert move is not None
    assert (move.after.state, move.refunds) == (S.UNKNOWN, False)
    resolved = check_resolve(move.after, NOW_MS, Outcome(state=S.NOT_EXECUTED))
    assert isinstance(resolved, Move)
    assert resolved.refunds
    early = operation(S.UNKNOWN, settles=True, ticketed=True, ends_ms=NOW_MS + 1)
    refused = check_resolve(early, NOW_MS, Outcome(state=S.NOT_EXECUTED))
    assert isinstance(refused, NotPossible)
    assert refused.code is ReportCode.NOT_PROVEN


HANDLES = tuple(
    Ancestor(link=f"link-{number}", jti=f"jti-{number}", jkt=f"key-{number}", agent=f"a-{number}")
    for number in range(3)
)
KEY = generate_key()


def rules(revoked: Revocations = NOTHING_REVOKED, kid: str = "k-1") -> TokenRules:
    return TokenRules(
        issuer="i",
        audience="a",
        keys={kid: KEY.public},
        revoked=revoked,
        max_lifetime_seconds=60,
        skew_seconds=60,
        max_depth=8,
    )


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(("kind", "handle"), [("links", "link"), ("jtis", "jti"), ("holders", "key")])
@pytest.mark.parametrize("state", [S.RESERVED, S.EXECUTING])
def test_nothing_begins_by_what_was_revoked(
    state: OperationState, kind: str, handle: str, number: int
) -> None:
    """By any handle of any link; nor does what began already begin once more."""
    basis = Basis(handles=HANDLES, kid="k-1", expires_at_ms=NOW_MS + 50_000)
    found = operation(state, settles=True, basis=basis, attempt="a")
    assert not isinstance(check_start(found, NOW_MS, "a", None, rules()), NotPossible)
    revoked = Revocations(**{kind: frozenset({f"{handle}-{number}"})})
    change = check_start(found, NOW_MS, "a", None, rules(revoked))
    assert isinstance(change, NotPossible)
    assert change.code is ReportCode.CAPABILITY_ENDED


@pytest.mark.parametrize(
    ("known", "ends_ms"), [(None, 1), (rules(kid="k-2"), 1), (rules(), 0), (rules(), -1)]
)
def test_nothing_begins_by_what_is_not_known_to_be_in_force(known: TokenRules | None, ends_ms: int) -> None:
    basis = Basis(handles=HANDLES, kid="k-1", expires_at_ms=NOW_MS + ends_ms)
    change = check_start(operation(S.RESERVED, basis=basis), NOW_MS, "a", None, known)
    assert isinstance(change, NotPossible)
    assert change.code is ReportCode.CAPABILITY_ENDED


def test_a_lease_never_outlives_its_capability() -> None:
    basis = Basis(handles=HANDLES, kid="k-1", expires_at_ms=NOW_MS + 5000)
    found = operation(S.RESERVED, settles=True, basis=basis, ends_ms=NOW_MS + 5000)
    begun = check_start(found, NOW_MS, "a", 600_000, rules())
    assert isinstance(begun, Move)
    assert begun.after.expires_at_ms == NOW_MS + 5000


def test_what_is_due_is_what_lapses() -> None:
    """The store finds by `due_ms` what `lapse` would write down, and nothing else."""
    for state, settles in itertools.product(S, (True, False)):
        found = operation(state, ends_ms=NOW_MS, settles=settles)
        write = Move(event=EventType.OPERATION_SETTLED, source=state, by=By.HOLDER, after=found).write("t")
        assert (0 < write.due_ms <= NOW_MS) == is_due(found, NOW_MS)


@pytest.mark.parametrize(
    "outcome", [S.SUCCEEDED, S.FAILED_RETRYABLE, S.FAILED_FINAL, S.UNKNOWN, S.NOT_EXECUTED]
)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("ticketed", [False, True])
@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("state", list(S))
def test_only_what_is_proven_not_to_have_run_is_given_back(
    state: OperationState, settles: bool, ticketed: bool, late: bool, outcome: OperationState
) -> None:
    """By any report from any state: whatever gives back ends in `not_executed`, and is proven."""
    ends_ms = NOW_MS if late else NOW_MS + 1
    found = operation(state, ends_ms=ends_ms, settles=settles, ticketed=ticketed)
    told = Outcome(state=outcome, external_id="x-1")
    held, examined = check_settle(found, NOW_MS, told), check_resolve(found, NOW_MS, told)
    now = state_at(found, NOW_MS)
    if isinstance(held, Move):
        assert (now, outcome, By.HOLDER) in TRANSITIONS
        assert held.refunds == (outcome is S.NOT_EXECUTED)
        if held.refunds:
            assert (state, settles, ticketed, late) == (S.RESERVED, True, False, False)
        assert (held.after.state, held.after.external_id, held.source) == (outcome, "x-1", now)
    if isinstance(examined, Move):
        assert now is S.UNKNOWN
        assert outcome in (S.SUCCEEDED, S.NOT_EXECUTED)
        assert examined.refunds == (outcome is S.NOT_EXECUTED)
        # As long as its lease runs a ticket can still be used.
        assert late or not (ticketed and examined.refunds)
    if now is S.UNKNOWN:
        assert isinstance(held, Move) == (outcome is S.SUCCEEDED)
    if now in ENDED:
        # Settled is settled: other words, here another external id, change nothing.
        assert isinstance(held, NotPossible)
        assert isinstance(examined, NotPossible)


@pytest.mark.parametrize("outcome", [*ENDED, S.UNKNOWN])
def test_the_same_report_again_stands_already(outcome: OperationState) -> None:
    told = Outcome(state=outcome, external_id="x-1", result_digest="sha256:r")
    move = check_settle(operation(S.RESERVED, settles=True), NOW_MS, told)
    assert isinstance(move, Move)
    assert (move.after.settled_at_ms > 0) == (outcome is not S.UNKNOWN)
    assert check_settle(move.after, NOW_MS + 1, told) == Unmoved()
    for other in (replace(told, external_id="x-2"), replace(told, result_digest="")):
        again = check_settle(move.after, NOW_MS + 1, other)
        assert isinstance(again, NotPossible)


def test_the_runtimes_own_word_does_not_prove_that_it_did_not_run() -> None:
    told = Outcome(state=S.NOT_EXECUTED)
    for found in (
        operation(S.RESERVED),
        operation(S.EXECUTING, settles=True),
        operation(S.UNKNOWN, settles=True),
    ):
        change = check_settle(found, NOW_MS, told)
        assert isinstance(change, NotPossible)
        assert change.code is ReportCode.NOT_PROVEN


def test_one_attempt_begins() -> None:
    begun = check_start(operation(S.RESERVED, settles=True), NOW_MS, "a", None)
    assert isinstance(begun, Move)
    assert (begun.after.state, begun.after.attempt, begun.event) == (
        S.EXECUTING,
        "a",
        EventType.OPERATION_STARTED,
    )
    assert check_start(begun.after, NOW_MS + 1, "a", None) == Unmoved()
    other = check_start(begun.after, NOW_MS + 1, "b", None)
    assert isinstance(other, NotPossible)
    assert other.code is ReportCode.IN_PROGRESS


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (operation(S.RESERVED, settles=True, ends_ms=NOW_MS), ReportCode.NOT_EXECUTED),
        (operation(S.RESERVED, ends_ms=NOW_MS), ReportCode.UNKNOWN),
        (operation(S.EXECUTING, attempt="a", ends_ms=NOW_MS), ReportCode.UNKNOWN),
        (operation(S.RESERVED, settles=True, cancel_requested=True), ReportCode.CANCEL_REQUESTED),
        (operation(S.SUCCEEDED, attempt="a"), ReportCode.SETTLED),
        (operation(S.FAILED_RETRYABLE, attempt="a"), ReportCode.SETTLED),
        (operation(S.NOT_EXECUTED), ReportCode.NOT_EXECUTED),
        (operation(S.REFUSED), ReportCode.NOT_ALLOWED),
        (operation(S.WAITING), ReportCode.NOT_ALLOWED),
    ],
)
def test_nothing_begins_after_its_lease_or_its_end(found: OperationRecord, code: ReportCode) -> None:
    change = check_start(found, NOW_MS, "a", None)
    assert isinstance(change, NotPossible)
    assert change.code is code


def test_a_lease_outlasts_what_the_act_may_take() -> None:
    found = operation(S.RESERVED, settles=True, ends_ms=NOW_MS + 60_000)
    longer = check_start(found, NOW_MS, "a", 600_000)
    assert isinstance(longer, Move)
    assert longer.after.expires_at_ms == NOW_MS + 600_000 + LEASE_MARGIN_MS
    shorter = check_start(found, NOW_MS, "a", 1000)
    assert isinstance(shorter, Move)
    assert shorter.after.expires_at_ms == found.expires_at_ms, "never shorter than it was"


def test_cancelling_is_a_wish() -> None:
    for state in (S.RESERVED, S.EXECUTING):
        wished = check_cancel(operation(state, settles=True), NOW_MS)
        assert isinstance(wished, Move)
        assert (wished.after.state, wished.after.cancel_requested, wished.refunds) == (state, True, False)
        assert check_cancel(wished.after, NOW_MS) == Unmoved()
        # It still ends as its runtime says.
        assert isinstance(check_settle(wished.after, NOW_MS, Outcome(state=S.SUCCEEDED)), Move)
    for state in (*ENDED, S.UNKNOWN, S.REFUSED, S.WAITING):
        assert isinstance(check_cancel(operation(state), NOW_MS), NotPossible)


def test_a_lease_token_is_its_decisions_alone() -> None:
    token = lease_token(b"k" * 32, "acme", "d-1")
    assert is_lease_token(token, b"k" * 32, "acme", "d-1")
    for wrong in (
        is_lease_token(token, b"k" * 32, "acme", "d-2"),
        is_lease_token(token, b"k" * 32, "other", "d-1"),
        is_lease_token(token, b"x" * 32, "acme", "d-1"),
        is_lease_token(token[:-1], b"k" * 32, "acme", "d-1"),
        is_lease_token("", b"k" * 32, "acme", "d-1"),
        is_lease_token("ü\ud800", b"k" * 32, "acme", "d-1"),
    ):
        assert not wrong


def test_a_key_is_as_old_as_its_first_permission() -> None:
    found = operation(S.FAILED_RETRYABLE, first_at_ms=NOW_MS)
    assert not is_past_retention(found, NOW_MS + KEY_RETENTION_MS - 1, None)
    assert is_past_retention(found, NOW_MS + KEY_RETENTION_MS, None)
    assert is_past_retention(found, NOW_MS + 60_000, 60)
    assert not is_past_retention(found, NOW_MS + 59_999, 60)
    # What is kept from before the time was noted counts from the end of its lease.
    old = operation(S.NOT_EXECUTED, first_at_ms=0, ends_ms=NOW_MS)
    assert not is_past_retention(old, NOW_MS + KEY_RETENTION_MS - 1, None)
    assert is_past_retention(old, NOW_MS + KEY_RETENTION_MS, None)
