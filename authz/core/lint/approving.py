"""Rules about who may approve, and calls that nobody may approve."""

from collections.abc import Iterable, Iterator
from typing import Final

from authz.core.lint.asks import people_of
from authz.core.lint.facts import RuleFacts, at_rule
from authz.core.lint.table import Hit, Lint, Severity
from authz.core.policy.outline import Constraint, Outline
from authz.model.decision import RuleKind

_LISTED: Final = 3


def nobody_may_approve(facts: RuleFacts) -> Iterator[Hit]:
    """What asks for a person whom no rule lets approve asks for nothing that could be given."""
    permits = [
        (facts.approvable(outline), outline)
        for outline in facts.of_kind(RuleKind.PERMIT)
        if not (outline.id in facts.dead and facts.dead[outline.id].whole)
    ]
    for outline in facts.of_kind(RuleKind.ASK):
        terms = outline.match.terms
        named = terms.approvers if terms is not None else ()
        people = people_of(facts, named)
        if named and not people:
            continue  # `ask.quorum-unreachable` tells
        left = set(facts.tools_called(outline))
        for tools, permit in permits:
            if _meets(facts, permit.principal, people if named else None):
                left -= tools
        if left:
            whom = "none of its approvers" if named else "nobody"
            yield at_rule(
                outline,
                f"{whom} may approve calls of {_listed(left)}: no rule permits it",
                'permit (principal in Group::"…", action in Action::"approve", resource)',
            )


def _meets(facts: RuleFacts, principal: Constraint, people: frozenset[str] | None) -> bool:
    """Whether a principal scope can hold for one of these people; `None` is anybody."""
    if principal.type not in (None, "User"):
        return False
    if principal.entity is None:
        return True
    kind, name = principal.entity
    if kind not in ("User", "Group"):
        return False
    if people is None:
        return True
    return any(
        (kind == "User" and name == person)
        or (kind == "Group" and not principal.exact and name in facts.above(("User", person)))
        for person in people
    )


def approving_in_a_condition(facts: RuleFacts) -> Iterator[Hit]:
    """Only a permit that names approving in its scope lets anybody approve."""
    for outline in facts.of_kind(RuleKind.PERMIT):
        if outline.actions is None and _names_approving(outline, facts):
            yield at_rule(
                outline,
                "it names approving in a condition only, so it lets nobody approve",
                'name it in the scope: `action in Action::"approve"`',
            )


def _names_approving(outline: Outline, facts: RuleFacts) -> bool:
    return any(kind == "Action" and facts.is_approving(name) for kind, name in outline.entities)


def _listed(tools: Iterable[str]) -> str:
    named = sorted(tools)
    more = len(named) - _LISTED
    return ", ".join(f"`{tool}`" for tool in named[:_LISTED]) + (f" and {more} others" if more > 0 else "")


LINTS: Final = (
    Lint(
        code="ask.nobody-may-approve",
        severity=Severity.WARNING,
        says="a rule that asks, and calls of it that no rule lets anybody approve",
        find=nobody_may_approve,
    ),
    Lint(
        code="rule.approving-unscoped",
        severity=Severity.WARNING,
        says="a permit that names approving outside its scope",
        find=approving_in_a_condition,
    ),
)
