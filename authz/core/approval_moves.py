"""What an approval may become, and by whose act (spec section 8).

Every transition is a row of `TRANSITIONS`; what is not there does not happen. An answer that comes late, or a
second time, changes nothing and is told so. A `Move` is written by compare-and-set on its `expected_version`:
where that has moved the answer is judged again.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from authz.core.approval import state_at
from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest, Denial, Grant, Vote


class By(StrEnum):
    """By whose act an approval moves."""

    APPROVER = "approver"
    REQUESTER = "requester"
    TIME = "time"
    USE = "use"
    """A decision that it allowed."""
    REVOKER = "revoker"


class AnswerCode(StrEnum):
    """Why an answer changes nothing. Closed."""

    NOT_FOUND = "approval.not_found"
    """Of another tenant: as if absent."""
    NOT_A_PERSON = "approval.not_a_person"
    OWN_REQUEST = "approval.own_request"
    NOT_PERMITTED = "approval.not_permitted"
    NOT_AN_APPROVER = "approval.not_an_approver"
    CLOSED = "approval.closed"
    """It has ended; `state` says how."""
    ALREADY_ANSWERED = "approval.already_answered"
    CANNOT_BE_APPROVED = "approval.cannot_be_approved"
    FACTOR_TOO_WEAK = "approval.factor_too_weak"
    SHOWN_CHANGED = "approval.shown_changed"
    SCOPE_NOT_OFFERED = "approval.scope_not_offered"
    NOT_OPENED = "approval.not_opened"
    """Something long that was shown folded was not opened before the yes."""
    FACTOR_NOT_PROVEN = "approval.factor_not_proven"
    """What came with the yes as a passkey's signature does not hold."""


_S: Final = ApprovalState
TRANSITIONS: Final = frozenset(
    {
        # A yes short of a quorum: written all the same, so that two at once cannot each be the first.
        (_S.PENDING, _S.PENDING, By.APPROVER),
        (_S.PENDING, _S.APPROVED, By.APPROVER),
        (_S.PENDING, _S.DENIED, By.APPROVER),
        (_S.PENDING, _S.CANCELLED, By.REQUESTER),
        (_S.PENDING, _S.EXPIRED, By.TIME),
        (_S.APPROVED, _S.APPROVED, By.USE),
        (_S.APPROVED, _S.CONSUMED, By.USE),
        (_S.APPROVED, _S.VOID, By.REVOKER),
        (_S.APPROVED, _S.VOID, By.TIME),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The next version of a request and what comes with it, to be written in one transaction."""

    source: ApprovalState
    by: By
    expected_version: int
    after: ApprovalRequest
    vote: Vote | None = None
    grant: Grant | None = None
    denial: Denial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why an answer changes nothing."""

    code: AnswerCode
    message: str
    state: ApprovalState | None = None
    """Where the request stands; `None` for whoever may not know."""


def check_open(request: ApprovalRequest, now_ms: int) -> Refused | None:
    """Why no answer counts any more; `None` while one does."""
    state = state_at(request, now_ms)
    if state is _S.PENDING:
        return None
    return refused(AnswerCode.CLOSED, f"it is {state.value} already: nothing was changed", state)


def refused(code: AnswerCode, message: str, state: ApprovalState | None = None) -> Refused:
    """An answer that changes nothing."""
    return Refused(code=code, message=message, state=state)


def moved(
    request: ApprovalRequest,
    target: ApprovalState,
    by: By,
    *,
    closed_at_ms: int = 0,
    closed_by: str = "",
    vote: Vote | None = None,
    grant: Grant | None = None,
    denial: Denial | None = None,
) -> Move:
    """The next version of a request. Raises `ValueError` for what is no transition."""
    if (request.state, target, by) not in TRANSITIONS:
        raise ValueError(f"nothing leads from {request.state} to {target} by {by}")
    after = replace(
        request,
        state=target,
        version=request.version + 1,
        closed_at_ms=closed_at_ms,
        closed_by=closed_by,
    )
    return Move(
        source=request.state,
        by=by,
        expected_version=request.version,
        after=after,
        vote=vote,
        grant=grant,
        denial=denial,
    )
