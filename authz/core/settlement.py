"""What an operation may become, by whose word, and when what it took is given back (spec section 9).

Every transition is a row of `TRANSITIONS`; what is not there does not happen. Only what is proven not to have
run is given back. Two things prove it: a runtime that declared to say when each act begins did not say so
before its lease ended, since nobody may begin afterwards; or a person or a probe looked.
Of what a ticket was given for only the second does, once the ticket is over: a tool server takes that
offline, so the runtime's silence says nothing, nor does its word.
What a holder tells otherwise than that is never just dropped: see `authz.core.contradiction`.
"""

import hmac
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from authz_client.capabilities.revocations import check_revoked

from authz.core.fingerprint import keyed_digest
from authz.model.capability import TokenRules
from authz.model.operation import Basis, OperationRecord, OperationState, OperationWrite
from authz.model.record import EventType

LEASE_MARGIN_MS: Final = 30_000
"""By which a lease outlasts the time that the act may take: clocks differ, and reports travel."""
KEY_RETENTION_MS: Final = 24 * 3_600_000
"""How long an endpoint is taken to remember a key when its descriptor does not say."""


class By(StrEnum):
    """By whose word an operation moves."""

    HOLDER = "holder"
    """Whoever holds the lease's token."""
    EXAMINER = "examiner"
    """A person, or a probe, who looked whether it took effect."""
    REQUESTER = "requester"
    """Who may see the operation, and wants it not to run."""
    LEASE_END = "lease_end"
    """Nobody: the time is over."""
    CONTRADICTION = "contradiction"
    """A holder, of this lease or an earlier one, whose word does not fit: see `authz.core.contradiction`."""


class ReportCode(StrEnum):
    """Why an operation does not move as was asked. Closed."""

    IN_PROGRESS = "operation.in_progress"
    SETTLED = "operation.settled"
    UNKNOWN = "operation.unknown"
    NOT_EXECUTED = "operation.not_executed"
    NOT_PROVEN = "operation.not_proven"
    NOT_ALLOWED = "operation.not_allowed"
    CANCEL_REQUESTED = "operation.cancel_requested"
    CAPABILITY_ENDED = "operation.capability_ended"
    SUPERSEDED = "operation.superseded"
    CONTRADICTED = "operation.contradicted"
    EXPIRED = "operation.expired"


_S: Final = OperationState
TRANSITIONS: Final = frozenset(
    {
        (_S.RESERVED, _S.EXECUTING, By.HOLDER),
        # Without a beginning that was told: true all the same, and it stays charged.
        (_S.RESERVED, _S.SUCCEEDED, By.HOLDER),
        (_S.RESERVED, _S.FAILED_RETRYABLE, By.HOLDER),
        (_S.RESERVED, _S.FAILED_FINAL, By.HOLDER),
        (_S.RESERVED, _S.UNKNOWN, By.HOLDER),
        # Only where the runtime declared that it settles, and holds no ticket: see `_unproven`.
        (_S.RESERVED, _S.NOT_EXECUTED, By.HOLDER),
        (_S.EXECUTING, _S.SUCCEEDED, By.HOLDER),
        (_S.EXECUTING, _S.FAILED_RETRYABLE, By.HOLDER),
        (_S.EXECUTING, _S.FAILED_FINAL, By.HOLDER),
        (_S.EXECUTING, _S.UNKNOWN, By.HOLDER),
        # A late word that gives nothing back and lets nothing run again.
        (_S.UNKNOWN, _S.SUCCEEDED, By.HOLDER),
        (_S.UNKNOWN, _S.SUCCEEDED, By.EXAMINER),
        (_S.UNKNOWN, _S.NOT_EXECUTED, By.EXAMINER),
        (_S.RESERVED, _S.NOT_EXECUTED, By.LEASE_END),
        (_S.RESERVED, _S.UNKNOWN, By.LEASE_END),
        (_S.EXECUTING, _S.UNKNOWN, By.LEASE_END),
        # Whatever could still run, or run again, waits for whoever finds out what is true.
        (_S.RESERVED, _S.UNKNOWN, By.CONTRADICTION),
        (_S.EXECUTING, _S.UNKNOWN, By.CONTRADICTION),
        (_S.FAILED_RETRYABLE, _S.UNKNOWN, By.CONTRADICTION),
        (_S.NOT_EXECUTED, _S.UNKNOWN, By.CONTRADICTION),
        (_S.UNKNOWN, _S.UNKNOWN, By.CONTRADICTION),
    }
)
OUTCOMES: Final = frozenset({_S.SUCCEEDED, _S.FAILED_RETRYABLE, _S.FAILED_FINAL, _S.NOT_EXECUTED})
"""States that an outcome was told for."""
NEVER_ALLOWED: Final = frozenset({_S.REFUSED, _S.WAITING})
_CODES: Final = {
    _S.REFUSED: (ReportCode.NOT_ALLOWED, "the call was not allowed"),
    _S.WAITING: (ReportCode.NOT_ALLOWED, "the call waits for an approval"),
    _S.RESERVED: (ReportCode.IN_PROGRESS, "its lease has not ended"),
    _S.EXECUTING: (ReportCode.IN_PROGRESS, "the act has begun, and its lease has not ended"),
    _S.UNKNOWN: (ReportCode.UNKNOWN, "its lease ended without an outcome; whether it ran must be looked up"),
    _S.NOT_EXECUTED: (ReportCode.NOT_EXECUTED, "it did not run; send the call to `/decide` again"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is told of an act that is over."""

    state: OperationState
    external_id: str = ""
    result_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An operation's next state, to be written where its version has not moved."""

    event: EventType
    source: OperationState
    by: By
    after: OperationRecord
    refunds: bool = False
    """What its decision reserved is given back."""

    def write(self, tenant: str) -> OperationWrite:
        """By compare-and-set."""
        return write_of(tenant, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPossible:
    """Why an operation stays as it is."""

    code: ReportCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmoved:
    """The same word again: it stands already."""


Change = Move | Unmoved | NotPossible


def lease_token(secret: bytes, tenant: str, decision_id: str) -> str:
    """The token of a decision's lease. Computed, and so kept nowhere."""
    return keyed_digest(secret, "lease", tenant, decision_id)


def is_lease_token(presented: str, secret: bytes, tenant: str, decision_id: str) -> bool:
    """Whether this is the token, in the same time for every wrong one."""
    expected = lease_token(secret, tenant, decision_id)
    return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), expected.encode())


def has_lapsed(operation: OperationRecord, now_ms: int) -> bool:
    """Whether its lease ended without an outcome."""
    return operation.state in (_S.RESERVED, _S.EXECUTING) and operation.expires_at_ms <= now_ms


def state_at(operation: OperationRecord, now_ms: int) -> OperationState:
    """The state at a time: the end of a lease counts whether or not somebody has written it down."""
    if not has_lapsed(operation, now_ms):
        return operation.state
    never_began = operation.state is _S.RESERVED and operation.settles and not operation.ticketed
    return _S.NOT_EXECUTED if never_began else _S.UNKNOWN


def is_due(operation: OperationRecord, now_ms: int) -> bool:
    """Whether the end of the lease is to be written down."""
    return has_lapsed(operation, now_ms) and (operation.settles or operation.state is _S.EXECUTING)


def lapse(operation: OperationRecord, now_ms: int) -> Move | None:
    """What the end of its lease makes of an operation; `None` while there is nothing to write down."""
    if not is_due(operation, now_ms):
        return None
    target = state_at(operation, now_ms)
    return _moved(
        operation,
        target,
        By.LEASE_END,
        EventType.OPERATION_UNKNOWN if target is _S.UNKNOWN else EventType.OPERATION_EXPIRED,
        settled_at_ms=0 if target is _S.UNKNOWN else now_ms,
    )


def check_start(
    operation: OperationRecord,
    now_ms: int,
    attempt: str,
    lasts_ms: int | None,
    rules: TokenRules | None = None,
    *,
    key_ends_ms: int | None = None,
) -> Change:
    """The act is about to begin. Of several attempts one may begin, and the same one may ask again.

    `rules` are those of this moment: what the permission rests on may have been revoked since it was given.
    Without them nothing begins that rests on a capability. `key_ends_ms` is when the endpoint may forget the
    key, where that matters: the act must be over by then, since it may be repeated under that key.
    """
    state = state_at(operation, now_ms)
    if state in (_S.RESERVED, _S.EXECUTING) and not _is_in_force(operation.basis, rules, now_ms):
        return NotPossible(
            code=ReportCode.CAPABILITY_ENDED,
            message="the capability that allowed it has ended or is revoked: do not begin",
        )
    is_own = state is _S.EXECUTING and operation.attempt == attempt
    if operation.cancel_requested and (is_own or state is _S.RESERVED):
        # One that began but does not know it has not acted yet, as far as anybody can tell.
        return NotPossible(
            code=ReportCode.CANCEL_REQUESTED,
            message="somebody asked to cancel it: do not begin; if the act has begun, settle it"
            if is_own
            else "somebody asked to cancel it: do not begin",
        )
    if is_own:
        return Unmoved()
    if state is not _S.RESERVED:
        return not_possible(operation, now_ms)
    if key_ends_ms is not None and outlives_key(key_ends_ms, now_ms, lasts_ms):
        return NotPossible(code=ReportCode.EXPIRED, message=OUTLIVES_KEY)
    ends_ms = lease_end(operation.expires_at_ms, now_ms, lasts_ms)
    basis_ends_ms = operation.basis.expires_at_ms if operation.basis is not None else None
    return _moved(
        operation,
        _S.EXECUTING,
        By.HOLDER,
        EventType.OPERATION_STARTED,
        attempt=attempt,
        expires_at_ms=earliest(ends_ms, basis_ends_ms, key_ends_ms),
    )


OUTLIVES_KEY: Final = (
    "the endpoint may forget the key of this call before the act would be over: send a shorter "
    "`timeout_seconds`, or the call with a new `context.tool_call_id`"
)


def earliest(first_ms: int, *others_ms: int | None) -> int:
    """The earliest of these ends, `None` being none."""
    return min((first_ms, *(end_ms for end_ms in others_ms if end_ms is not None)))


def _is_in_force(basis: Basis | None, rules: TokenRules | None, now_ms: int) -> bool:
    """Whether what a permission rests on is still one: it need rest on nothing."""
    if basis is None:
        return True
    if rules is None or basis.expires_at_ms <= now_ms or basis.kid not in rules.keys:
        return False
    return check_revoked(basis.handles, rules.revoked) is None


def lease_end(expires_at_ms: int, now_ms: int, lasts_ms: int | None) -> int:
    """When the lease of an act ends that begins now: never before the time that it may take, and a margin.

    Yet whoever asks bounds it by the capability that it rests on: from then on it is not known how a longer
    act goes on, and nobody tries it again unasked.
    """
    return expires_at_ms if lasts_ms is None else max(expires_at_ms, now_ms + lasts_ms + LEASE_MARGIN_MS)


def check_settle(operation: OperationRecord, now_ms: int, outcome: Outcome) -> Change:
    """The holder of the lease says how it ended."""
    return _check_outcome(operation, now_ms, outcome, By.HOLDER, EventType.OPERATION_SETTLED)


def check_resolve(operation: OperationRecord, now_ms: int, outcome: Outcome) -> Change:
    """Somebody looked what became of an operation that nobody settled."""
    return _check_outcome(operation, now_ms, outcome, By.EXAMINER, EventType.OPERATION_RESOLVED)


def check_cancel(operation: OperationRecord, now_ms: int) -> Change:
    """Somebody wants it not to run. What has begun goes on until its runtime says otherwise."""
    state = state_at(operation, now_ms)
    if state not in (_S.RESERVED, _S.EXECUTING):
        return not_possible(operation, now_ms)
    if operation.cancel_requested:
        return Unmoved()
    return Move(
        event=EventType.OPERATION_CANCEL_REQUESTED,
        source=operation.state,
        by=By.REQUESTER,
        after=replace(operation, cancel_requested=True),
    )


def write_of(tenant: str, after: OperationRecord) -> OperationWrite:
    """The write that makes an operation of that version be like this."""
    return OperationWrite(
        tenant=tenant,
        key=after.key,
        fingerprint=after.fingerprint,
        state=after.state,
        decision_id=after.decision_id,
        expires_at_ms=after.expires_at_ms,
        expected_version=after.version,
        settles=after.settles,
        cancel_requested=after.cancel_requested,
        attempt=after.attempt,
        first_at_ms=after.first_at_ms,
        settled_at_ms=after.settled_at_ms,
        external_id=after.external_id,
        result_digest=after.result_digest,
        ticketed=after.ticketed,
        basis=after.basis,
        approval=after.approval,
    )


def key_end(operation: OperationRecord | None, now_ms: int, retention_seconds: int | None) -> int:
    """When the endpoint may forget the key of a call, in ms: it is as old as the first permission with it."""
    first_ms = now_ms
    if operation is not None and operation.state not in NEVER_ALLOWED:
        first_ms = operation.first_at_ms or operation.expires_at_ms
    return first_ms + (retention_seconds * 1000 if retention_seconds else KEY_RETENTION_MS)


def is_past_retention(operation: OperationRecord, now_ms: int, retention_seconds: int | None) -> bool:
    """Whether the endpoint may have forgotten the key: under it nothing is begun again."""
    return now_ms >= key_end(operation, now_ms, retention_seconds)


def outlives_key(key_ends_ms: int, now_ms: int, lasts_ms: int | None) -> bool:
    """Whether an act that begins now may still go on, and be repeated, when its key is forgotten.

    Of one that does not say how long it may take, the lease ends with the key.
    """
    return now_ms + (0 if lasts_ms is None else lasts_ms + LEASE_MARGIN_MS) >= key_ends_ms


def not_possible(operation: OperationRecord, now_ms: int) -> NotPossible:
    """Why an operation does not move from where it stands."""
    if operation.is_contradicted:
        return NotPossible(
            code=ReportCode.CONTRADICTED,
            message="what was told of it does not fit together: a person or a probe must say what is true",
        )
    state = state_at(operation, now_ms)
    code, message = _CODES.get(state, (ReportCode.SETTLED, f"it is settled: `{state.value}`"))
    return NotPossible(code=code, message=message)


def _check_outcome(
    operation: OperationRecord, now_ms: int, outcome: Outcome, by: By, event: EventType
) -> Change:
    state = state_at(operation, now_ms)
    if operation.is_contradicted and by is By.HOLDER:
        # Its holders had their say.
        return not_possible(operation, now_ms)
    if state is outcome.state and _is_told(operation, outcome):
        return Unmoved()
    if (state, outcome.state, by) not in TRANSITIONS:
        if outcome.state is _S.NOT_EXECUTED and state in (_S.EXECUTING, _S.UNKNOWN):
            return NotPossible(
                code=ReportCode.NOT_PROVEN,
                message="that it did not run must be proven: by `/resolve`, after its lease has ended",
            )
        return not_possible(operation, now_ms)
    if outcome.state is _S.NOT_EXECUTED and (message := _unproven(operation, now_ms, by)):
        return NotPossible(code=ReportCode.NOT_PROVEN, message=message)
    return _moved(
        operation,
        outcome.state,
        by,
        event,
        source=state,
        external_id=outcome.external_id,
        result_digest=outcome.result_digest,
        settled_at_ms=0 if outcome.state is _S.UNKNOWN else now_ms,
    )


def _is_told(operation: OperationRecord, outcome: Outcome) -> bool:
    told = (operation.external_id, operation.result_digest)
    return told == (outcome.external_id, outcome.result_digest)


def _unproven(operation: OperationRecord, now_ms: int, by: By) -> str | None:
    """Why nobody can say yet, or by whose word not, that it did not run; `None` where it can be said."""
    if by is By.HOLDER and not operation.settles:
        return "that it did not run is proven only where `context.settles` was declared"
    if operation.ticketed and by is By.HOLDER:
        return (
            "a ticket was given for it, so its holder does not prove that it did not run: by `/resolve`, "
            "after its lease has ended"
        )
    if operation.is_contradicted and now_ms < operation.expires_at_ms:
        return "the act may be going on: ask again after its lease has ended"
    if operation.ticketed and now_ms < operation.expires_at_ms:
        return "the ticket that was given for it may still be used: ask again after its lease has ended"
    return None


def _moved(
    operation: OperationRecord,
    target: OperationState,
    by: By,
    event: EventType,
    *,
    source: OperationState | None = None,
    attempt: str | None = None,
    expires_at_ms: int | None = None,
    external_id: str = "",
    result_digest: str = "",
    settled_at_ms: int = 0,
) -> Move:
    source = source or operation.state
    if (source, target, by) not in TRANSITIONS:
        raise ValueError(f"nothing leads from {source} to {target} by {by}")
    after = replace(
        operation,
        state=target,
        attempt=operation.attempt if attempt is None else attempt,
        expires_at_ms=operation.expires_at_ms if expires_at_ms is None else expires_at_ms,
        external_id=external_id,
        result_digest=result_digest,
        settled_at_ms=settled_at_ms,
    )
    return Move(event=event, source=source, by=by, after=after, refunds=target is _S.NOT_EXECUTED)
