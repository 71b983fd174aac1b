"""What would change the answer: the approval that lifts an ask, and what a deny would take to be none."""

from collections.abc import Iterable
from dataclasses import replace

from authz.core.approval_asking import supposed_yes
from authz.core.decide import Outcome, decide
from authz.core.explain.model import AccessReport, ApprovalReport, Change
from authz.core.facts import Facts
from authz.core.policy.near_miss import Examined
from authz.core.provenance import ArgumentProvenance
from authz.core.shown_scopes import only_once_because
from authz.model.approval import Factor
from authz.model.call import Call
from authz.model.decision import Code, Decision, Effect, RuleKind, RuleMatch


def changes_needed(decision: Decision, accesses: Iterable[AccessReport]) -> Iterable[Change]:
    """What would have to differ for a deny to be none: a permit's failing demands, a forbid's true ones."""
    if decision.effect is not Effect.DENY:
        return
    for report in accesses:
        if report.verdict.effect is not Effect.DENY:
            continue
        for found in report.rules:
            kind = found.rule.match.kind
            parts: tuple[Examined, ...] = ()
            if report.verdict.code is Code.POLICY_NO_MATCH and kind is RuleKind.PERMIT:
                parts = found.rule.missing
            elif kind is RuleKind.FORBID and found.determining:
                parts = found.rule.parts
            elif found.rule.failed:
                parts = found.rule.missing[:1]
            if parts:
                yield Change(rule=found.rule.match, access=report.verdict.access.resource.uri, parts=parts)


def approval_that_lifts(call: Call, facts: Facts, outcome: Outcome) -> ApprovalReport | None:
    """The approval that would lift an ask, and what the same stages make of the call once it is there."""
    decision = outcome.decision
    if decision.effect is not Effect.REQUIRE_APPROVAL or decision.fingerprint is None:
        return None
    # The yes of just the people who are wanted, through the same stages: whatever denies after it they find.
    given = supposed_yes(call, outcome, facts)
    lifted = decide(call, replace(facts, approvals=replace(facts.approvals, grants=given.grants))).decision
    scopes, because = _scopes(decision, outcome.provenance)
    terms = [rule.terms for rule in decision.matched if rule.terms is not None]
    ttls = [found.ttl_seconds for found in terms if found.ttl_seconds is not None]
    passkey = any(found.factor is Factor.PASSKEY for found in terms)
    return ApprovalReport(
        rules=decision.matched,
        factor=(Factor.PASSKEY if passkey else Factor.SESSION).value,
        ttl_seconds=min(ttls, default=None),
        scopes=scopes,
        scopes_because=because,
        afterwards=lifted.effect,
        afterwards_code=lifted.code.value,
        afterwards_matched=_blocking(lifted),
    )


def _blocking(decision: Decision) -> tuple[RuleMatch, ...]:
    return decision.matched if decision.effect is not Effect.ALLOW else ()


def _scopes(decision: Decision, provenance: ArgumentProvenance | None) -> tuple[tuple[str, ...], str]:
    """What approvers are offered, by the same judgement as on their page."""
    because = only_once_because(decision.accesses, decision.matched, provenance)
    if because:
        return ("once",), "; ".join(because)
    return ("once", "times", "session"), "the call is below A3, understood, and goes to no untrusted place"
