"""Stage 8: what a person's no or yes makes of what the rules said (spec section 8).

A yes lifts what was shown to those who gave it and asks now, and never a deny. A no stands whatever the rules
say. A call that no rule asks for and that nobody denied is left as it is, at no cost.
"""

from dataclasses import replace
from typing import Final

from authz.core.answer import live_permission
from authz.core.approval import grant_state_at, is_guessable
from authz.core.approval_match import Denied, Matched, call_now, match_grant
from authz.core.facts import Draft, Facts, Judgement
from authz.core.provenance import ArgumentProvenance
from authz.core.ruleset import Tool
from authz.model.approval import ApprovalTold, ApprovedBy
from authz.model.approval_request import Grant
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import AccessVerdict, Code, Effect, Refusal, RuleKind, RuleMatch, Stage

CALLER_RULE: Final = RuleMatch(
    rule="authz:caller-asked", kind=RuleKind.ASK, reason="the caller asked for a person to look"
)


def match_approval(
    call: Call,
    facts: Facts,
    tool: Tool,
    draft: Draft,
    judged: Judgement,
    provenance: ArgumentProvenance,
    capability: CapabilityFacts,
) -> Judgement | Refusal:
    """What an approval makes of the judgement; a person's no refuses.

    `context.ask` raises an allow here, after policy: nothing that the requester says lowers anything.
    """
    if call.ask and judged.effect is Effect.ALLOW:
        judged = replace(
            judged,
            effect=Effect.REQUIRE_APPROVAL,
            stage=Stage.APPROVAL,
            code=Code.APPROVAL_REQUESTED,
            matched=(CALLER_RULE,),
            overruled=judged.matched,
        )
    known = facts.approvals
    asks = judged.effect is Effect.REQUIRE_APPROVAL
    if judged.effect is Effect.DENY or not (known.denials or (asks and known.grants)):
        return judged
    now = call_now(
        call,
        facts,
        tool,
        draft,
        judged,
        provenance,
        capability,
        held=_held(facts),
        repeats=live_permission(facts) is not None,
    )
    found = match_grant(now, known.grants, known.denials)
    if isinstance(found, Denied):
        return found.refusal
    return judged if found is None else _permitted(judged, found, facts.now_ms)


def _held(facts: Facts) -> str | None:
    """Id of the approval that the operation was allowed by before."""
    return (facts.operation.approval or None) if facts.operation is not None else None


def _permitted(judged: Judgement, found: Matched, now_ms: int) -> Judgement:
    """The allow of a yes: the rules that it decides by are the permits that were outranked."""
    return Judgement(
        effect=Effect.ALLOW,
        stage=Stage.APPROVAL,
        code=Code.APPROVAL_GRANTED,
        matched=judged.overruled,
        overruled=judged.matched,
        verdicts=tuple(map(_lifted, judged.verdicts)),
        approval=_told(found, now_ms),
        consumption=found.consumption,
    )


def _told(found: Matched, now_ms: int) -> ApprovalTold:
    grant = found.grant
    takes = found.consumption is not None and found.consumption.takes
    if takes and grant.uses_left is not None:
        grant = replace(grant, uses_left=grant.uses_left - 1)
    return ApprovalTold(
        id=grant.request_id,
        state=grant_state_at(grant, now_ms),
        shown_digest=_shown_digest(grant),
        is_guessable=is_guessable(grant.asked),
        expires_at_ms=grant.expires_at_ms,
        scope=grant.scope.kind,
        uses_left=grant.uses_left,
        approvers=tuple(ApprovedBy(person=vote.person, factor=vote.factor) for vote in grant.votes),
    )


def _shown_digest(grant: Grant) -> str:
    """Of the one document that all who said yes were shown."""
    return grant.votes[0].shown_digest if grant.votes else ""


def _lifted(verdict: AccessVerdict) -> AccessVerdict:
    if verdict.effect is not Effect.REQUIRE_APPROVAL:
        return verdict
    return replace(
        verdict,
        effect=Effect.ALLOW,
        code=Code.APPROVAL_GRANTED,
        rules=verdict.overruled,
        overruled=verdict.rules,
    )
