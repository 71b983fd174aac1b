"""Stage 5: the fingerprint of a call, and what its operation's past says."""

from authz.core.claims import BelievedClaims
from authz.core.facts import Draft, Facts
from authz.core.fingerprint import call_fingerprint, canonical_json, keyed_digest
from authz.core.ruleset import Tool
from authz.core.tools import CanonicalCall
from authz.model.call import Call
from authz.model.decision import Code, Next, Refusal, Stage
from authz.model.operation import OperationRecord, OperationState
from authz.model.resource import Authority


def draft_of(
    call: Call, facts: Facts, tool: Tool, canonical: CanonicalCall, believed: BelievedClaims
) -> Draft:
    tenant = facts.caller.tenant
    fingerprint = call_fingerprint(
        tenant=tenant,
        call=call,
        descriptor=tool.descriptor,
        arguments=canonical.arguments,
        accesses=canonical.accesses,
        cwd=believed.base.cwd,
        root=believed.base.root,
    )
    ids = call.ids
    # Without ids the decision itself is the identity: an A0 call may then run as often as it is asked.
    identity = (ids.trace or "", ids.turn or "", ids.call or "", "" if ids.complete else facts.decision_id)
    idempotency_key = keyed_digest(
        facts.secret,
        "idempotency",
        tenant,
        call.subject.agent,
        call.subject.on_behalf_of or "",
        *identity,
        tool.descriptor.server.identity,
        tool.descriptor.name,
        canonical_json(canonical.arguments).decode(),
    )
    return Draft(
        fingerprint=fingerprint,
        authority=max(access.authority for access in canonical.accesses),
        canonical=canonical,
        idempotency_key=idempotency_key,
        lease_token=keyed_digest(facts.secret, "lease", tenant, facts.decision_id),
    )


def check_operation(call: Call, facts: Facts, draft: Draft) -> Refusal | None:
    """Stage 5. Above A0 the ids are mandatory; one identity has one fingerprint for ever."""
    if draft.authority > Authority.A0 and not call.ids.complete:
        return Refusal(
            stage=Stage.OPERATION,
            code=Code.OPERATION_IDS_REQUIRED,
            message="send `context.trace_id`, `turn_id` and `tool_call_id`: the call changes something",
            next=(Next.ESCALATE, Next.STOP),
        )
    operation = facts.operation
    if operation is None:
        return None
    if operation.fingerprint != draft.fingerprint:
        return Refusal(
            stage=Stage.OPERATION,
            code=Code.OPERATION_CONFLICT,
            message="these ids already belong to another call; send a new `context.tool_call_id`",
            next=(Next.QUERY_STATUS, Next.STOP),
        )
    # A permission that ran out may have been used: it is never given a second time by itself.
    # Reads may be retried.
    if has_lapsed(operation, facts) and draft.authority > Authority.A0:
        return Refusal(
            stage=Stage.OPERATION,
            code=Code.OPERATION_EXPIRED,
            message="this call was allowed before and its time ran out; whether it ran is not known here",
            next=(Next.QUERY_STATUS, Next.ESCALATE, Next.STOP),
        )
    return None


def has_lapsed(operation: OperationRecord, facts: Facts) -> bool:
    return operation.state is OperationState.RESERVED and operation.expires_at_ms <= facts.now_ms
