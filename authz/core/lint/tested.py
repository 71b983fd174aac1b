"""Rules and their tests: names that do not exist, rules that no test names, rules that do not say why."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from authz.core.lint.facts import RuleFacts, at_rule
from authz.core.lint.table import Hit, Lint, Severity


def unknown_rule(facts: RuleFacts) -> Iterator[Hit]:
    """A test that expects a rule which is not there fails, or says nothing where none has decided."""
    for case in facts.cases:
        for name in sorted(case.expected.reaches - facts.rules):
            close = get_close_matches(name, sorted(facts.rules), n=1)
            yield Hit(
                subject=name,
                message=f"`{case.name}`: it expects the rule `{name}`, which does not exist",
                file=case.file,
                line=case.expected_line or case.line,
                hint=f"did you mean `{close[0]}`?" if close else "name the `@id` of a rule",
            )


def untested(facts: RuleFacts) -> Iterator[Hit]:
    """A rule that no test expects; `authz test` tells which are reached."""
    expected = frozenset[str]().union(*(case.expected.reaches for case in facts.cases))
    for outline in facts.outlines:
        if outline.id not in expected:
            yield at_rule(outline, "no test expects it", "add a case to tests/*.yaml")


def no_reason(facts: RuleFacts) -> Iterator[Hit]:
    """What people and models are told when the rule decides."""
    for outline in facts.outlines:
        if not outline.match.reason:
            yield at_rule(
                outline, "it does not say why", 'add @reason("…"), which people and models are told'
            )


LINTS: Final = (
    Lint(
        code="test.unknown-rule",
        severity=Severity.WARNING,
        says="a test that expects a rule which does not exist",
        find=unknown_rule,
    ),
    Lint(code="rule.untested", severity=Severity.INFO, says="a rule that no test expects", find=untested),
    Lint(code="rule.no-reason", severity=Severity.INFO, says="a rule without @reason", find=no_reason),
)
