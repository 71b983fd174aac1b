"""How much a requester may ask of people (spec section 8): nobody floods approvers (AV2).

Who joins a request that waits already takes nothing. The counts are facts: a store counts in the transaction
that writes the request, so that two at once are not both the last one.
"""

from dataclasses import dataclass
from typing import Final

from authz.core.approval import state_at
from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest, AskedFor
from authz.model.decision import Code, Next, Refusal, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLimits:
    """What a tenant's approvers are spared."""

    pending_per_subject: int = 20
    """Requests that wait at a time, of one agent for one user."""
    pending_per_tenant: int = 1000
    refused_per_resource: int = 3
    """Requests of a subject about one resource that a person denied or nobody answered, within the window."""
    vain_per_subject: int = 60
    """Requests of a subject about whatever, made within the window, that came to no yes: denied, expired, or
    taken back by whoever asked. Else one could ask and take back for ever, and people are told each time."""
    window_ms: int = 3_600_000


DEFAULT_LIMITS: Final = AskLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskCounts:
    """What is on record when a call asks. The counts of a subject are those of its tenant, agent and user."""

    pending_of_subject: int
    pending_of_tenant: int
    refused_on_resource: int
    """Of the resource of the call that has most: requests that ended as denied or expired since the window
    began (`is_refused_since`)."""
    vain_of_subject: int
    """Requests that were made since the window began and came to no yes (`came_to_nothing`)."""
    oldest_refused_at_ms: int | None = None
    """When the earliest of those about the resource ended."""
    oldest_vain_at_ms: int | None = None
    """When the earliest of those of the subject was made."""


def joined(requests: "tuple[ApprovalRequest, ...]", dedupe_key: str, now_ms: int) -> ApprovalRequest | None:
    """The request that waits already for the same; of several the oldest."""
    found = [
        request
        for request in requests
        if request.dedupe_key == dedupe_key and state_at(request, now_ms) is ApprovalState.PENDING
    ]
    return min(found, key=lambda request: (request.created_at_ms, request.id), default=None)


def subject_key(asked: AskedFor) -> tuple[str, str, str | None]:
    """Whose requests are counted together: (tenant, agent, user), whatever the session."""
    return (asked.requester.tenant, asked.requester.agent, asked.requester.on_behalf_of)


def is_refused_since(request: ApprovalRequest, since_ms: int, now_ms: int) -> bool:
    """Whether a request ended without a yes after that moment: by a person's no, or because nobody came."""
    state = state_at(request, now_ms)
    if state is ApprovalState.EXPIRED:
        return request.expires_at_ms > since_ms
    return state is ApprovalState.DENIED and request.closed_at_ms > since_ms


def came_to_nothing(request: ApprovalRequest, since_ms: int, now_ms: int) -> bool:
    """Whether a request that was made after that moment has ended without a yes, by whoever's act."""
    ended = (ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.CANCELLED)
    return request.created_at_ms > since_ms and state_at(request, now_ms) in ended


def check_asking(counts: AskCounts, now_ms: int, limits: AskLimits = DEFAULT_LIMITS) -> Refusal | None:
    """Why no new request is made, so that the call is denied; `None` where people may be asked."""
    if counts.refused_on_resource >= limits.refused_per_resource:
        return Refusal(
            stage=Stage.APPROVAL,
            code=Code.APPROVAL_ASKED_TOO_OFTEN,
            message="people were asked about this resource before and did not approve: do not ask again now",
            next=(Next.CHANGE_ARGUMENTS, Next.WAIT, Next.STOP),
            retry_unchanged=True,
            retry_after_ms=_until_ms(counts.oldest_refused_at_ms, now_ms, limits),
        )
    if counts.vain_of_subject >= limits.vain_per_subject:
        return Refusal(
            stage=Stage.APPROVAL,
            code=Code.APPROVAL_ASKED_TOO_OFTEN,
            message="this agent asked people very often and they did not approve: do not ask again now",
            next=(Next.WAIT, Next.STOP),
            retry_unchanged=True,
            retry_after_ms=_until_ms(counts.oldest_vain_at_ms, now_ms, limits),
        )
    for pending, most, whose in (
        (counts.pending_of_subject, limits.pending_per_subject, "this agent"),
        (counts.pending_of_tenant, limits.pending_per_tenant, "all agents together"),
    ):
        if pending >= most:
            return Refusal(
                stage=Stage.APPROVAL,
                code=Code.APPROVAL_TOO_MANY_PENDING,
                message=f"too many requests of {whose} wait for a person already: wait for their answers",
                next=(Next.WAIT, Next.STOP),
                retry_unchanged=True,
            )
    return None


def _until_ms(oldest_ms: int | None, now_ms: int, limits: AskLimits) -> int | None:
    """When the earliest of what was counted no longer counts, from now."""
    return None if oldest_ms is None else max(0, oldest_ms + limits.window_ms - now_ms)
