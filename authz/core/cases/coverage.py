"""What a run of cases says about the rules and the tools of a bundle."""

from collections.abc import Sequence
from dataclasses import dataclass

from authz.core.cases.deciding import Answered
from authz.core.cases.judging import Judged
from authz.core.cedar_schema import action_id, approval_of
from authz.core.policy.mutants import is_in_scope
from authz.core.ruleset import Ruleset
from authz.model.decision import Effect, RuleKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCoverage:
    """How far cases reach one rule or limit. Counts are numbers of cases."""

    rule: str
    kind: RuleKind
    file: str
    line: int | None
    decided: int
    """It determined the decision, that the tool is hidden, or who may approve."""
    outranked: int
    """It matched, and an asking rule outranked it."""
    in_scope: int
    """It was evaluated on a call in its action and resource scope, and is in neither of the counts above."""

    @property
    def is_covered(self) -> bool:
        """Whether some case shows the rule at work."""
        return bool(self.decided or self.outranked)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCoverage:
    """Which decisions the cases got for calls of one tool, and which of its actions they reached."""

    tool: str
    allowed: int
    asked: int
    denied: int
    actions: tuple[str, ...]
    """Every (tool, verb, level) that a rule can name."""
    reached: tuple[str, ...]
    """Those that a call of a case exercised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What of a bundle cases reach. The loader's own rule is not counted."""

    rules: tuple[RuleCoverage, ...]
    tools: tuple[ToolCoverage, ...]

    @property
    def percent(self) -> float:
        """Of the rules and limits, how many are covered; of none, all."""
        covered = sum(rule.is_covered for rule in self.rules)
        return 100 * covered / len(self.rules) if self.rules else 100.0


def cover(judged: Sequence[Judged], ruleset: Ruleset, excluded: frozenset[str]) -> Coverage:
    """The coverage of a run. Rules in `excluded` are not of the bundle's own making."""
    answers = [found.answered for found in judged if isinstance(found.answered, Answered)]
    return Coverage(rules=_rules(answers, ruleset, excluded), tools=_tools(answers, ruleset))


def _rules(
    answers: Sequence[Answered], ruleset: Ruleset, excluded: frozenset[str]
) -> tuple[RuleCoverage, ...]:
    decided: dict[str, int] = {}
    outranked: dict[str, int] = {}
    for answered in answers:
        decision = answered.outcome.decision
        ours = {rule.rule for rule in decision.matched} | answered.hidden_by | answered.approving
        for rule in ours:
            decided[rule] = decided.get(rule, 0) + 1
        for rule in {rule.rule for rule in decision.overruled} - ours:
            outranked[rule] = outranked.get(rule, 0) + 1
    found = []
    for policy in ruleset.engine.policies.values():
        if policy.id in excluded:
            continue
        at_work = decided.get(policy.id, 0) + outranked.get(policy.id, 0)
        found.append(
            RuleCoverage(
                rule=policy.id,
                kind=policy.match.kind,
                file=policy.match.file or "",
                line=policy.match.line,
                decided=decided.get(policy.id, 0),
                outranked=outranked.get(policy.id, 0),
                # Told only of rules that no case reaches, since only there does it help.
                in_scope=0 if at_work else sum(is_touched(policy.id, answer) for answer in answers),
            )
        )
    for limit in ruleset.limits:
        found.append(
            RuleCoverage(
                rule=limit.id,
                kind=RuleKind.LIMIT,
                file=limit.file,
                line=limit.line,
                decided=decided.get(limit.id, 0),
                outranked=0,
                in_scope=0 if limit.id in decided else sum(_takes(limit.id, answer) for answer in answers),
            )
        )
    return tuple(sorted(found, key=lambda rule: (rule.file, rule.line or 0)))


def _takes(limit: str, answered: Answered) -> bool:
    return any(taken.limit == limit for taken in answered.outcome.decision.reservations)


def is_touched(rule: str, answered: Answered) -> bool:
    """Whether a call of the case was in the action and resource scope of the rule when rules were asked."""
    ruleset = answered.facts.ruleset
    tool = ruleset.tools.get((answered.call.server, answered.call.tool))
    if tool is None:
        return False
    policy = ruleset.engine.policies[rule]
    actions = {action.id: action for action in tool.actions}
    for verdict in answered.outcome.decision.verdicts:
        access = verdict.access
        action = actions.get(action_id(answered.call.tool_name, access.verb, access.authority))
        resource = [(entity.type, entity.id) for entity in access.resource.chain]
        if action is not None and is_in_scope(policy, action, resource):
            return True
        if answered.approvals and is_in_scope(policy, approval_of(tool.actions), resource):
            return True
    return False


def _tools(answers: Sequence[Answered], ruleset: Ruleset) -> tuple[ToolCoverage, ...]:
    effects: dict[str, list[Effect]] = {}
    reached: set[str] = set()
    for answered in answers:
        decision = answered.outcome.decision
        name = answered.call.tool_name
        effects.setdefault(name, []).append(decision.effect)
        reached |= {
            action_id(name, verdict.access.verb, verdict.access.authority) for verdict in decision.verdicts
        }
    return tuple(
        ToolCoverage(
            tool=name,
            allowed=effects.get(name, []).count(Effect.ALLOW),
            asked=effects.get(name, []).count(Effect.REQUIRE_APPROVAL),
            denied=effects.get(name, []).count(Effect.DENY),
            actions=tuple(action.id for action in tool.actions),
            reached=tuple(action.id for action in tool.actions if action.id in reached),
        )
        for name, tool in sorted(
            {tool.descriptor.qualified_name: tool for tool in ruleset.tools.values()}.items()
        )
    )
