"""One call explained: the real stages are run, and then asked what they came to."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from authz.core.approval_asking import kept_from_asking
from authz.core.canonical import canonical_uri
from authz.core.cedar_context import ContextFacts
from authz.core.cedar_request import access_entities, question
from authz.core.cedar_schema import Action
from authz.core.claims import check_subject
from authz.core.decide import Outcome, decide
from authz.core.delegation import is_delegated
from authz.core.entities import PreparedEntities
from authz.core.explain.model import (
    AccessReport,
    ApprovalReport,
    Explanation,
    RuleReport,
    StageOutcome,
    StageReport,
)
from authz.core.explain.remedy import approval_that_lifts, changes_needed
from authz.core.explain.stages import NUMBERS, stage_reports, with_policy_of
from authz.core.facts import Facts
from authz.core.policy import PolicyEngine, Question
from authz.core.policy.near_miss import ExaminedRule, Examiner
from authz.model.call import Call
from authz.model.decision import (
    Access,
    AccessVerdict,
    Code,
    Effect,
    Refusal,
    RuleKind,
    RuleMatch,
    Stage,
)
from authz.model.resource import Resource, Scope

MAX_EXPLAINED_ACCESSES: Final = 16
MAX_NEAR: Final = 3
"""Rules of one kind that did not match, shown for one access."""
NEAR: Final = 3
"""A rule that fails on more demands than this is not near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One access of one agent, as it was asked of Cedar."""

    verdict: AccessVerdict
    agent: str
    user: str | None
    question: Question
    action: Action
    principal: PreparedEntities
    added: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A call that was decided, with everything that is still to be asked to explain it."""

    call: Call
    facts: Facts
    refused: str | None
    outcome: Outcome | None
    stages: tuple[StageReport, ...]
    asked: tuple[_Asked, ...]
    left_out: int
    approval: ApprovalReport | None
    every_rule: bool
    unknown: frozenset[str]


def explain(
    call: Call, facts: Facts, *, every_rule: bool = False, unknown: frozenset[str] = frozenset()
) -> Explanation:
    """Explain what `decide` says of this call and these facts.

    The call is taken as a dry run: nothing is reserved and no lease is made. With `every_rule` every rule of
    the bundle is shown, however far off. `unknown` names arguments whose values only stand in for others:
    whatever depends on one of them is told to be unknown. Pure, as `decide` is.
    """
    return finish(begin(call, facts, every_rule=every_rule, unknown=unknown))


def begin(
    call: Call,
    facts: Facts,
    *,
    every_rule: bool = False,
    unknown: frozenset[str] = frozenset(),
    kept_from_asking_by: Refusal | None = None,
) -> Begun:
    """The part of `explain` that decides, and so uses the ruleset's caches: not in two threads at once.

    `kept_from_asking_by` is why nobody may be asked now: an outcome that asks is denied by it.
    """
    call = replace(call, dry_run=True)
    refused = check_subject(call, facts.caller.profile)
    outcome = decide(call, facts) if refused is None else None
    asks = outcome is not None and outcome.decision.effect is Effect.REQUIRE_APPROVAL
    if outcome is not None and asks and kept_from_asking_by is not None:
        outcome = kept_from_asking(call, outcome, facts, kept_from_asking_by)
    asked, left_out = _questions(call, facts, outcome) if outcome is not None else ([], 0)
    return Begun(
        call=call,
        facts=facts,
        refused=refused,
        outcome=outcome,
        stages=stage_reports(call, facts, refused, outcome),
        asked=tuple(asked),
        left_out=left_out,
        approval=approval_that_lifts(call, facts, outcome) if outcome is not None else None,
        every_rule=every_rule,
        unknown=unknown,
    )


def finish(begun: Begun) -> Explanation:
    """The part of `explain` that takes rules apart. It may run beside decisions in another thread."""
    examiner = Examiner(begun.facts.ruleset.engine, every_rule=begun.every_rule, unknown=begun.unknown)
    accesses = tuple(_access(begun, examiner, asked) for asked in begun.asked)
    outcome, stages = begun.outcome, begun.stages
    if outcome is not None and begun.unknown:
        outcome = _without(outcome, _doubtful(accesses))
        stages = with_policy_of(stages, begun.call, begun.facts, outcome)
    explanation = Explanation(
        at_ms=begun.facts.now_ms,
        profile=begun.facts.caller.profile.name,
        policy_version=begun.facts.ruleset.version,
        subject_refused=begun.refused,
        decision=outcome.decision if outcome is not None else None,
        stages=stages,
        accesses=accesses,
        unexplained_accesses=begun.left_out,
        approval=begun.approval,
        changes=tuple(changes_needed(outcome.decision, accesses)) if outcome is not None else (),
    )
    if _is_uncertain(begun, accesses):
        stages = _without_policy(explanation.stages)
        return replace(explanation, decision=None, approval=None, changes=(), stages=stages)
    return explanation


def _is_uncertain(begun: Begun, accesses: tuple[AccessReport, ...]) -> bool:
    """Whether the decision depends on what is not known."""
    if not begun.unknown:
        return False
    unseen = begun.left_out or any(report.unexamined or report.broken for report in accesses)
    return bool(unseen) or any(report.uncertain for report in accesses)


def _doubtful(accesses: Iterable[AccessReport]) -> frozenset[str]:
    return frozenset(
        found.rule.match.rule for report in accesses for found in report.rules if found.rule.uncertain
    )


def _without(outcome: Outcome, names: frozenset[str]) -> Outcome:
    """The outcome without rules that only matched, or did not, by a value that stands in for another."""

    def known(rules: tuple[RuleMatch, ...]) -> tuple[RuleMatch, ...]:
        return tuple(rule for rule in rules if rule.rule not in names)

    decision, judged = outcome.decision, outcome.judged
    decision = replace(decision, matched=known(decision.matched), overruled=known(decision.overruled))
    if judged is not None:
        verdicts = tuple(
            replace(verdict, rules=known(verdict.rules), overruled=known(verdict.overruled))
            for verdict in judged.verdicts
        )
        matched, overruled = known(judged.matched), known(judged.overruled)
        judged = replace(judged, matched=matched, overruled=overruled, verdicts=verdicts)
    return replace(outcome, decision=decision, judged=judged)


def _without_policy(stages: tuple[StageReport, ...]) -> tuple[StageReport, ...]:
    """The stages up to the rules; what they and all after them say depends on what is not known."""
    told = "cannot be told: it depends on values that are not known"
    return tuple(
        stage
        if stage.number < NUMBERS[Stage.POLICY]
        else replace(stage, outcome=StageOutcome.NOT_REACHED, summary=told, input={}, output={})
        for stage in stages
    )


def _questions(call: Call, facts: Facts, outcome: Outcome) -> tuple[list[_Asked], int]:
    """What stage 7 asked, for the accesses that are explained, and how many are not."""
    judged, draft = outcome.judged, outcome.draft
    provenance, believed = outcome.provenance, outcome.believed
    if judged is None or draft is None or provenance is None or believed is None:
        return [], 0
    exposed = facts.exposed
    if call.subject.session is None:
        # As `decide` takes it: a session that is not named may have read anything.
        exposed |= facts.ruleset.every_label
    tool = facts.ruleset.tools[(call.server, call.tool)]
    context = ContextFacts(
        call=call,
        descriptor=tool.descriptor,
        arguments=draft.canonical.arguments,
        provenance=provenance,
        believed=believed,
        capability=outcome.capability,
        exposed=exposed,
        delegated=is_delegated(call, facts, outcome.capability),
        now_ms=facts.now_ms,
    )
    # What settled the effect comes first; the order among equals is the call's.
    verdicts = sorted(judged.verdicts, key=lambda verdict: verdict.effect is not judged.effect)
    shown = verdicts[:MAX_EXPLAINED_ACCESSES]
    actions = {action.id: action for action in tool.actions}
    user = call.subject.on_behalf_of
    asked: list[_Asked] = []

    def ask(verdict: AccessVerdict, agent: str, principal: PreparedEntities, access: Access) -> _Asked:
        put = question(agent, tool, access, context)
        return _Asked(
            verdict=verdict,
            agent=agent,
            user=user,
            question=put,
            action=actions[put.action],
            principal=principal,
            added=access_entities(access),
        )

    for verdict in shown:
        for agent in outcome.capability.agents or (call.subject.agent,):
            principal = facts.ruleset.entities.principal(agent, user)

            asked += _by_place(facts.ruleset.engine, verdict, partial(ask, verdict, agent, principal))
    return asked, len(verdicts) - len(shown)


def _by_place(
    engine: PolicyEngine, verdict: AccessVerdict, ask: Callable[[Access], _Asked]
) -> Iterator[_Asked]:
    """What was asked of one access: of a tree that a place beneath it settled, that place, each by itself."""
    if not verdict.beneath:
        yield ask(verdict.access)
        return
    places = [found for uri in verdict.beneath if isinstance(found := canonical_uri(uri), Resource)]
    if verdict.effect is not Effect.DENY:
        places.insert(0, verdict.access.resource)
    for place in places:
        asked = ask(replace(verdict.access, resource=place, scope=Scope.OBJECT, pattern=None))
        (answer,) = engine.evaluate([asked.question], asked.principal, asked.added)
        own = AccessVerdict(
            access=replace(verdict.access, resource=place, pattern=None),
            effect=answer.effect,
            code=answer.code,
            rules=answer.rules,
            overruled=answer.overruled,
        )
        yield replace(asked, verdict=own)


def _access(begun: Begun, examiner: Examiner, asked: _Asked) -> AccessReport:
    verdict = asked.verdict
    deciding = frozenset(rule.rule for rule in (*verdict.rules, *verdict.overruled))
    found = examiner.examine(asked.question, asked.action, asked.principal, asked.added, deciding)
    uncertain = _uncertain(found.rules)
    # What `decide` named by a value that only stands in for another is not told.
    named = frozenset() if uncertain else deciding
    first: list[RuleReport] = []
    others: list[RuleReport] = []
    for rule in found.rules:
        # The verdict is that over all agents: what it names may match for one of the others alone.
        determining = rule.match.rule in named and rule.matched and not rule.uncertain
        report = RuleReport(rule=rule, determining=determining)
        telling = rule.matched or rule.failed or rule.uncertain or determining
        (first if telling else others).append(report)
    first.sort(key=lambda rule: not rule.determining)
    others.sort(key=lambda rule: _nearness(rule, verdict))
    near = others if begun.every_rule else _nearest(others, verdict)
    return AccessReport(
        agent=asked.agent,
        user=asked.user,
        verdict=verdict,
        rules=(*first, *near),
        further=len(others) - len(near),
        elsewhere=found.elsewhere,
        unexamined=found.unexamined,
        broken=found.broken,
        uncertain=uncertain,
    )


def _uncertain(rules: Iterable[ExaminedRule]) -> tuple[RuleMatch, ...]:
    """Rules on which the verdict depends and of which nobody can tell whether they match."""
    rules = list(rules)
    settled = any(rule.matched and rule.match.kind is RuleKind.FORBID for rule in rules)
    # A forbid that is known to match denies, whatever the others say.
    return () if settled else tuple(rule.match for rule in rules if rule.uncertain)


def _nearest(others: Iterable[RuleReport], verdict: AccessVerdict) -> list[RuleReport]:
    """The near ones, of every kind a few: the nearest of all may all be forbids, and a permit the way out."""
    near: dict[RuleKind, list[RuleReport]] = {kind: [] for kind in RuleKind}
    for report in others:
        if _is_near(report, verdict):
            near[report.rule.match.kind].append(report)
    return [report for found in near.values() for report in found[:MAX_NEAR]]


def _is_near(report: RuleReport, verdict: AccessVerdict) -> bool:
    """Few of its demands fail, and of several at least one is met. Where nothing permits, any permit is."""
    if verdict.code is Code.POLICY_NO_MATCH and report.rule.match.kind is RuleKind.PERMIT:
        return True
    if any(part.text == "false" for part in report.rule.parts):
        # Switched off by its author, or the bundle's own where it has nothing to protect.
        return False
    count = len(report.rule.parts)
    return report.distance <= NEAR and (report.distance < count or count == 1)


def _nearness(report: RuleReport, verdict: AccessVerdict) -> tuple[int, int, int, int, str]:
    """Permits first where nothing permitted; then by what failed, what held, and what of it is scope."""
    kind = report.rule.match.kind
    first = verdict.code is Code.POLICY_NO_MATCH and kind is not RuleKind.PERMIT
    held = len(report.rule.parts) - report.distance
    return (int(first), report.distance, -held, _scope_distance(report.rule), report.rule.match.rule)


def _scope_distance(rule: ExaminedRule) -> int:
    return sum(part.clause not in ("when", "unless") for part in rule.missing)
