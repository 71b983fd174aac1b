"""Stages 6 to 8: what the capability, the rules and an approval make of a canonical call."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from authz.core.cedar_context import ContextFacts
from authz.core.cedar_request import access_entities, question
from authz.core.claims import BelievedClaims
from authz.core.facts import Draft, Facts, Judgement
from authz.core.provenance import ArgumentProvenance
from authz.core.ruleset import Tool
from authz.core.tools import CanonicalCall
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY, CapabilityFacts
from authz.model.decision import (
    AccessVerdict,
    Code,
    Effect,
    Next,
    Refusal,
    RuleKind,
    RuleMatch,
    Stage,
    strictest,
)
from authz.model.resource import Scope

TREE_RULE: Final = RuleMatch(
    rule="authz:tree",
    kind=RuleKind.ASK,
    reason="the call reaches everything beneath its resource, which is not judged item by item",
)
CALLER_RULE: Final = RuleMatch(
    rule="authz:caller-asked", kind=RuleKind.ASK, reason="the caller asked for a person to look"
)


def check_capability(call: Call) -> CapabilityFacts | Refusal:
    """Stage 6. What cannot be verified is refused, never ignored: ignoring it could widen the call."""
    if not call.capability and call.proof is None:
        return NO_CAPABILITY
    return Refusal(
        stage=Stage.CAPABILITY,
        code=Code.CAPABILITY_UNVERIFIED,
        message="this service cannot verify capabilities yet, so a call that presents one is refused",
        next=(Next.ESCALATE, Next.STOP),
    )


def evaluate_policy(
    call: Call,
    facts: Facts,
    tool: Tool,
    canonical: CanonicalCall,
    believed: BelievedClaims,
    provenance: ArgumentProvenance,
    capability: CapabilityFacts,
) -> Judgement:
    """Stage 7. What a parent may not do, no child may: the meet is over accesses and agents."""
    context = ContextFacts(
        call=call,
        descriptor=tool.descriptor,
        arguments=canonical.arguments,
        provenance=provenance,
        believed=believed,
        capability=capability,
        exposed=facts.exposed,
        now_ms=facts.now_ms,
    )
    agents = capability.agents or (call.subject.agent,)
    by_access: list[list[AccessVerdict]] = [[] for _ in canonical.accesses]
    internal = ""
    engine = facts.ruleset.engine
    for agent in agents:
        principal = facts.ruleset.entities.principal(agent, call.subject.on_behalf_of)
        for index, access in enumerate(canonical.accesses):
            # Its own resource only: no rule can get from one access to the resource of another, and
            # handing all of them over each time would cost the square of their number.
            added = access_entities(access)
            (answer,) = engine.evaluate([question(agent, tool, access, context)], principal, added)
            internal = internal or answer.internal
            by_access[index].append(
                AccessVerdict(
                    access=access,
                    effect=answer.effect,
                    code=answer.code,
                    rules=answer.rules,
                    overruled=answer.overruled,
                )
            )
    verdicts = tuple(_raise_tree(_strictest_verdict(verdicts)) for verdicts in by_access)
    return _judge(verdicts, internal)


def _strictest_verdict(verdicts: Sequence[AccessVerdict]) -> AccessVerdict:
    if len(verdicts) == 1:
        return verdicts[0]
    effect = strictest([verdict.effect for verdict in verdicts])
    deciding = [verdict for verdict in verdicts if verdict.effect is effect]
    return replace(
        deciding[0],
        code=_worst_code(deciding),
        rules=_union(verdict.rules for verdict in deciding),
        overruled=_union(verdict.overruled for verdict in deciding),
    )


def _raise_tree(verdict: AccessVerdict) -> AccessVerdict:
    """A tree is judged at its root only, so far: an allow of one is a person's to give."""
    if verdict.access.scope is not Scope.TREE or verdict.effect is Effect.DENY:
        return verdict
    asking = verdict.rules if verdict.effect is Effect.REQUIRE_APPROVAL else ()
    permits = verdict.overruled if verdict.effect is Effect.REQUIRE_APPROVAL else verdict.rules
    return replace(
        verdict,
        effect=Effect.REQUIRE_APPROVAL,
        code=Code.APPROVAL_REQUIRED,
        rules=(*asking, TREE_RULE),
        overruled=permits,
    )


_CODE_ORDER: Final = (Code.POLICY_ERROR, Code.POLICY_FORBID, Code.POLICY_NO_MATCH)


def _worst_code(verdicts: Sequence[AccessVerdict]) -> Code:
    codes = [verdict.code for verdict in verdicts]
    return next((code for code in _CODE_ORDER if code in codes), codes[0])


def _judge(verdicts: tuple[AccessVerdict, ...], internal: str) -> Judgement:
    effect = strictest([verdict.effect for verdict in verdicts])
    deciding = [verdict for verdict in verdicts if verdict.effect is effect]
    return Judgement(
        effect=effect,
        stage=Stage.APPROVAL if effect is Effect.REQUIRE_APPROVAL else Stage.POLICY,
        code=_worst_code(deciding) if deciding else Code.POLICY_NO_MATCH,
        matched=_union(verdict.rules for verdict in deciding),
        overruled=_union(verdict.overruled for verdict in deciding),
        verdicts=verdicts,
        internal=internal,
    )


def _union(groups: Iterable[tuple[RuleMatch, ...]]) -> tuple[RuleMatch, ...]:
    found: dict[str, RuleMatch] = {}
    for rules in groups:
        for rule in rules:
            found.setdefault(rule.rule, rule)
    return tuple(found.values())


def match_approval(call: Call, facts: Facts, draft: Draft, judged: Judgement) -> Judgement:
    """Stage 8. An approval lifts what was shown to its approver and asks now, and never a deny.

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
    if judged.effect is not Effect.REQUIRE_APPROVAL:
        return judged
    asking = {rule.rule for rule in judged.matched}
    granted = any(
        grant.fingerprint == draft.fingerprint and asking <= grant.rules for grant in facts.approvals
    )
    if not granted:
        return judged
    return Judgement(
        effect=Effect.ALLOW,
        stage=Stage.APPROVAL,
        code=Code.APPROVAL_GRANTED,
        matched=judged.overruled,
        overruled=judged.matched,
        verdicts=tuple(_lifted(verdict) for verdict in judged.verdicts),
    )


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
