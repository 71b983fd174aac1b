"""What a guard does, as one flow without I/O: the only place where its procedure stands.

1. resolve what the arguments name · 2. decide · 3. wait for an approval, and decide again · 4. re-check
identity · 5. begin · 6. execute, by whoever drives the flow · 7. settle.

Where nothing is re-checked, `decide` begins the act itself: one round trip reserves and starts.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from authz_client import _requests
from authz_client._digests import json_digest
from authz_client._flow import Do, Flow, HandOver, Terms
from authz_client.errors import (
    DecisionUnavailable,
    ExecutionRefused,
    MalformedAnswer,
    RequestRefused,
    Timeout,
    Unreachable,
)
from authz_client.model import Approval, Decision, Effect, Obligation
from authz_client.outcomes import GRANTED, ApprovalState, ApprovalStatus, Outcome
from authz_client.permitted import Ended, Permitted, Unsettled
from authz_client.refusals import (
    AlreadyDone,
    ApprovalPending,
    ApprovalRefused,
    CallDenied,
    CallInProgress,
    IdentityRefused,
    NoDecision,
    ObligationUnmet,
    OutcomeUnknown,
    StartRefused,
)

logger = logging.getLogger("authz_client")

_NOT_BEGUN: Final = "the tool was not begun"
Claims = Mapping[str, Any]
"""`context.resolved`: by JSON Pointer of the argument, what it leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCall:
    """One call, and how it is to be guarded."""

    subject: Mapping[str, Any]
    server: str
    tool: str
    arguments: Mapping[str, Any]
    provenance: Mapping[str, Any]
    context: Mapping[str, Any]
    """Ids included."""
    attempt: str
    is_read: bool
    """It was declared to change nothing: then nothing is told of how it went."""
    advertised_digest: str | None
    ticket: bool
    timeout_seconds: int | None
    resolve: Callable[[Mapping[str, Any]], Any] | None
    approval_seconds: float
    """How long an approval is waited for; 0 is not at all."""
    may_fail_open: Callable[[], bool]
    present: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None

    @property
    def name(self) -> str:
        """`server/tool`"""
        return f"{self.server}/{self.tool}"

    @property
    def folds_start(self) -> bool:
        """Whether the decision itself begins the act."""
        return not self.is_read and self.resolve is None

    def request(self, claims: Claims | None) -> dict[str, Any]:
        """The body of `POST /decide`."""
        context = dict(self.context)
        if claims is not None:
            context["resolved"] = {**context.get("resolved", {}), **claims}
        if not self.is_read:
            context["settles"] = True
        if self.folds_start:
            start = {"attempt": self.attempt, "timeout_seconds": self.timeout_seconds}
            context["start"] = {name: value for name, value in start.items() if value is not None}
        tool = {"server": self.server, "name": self.tool}
        if self.advertised_digest is not None:
            tool["advertised_digest"] = self.advertised_digest
        request: dict[str, Any] = {"subject": self.subject, "tool": tool, "arguments": self.arguments}
        if self.provenance:
            request["provenance"] = self.provenance
        request["context"] = context
        if self.ticket:
            request["ticket"] = True
        return request


def guarded(call: GuardedCall, terms: Terms) -> Flow[Unsettled | None]:
    """Hands a `Permitted` over, is sent how it `Ended`, and returns what could not be told of that.

    Raises a `CallRefused` instead of handing over.
    """
    claims = yield from _resolved(call, call.arguments)
    decision = yield from _permission(call, claims, terms)
    if decision is None:
        yield HandOver(Permitted.fail_open(call.name, call.arguments))
        return None
    must_settle = not call.is_read or decision.authority != "A0"
    permitted = Permitted.of(call.name, decision, attempt=call.attempt, is_settled=must_settle)
    yield from _check_obligations(call, permitted, must_settle, terms)
    if claims is not None:
        yield from _check_identity(call, permitted, claims, terms)
    if must_settle and not call.folds_start:
        yield from _begin(call, permitted, terms)
    if decision.expires_at is None or decision.expires_at <= terms.read_now():
        yield from _abandon(permitted, terms)
        raise NoDecision("the allow ran out before the call could begin", tool=call.name)
    ended: Ended = yield HandOver(permitted)
    return (yield from settled(permitted, ended, terms)) if must_settle else None


def _resolved(call: GuardedCall, arguments: Mapping[str, Any]) -> Flow[Claims | None]:
    """Step 1, and again step 4: what the arguments lead to where the tool would use them."""
    resolve = call.resolve
    if resolve is None:
        return None
    try:
        claims: object = yield Do(lambda: resolve(arguments))
    except (ExecutionRefused, OSError) as error:
        raise IdentityRefused(
            f"what it is about cannot be told: {error}", tool=call.name, code="identity.unresolved"
        ) from error
    if not isinstance(claims, Mapping):
        # Twice nothing is equal, and would pass for an identity that was looked at again.
        raise IdentityRefused(
            "what it is about was not told: `resolve` returns the claims, by pointer",
            tool=call.name,
            code="identity.unresolved",
        )
    return claims


def _permission(call: GuardedCall, claims: Claims | None, terms: Terms) -> Flow[Decision | None]:
    """Steps 2 and 3: a live allow. `None` only where the transport failed and the tool may fail open."""
    ends_at = terms.read_monotonic() + call.approval_seconds
    is_first = True
    granted: set[str] = set()
    while True:
        decision = yield from _decided(call, claims, terms, may_fail_open=is_first)
        is_first = False
        if decision is None or decision.effect is Effect.ALLOW:
            return decision
        if decision.effect is Effect.DENY:
            yield from _give_back(decision, terms)
            _raise_denied(call, decision)
        if decision.approval is None:
            raise _no_decision(call, MalformedAnswer("an approval is asked for, and the answer names none"))
        left = ends_at - terms.read_monotonic()
        if left <= 0 or decision.approval.id in granted:
            # A yes that was given and does not suffice is not asked about over and over.
            raise _pending(call, decision, decision.approval)
        yield from _granted(call, decision, decision.approval, left, terms)
        granted.add(decision.approval.id)


def _decided(
    call: GuardedCall, claims: Claims | None, terms: Terms, *, may_fail_open: bool
) -> Flow[Decision | None]:
    try:
        request = call.request(claims)
        expected_digest = json_digest(request)
        if call.present is not None:
            # A proof is of one request, and good for it once.
            request |= call.present(request)
        decision = yield from _requests.decide(request, terms)
        if decision.request_digest != expected_digest:
            raise MalformedAnswer("the answer is about another request")
        if decision.effect is Effect.ALLOW:
            _check_whole(decision)
    except (Timeout, Unreachable) as failure:
        if may_fail_open and call.is_read and call.may_fail_open():
            logger.warning(
                "no decision on `%s` (%s): it runs all the same, as `fail_open_for` says",
                call.name,
                type(failure).__name__,
            )
            return None
        raise _no_decision(call, failure) from failure
    except DecisionUnavailable as failure:
        raise _no_decision(call, failure) from failure
    return decision


def _check_whole(decision: Decision) -> None:
    """An allow has all that a guard needs to run the call and to tell of it."""
    if decision.dry_run or decision.arguments is None:
        raise MalformedAnswer("an allow must name the `arguments` to run")
    if decision.lease is None or decision.idempotency_key is None:
        raise MalformedAnswer("an allow must carry a `lease` and an `idempotency_key`")


def _granted(
    call: GuardedCall, decision: Decision, approval: Approval, seconds: float, terms: Terms
) -> Flow[None]:
    """Step 3: wait until somebody has agreed. The decision is then asked for once more."""
    try:
        status: ApprovalStatus = yield from _requests.wait_for_approval(approval.id, seconds, terms)
    except DecisionUnavailable as failure:
        raise _pending(call, decision, approval) from failure
    if status.state is ApprovalState.PENDING:
        raise _pending(call, decision, approval)
    if status.state not in GRANTED:
        words = f"the approval that it needs is `{status.state}`"
        if status.denial_reason:
            words += f": {status.denial_reason}"
        raise ApprovalRefused(
            words, tool=call.name, decision=decision, state=status.state.value, status=status
        )


def _check_obligations(call: GuardedCall, permitted: Permitted, settles: bool, terms: Terms) -> Flow[None]:
    """The guard settles, and looks again at what it resolved. Nothing else is done here, so it refuses."""
    met = {Obligation.VERIFY_IDENTITY} if call.resolve is not None else set()
    if settles:
        met.add(Obligation.SETTLE_BEFORE_RETRY)
    decision = permitted.known_decision
    unmet = [obligation.value for obligation in decision.obligations if obligation not in met]
    if unmet:
        yield from _abandon(permitted, terms)
        raise ObligationUnmet(
            f"this runtime does not do what the allow is bound to: {', '.join(unmet)}",
            tool=call.name,
            code="obligation.unmet",
            next=("escalate", "stop"),
            decision=decision,
        )


def _check_identity(call: GuardedCall, permitted: Permitted, claims: Claims, terms: Terms) -> Flow[None]:
    """Step 4: the arguments that will run lead to what was decided on, now that they are about to."""
    try:
        found = yield from _resolved(call, permitted.arguments)
        if found != claims:
            raise IdentityRefused(
                "what it is about has changed since it was decided on",
                tool=call.name,
                code="identity.changed",
                next=("wait", "stop"),
                decision=permitted.decision,
            )
    except IdentityRefused:
        yield from _abandon(permitted, terms)
        raise


def _begin(call: GuardedCall, permitted: Permitted, terms: Terms) -> Flow[None]:
    """Step 5, where the decision did not do it. Of several tries of one call one begins."""
    decision, lease = permitted.known_decision, permitted.lease
    try:
        yield from _requests.start(
            decision.decision_id,
            lease_token=lease.token,
            attempt=call.attempt,
            timeout_seconds=call.timeout_seconds,
            terms=terms,
        )
    except RequestRefused as failure:
        if failure.code == "operation.in_progress":
            raise CallInProgress(
                "another try of this call has begun",
                tool=call.name,
                code=failure.code,
                next=("wait", "query_status"),
                decision=decision,
            ) from failure
        raise StartRefused(
            f"it must not begin: {failure.detail}", tool=call.name, code=failure.code, decision=decision
        ) from failure
    except DecisionUnavailable as failure:
        yield from _abandon(permitted, terms)
        raise _no_decision(call, failure) from failure


def _abandon(permitted: Permitted, terms: Terms) -> Flow[None]:
    """Nothing ran. Told once, and lost without harm: then the lease ends by itself."""
    if not permitted.is_settled:
        return
    ended = Ended(outcome=Outcome.FAILED_RETRYABLE, detail=_NOT_BEGUN)
    yield from settled(permitted, ended, terms)


def settled(permitted: Permitted, ended: Ended, terms: Terms) -> Flow[Unsettled | None]:
    """Step 7. Where it is not known whether the report came through, its status is asked for first."""
    decision_id = permitted.known_decision.decision_id
    told = {"external_id": ended.external_id, "result_digest": ended.result_digest}
    try:
        yield from _requests.settle(
            decision_id,
            lease_token=permitted.lease.token,
            outcome=ended.outcome,
            detail=ended.detail,
            **told,
            terms=terms,
        )
    except RequestRefused as failure:
        return Unsettled(permitted=permitted, ended=ended, failure=failure)
    except DecisionUnavailable as failure:
        try:
            found = yield from _requests.operation(decision_id, terms)
        except DecisionUnavailable:
            return Unsettled(permitted=permitted, ended=ended, failure=failure)
        as_told = {"external_id": found.external_id, "result_digest": found.result_digest}
        if found.state.value == ended.outcome.value and as_told == told:
            return None
        return Unsettled(permitted=permitted, ended=ended, failure=failure)
    return None


def _give_back(decision: Decision, terms: Terms) -> Flow[None]:
    """Of a try that began without our knowing, since its answer was lost, and was cancelled since."""
    if decision.lease is None or decision.operation is None or decision.operation.decision_id is None:
        return
    try:
        yield from _requests.settle(
            decision.operation.decision_id,
            lease_token=decision.lease.token,
            outcome=Outcome.FAILED_RETRYABLE,
            external_id=None,
            result_digest=None,
            detail=_NOT_BEGUN,
            terms=terms,
        )
    except DecisionUnavailable as failure:
        logger.info("a cancelled call could not be settled (%s): its lease ends by itself", failure)


_OUTCOME_UNKNOWN: Final = "operation.unknown"


def _raise_denied(call: GuardedCall, decision: Decision) -> NoReturn:
    """The refusal that a deny means, by its code."""
    message = decision.message or f"it is denied (`{decision.code}`)"
    known: dict[str, Any] = {"tool": call.name, "code": decision.code, "next": decision.next}
    if decision.code == "operation.settled" and decision.operation is not None:
        raise AlreadyDone(message, tool=call.name, decision=decision, outcome=decision.operation)
    if decision.code == _OUTCOME_UNKNOWN:
        raise OutcomeUnknown(message, decision=decision, **known)
    if decision.code == "operation.in_progress":
        raise CallInProgress(message, decision=decision, **known)
    if decision.approval is not None and decision.code.startswith("approval."):
        raise ApprovalRefused(message, tool=call.name, decision=decision, state=decision.approval.state)
    raise CallDenied(message, decision=decision, **known)


def _pending(call: GuardedCall, decision: Decision, approval: Approval) -> ApprovalPending:
    where = f" at {approval.url}" if approval.url else ""
    return ApprovalPending(
        f"a person has to agree first{where}", tool=call.name, decision=decision, approval=approval
    )


def _no_decision(call: GuardedCall, failure: DecisionUnavailable) -> NoDecision:
    made = NoDecision(f"there is no decision on it: {failure.message}", tool=call.name)
    made.__cause__ = failure
    return made
