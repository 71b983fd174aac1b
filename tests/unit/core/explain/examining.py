"""Explains calls of a world, and finds a rule in the explanation."""

from typing import Any

from authz.core.explain import Explanation, explain
from authz.core.explain.model import AccessReport, RuleReport
from authz.core.policy.near_miss import Examined
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from tests.support.world import facts


def explained(ruleset: Ruleset, asked: Call, *, every_rule: bool = False, **known: Any) -> Explanation:
    """The explanation of one call under `facts(**known)`."""
    return explain(asked, facts(ruleset, **known), every_rule=every_rule)


def only_access(explanation: Explanation) -> AccessReport:
    """The one access of the call."""
    (report,) = explanation.accesses
    return report


def rule_of(explanation: Explanation, name: str) -> RuleReport:
    """What is told of one rule at the one access."""
    return next(found for found in only_access(explanation).rules if found.rule.match.rule == name)


def verdicts(parts: tuple[Examined, ...]) -> list[tuple[str, str, str, bool]]:
    """(clause, text, verdict, reached) of each part."""
    return [(part.clause, part.text, part.verdict.value, part.reached) for part in parts]
