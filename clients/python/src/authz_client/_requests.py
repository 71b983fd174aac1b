"""What the client asks, route by route, as flows without I/O (`authz_client._flow`)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from authz_client._flow import FIRST_PAUSE_SECONDS, Ask, Flow, Pause, Terms, answered, refuse
from authz_client._json import encode
from authz_client._members import an_object
from authz_client.errors import (
    DecisionUnavailable,
    MalformedAnswer,
    RequestNotEncodable,
    RequestRefused,
    ServerFailure,
    Timeout,
    Unreachable,
)
from authz_client.model import Asked, Decision
from authz_client.outcomes import ApprovalState, ApprovalStatus, Operation, Outcome

MAX_POLL_SECONDS: Final = 50
"""Of one long poll: below what the service allows (55), so that its answer comes within the deadline."""
_LAST_PAUSE_SECONDS: Final = 5.0
_MIN_ROUND_SECONDS: Final = 0.25
"""A poll that ends at once with nothing new (the service is stopping) is not repeated at once."""


def decide(request: Mapping[str, Any], terms: Terms) -> Flow[Decision]:
    """One call, one answer. The clock is read after the answer came: an allow may have expired on its way."""
    body = encode(request)
    # Kept from before the answer, so that the caller's dict may change meanwhile.
    asked, is_dry_run = Asked.now(request), bool(request.get("dry_run"))
    value = yield from answered(Ask(path="/decide", body=body, is_repeatable=_is_repeatable(request)), terms)
    return _decision(value, asked, is_dry_run, terms)


def decide_batch(
    requests: Sequence[Mapping[str, Any]], terms: Terms
) -> Flow[tuple[Decision | DecisionUnavailable, ...]]:
    """Several calls, each with its own answer, in order; the place of one without a decision says why."""
    body = encode({"calls": list(requests)})
    known = [(Asked.now(request), bool(request.get("dry_run"))) for request in requests]
    is_repeatable = all(map(_is_repeatable, requests))
    value = yield from answered(Ask(path="/decide/batch", body=body, is_repeatable=is_repeatable), terms)
    decisions = an_object(value, "the answer").get("decisions")
    if not isinstance(decisions, list) or len(decisions) != len(known):
        raise MalformedAnswer("`decisions` must be an array with one answer for each call")
    return tuple(
        _of_batch(found, asked, is_dry_run, terms)
        for found, (asked, is_dry_run) in zip(decisions, known, strict=True)
    )


def _of_batch(value: Any, asked: Asked, is_dry_run: bool, terms: Terms) -> Decision | DecisionUnavailable:
    """The answer to one call. Its failure does not take the other answers away."""
    try:
        members = an_object(value, "decisions")
        if "problem" in members:
            problem = an_object(members["problem"], "problem")
            status = problem.get("status")
            refuse(status if type(status) is int else 0, problem)
        return _decision(value, asked, is_dry_run, terms)
    except DecisionUnavailable as failure:
        return failure


def _decision(value: Any, asked: Asked, is_dry_run: bool, terms: Terms) -> Decision:
    decision = Decision.from_json(value, now=terms.read_now(), asked=asked)
    if is_dry_run and not decision.dry_run:
        raise MalformedAnswer("a dry run was asked for, and the answer does not say that it is one")
    return decision


def _is_repeatable(request: Mapping[str, Any]) -> bool:
    """Whether the same bytes again get the first decision back. A proof is good for one request only."""
    if request.get("proof") is not None:
        return False
    context = request.get("context")
    ids = ("trace_id", "turn_id", "tool_call_id")
    return bool(request.get("dry_run")) or (
        isinstance(context, Mapping) and all(context.get(name) for name in ids)
    )


def operation(decision_id: str, terms: Terms) -> Flow[Operation]:
    """Where the operation of a decision stands."""
    return (yield from _operation(decision_id, "", None, terms))


def start(
    decision_id: str, *, lease_token: str, attempt: str, timeout_seconds: int | None, terms: Terms
) -> Flow[Operation]:
    """The act begins now. Of one attempt the same words again are answered alike."""
    body = {"lease_token": lease_token, "attempt": attempt, "timeout_seconds": timeout_seconds}
    return (yield from _operation(decision_id, "/start", body, terms))


def settle(
    decision_id: str,
    *,
    lease_token: str,
    outcome: Outcome,
    external_id: str | None,
    result_digest: str | None,
    detail: str,
    terms: Terms,
) -> Flow[Operation]:
    """How the act ended. The same report again is answered alike."""
    body = {
        "lease_token": lease_token,
        "outcome": Outcome(outcome).value,
        "external_id": external_id,
        "result_digest": result_digest,
        "detail": detail or None,
    }
    return (yield from _operation(decision_id, "/settle", body, terms))


def resolve(
    decision_id: str,
    *,
    outcome: Outcome,
    reason: str,
    external_id: str | None,
    result_digest: str | None,
    terms: Terms,
) -> Flow[Operation]:
    """What was found out about an operation that nobody settled."""
    body = {
        "outcome": Outcome(outcome).value,
        "reason": reason,
        "external_id": external_id,
        "result_digest": result_digest,
    }
    return (yield from _operation(decision_id, "/resolve", body, terms))


def cancel_operation(decision_id: str, *, reason: str, terms: Terms) -> Flow[Operation]:
    """Ask that the act does not happen."""
    return (yield from _operation(decision_id, "/cancel", {"reason": reason}, terms))


def _operation(decision_id: str, what: str, body: Mapping[str, Any] | None, terms: Terms) -> Flow[Operation]:
    path = f"/operations/{_segment(decision_id)}{what}"
    if body is None:
        ask = Ask(method="GET", path=path, is_repeatable=True)
    else:
        present = {name: value for name, value in body.items() if value is not None}
        ask = Ask(path=path, body=encode(present), is_repeatable=True)
    found = Operation.from_json((yield from answered(ask, terms)))
    if found.decision_id != decision_id:
        raise MalformedAnswer("the answer is about another decision")
    return found


def approval(approval_id: str, terms: Terms, *, wait_seconds: int = 0) -> Flow[ApprovalStatus]:
    """Where a request stands: at once, or when it is not pending any more, at most so much later."""
    query = f"?wait={wait_seconds}" if wait_seconds else ""
    path = f"/approvals/{_segment(approval_id)}{query}"
    value = yield from answered(
        Ask(method="GET", path=path, is_repeatable=not wait_seconds, wait_seconds=wait_seconds), terms
    )
    return _approval_of(approval_id, value)


def cancel_approval(approval_id: str, terms: Terms) -> Flow[ApprovalStatus]:
    """Take a request back."""
    value = yield from answered(Ask(path=f"/approvals/{_segment(approval_id)}/cancel"), terms)
    return _approval_of(approval_id, value)


def wait_for_approval(approval_id: str, deadline_seconds: float, terms: Terms) -> Flow[ApprovalStatus]:
    """Long polls until somebody has answered, or the deadline: then it is `pending` still.

    While the service cannot be asked, it is asked again. At the deadline such a failure is raised.
    """
    ends_at = terms.read_monotonic() + deadline_seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        begun = terms.read_monotonic()
        poll_seconds = max(0, min(MAX_POLL_SECONDS, int(ends_at - begun)))
        try:
            status = yield from approval(approval_id, terms, wait_seconds=poll_seconds)
        except DecisionUnavailable as failure:
            if not _may_pass(failure) or terms.read_monotonic() >= ends_at:
                raise
            yield Pause(min(pause, max(0.0, ends_at - terms.read_monotonic())))
            pause = min(pause * 2, _LAST_PAUSE_SECONDS)
            continue
        if status.state is not ApprovalState.PENDING or terms.read_monotonic() >= ends_at:
            return status
        pause = FIRST_PAUSE_SECONDS
        if terms.read_monotonic() - begun < _MIN_ROUND_SECONDS:
            yield Pause(min(_MIN_ROUND_SECONDS, max(0.0, ends_at - terms.read_monotonic())))


_PASSING: Final = frozenset({408, 429})


def _may_pass(failure: DecisionUnavailable) -> bool:
    """Whether the same question may be answered later: reading changes nothing."""
    if isinstance(failure, RequestRefused):
        return failure.status in _PASSING
    return isinstance(failure, Unreachable | Timeout | ServerFailure | MalformedAnswer)


def _approval_of(approval_id: str, value: Any) -> ApprovalStatus:
    found = ApprovalStatus.from_json(value)
    if found.id != approval_id:
        raise MalformedAnswer("the answer is about another approval")
    return found


def _segment(name: str) -> str:
    """A name as one segment of a path. Raises `RequestNotEncodable` for what would be another path."""
    if not name or name in (".", ".."):
        raise RequestNotEncodable("an id must not be empty, `.` or `..`")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise RequestNotEncodable("the id is no text that can be sent") from None
