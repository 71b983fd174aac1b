"""Who may answer a request for an approval, and what an answer makes of it (spec section 8)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from authz.core.approval import state_at
from authz.core.approval_grants import grant_of
from authz.core.approval_moves import AnswerCode, By, Move, Refused, check_open, moved, refused
from authz.core.approval_quorum import is_approver, is_as_strong, is_met, person_key, strongest_factor
from authz.model.approval import ApprovalState, GrantScope
from authz.model.approval_request import (
    ApprovalRequest,
    Ballot,
    CredentialKind,
    Denial,
    Requester,
    Vote,
    Voter,
)

_S: Final = ApprovalState

VoteRefused = Refused
"""What `check_vote` refuses with."""


def check_vote(
    request: ApprovalRequest, votes: Sequence[Vote], voter: Voter, ballot: Ballot, now_ms: int
) -> Vote | VoteRefused:
    """A yes that counts, or why it does not. `votes` are those that the request has.

    First who it is: nobody else learns how the request stands.
    """
    found = check_approver(request, voter) or check_open(request, now_ms)
    if found is not None:
        return found
    if _has_voted(votes, voter.person):
        return refused(AnswerCode.ALREADY_ANSWERED, "you said yes to it before", _S.PENDING)
    if request.cannot_be_approved_because:
        because = "; ".join(request.cannot_be_approved_because)
        return refused(AnswerCode.CANNOT_BE_APPROVED, f"no yes can be given to it: {because}", _S.PENDING)
    if ballot.shown_digest != request.shown_digest:
        return refused(
            AnswerCode.SHOWN_CHANGED, "what you were shown is not what would run: look again", _S.PENDING
        )
    if not is_as_strong(ballot.factor, strongest_factor(request.asked.rules)):
        return refused(
            AnswerCode.FACTOR_TOO_WEAK, "a rule asks for a passkey: confirm with yours", _S.PENDING
        )
    scope = chosen_scope(request.scopes, ballot.scope)
    if scope is None:
        return refused(
            AnswerCode.SCOPE_NOT_OFFERED, "that was not among the choices: take one of them", _S.PENDING
        )
    return Vote(
        request_id=request.id,
        person=voter.person,
        entities=voter.entities,
        factor=ballot.factor,
        shown_digest=ballot.shown_digest,
        scope=scope,
        at_ms=now_ms,
        receipt=ballot.receipt,
    )


def check_approver(request: ApprovalRequest, voter: Voter) -> Refused | None:
    """Why somebody may not approve the request, whatever it says; `None` for an approver of it."""
    requester = request.asked.requester
    if voter.tenant != requester.tenant:
        return refused(AnswerCode.NOT_FOUND, "there is no such request")
    if voter.credential is not CredentialKind.PERSON:
        return refused(AnswerCode.NOT_A_PERSON, "only a person who is signed in approves")
    if is_own(requester, voter.person):
        return refused(AnswerCode.OWN_REQUEST, "it was asked for on your own behalf: somebody else approves")
    if not any(is_approver(voter.entities, rule) for rule in request.asked.rules):
        return refused(AnswerCode.NOT_AN_APPROVER, "no rule that asks names you or a group of yours")
    if not voter.permitted:
        return refused(AnswerCode.NOT_PERMITTED, "policy does not let you approve it")
    return None


def is_own(requester: Requester, person: str) -> bool:
    """Whether a person asks for itself: the user behind the call, or the name of one of its agents."""
    own = {requester.on_behalf_of, requester.agent, requester.parent_agent, *requester.chain}
    return person_key(person) in {person_key(name) for name in own if name is not None}


def accept_vote(
    request: ApprovalRequest, votes: Sequence[Vote], vote: Vote, now_ms: int
) -> Move | VoteRefused:
    """Count a yes that was found good. With the last one that was missing the request is approved.

    `votes` are those that the request had at its `version`.
    """
    if (closed := check_open(request, now_ms)) is not None:
        return closed
    if vote.request_id != request.id or vote.shown_digest != request.shown_digest:
        return refused(AnswerCode.SHOWN_CHANGED, "the yes was given to something else", _S.PENDING)
    if _has_voted(votes, vote.person):
        return refused(AnswerCode.ALREADY_ANSWERED, "you said yes to it before", _S.PENDING)
    cast = (*votes, vote)
    if not is_met(request.asked.rules, cast):
        return moved(request, _S.PENDING, By.APPROVER, vote=vote)
    return moved(
        request,
        _S.APPROVED,
        By.APPROVER,
        closed_at_ms=now_ms,
        closed_by=vote.person,
        vote=vote,
        grant=grant_of(request, cast, now_ms),
    )


def chosen_scope(offered: Iterable[GrantScope], chosen: GrantScope) -> GrantScope | None:
    """The offered scope that was chosen, with as many uses as were said; `None` where it was not offered.

    What it reaches is what was offered, whatever the choice says.
    """
    found = next((scope for scope in offered if scope.kind is chosen.kind), None)
    if found is None:
        return None
    if found.uses is None:
        return found if chosen.uses is None else None
    # A bool is an int, and no number of uses.
    if type(chosen.uses) is not int or not 1 <= chosen.uses <= found.uses:
        return None
    return replace(found, uses=chosen.uses)


def check_denial(request: ApprovalRequest, voter: Voter, reason: str, now_ms: int) -> Move | Refused:
    """A no: of whoever may approve, and of the user on whose behalf the call is. It needs no factor.

    One is enough, also after yeses: a refusal needs no quorum.
    """
    found = check_approver(request, voter)
    if found is not None and found.code is not AnswerCode.OWN_REQUEST:
        return found
    if (closed := check_open(request, now_ms)) is not None:
        return closed
    asked = request.asked
    return moved(
        request,
        _S.DENIED,
        By.APPROVER,
        closed_at_ms=now_ms,
        closed_by=voter.person,
        denial=Denial(
            request_id=request.id,
            tenant=asked.requester.tenant,
            session=asked.requester.session,
            fingerprint=asked.fingerprint,
            person=voter.person,
            reason=reason,
            at_ms=now_ms,
        ),
    )


def check_cancel(request: ApprovalRequest, by: str, now_ms: int) -> Move | Refused:
    """The requester takes it back. That `by`, a credential or a user, may is for the caller to know."""
    if (closed := check_open(request, now_ms)) is not None:
        return closed
    return moved(request, _S.CANCELLED, By.REQUESTER, closed_at_ms=now_ms, closed_by=by)


def expire(request: ApprovalRequest, now_ms: int) -> Move | None:
    """What its end makes of a request; `None` while there is nothing to write down."""
    if request.state is not _S.PENDING or state_at(request, now_ms) is not _S.EXPIRED:
        return None
    return moved(request, _S.EXPIRED, By.TIME, closed_at_ms=request.expires_at_ms)


def _has_voted(votes: Iterable[Vote], person: str) -> bool:
    return person_key(person) in {person_key(vote.person) for vote in votes}
