"""Which changes to the rules no case would notice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from authz.core.cases.case import Case
from authz.core.cases.coverage import is_touched
from authz.core.cases.deciding import Answered, UnusableCase, answer
from authz.core.cases.judging import Judged
from authz.core.cedar_schema import every_action
from authz.core.policy import Policy, PolicyEngine
from authz.core.policy.mutants import Mutant, MutationKind, removed, with_changed_conditions
from authz.core.policy.validation import ValidationCache
from authz.core.ruleset import Ruleset
from authz.errors import BundleError


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult:
    """What the cases made of one mutant."""

    mutant: Mutant
    policy: Policy
    """The rule as it stands."""
    noticed: bool
    """Some case gets another verdict: another effect, code, authority or set of rules."""
    changes_effect: bool
    """Some case gets another effect, or others may approve, so the rule is more than a name in decisions."""


def mutate(
    judged: Sequence[Judged], ruleset: Ruleset, excluded: frozenset[str], *, conditions: bool
) -> Iterator[MutationResult]:
    """Run the cases under each mutant: every rule removed and, with `conditions`, each condition changed.

    A case is run again only where the change can reach it: a removed rule is looked for in the decisions
    that it took part in, and a changed condition in those within the rule's scope.
    """
    answered = [(found.case, found.answered) for found in judged if isinstance(found.answered, Answered)]
    for policy in ruleset.engine.policies.values():
        if policy.id in excluded:
            continue
        reached = [(case, before) for case, before in answered if policy.id in before.reached]
        yield _result(removed(policy), policy, reached, ruleset)
        if conditions and policy.tree.clauses:
            others = [
                (case, before)
                for case, before in answered
                if policy.id not in before.reached and _may_change(policy.id, before)
            ]
            for mutant in with_changed_conditions(policy):
                yield _result(mutant, policy, reached + others, ruleset)


def _may_change(rule: str, before: Answered) -> bool:
    # Of a call that ended before rules were asked, a rule could still hide the tool.
    return not before.outcome.decision.verdicts or is_touched(rule, before)


def _result(
    mutant: Mutant, policy: Policy, cases: Sequence[tuple[Case, Answered]], ruleset: Ruleset
) -> MutationResult:
    others = [other for other in ruleset.engine.policies.values() if other.id != mutant.rule]
    try:
        changed = with_policies(ruleset, [*others, *([mutant.policy] if mutant.policy is not None else [])])
    except BundleError:
        # Such a rule would not load, so the bundle itself notices.
        return MutationResult(mutant=mutant, policy=policy, noticed=True, changes_effect=True)
    noticed = changes_effect = False
    for case, before in cases:
        try:
            after = answer(case, changed)
        except UnusableCase:
            # It no longer comes to where its limit is asked.
            return MutationResult(mutant=mutant, policy=policy, noticed=True, changes_effect=True)
        if not isinstance(after, Answered):
            continue
        noticed = noticed or after.verdict != before.verdict
        changes_effect = after.effects != before.effects
        if changes_effect or (noticed and mutant.kind is not MutationKind.REMOVED):
            noticed = True
            break
    return MutationResult(mutant=mutant, policy=policy, noticed=noticed, changes_effect=changes_effect)


def with_policies(ruleset: Ruleset, policies: list[Policy]) -> Ruleset:
    """The ruleset with other rules, and with nothing remembered of the old ones."""
    actions = every_action(action for tool in ruleset.tools.values() for action in tool.actions)
    # What is loaded has passed, and a mutant keeps its author's text: nothing is validated a second time.
    passed = ValidationCache()
    passed.remember(ruleset.schema_text, policies)
    engine = PolicyEngine(policies, ruleset.schema_text, actions, passed)
    return replace(ruleset, engine=engine, visibility={})
