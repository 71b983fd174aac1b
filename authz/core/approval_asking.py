"""A decision that asks, and the request of people that it waits for: made, joined, or kept from being made.

An ask permits nothing. So what has changed between deciding and asking is judged when the yes is used.
"""

from dataclasses import dataclass, replace
from typing import Final

from authz.core.answer import denied
from authz.core.approval import is_guessable, state_at
from authz.core.approval_limits import subject_key
from authz.core.approval_match import call_now
from authz.core.approval_request import new_request
from authz.core.decide import Outcome
from authz.core.facts import Facts
from authz.core.fingerprint import digest
from authz.core.shown import Shown, show
from authz.model.approval import ApprovalTold, Factor, GrantScope, ScopeKind
from authz.model.approval_request import ApprovalRequest, AskedFor, Grant, Vote
from authz.model.approval_writes import ApprovalFacts
from authz.model.call import Call
from authz.model.decision import Effect, Next, Refusal

_WAIT: Final = "Wait for the answer, then send the same call again with the same ids."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it would be made, with the document that approvers would be shown."""

    request: ApprovalRequest
    shown: Shown


def asked_by(
    call: Call,
    outcome: Outcome,
    facts: Facts,
    *,
    request_id: str,
    pending_ttl_ms: int,
    default_ttl_seconds: int,
) -> Asked:
    """What people would be asked by an outcome that asks; of a dry run, what a real call would ask.

    `pending_ttl_ms` is how long a request waits for an answer, `default_ttl_seconds` how long a yes lasts
    that no rule limits. Raises `ValueError` for a decision that does not ask.
    """
    shown = show(call, outcome, facts, default_ttl_seconds=default_ttl_seconds)
    request = new_request(
        replace(call, dry_run=False),
        outcome,
        facts,
        shown,
        request_id=request_id,
        pending_ttl_ms=pending_ttl_ms,
    )
    return Asked(request=request, shown=shown)


def subject_digest(asked: AskedFor) -> str:
    """Under what a store counts the requests of a subject."""
    return digest([*subject_key(asked)])


def waiting_for(
    call: Call, outcome: Outcome, request: ApprovalRequest, now_ms: int, *, joined: bool
) -> Outcome:
    """The outcome, which asks, with the request that it waits for and what is to be done about it.

    A dry run waits for nothing: it says what is waited for already.
    """
    decision = outcome.decision
    message, steps, retry = decision.message, decision.next, decision.retry_unchanged
    if not call.dry_run:
        message, steps, retry = f"{message} {_WAIT}", (Next.WAIT,), True
    if request.cannot_be_approved_because:
        because = "; ".join(request.cannot_be_approved_because)
        message = f"a person must approve this, and nobody can as it is: {because}"
        steps, retry = (Next.CHANGE_ARGUMENTS, Next.STOP), False
    told = ApprovalTold(
        id=request.id,
        state=state_at(request, now_ms),
        shown_digest=request.shown_digest,
        is_guessable=is_guessable(request.asked),
        expires_at_ms=request.expires_at_ms,
        joined=joined,
    )
    return replace(
        outcome,
        decision=replace(decision, approval=told, message=message, next=steps, retry_unchanged=retry),
    )


def kept_from_asking(call: Call, outcome: Outcome, facts: Facts, refusal: Refusal) -> Outcome:
    """The outcome, which asks, denied because nobody may be asked for it now."""
    decision = outcome.decision
    refused = denied(call, facts, refusal, facts.ruleset.tools[(call.server, call.tool)], outcome.draft)
    # The rules that ask are those that settled it; the limit on asking is no rule of the bundle.
    return replace(
        outcome,
        decision=replace(
            refused, matched=decision.matched, overruled=decision.overruled, verdicts=decision.verdicts
        ),
    )


def supposed_yes(
    call: Call, outcome: Outcome, facts: Facts, rules: frozenset[str] | None = None
) -> ApprovalFacts:
    """The yes, once, of as many people as every asking rule wants, to what `outcome` asks.

    Nobody said it: it answers what would be, for an explanation and for a policy case. With `rules` only
    these of the asking rules were shown. Raises `ValueError` where the call was denied before rules were
    asked.
    """
    decision, tool = outcome.decision, facts.ruleset.tools.get((call.server, call.tool))
    if tool is None or outcome.draft is None or outcome.judged is None or outcome.provenance is None:
        raise ValueError("a call that is denied before rules are asked cannot have been approved")
    # With what `context.ask` made of the judgement.
    judged = replace(outcome.judged, effect=decision.effect, matched=decision.matched)
    asked = call_now(call, facts, tool, outcome.draft, judged, outcome.provenance, outcome.capability).asked
    if rules is not None:
        asked = replace(asked, rules=tuple(rule for rule in asked.rules if rule.rule in rules))
    grant = Grant(
        request_id="supposed",
        asked=asked,
        scope=GrantScope(kind=ScopeKind.ONCE, uses=1),
        votes=_everybody(asked, facts.now_ms),
        granted_at_ms=facts.now_ms,
        expires_at_ms=facts.now_ms + 1000,
        uses_left=1,
    )
    return ApprovalFacts(grants=(grant,))


def _everybody(asked: AskedFor, now_ms: int) -> tuple[Vote, ...]:
    terms = [rule.terms for rule in asked.rules if rule.terms is not None]
    entities = frozenset(name for one in terms for name in one.approvers)
    return tuple(
        Vote(
            request_id="supposed",
            person=f"supposed-{index}",
            entities=entities,
            factor=Factor.PASSKEY,
            shown_digest="",
            scope=GrantScope(kind=ScopeKind.ONCE, uses=1),
            at_ms=now_ms,
        )
        for index in range(max((one.quorum for one in terms), default=1))
    )


def needs_approvals(outcome: Outcome, *, may_be_denied: bool) -> bool:
    """Whether what is on record of approvals can change an outcome that was reached without it.

    `may_be_denied`: somebody may have said no in the call's session, or nobody can tell.
    """
    effect = outcome.decision.effect
    return effect is Effect.REQUIRE_APPROVAL or (may_be_denied and effect is Effect.ALLOW)
