"""Stage 9, and how every end of the stages becomes an answer."""

from dataclasses import replace
from typing import Any

from authz.core.budget import budget_reservations, check_budgets
from authz.core.facts import Draft, Facts, Judgement
from authz.core.limits import check_limits, ends_at_ms, reservations_of
from authz.core.operation import check_basis, check_beginning, key_end_of
from authz.core.provenance import UNTRUSTED
from authz.core.ruleset import Tool
from authz.core.settlement import earliest, has_lapsed, lease_end, lease_token
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY, CapabilityFacts
from authz.model.decision import Code, Decision, Effect, Lease, Next, Obligation, Refusal
from authz.model.operation import OperationRecord, OperationState, Standing
from authz.model.tool import SideEffect, Trust


def reserve(
    call: Call,
    facts: Facts,
    tool: Tool,
    draft: Draft,
    judged: Judgement,
    capability: CapabilityFacts = NO_CAPABILITY,
) -> Decision:
    """Stage 9. An allow takes of the limits and carries the lease; a dry run reserves nothing."""
    settled: dict[str, Any] = {
        "effect": judged.effect,
        "stage": judged.stage,
        "code": judged.code,
        "matched": judged.matched,
        "overruled": judged.overruled,
        "internal": judged.internal,
        "verdicts": judged.verdicts,
        "approval": judged.approval,
    }
    if judged.effect is not Effect.ALLOW:
        return _explain(_decision(call, facts, tool, draft, **settled))
    first = live_permission(facts)
    if first is None:
        reservations = reservations_of(call, facts, tool, draft.canonical.accesses, capability)
        budgets = budget_reservations(facts, tool, capability)
        refused = check_limits(reservations, facts) or check_budgets(
            budgets, facts, call, capability, beside=len(reservations)
        )
        settled["reservations"] = reservations + budgets
    else:
        refused = check_basis(first, facts, capability)
    refused = refused or check_beginning(call, facts, tool, draft, first)
    if refused is not None:
        stopped = denied(call, facts, refused, tool, draft)
        return replace(
            stopped,
            verdicts=judged.verdicts,
            overruled=judged.matched,
            lease=_lease_to_settle(call, facts, refused, first),
        )
    settled["exposes"] = exposes_of(tool)
    settled["obligations"] = _obligations(tool)
    key_ends_ms = key_end_of(facts, tool, draft)
    settled["expires_at_ms"] = earliest(ends_at_ms(facts, capability), key_ends_ms)
    if call.dry_run:
        return _decision(call, facts, tool, draft, **settled)
    token, lease_ends_ms = draft.lease_token, settled["expires_at_ms"]
    if first is not None:
        token = lease_token(facts.secret, facts.caller.tenant, first.decision_id)
        settled["decision_id"] = first.decision_id
        # The lease is the first one's, unless this time it rests on a capability that ends before; what is
        # allowed is no more than a new decision would be: the lease may be that of a long act.
        lease_ends_ms = earliest(first.expires_at_ms, capability.expires_at_ms)
        settled["expires_at_ms"] = earliest(settled["expires_at_ms"], lease_ends_ms)
        settled["repeated"] = True
    settled["idempotency_key"] = draft.idempotency_key
    starts = call.start is not None and (first is None or first.state is OperationState.RESERVED)
    if call.start is not None and starts:
        stretched_ms = lease_end(lease_ends_ms, facts.now_ms, call.start.timeout_ms)
        basis = first.basis if first is not None else None
        lease_ends_ms = earliest(
            stretched_ms,
            capability.expires_at_ms,
            basis.expires_at_ms if basis is not None else None,
            key_ends_ms,
        )
    settled["lease"] = Lease(token=token, expires_at_ms=lease_ends_ms)
    settled["standing"] = _standing(call, first, starts=starts)
    return _decision(call, facts, tool, draft, **settled)


def _lease_to_settle(
    call: Call, facts: Facts, refused: Refusal, first: OperationRecord | None
) -> Lease | None:
    """The lease again, for an attempt that began, whose answer was lost, and that was cancelled since.

    It does not begin by that, but somebody has to say how it ended.
    """
    if first is None or call.dry_run or refused.code is not Code.OPERATION_CANCEL_REQUESTED:
        return None
    token = lease_token(facts.secret, facts.caller.tenant, first.decision_id)
    return Lease(token=token, expires_at_ms=first.expires_at_ms)


def live_permission(facts: Facts) -> OperationRecord | None:
    """The same call, allowed before and not over: it gets that decision and its lease, no second permission.

    What it takes of the limits it took then.
    """
    operation = facts.operation
    allowed = (OperationState.RESERVED, OperationState.EXECUTING)
    if operation is None or operation.state not in allowed or has_lapsed(operation, facts.now_ms):
        return None
    return operation


def _standing(call: Call, first: OperationRecord | None, *, starts: bool) -> Standing | None:
    """Where an allow leaves an operation that is to be settled; `None` where nothing will be said of it."""
    settles = call.settles if first is None else first.settles
    executes = starts or (first is not None and first.state is OperationState.EXECUTING)
    if not settles and not executes:
        return None
    return Standing(
        state=OperationState.EXECUTING if executes else OperationState.RESERVED,
        settles=settles,
        starts=starts,
        attempt=call.start.attempt if call.start is not None else "",
    )


def _obligations(tool: Tool) -> tuple[str, ...]:
    """What an allow is bound to: told from the descriptor.

    An act that may not run twice, at an endpoint that does not tell a repeat by its key, is not tried again
    before it is known how it ended.
    """
    descriptor = tool.descriptor
    if descriptor.side_effect is SideEffect.CUMULATIVE and descriptor.settlement.idempotency_key_at is None:
        return (Obligation.SETTLE_BEFORE_RETRY.value,)
    return ()


def exposes_of(tool: Tool) -> frozenset[str]:
    """What the session has been exposed to once the call has run: told from the descriptor."""
    returns = tool.descriptor.returns
    parts = (returns, *returns.fields.values())
    labels = frozenset(label for part in parts for label in part.labels)
    return labels | ({UNTRUSTED} if any(part.trust is Trust.UNTRUSTED for part in parts) else set())


def denied(
    call: Call, facts: Facts, refusal: Refusal, tool: Tool | None = None, draft: Draft | None = None
) -> Decision:
    """The deny of a stage that refused, with what was known by then."""
    return _decision(
        call,
        facts,
        tool,
        draft,
        effect=Effect.DENY,
        stage=refusal.stage,
        code=refusal.code,
        matched=refusal.matched,
        message=refusal.message,
        next=refusal.next,
        retry_unchanged=refusal.retry_unchanged,
        retry_after_ms=refusal.retry_after_ms,
        errors=refusal.errors,
        capability=refusal.capability,
        standing=refusal.standing,
        approval=refusal.approval,
        internal=refusal.internal,
    )


def _decision(call: Call, facts: Facts, tool: Tool | None, draft: Draft | None, **settled: Any) -> Decision:
    """A decision with what is known of the call, the tool and the draft; `settled` is the stage's own."""
    known: dict[str, Any] = {
        "decision_id": facts.decision_id,
        "policy_version": facts.ruleset.version,
        "request_digest": call.request_digest,
    }
    if tool is not None:
        known["side_effect"] = tool.descriptor.side_effect
        known["descriptor_digest"] = tool.descriptor.digest
    if draft is not None:
        known["authority"] = draft.authority
        known["accesses"] = draft.canonical.accesses
        known["arguments"] = draft.canonical.arguments
        known["fingerprint"] = draft.fingerprint
    return Decision(**(known | settled))


def _explain(decision: Decision) -> Decision:
    """A refusal in words that a model can use, without internals."""
    names = ", ".join(f"`{rule.rule}`" for rule in decision.matched)
    reasons = " ".join(rule.reason.rstrip(".") + "." for rule in decision.matched if rule.reason)
    if decision.effect is Effect.REQUIRE_APPROVAL:
        # Whom to wait for is added once somebody is asked: `authz.core.approval_asking`.
        return replace(
            decision,
            message=f"a person must approve this: {names}. {reasons}".strip(),
            next=(Next.REQUEST_APPROVAL, Next.STOP),
        )
    if decision.code is Code.POLICY_FORBID:
        text = f"forbidden by {names}. {reasons}".strip()
        return replace(decision, message=text, next=(Next.CHANGE_ARGUMENTS, Next.STOP))
    if decision.code is Code.POLICY_NO_MATCH:
        return replace(decision, message="no rule permits this", next=(Next.CHANGE_ARGUMENTS, Next.STOP))
    return replace(
        decision,
        message="a rule could not be evaluated, so the call is denied",
        next=(Next.ESCALATE, Next.STOP),
    )
