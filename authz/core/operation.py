"""Stage 5: the fingerprint of a call, and what its operation's past says."""

from dataclasses import replace
from typing import Final

from authz.core.claims import BelievedClaims
from authz.core.facts import Draft, Facts, Judgement
from authz.core.fingerprint import call_fingerprint, canonical_json, keyed_digest
from authz.core.ruleset import Tool
from authz.core.settlement import (
    OUTLIVES_KEY,
    is_past_retention,
    key_end,
    lease_token,
    outlives_key,
    state_at,
)
from authz.core.tools import CanonicalCall
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import Code, Effect, Next, Refusal, Stage
from authz.model.operation import OperationRecord, OperationState, Standing
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
        lease_token=lease_token(facts.secret, tenant, facts.decision_id),
    )


_SETTLED: Final = frozenset({OperationState.SUCCEEDED, OperationState.FAILED_FINAL})
_CANCELLED: Final = (
    "somebody asked to cancel this call: it must not begin; send a new `context.tool_call_id` if it is "
    "wanted after all"
)
_CANCELLED_TICKET: Final = (
    "somebody asked to cancel this call: use its ticket no more; whether the tool server has run it already "
    "is not known here, so find that out before the call is sent with a new `context.tool_call_id`"
)
_OVER: Final = _SETTLED | {OperationState.FAILED_RETRYABLE, OperationState.NOT_EXECUTED}


def check_operation(call: Call, facts: Facts, draft: Draft, tool: Tool) -> Refusal | None:
    """Stage 5. Above A0 the ids are mandatory; one identity has one fingerprint for ever.

    What was denied or waits, failed in a way that may be tried again, or is proven not to have run is decided
    anew under the same key, as long as the endpoint remembers that. Reads may be retried.
    """
    if (draft.authority > Authority.A0 or call.settles) and not call.ids.complete:
        return Refusal(
            stage=Stage.OPERATION,
            code=Code.OPERATION_IDS_REQUIRED,
            message="send `context.trace_id`, `turn_id` and `tool_call_id`: the call changes something, or "
            "is to be settled",
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
    return _stopped(call, facts, operation, tool, is_read=draft.authority is Authority.A0)


def _stopped(
    call: Call, facts: Facts, operation: OperationRecord, tool: Tool, *, is_read: bool
) -> Refusal | None:
    """The refusal when the operation keeps its own call from running now."""
    state = state_at(operation, facts.now_ms)
    if state is OperationState.UNKNOWN and not is_read:
        # A permission that ran out may have been used: it is never given a second time by itself.
        return _refused(
            operation,
            state,
            Code.OPERATION_UNKNOWN,
            "what was told of this call does not fit together; whether it ran is not known here"
            if operation.is_contradicted
            else "this call was allowed before and its time ran out; whether it ran is not known here",
            next=(Next.QUERY_STATUS, Next.ESCALATE, Next.STOP),
        )
    if state is OperationState.EXECUTING:
        if is_own_attempt(call, operation):
            return None  # `check_beginning` has the last word
        return _refused(
            operation,
            state,
            Code.OPERATION_IN_PROGRESS,
            "this call runs already; wait, and ask for its status",
            next=(Next.WAIT, Next.QUERY_STATUS),
            retry_unchanged=True,
        )
    if operation.cancel_requested and state not in _SETTLED:
        # Whatever its runtime says of it, and however its lease ended: nobody withdraws what another asked.
        return _refused(
            operation,
            state,
            Code.OPERATION_CANCEL_REQUESTED,
            _CANCELLED_TICKET if operation.ticketed else _CANCELLED,
            next=(Next.QUERY_STATUS, Next.STOP),
        )
    retention_seconds = tool.descriptor.settlement.retention_seconds
    if state in _OVER and not is_read and is_past_retention(operation, facts.now_ms, retention_seconds):
        return _refused(
            operation,
            state,
            Code.OPERATION_EXPIRED,
            "the key of this call is older than endpoints remember it; send a new `context.tool_call_id` if "
            "it is to be done again",
            next=(Next.QUERY_STATUS, Next.STOP),
        )
    return None


def check_outcome(facts: Facts, judged: Judgement) -> Refusal | None:
    """Stage 5 once more, when stages 6 and 7 have passed again: the first outcome comes back."""
    operation = facts.operation
    if operation is None or operation.state not in _SETTLED or judged.effect is Effect.DENY:
        return None
    succeeded = operation.state is OperationState.SUCCEEDED
    refusal = _refused(
        operation,
        operation.state,
        Code.OPERATION_SETTLED,
        "this call ran before and succeeded: it is not run again"
        if succeeded
        else "this call ran before and failed for good: it is not run again",
        next=(Next.QUERY_STATUS, Next.STOP),
    )
    return replace(
        refusal,
        standing=replace(
            _standing_of(operation, operation.state),
            external_id=operation.external_id,
            result_digest=operation.result_digest,
            settled_at_ms=operation.settled_at_ms,
        ),
    )


def check_basis(first: OperationRecord, facts: Facts, capability: CapabilityFacts) -> Refusal | None:
    """Stage 9: a permission is given again only to whoever presents what it rests on, or rested on nothing.

    Stage 6 judged what is presented now. Were that another chain, then neither the budgets of this one would
    be debited nor what revokes that one be looked at.
    """
    handles = first.basis.handles if first.basis is not None else ()
    if handles == capability.handles:
        return None
    return _refused(
        first,
        state_at(first, facts.now_ms),
        Code.OPERATION_CONFLICT,
        "this call was allowed under another capability, or without one; send it with that, or send a new "
        "`context.tool_call_id`",
        next=(Next.ESCALATE, Next.STOP),
    )


def key_end_of(facts: Facts, tool: Tool, draft: Draft) -> int | None:
    """When the endpoint may forget the key of the call, in ms; `None` for a read, which needs none."""
    if draft.authority is Authority.A0:
        return None
    return key_end(facts.operation, facts.now_ms, tool.descriptor.settlement.retention_seconds)


def check_beginning(
    call: Call, facts: Facts, tool: Tool, draft: Draft, first: OperationRecord | None
) -> Refusal | None:
    """Stage 9: whether the act may begin by this answer. `first` is a permission that is being repeated.

    An attempt that began before somebody asked to cancel it does not begin again. Nor does any act that may
    outlive its key: whoever repeats it under that key could then do it twice.
    """
    if first is not None and first.state is OperationState.EXECUTING:
        if not first.cancel_requested:
            return None
        return _refused(
            first,
            first.state,
            Code.OPERATION_CANCEL_REQUESTED,
            "somebody asked to cancel this call after its attempt began: do not begin it again, and settle "
            "it with the lease's token",
            next=(Next.QUERY_STATUS, Next.STOP),
        )
    key_ends_ms = key_end_of(facts, tool, draft)
    lasts_ms = call.start.timeout_ms if call.start is not None else None
    if key_ends_ms is None or not outlives_key(key_ends_ms, facts.now_ms, lasts_ms):
        return None
    return Refusal(
        stage=Stage.OPERATION,
        code=Code.OPERATION_EXPIRED,
        message=OUTLIVES_KEY,
        next=(Next.QUERY_STATUS, Next.STOP),
        standing=_standing_of(first, first.state) if first is not None else None,
    )


def is_own_attempt(call: Call, operation: OperationRecord) -> bool:
    """Whether the call is the one that began, sent again since its answer was lost."""
    return call.start is not None and call.start.attempt == operation.attempt


def _refused(
    operation: OperationRecord,
    state: OperationState,
    code: Code,
    message: str,
    *,
    next: tuple[Next, ...],  # noqa: A002 - the name on the wire
    retry_unchanged: bool = False,
) -> Refusal:
    return Refusal(
        stage=Stage.OPERATION,
        code=code,
        message=message,
        next=next,
        retry_unchanged=retry_unchanged,
        standing=_standing_of(operation, state),
    )


def _standing_of(operation: OperationRecord, state: OperationState) -> Standing:
    """Where it stands; what came of it is told by `check_outcome` alone, after stages 6 and 7."""
    return Standing(state=state, settles=operation.settles, decision_id=operation.decision_id)
