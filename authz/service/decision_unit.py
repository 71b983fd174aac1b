"""What one decision writes, besides its record: the operation, exposure, delegation, proof and links."""

from dataclasses import replace
from typing import Any, Final

from authz_client.capabilities import VerifiedChain, VerifiedProof

from authz.core.capability import links_seen
from authz.core.decide import Outcome
from authz.core.fingerprint import digest
from authz.core.redact import Redactor
from authz.core.settlement import NEVER_ALLOWED, write_of
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import CapabilityFacts, LinkRecord, Presented, ProofUse
from authz.model.decision import Decision, Effect, Stage
from authz.model.operation import Basis, OperationRecord, OperationState, OperationWrite
from authz.model.record import Event
from authz.ports import CommitUnit
from authz.service.asking import AskWrites
from authz.service.sessions import Remembered

REPLAY_MARGIN_SECONDS: Final = 300
"""For how much longer than it is taken a proof's use is kept: clocks differ, and are set back."""
_STATES: Final = {
    Effect.ALLOW: OperationState.RESERVED,
    Effect.REQUIRE_APPROVAL: OperationState.WAITING,
    Effect.DENY: OperationState.REFUSED,
}


def decision_unit(
    *,
    event: Event,
    key: str | None,
    call: Call,
    caller: Caller,
    outcome: Outcome,
    operation: OperationRecord | None,
    remembered: Remembered,
    presented: Presented | None,
    redactor: Redactor,
    asked: AskWrites | None = None,
) -> CommitUnit:
    """Everything that the decision writes. Proof, links and delegation also where it denies or only asks."""
    decision = outcome.decision
    return CommitUnit(
        event=event,
        operation=_operation_write(key, call, caller, outcome, operation, event.occurred_at_ms),
        exposure=remembered.exposure_write(call, decision.exposes)
        if decision.effect is Effect.ALLOW
        else None,
        reservations=decision.reservations,
        only_checked=call.dry_run,
        proof=proof_use(caller.tenant, outcome.proof) if outcome.proof is not None else None,
        links=_links(caller, outcome, presented, redactor),
        delegated=remembered.delegation_write(call, outcome.capability),
        asks=asked.new if asked is not None else None,
        consumes=outcome.consumption,
        kept=asked.kept if asked is not None else (),
        notices=asked.notices if asked is not None else (),
    )


def _operation_write(
    key: str | None,
    call: Call,
    caller: Caller,
    outcome: Outcome,
    operation: OperationRecord | None,
    now_ms: int,
) -> OperationWrite | None:
    """What the decision does to the operation; `None` when it leaves it as it is."""
    decision = outcome.decision
    if key is None or call.dry_run or decision.fingerprint is None or decision.stage is Stage.OPERATION:
        return None
    if decision.repeated:
        return _repeat(call, caller, decision, operation)
    # A permission that was given stays on record, whatever is answered later: forgetting it would
    # let the same call be allowed a second time, or lose what came of it.
    given = operation is not None and operation.state not in NEVER_ALLOWED
    if given and decision.effect is not Effect.ALLOW:
        return None
    # The same refusal, or the same question, once more: nothing moves, so nothing is contended for.
    state = _STATES[decision.effect]
    if operation is not None and decision.effect is not Effect.ALLOW and operation.state is state:
        return None
    return OperationWrite(
        tenant=caller.tenant,
        key=key,
        fingerprint=decision.fingerprint,
        decision_id=decision.decision_id,
        expires_at_ms=decision.lease.expires_at_ms if decision.lease is not None else 0,
        expected_version=operation.version if operation is not None else None,
        **(_given(call, outcome, operation, now_ms) if decision.effect is Effect.ALLOW else {"state": state}),
    )


def _given(call: Call, outcome: Outcome, operation: OperationRecord | None, now_ms: int) -> dict[str, Any]:
    """What is kept of a permission: its key is as old as the first one that was given with it."""
    standing, capability = outcome.decision.standing, outcome.capability
    starts = standing is not None and standing.starts
    return {
        "state": standing.state if standing is not None else OperationState.RESERVED,
        "settles": call.settles,
        "cancel_requested": operation is not None and operation.cancel_requested,
        "attempt": standing.attempt if standing is not None and starts else "",
        "first_at_ms": (operation.first_at_ms if operation is not None else 0) or now_ms,
        "ticketed": call.ticket,
        "basis": basis_of(capability),
        "approval": _approval_of(outcome.decision, operation),
    }


def _approval_of(decision: Decision, operation: OperationRecord | None) -> str:
    """Id of the yes that the operation rests on. What it once used it may use again, so that stays known."""
    if decision.approval is not None:
        return decision.approval.id
    return operation.approval if operation is not None else ""


def basis_of(capability: CapabilityFacts) -> Basis | None:
    """What an allow rests on; `None` where no capability came with the call."""
    if not capability.presented or capability.expires_at_ms is None:
        return None
    return Basis(handles=capability.handles, kid=capability.kid, expires_at_ms=capability.expires_at_ms)


def _repeat(
    call: Call, caller: Caller, decision: Decision, operation: OperationRecord | None
) -> OperationWrite | None:
    """What a repeat of the same permission changes: the act begins with it, or a ticket is given with it."""
    standing, lease = decision.standing, decision.lease
    if operation is None or lease is None:
        return None
    after = replace(
        operation,
        ticketed=operation.ticketed or call.ticket,
        approval=_approval_of(decision, operation),
    )
    if standing is not None and standing.starts:
        # Nobody else's attempt begins after it.
        after = replace(
            after,
            state=OperationState.EXECUTING,
            attempt=standing.attempt,
            expires_at_ms=lease.expires_at_ms,
        )
    return None if after == operation else write_of(caller.tenant, after)


def proof_use(tenant: str, proof: VerifiedProof) -> ProofUse:
    """The proof as a commit uses it up: the same whatever it is presented for."""
    return ProofUse(
        key=digest([tenant, proof.thumbprint, proof.jti]),
        until_ms=(proof.replay_until + REPLAY_MARGIN_SECONDS) * 1000,
    )


def _links(
    caller: Caller, outcome: Outcome, presented: Presented | None, redactor: Redactor
) -> tuple[LinkRecord, ...]:
    """Links that are on no record yet, once their holder has proved to be one."""
    if presented is None or presented.recorded or presented.root is None or outcome.proof is None:
        return ()
    if not isinstance(presented.verified, VerifiedChain):
        return ()
    return links_seen(presented.verified, presented.root, caller, redactor)
