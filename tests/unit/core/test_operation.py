"""One identity has one fingerprint: repeats, conflicts, permissions that ran out, dry runs, approvals."""

from dataclasses import replace
from typing import Any

import pytest

from authz.core.decide import Outcome
from authz.model.approval import ApprovalGrant
from authz.model.call import CallIds
from authz.model.decision import Code, Effect, Next, Stage
from authz.model.operation import OperationRecord, OperationState
from tests.support.world import NO_IDS, NOW_MS, call, decide_in, record_of, rules_of, world

RULES = """
@id("work") permit (principal, action, resource in Directory::"/workspace");
@id("pay") permit (principal, action in Action::"transact", resource);
@id("no") forbid (principal, action, resource in Directory::"/workspace/no");
@id("ask") @requires("approval") forbid (principal, action in Action::"transact", resource);
"""
WORLD = world(RULES)
EDIT = call("fs/file_edit", path="/workspace/a", text="x")
READ = call("fs/file_read", path="/workspace/a")
PAY = call("bank/transfer", to="a-1", amount=5)


def reserved(outcome: Outcome, *, expires_at_ms: int = NOW_MS + 60_000, **more: Any) -> OperationRecord:
    """The operation that an allow leaves."""
    assert outcome.decision.fingerprint is not None
    return OperationRecord(
        key="k",
        fingerprint=more.pop("fingerprint", outcome.decision.fingerprint),
        state=more.pop("state", OperationState.RESERVED),
        decision_id="d-first",
        expires_at_ms=expires_at_ms,
        version=1,
    )


def test_ids_are_asked_for_above_a0_alone() -> None:
    assert decide_in(WORLD, replace(READ, ids=NO_IDS)).decision.effect is Effect.ALLOW
    for ids in (NO_IDS, CallIds(trace="t"), CallIds(trace="t", turn="1"), CallIds(turn="1", call="c")):
        decision = decide_in(WORLD, replace(EDIT, ids=ids)).decision
        assert decision.code is Code.OPERATION_IDS_REQUIRED


def test_an_allow_carries_a_lease_and_a_key() -> None:
    decision = decide_in(WORLD, EDIT).decision
    assert decision.lease is not None
    assert decision.lease.expires_at_ms == decision.expires_at_ms == NOW_MS + 60_000
    assert decision.idempotency_key
    other = decide_in(WORLD, EDIT, decision_id="d-2").decision
    assert other.lease is not None
    assert other.lease.token != decision.lease.token
    # The key is that of the operation, not of the decision.
    assert other.idempotency_key == decision.idempotency_key


def test_a_repeat_gets_the_first_decision_and_not_a_second_permission() -> None:
    """ID1: the same identity and fingerprint; later in the lease, nothing is prolonged."""
    first = decide_in(WORLD, EDIT, decision_id="d-first")
    operation = reserved(first)
    again = decide_in(WORLD, EDIT, decision_id="d-2", operation=operation, now_ms=NOW_MS + 30_000)
    assert again.decision.repeated
    assert again.decision.decision_id == "d-first"
    assert again.decision.lease == first.decision.lease
    assert again.decision.expires_at_ms == first.decision.expires_at_ms
    assert again.decision.idempotency_key == first.decision.idempotency_key


def test_a_repeat_passes_the_rules_again() -> None:
    """Only after stages 6 and 7 pass again: what has been forbidden since is denied."""
    operation = reserved(decide_in(WORLD, EDIT))
    stricter = world(RULES + '@id("now-not") forbid (principal, action in Action::"write", resource is File)'
                     ' when { context.scope == "object" };')  # fmt: skip
    outcome = decide_in(stricter, EDIT, operation=operation)
    assert (outcome.decision.code, rules_of(outcome)) == (Code.POLICY_FORBID, ["now-not"])
    assert (
        decide_in(WORLD, replace(EDIT, ask=True), operation=operation).decision.code
        is Code.APPROVAL_REQUESTED
    )
    assert decide_in(WORLD, replace(EDIT, proof="x"), operation=operation).decision.stage is Stage.CAPABILITY


@pytest.mark.parametrize("state", list(OperationState))
def test_the_same_identity_with_another_fingerprint_is_a_conflict(state: OperationState) -> None:
    """FP2, bug-130, bug-131: a call that was changed after its decision is another call."""
    operation = reserved(decide_in(WORLD, EDIT), state=state)
    for made in (
        call("fs/file_edit", path="/workspace/a", text="y"),
        call("fs/file_edit", path="/workspace/b", text="x"),
        call("fs/file_remove", path="/workspace/a"),
        replace(READ, ask=True),
    ):
        decision = decide_in(WORLD, made, operation=operation).decision
        assert (decision.effect, decision.code) == (Effect.DENY, Code.OPERATION_CONFLICT)
        assert Next.QUERY_STATUS in decision.next


@pytest.mark.parametrize("state", [OperationState.REFUSED, OperationState.WAITING])
def test_what_was_denied_or_waits_is_decided_anew(state: OperationState) -> None:
    operation = reserved(decide_in(WORLD, EDIT), state=state, expires_at_ms=0)
    decision = decide_in(WORLD, EDIT, operation=operation, decision_id="d-9").decision
    assert (decision.effect, decision.repeated, decision.decision_id) == (Effect.ALLOW, False, "d-9")


def test_a_permission_that_ran_out_is_not_given_again_by_itself() -> None:
    operation = reserved(decide_in(WORLD, EDIT))
    for late, code in (
        (59_999, Code.POLICY_PERMIT),
        (60_000, Code.OPERATION_EXPIRED),
        (10**9, Code.OPERATION_EXPIRED),
    ):
        assert decide_in(WORLD, EDIT, operation=operation, now_ms=NOW_MS + late).decision.code is code
    # Reads may be retried.
    read = reserved(decide_in(WORLD, READ))
    decision = decide_in(WORLD, READ, operation=read, now_ms=NOW_MS + 10**6, decision_id="d-3").decision
    assert (decision.effect, decision.repeated, decision.decision_id) == (Effect.ALLOW, False, "d-3")


def test_a_dry_run_decides_and_reserves_nothing() -> None:
    dry = decide_in(WORLD, replace(EDIT, dry_run=True)).decision
    real = decide_in(WORLD, EDIT).decision
    assert (dry.effect, dry.code, dry.fingerprint, dry.matched) == (
        real.effect,
        real.code,
        real.fingerprint,
        real.matched,
    )
    assert (dry.lease, dry.idempotency_key, dry.repeated) == (None, None, False)
    operation = reserved(decide_in(WORLD, EDIT))
    assert not decide_in(WORLD, replace(EDIT, dry_run=True), operation=operation).decision.repeated
    assert record_of(WORLD, replace(EDIT, dry_run=True), decide_in(WORLD, replace(EDIT, dry_run=True)))[
        "dry_run"
    ]


def test_an_approval_lifts_what_it_names_and_never_a_deny() -> None:
    """AP1, AP4: the same fingerprint, and every rule that asks now."""
    fingerprint = decide_in(WORLD, PAY).decision.fingerprint
    assert fingerprint is not None
    for grant, effect in [
        (ApprovalGrant(approval_id="1", fingerprint=fingerprint, rules=frozenset({"ask"})), Effect.ALLOW),
        (
            ApprovalGrant(approval_id="1", fingerprint=fingerprint, rules=frozenset({"ask", "x"})),
            Effect.ALLOW,
        ),
        (
            ApprovalGrant(approval_id="1", fingerprint=fingerprint, rules=frozenset({"other"})),
            Effect.REQUIRE_APPROVAL,
        ),
        (ApprovalGrant(approval_id="1", fingerprint=fingerprint, rules=frozenset()), Effect.REQUIRE_APPROVAL),
        (
            ApprovalGrant(approval_id="1", fingerprint="sha256:0", rules=frozenset({"ask"})),
            Effect.REQUIRE_APPROVAL,
        ),
    ]:
        assert decide_in(WORLD, PAY, approvals=(grant,)).decision.effect is effect
    denied = call("fs/file_edit", path="/workspace/no/a", text="")
    fingerprint = decide_in(WORLD, denied).decision.fingerprint
    assert fingerprint is not None
    grant = ApprovalGrant(
        approval_id="1", fingerprint=fingerprint, rules=frozenset({"no", "authz:caller-asked"})
    )
    assert decide_in(WORLD, denied, approvals=(grant,)).decision.effect is Effect.DENY


def test_an_allow_by_approval_does_not_say_that_one_is_required() -> None:
    """AU1: the record says what was enforced, per access as well."""
    fingerprint = decide_in(WORLD, PAY).decision.fingerprint
    assert fingerprint is not None
    grant = ApprovalGrant(approval_id="1", fingerprint=fingerprint, rules=frozenset({"ask"}))
    decision = decide_in(WORLD, PAY, approvals=(grant,)).decision
    assert decision.effect is Effect.ALLOW
    assert decision.code is not Code.APPROVAL_REQUIRED
    assert {verdict.effect for verdict in decision.verdicts} == {Effect.ALLOW}
