"""What an approved request permits: made of its votes, used up, revoked (spec section 8)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from authz.core.approval import grant_state_at
from authz.core.approval_moves import TRANSITIONS, AnswerCode, By, Refused, refused
from authz.core.approval_quorum import is_met
from authz.model.approval import ApprovalState, GrantScope, ScopeKind
from authz.model.approval_request import ApprovalRequest, Consumption, Grant, Vote

_S: Final = ApprovalState


def grant_of(request: ApprovalRequest, votes: Sequence[Vote], now_ms: int) -> Grant:
    """What these votes permit from now on: the narrowest scope that one of them chose, as long as was said.

    Raises `ValueError` where they do not meet every quorum: then they permit nothing.
    """
    if not is_met(request.asked.rules, votes):
        raise ValueError("the votes do not meet the quorum of every rule that asks")
    scope = narrowest_scope(vote.scope for vote in votes)
    return Grant(
        request_id=request.id,
        asked=request.asked,
        scope=scope,
        votes=tuple(votes),
        granted_at_ms=now_ms,
        expires_at_ms=now_ms + request.ttl_seconds * 1000,
        uses_left=scope.uses,
    )


SCOPE_ORDER: Final = {ScopeKind.ONCE: 0, ScopeKind.TIMES: 1, ScopeKind.SESSION: 2}


def narrowest_scope(scopes: Iterable[GrantScope]) -> GrantScope:
    """What everybody agreed to: the narrowest kind, and of `times` the fewest."""
    return min(scopes, key=lambda scope: (SCOPE_ORDER[scope.kind], scope.uses or 0))


def check_revoke(grant: Grant, by: str, now_ms: int) -> Grant | Refused:
    """The grant, revoked. What it allowed stays allowed; whether `by` may is for whoever asks to know."""
    state = grant_state_at(grant, now_ms)
    if (state, _S.VOID, By.REVOKER) not in TRANSITIONS:
        return refused(AnswerCode.CLOSED, f"there is nothing left of it: it is {state.value}", state)
    return replace(grant, voided_at_ms=now_ms, voided_by=by)


def use(grant: Grant, consumption: Consumption, now_ms: int) -> Grant | None:
    """The grant after one use; `None` where it is not as it was when the decision was made.

    What a store does by compare-and-set: then the call is decided again.
    """
    if grant.request_id != consumption.request_id:
        return None
    if not consumption.takes:
        # Whether it has a use left, and time, was judged when the operation took its use.
        return None if grant.voided_at_ms else grant
    if grant_state_at(grant, now_ms) is not _S.APPROVED:
        return None
    if grant.uses_left != consumption.expected_uses_left:
        return None
    return grant if grant.uses_left is None else replace(grant, uses_left=grant.uses_left - 1)
