"""Rules that ask a person, and irreversible permits that nobody is asked about."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from authz.core.lint.facts import RuleFacts, at_rule
from authz.core.lint.rules_match import is_unconditional
from authz.core.lint.table import Hit, Lint, Severity
from authz.core.policy import Policy
from authz.core.policy.outline import Constraint, Outline
from authz.core.policy.probes import Place, possible_places
from authz.model.decision import RuleKind
from authz.model.resource import Authority

MAX_TTL_SECONDS: Final = 86_400
"""A day: who looked at a call yesterday does not know what it would do today."""
MIN_TTL_SECONDS: Final = 30
_APPROVER: Final = re.compile(r'(Group|User)::"([^"]*)"')
_LISTED: Final = 3
_AT_ONCE: Final = 32
"""Asking rules that Cedar is asked about together; most bundles need few until all is covered."""


def no_approvers(facts: RuleFacts) -> Iterator[Hit]:
    """Then anybody who may approve anything may approve this."""
    for outline in facts.of_kind(RuleKind.ASK):
        if outline.match.terms is not None and not outline.match.terms.approvers:
            yield at_rule(
                outline,
                "it asks, but does not say whom: everybody with the role approve may answer",
                'add @approvers("Group::\\"…\\"")',
            )


def quorum_unreachable(facts: RuleFacts) -> Iterator[Hit]:
    """More approvals than there are people who may give them: what it asks for can never be approved."""
    for outline in facts.of_kind(RuleKind.ASK):
        terms = outline.match.terms
        if terms is None or not terms.approvers:
            continue
        people = people_of(facts, terms.approvers)
        if len(people) < terms.quorum:
            yield at_rule(
                outline,
                f"it takes {terms.quorum} of its approvers, and there are {len(people)}",
                "put more users into the group in entities.yaml, or lower @quorum",
            )


def people_of(facts: RuleFacts, approvers: Iterable[str]) -> frozenset[str]:
    """The declared users whom these approvers name. No agent approves."""
    found: set[str] = set()
    for approver in approvers:
        match = _APPROVER.fullmatch(approver)
        if match and match[1] == "User":
            found.add(match[2])
        elif match:
            found |= {name for kind, name in facts.groups.get(match[2], ()) if kind == "User"}
    return frozenset(found)


def odd_ttl(facts: RuleFacts) -> Iterator[Hit]:
    """A grant that outlives what was shown, or that no runtime can use in time."""
    for outline in facts.of_kind(RuleKind.ASK):
        ttl = outline.match.terms.ttl_seconds if outline.match.terms else None
        if ttl is not None and ttl > MAX_TTL_SECONDS:
            yield at_rule(
                outline, f"an approval would hold for {ttl} seconds, over a day", 'write @ttl("1d") or less'
            )
        elif ttl is not None and ttl < MIN_TTL_SECONDS:
            yield at_rule(
                outline,
                f"an approval would hold for {ttl} seconds only",
                f'write @ttl("{MIN_TTL_SECONDS}s") or more',
            )


def nothing_permitted(facts: RuleFacts) -> Iterator[Hit]:
    """What no rule permits is denied and never asked about, however many rules would ask."""
    permits = [(facts.mask(outline), outline.resource) for outline in facts.of_kind(RuleKind.PERMIT)]
    for outline in facts.of_kind(RuleKind.ASK):
        mask = facts.mask(outline)
        if not any(mask & other and _may_meet(outline.resource, scope) for other, scope in permits):
            yield at_rule(
                outline,
                "it never asks: no rule permits anything that it is about, so that is denied",
                "permit as well what may be done when a person agrees",
            )


def _may_meet(one: Constraint, other: Constraint) -> bool:
    """Whether two resource scopes can fit one resource, as far as their types tell."""
    types = {scope.type for scope in (one, other)} - {None}
    return len(types) < 2


def unasked(facts: RuleFacts) -> Iterator[Hit]:
    """An irreversible action (A3) that is permitted, and that no rule ever asks a person about."""
    irreversible = {action.id: action for action in facts.actions if action.level is Authority.A3}
    permits = list(facts.of_kind(RuleKind.PERMIT))
    permitted = possible_places(_policies(permits), irreversible.values(), facts.validator)
    left = frozenset[Place]().union(*permitted.values())
    for asking in _asking(facts):
        if not left:
            break
        concerned = {action: irreversible[action] for action, _ in left}
        for places in possible_places(_policies(asking), concerned.values(), facts.validator).values():
            left -= places
    for outline in permits:
        unasked_of = permitted[outline.id] & left
        if unasked_of:
            tools = {f"{irreversible[name].tool} ({irreversible[name].verb})" for name, _ in unasked_of}
            yield at_rule(
                outline,
                f"it permits what cannot be undone, and nobody is asked about it: {_listed(sorted(tools))}",
                'add a forbid with @requires("approval") for these actions',
            )


def _asking(facts: RuleFacts) -> Iterator[list[Outline]]:
    """The rules that ask (or forbid outright: what is forbidden is not permitted either), widest first."""
    asking = [
        outline
        for outline in facts.of_kind(RuleKind.ASK, RuleKind.FORBID)
        if outline.match.kind is RuleKind.ASK or is_unconditional(facts, outline)
    ]
    yield [outline for outline in asking if not outline.has_conditions and outline.resource.entity is None]
    rest = [outline for outline in asking if outline.has_conditions and outline.resource.entity is None]
    narrow = [outline for outline in asking if outline.resource.entity is not None]
    for outlines in (rest, narrow):
        for start in range(0, len(outlines), _AT_ONCE):
            yield outlines[start : start + _AT_ONCE]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} others" if more > 0 else "")


def _policies(outlines: Iterable[Outline]) -> list[Policy]:
    return [outline.policy for outline in outlines]


LINTS: Final = (
    Lint(
        code="ask.no-approvers",
        severity=Severity.WARNING,
        says="a rule that asks without saying whom",
        find=no_approvers,
    ),
    Lint(
        code="ask.quorum-unreachable",
        severity=Severity.WARNING,
        says="a quorum over the number of approvers",
        find=quorum_unreachable,
    ),
    Lint(code="ask.odd-ttl", severity=Severity.WARNING, says="a very long or very short @ttl", find=odd_ttl),
    Lint(
        code="ask.nothing-permitted",
        severity=Severity.WARNING,
        says="a rule that asks about what no rule permits",
        find=nothing_permitted,
    ),
    Lint(
        code="rule.unasked",
        severity=Severity.WARNING,
        says="a permit of irreversible actions that no rule asks about",
        find=unasked,
    ),
)
