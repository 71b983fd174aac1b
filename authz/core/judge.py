"""Stage 7: what the rules make of a canonical call."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from authz.core.cedar_context import ContextFacts
from authz.core.cedar_request import access_entities, question
from authz.core.claims import BelievedClaims
from authz.core.delegation import is_delegated
from authz.core.entities import PreparedEntities
from authz.core.facts import Facts, Judgement
from authz.core.policy import PolicyEngine
from authz.core.provenance import ArgumentProvenance
from authz.core.ruleset import Tool
from authz.core.tools import CanonicalCall
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import (
    Access,
    AccessVerdict,
    Code,
    Effect,
    RuleKind,
    RuleMatch,
    Stage,
    strictest,
)
from authz.model.resource import Resource, Scope

TREE_RULE: Final = RuleMatch(
    rule="authz:tree",
    kind=RuleKind.ASK,
    reason="the call reaches everything beneath its resource, and a rule looks closer than at places",
)
MAX_PLACES: Final = 1024
"""That rules name beneath the trees of one call; over it, a tree is refused: each is an evaluation."""


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
        delegated=is_delegated(call, facts, capability),
        now_ms=facts.now_ms,
    )
    agents = capability.agents or (call.subject.agent,)
    by_access: list[list[AccessVerdict]] = [[] for _ in canonical.accesses]
    left = MAX_PLACES
    internal = ""
    engine = facts.ruleset.engine
    for agent in agents:
        principal = facts.ruleset.entities.principal(agent, call.subject.on_behalf_of)
        for index, access in enumerate(canonical.accesses):
            verdict = _verdict(engine, principal, agent, tool, access, context, left)
            left -= verdict.places
            internal = internal or verdict.internal
            by_access[index].append(verdict)
    return _judge(tuple(map(_strictest_verdict, by_access)), internal)


def _verdict(
    engine: PolicyEngine,
    principal: PreparedEntities,
    agent: str,
    tool: Tool,
    access: Access,
    context: ContextFacts,
    left: int,
) -> AccessVerdict:
    """What the rules say of one access; of a tree at its root, and at every place beneath that one names.

    Where the access is only to what a pattern matches, a place counts if it is matched itself, lies in what
    is matched and reached whole, or holds what may be matched. `left` is how many such places the call may
    still be judged at.
    """
    # Its own resource only: no rule can get from one access to the resource of another, and handing all of
    # them over each time would cost the square of their number.
    asked = question(agent, tool, access, context)
    (answer,) = engine.evaluate([asked], principal, access_entities(access))
    verdict = AccessVerdict(
        access=access,
        effect=answer.effect,
        code=answer.code,
        rules=answer.rules,
        overruled=answer.overruled,
        internal=answer.internal,
    )
    if access.scope is not Scope.TREE or verdict.effect is Effect.DENY:
        return verdict
    places = engine.places_beneath(asked.action, access.resource, access.pattern)
    if len(places) > left:
        return replace(
            verdict, effect=Effect.DENY, code=Code.POLICY_ERROR, rules=(), internal="too many places"
        )
    verdict = replace(verdict, places=len(places))
    for place in places:
        beneath = replace(access, resource=place, scope=Scope.OBJECT, pattern=None)
        found = _verdict(engine, principal, agent, tool, beneath, context, 0)
        if found.effect is Effect.DENY:
            return replace(found, access=access, beneath=(place.uri,), places=len(places))
        if found.effect is Effect.REQUIRE_APPROVAL:
            verdict = _asked(verdict, found, place)
    permits = verdict.overruled if verdict.effect is Effect.REQUIRE_APPROVAL else verdict.rules
    if engine.covers_beneath(asked.action, [rule.rule for rule in permits], access.resource, access.pattern):
        return verdict
    return _raised(verdict, (TREE_RULE,))


def _asked(verdict: AccessVerdict, found: AccessVerdict, place: Resource) -> AccessVerdict:
    """A tree that is asked for because of a place beneath it."""
    raised = _raised(verdict, found.rules)
    return replace(raised, beneath=(*verdict.beneath, place.uri))


def _raised(verdict: AccessVerdict, asking: Sequence[RuleMatch]) -> AccessVerdict:
    """An allow or an ask that these rules ask for as well."""
    asks = verdict.effect is Effect.REQUIRE_APPROVAL
    return replace(
        verdict,
        effect=Effect.REQUIRE_APPROVAL,
        code=Code.APPROVAL_REQUIRED,
        rules=_union([verdict.rules if asks else (), tuple(asking)]),
        overruled=verdict.overruled if asks else verdict.rules,
    )


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
