"""Stage 9, and how every end of the stages becomes an answer."""

from dataclasses import replace

from authz.core.facts import Draft, Facts, Judgement
from authz.core.fingerprint import keyed_digest
from authz.core.operation import has_lapsed
from authz.core.provenance import UNTRUSTED
from authz.core.ruleset import Tool
from authz.model.call import Call
from authz.model.decision import Code, Decision, Effect, Lease, Next, Refusal
from authz.model.operation import OperationState
from authz.model.tool import Trust


def reserve(call: Call, facts: Facts, tool: Tool, draft: Draft, judged: Judgement) -> Decision:
    """Stage 9. An allow carries the lease; a dry run reserves nothing."""
    decision = Decision(
        decision_id=facts.decision_id,
        effect=judged.effect,
        stage=judged.stage,
        code=judged.code,
        policy_version=facts.ruleset.version,
        request_digest=call.request_digest,
        matched=judged.matched,
        overruled=judged.overruled,
        internal=judged.internal,
        authority=draft.authority,
        side_effect=tool.descriptor.side_effect,
        verdicts=judged.verdicts,
        accesses=draft.canonical.accesses,
        arguments=draft.canonical.arguments,
        fingerprint=draft.fingerprint,
        descriptor_digest=tool.descriptor.digest,
    )
    if judged.effect is not Effect.ALLOW:
        return _explain(decision)
    exposes = _exposes(tool)
    if call.dry_run:
        return replace(decision, exposes=exposes, expires_at_ms=facts.now_ms + facts.ttl_ms)
    operation = facts.operation
    if (
        operation is not None
        and operation.state is OperationState.RESERVED
        and not has_lapsed(operation, facts)
    ):
        # The same call again: its first decision and its first lease, not a second permission.
        token = keyed_digest(facts.secret, "lease", facts.caller.tenant, operation.decision_id)
        return replace(
            decision,
            exposes=exposes,
            decision_id=operation.decision_id,
            repeated=True,
            expires_at_ms=operation.expires_at_ms,
            idempotency_key=draft.idempotency_key,
            lease=Lease(token=token, expires_at_ms=operation.expires_at_ms),
        )
    expires_at_ms = facts.now_ms + facts.ttl_ms
    return replace(
        decision,
        exposes=exposes,
        expires_at_ms=expires_at_ms,
        idempotency_key=draft.idempotency_key,
        lease=Lease(token=draft.lease_token, expires_at_ms=expires_at_ms),
    )


def _exposes(tool: Tool) -> frozenset[str]:
    """What the session has been exposed to once the call has run: told from the descriptor."""
    returns = tool.descriptor.returns
    parts = (returns, *returns.fields.values())
    labels = frozenset(label for part in parts for label in part.labels)
    return labels | ({UNTRUSTED} if any(part.trust is Trust.UNTRUSTED for part in parts) else set())


def denied(
    call: Call, facts: Facts, refusal: Refusal, tool: Tool | None = None, draft: Draft | None = None
) -> Decision:
    return Decision(
        decision_id=facts.decision_id,
        effect=Effect.DENY,
        stage=refusal.stage,
        code=refusal.code,
        policy_version=facts.ruleset.version,
        request_digest=call.request_digest,
        matched=refusal.matched,
        message=refusal.message,
        next=refusal.next,
        retry_unchanged=refusal.retry_unchanged,
        errors=refusal.errors,
        internal=refusal.internal,
        authority=draft.authority if draft else None,
        side_effect=tool.descriptor.side_effect if tool else None,
        accesses=draft.canonical.accesses if draft else (),
        arguments=draft.canonical.arguments if draft else None,
        fingerprint=draft.fingerprint if draft else None,
        descriptor_digest=tool.descriptor.digest if tool else None,
    )


def _explain(decision: Decision) -> Decision:
    """A refusal in words that a model can use, without internals."""
    names = ", ".join(f"`{rule.rule}`" for rule in decision.matched)
    reasons = " ".join(rule.reason.rstrip(".") + "." for rule in decision.matched if rule.reason)
    if decision.effect is Effect.REQUIRE_APPROVAL:
        return replace(
            decision,
            message=f"a person must approve this: {names}. {reasons}".strip(),
            next=(Next.ESCALATE, Next.STOP),
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
