"""One identity has one fingerprint: repeats, conflicts, permissions that ran out, dry runs, approvals."""

from dataclasses import replace
from typing import Any

import pytest
from authz_client.capabilities import Ancestor

from authz.core.decide import Outcome
from authz.core.facts import NO_APPROVALS
from authz.core.settlement import KEY_RETENTION_MS, LEASE_MARGIN_MS
from authz.model.call import Call, CallIds, Start
from authz.model.decision import Code, Effect, Next, Stage
from authz.model.operation import Basis, OperationRecord, OperationState, Standing
from tests.support.world import (
    BANK,
    NO_IDS,
    NOW_MS,
    call,
    decide_in,
    record_of,
    rules_of,
    tool,
    tool_file,
    world,
    yes_to,
)

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


def test_what_a_call_exposed_its_session_to_does_not_keep_its_answer_from_it() -> None:
    """The first answer may have been lost. What others exposed the session to counts, as for a new call."""
    exposed_asks = world(
        RULES + '@id("exposed") forbid (principal, action, resource)'
        ' when { context.session.exposed.containsAny(["untrusted", "private"]) };'
    )
    first = decide_in(exposed_asks, READ, decision_id="d-first")
    assert (first.decision.effect, first.decision.exposes) == (Effect.ALLOW, {"untrusted"})
    again = decide_in(exposed_asks, READ, operation=reserved(first), exposed=first.decision.exposes)
    assert (again.decision.effect, again.decision.repeated) == (Effect.ALLOW, True)
    assert again.decision.decision_id == first.decision.decision_id

    for known in (
        {"exposed": first.decision.exposes},
        {"exposed": frozenset({"private", "untrusted"}), "operation": reserved(first)},
    ):
        outcome = decide_in(exposed_asks, READ, **known)
        assert (outcome.decision.code, rules_of(outcome)) == (Code.POLICY_FORBID, ["exposed"])


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
        (60_000, Code.OPERATION_UNKNOWN),
        (10**9, Code.OPERATION_UNKNOWN),
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
    for yes, effect in [
        (yes_to(WORLD, PAY), Effect.ALLOW),
        (yes_to(WORLD, PAY, "ask", "x"), Effect.ALLOW),
        (yes_to(WORLD, PAY, "other"), Effect.REQUIRE_APPROVAL),
        (yes_to(WORLD, call("bank/transfer", to="a-1", amount=6)), Effect.REQUIRE_APPROVAL),
        (NO_APPROVALS, Effect.REQUIRE_APPROVAL),
    ]:
        assert decide_in(WORLD, PAY, approvals=yes).decision.effect is effect
    denied = call("fs/file_edit", path="/workspace/no/a", text="")
    yes = yes_to(WORLD, denied, "no", "authz:caller-asked")
    assert decide_in(WORLD, denied, approvals=yes).decision.effect is Effect.DENY
    assert decide_in(WORLD, replace(denied, ask=True), approvals=yes).decision.effect is Effect.DENY


def test_an_allow_by_approval_does_not_say_that_one_is_required() -> None:
    """AU1: the record says what was enforced, per access as well."""
    decision = decide_in(WORLD, PAY, approvals=yes_to(WORLD, PAY)).decision
    assert decision.effect is Effect.ALLOW
    assert decision.code is not Code.APPROVAL_REQUIRED
    assert {verdict.effect for verdict in decision.verdicts} == {Effect.ALLOW}


def settled(made: Call, state: OperationState, **more: Any) -> OperationRecord:
    """The operation of a call whose runtime settles, in some state."""
    known = reserved(decide_in(WORLD, made), state=state)
    defaults: dict[str, Any] = {"settles": True, "first_at_ms": NOW_MS, "external_id": "x-1"}
    return replace(known, **(defaults | {"result_digest": "sha256:r"} | more))


STARTING = replace(EDIT, settles=True, start=Start(attempt="a", timeout_ms=600_000))


def test_an_allow_can_begin_at_once() -> None:
    """Reserved and started in one; the lease outlasts the act, the permission itself does not."""
    decision = decide_in(WORLD, STARTING).decision
    assert decision.standing == Standing(
        state=OperationState.EXECUTING, settles=True, starts=True, attempt="a"
    )
    assert decision.lease is not None
    assert decision.lease.expires_at_ms == NOW_MS + 600_000 + LEASE_MARGIN_MS
    assert decision.expires_at_ms == NOW_MS + 60_000
    only_declared = decide_in(WORLD, replace(EDIT, settles=True)).decision
    assert only_declared.standing == Standing(state=OperationState.RESERVED, settles=True)
    assert decide_in(WORLD, EDIT).decision.standing is None
    assert decide_in(WORLD, replace(STARTING, dry_run=True)).decision.standing is None
    read = replace(READ, ids=NO_IDS, settles=True)
    assert decide_in(WORLD, read).decision.code is Code.OPERATION_IDS_REQUIRED


def test_of_several_attempts_one_runs() -> None:
    operation = settled(EDIT, OperationState.EXECUTING, attempt="a")
    own = decide_in(WORLD, STARTING, operation=operation, decision_id="d-2").decision
    assert (own.effect, own.repeated, own.decision_id) == (Effect.ALLOW, True, "d-first")
    assert own.standing is not None
    assert (own.standing.state, own.standing.starts) == (OperationState.EXECUTING, False)
    for other in (EDIT, replace(EDIT, settles=True), replace(STARTING, start=Start(attempt="b"))):
        decision = decide_in(WORLD, other, operation=operation).decision
        assert (decision.effect, decision.code) == (Effect.DENY, Code.OPERATION_IN_PROGRESS)
        assert decision.next == (Next.WAIT, Next.QUERY_STATUS)
        assert decision.lease is None


def test_a_repeat_can_begin_what_was_only_reserved() -> None:
    operation = settled(EDIT, OperationState.RESERVED)
    decision = decide_in(WORLD, STARTING, operation=operation, decision_id="d-2").decision
    assert (decision.effect, decision.decision_id) == (Effect.ALLOW, "d-first")
    assert decision.standing is not None
    assert (decision.standing.starts, decision.standing.attempt) == (True, "a")


@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED_FINAL])
def test_what_ran_before_gets_its_first_outcome_back(state: OperationState) -> None:
    """ID1: not a second permission, whoever asks and whichever attempt it is."""
    operation = settled(EDIT, state, settled_at_ms=NOW_MS + 5, attempt="a")
    for made in (EDIT, STARTING, replace(EDIT, ask=True)):
        outcome = decide_in(WORLD, made, operation=operation, now_ms=NOW_MS + 10)
        decision = outcome.decision
        assert (decision.effect, decision.stage, decision.code) == (
            Effect.DENY,
            Stage.OPERATION,
            Code.OPERATION_SETTLED,
        )
        assert decision.lease is None
        assert decision.standing == Standing(
            state=state,
            settles=True,
            decision_id="d-first",
            external_id="x-1",
            result_digest="sha256:r",
            settled_at_ms=NOW_MS + 5,
        )
        assert record_of(WORLD, made, outcome)["operation"]["state"] == state.value


def test_the_first_outcome_is_told_only_once_the_rules_have_passed_again() -> None:
    operation = settled(EDIT, OperationState.SUCCEEDED)
    stricter = world(RULES + '@id("now-not") forbid (principal, action, resource is File)'
                     ' when { context.scope == "object" };')  # fmt: skip
    decision = decide_in(stricter, EDIT, operation=operation).decision
    assert (decision.code, decision.standing) == (Code.POLICY_FORBID, None)
    held = decide_in(WORLD, replace(EDIT, proof="x"), operation=operation).decision
    assert (held.stage, held.standing) == (Stage.CAPABILITY, None)


def test_what_was_asked_for_and_ran_is_not_asked_for_again() -> None:
    operation = settled(PAY, OperationState.SUCCEEDED)
    assert decide_in(WORLD, PAY, operation=operation).decision.code is Code.OPERATION_SETTLED


@pytest.mark.parametrize("state", [OperationState.FAILED_RETRYABLE, OperationState.NOT_EXECUTED])
def test_what_may_be_tried_again_is_decided_anew_while_the_key_is_remembered(state: OperationState) -> None:
    operation = settled(EDIT, state, first_at_ms=NOW_MS)
    anew = decide_in(WORLD, EDIT, operation=operation, decision_id="d-9").decision
    assert (anew.effect, anew.repeated, anew.decision_id) == (Effect.ALLOW, False, "d-9")
    assert anew.idempotency_key == decide_in(WORLD, EDIT).decision.idempotency_key, "under the same key"
    late = decide_in(WORLD, EDIT, operation=operation, now_ms=NOW_MS + KEY_RETENTION_MS).decision
    assert (late.effect, late.code) == (Effect.DENY, Code.OPERATION_EXPIRED)


def test_a_key_past_its_retention_is_refused_whatever_came_of_it() -> None:
    for state in (OperationState.SUCCEEDED, OperationState.FAILED_FINAL):
        operation = settled(EDIT, state)
        late = decide_in(WORLD, EDIT, operation=operation, now_ms=NOW_MS + KEY_RETENTION_MS).decision
        assert late.code is Code.OPERATION_EXPIRED
        # What came of it is told after stages 6 and 7, and this comes before them.
        assert late.standing == Standing(state=state, settles=True, decision_id="d-first")


def test_the_descriptor_says_how_long_its_endpoint_remembers_keys() -> None:
    remembering = tool_file(
        "fs",
        tool(
            "file_edit",
            [{"verb": "write", "kind": "path", "at": "/path"}],
            {"path": {"type": "string"}, "text": {"type": "string"}},
            roles={"/text": "payload"},
            leaves_sandbox=False,
            settlement={"idempotency_key_at": "/text", "retention_seconds": 60},
        ),
    )
    ruleset = world(RULES, tools={"fs": remembering, "bank": BANK})
    first = decide_in(ruleset, EDIT)
    operation = replace(
        reserved(first, state=OperationState.FAILED_RETRYABLE), settles=True, first_at_ms=NOW_MS
    )
    soon = decide_in(ruleset, EDIT, operation=operation, now_ms=NOW_MS + 59_999).decision
    late = decide_in(ruleset, EDIT, operation=operation, now_ms=NOW_MS + 60_000).decision
    assert (soon.effect, late.code) == (Effect.ALLOW, Code.OPERATION_EXPIRED)


def test_what_is_unknown_is_never_tried_again_by_itself() -> None:
    late_ms = NOW_MS + 60_000
    for operation, now_ms in (
        (settled(EDIT, OperationState.UNKNOWN), NOW_MS),
        (settled(EDIT, OperationState.EXECUTING, attempt="a"), late_ms),
        (settled(EDIT, OperationState.RESERVED, settles=False), late_ms),
    ):
        for made in (EDIT, STARTING):
            decision = decide_in(WORLD, made, operation=operation, now_ms=now_ms).decision
            assert (decision.effect, decision.code) == (Effect.DENY, Code.OPERATION_UNKNOWN)
            assert Next.QUERY_STATUS in decision.next
            assert not decision.retry_unchanged
            assert decision.standing is not None
            assert (decision.standing.external_id, decision.standing.result_digest) == ("", "")
    read = settled(READ, OperationState.UNKNOWN)
    assert decide_in(WORLD, READ, operation=read).decision.effect is Effect.ALLOW


def test_a_lease_that_ended_before_the_act_began_proves_that_it_did_not_run() -> None:
    operation = settled(EDIT, OperationState.RESERVED)
    decision = decide_in(WORLD, EDIT, operation=operation, now_ms=NOW_MS + 60_000, decision_id="d-2").decision
    assert (decision.effect, decision.repeated, decision.decision_id) == (Effect.ALLOW, False, "d-2")


@pytest.mark.parametrize(
    "state",
    [
        OperationState.RESERVED,
        OperationState.EXECUTING,
        OperationState.NOT_EXECUTED,
        OperationState.FAILED_RETRYABLE,
    ],
)
def test_what_is_to_be_cancelled_is_not_allowed_again(state: OperationState) -> None:
    operation = settled(EDIT, state, cancel_requested=True, attempt="a")
    decision = decide_in(WORLD, STARTING, operation=operation).decision
    assert (decision.effect, decision.code) == (Effect.DENY, Code.OPERATION_CANCEL_REQUESTED)
    assert decision.standing == Standing(state=state, settles=True, decision_id="d-first")


def test_a_lease_that_ended_withdraws_no_cancel() -> None:
    operation = settled(EDIT, OperationState.RESERVED, cancel_requested=True)
    decision = decide_in(WORLD, EDIT, operation=operation, now_ms=NOW_MS + 60_000).decision
    assert (decision.effect, decision.code) == (Effect.DENY, Code.OPERATION_CANCEL_REQUESTED)


@pytest.mark.parametrize("made", [EDIT, STARTING, replace(EDIT, dry_run=True), READ])
@pytest.mark.parametrize("state", [OperationState.RESERVED, OperationState.EXECUTING])
def test_what_rests_on_a_capability_is_not_given_again_without_it(made: Call, state: OperationState) -> None:
    """A repeat is judged by what it presents, so that must be what the permission rests on."""
    handles = (Ancestor(link="l", jti="j", jkt="h", agent="coder-1"),)
    basis = Basis(handles=handles, kid="k", expires_at_ms=NOW_MS + 60_000)
    operation = settled(made, state, attempt="a", basis=basis)
    if state is OperationState.EXECUTING:
        made = replace(made, start=Start(attempt="a"))
    decision = decide_in(WORLD, made, operation=operation).decision
    assert (decision.effect, decision.stage, decision.code) == (
        Effect.DENY,
        Stage.OPERATION,
        Code.OPERATION_CONFLICT,
    )
    assert (decision.lease, decision.repeated) == (None, False)
    assert decision.next == (Next.ESCALATE, Next.STOP)
    bare = decide_in(WORLD, made, operation=replace(operation, basis=None)).decision
    assert bare.effect is Effect.ALLOW


def test_what_must_not_run_twice_is_settled_before_it_is_tried_again() -> None:
    """Where the endpoint does not tell a repeat by its key."""
    payable = world('@id("all") permit (principal, action, resource);')
    assert decide_in(payable, PAY).decision.obligations == ("settle_before_retry",)
    assert decide_in(payable, EDIT).decision.obligations == ()
    keyed = tool_file(
        "bank",
        tool(
            "transfer",
            [{"verb": "transact", "kind": "id", "type": "account", "at": "/to"}],
            {
                "to": {"type": "string"},
                "amount": {"type": "number"},
                "key": {"type": "string", "default": ""},
            },
            roles={"/to": "destination", "/amount": "amount", "/key": "option"},
            side_effect="cumulative",
            settlement={"idempotency_key_at": "/key", "retention_seconds": 3600},
        ),
    )
    remembering = world('@id("all") permit (principal, action, resource);', tools={"bank": keyed})
    assert decide_in(remembering, PAY).decision.obligations == ()
