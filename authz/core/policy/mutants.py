"""Rules with one thing changed, to learn whether any case would notice.

A mutant is a policy set with a small fault. A set of cases under which every mutant still passes says
nothing about what was changed (mutation testing).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cedarpy import pst

from authz.core.cedar_schema import Action
from authz.core.policy.rules import Policy


class MutationKind(StrEnum):
    """What was changed."""

    REMOVED = "removed"
    DROPPED = "dropped"
    """A `when` or `unless` was left out, so the rule matches more."""
    NEGATED = "negated"
    """A `when` became an `unless`, or the other way round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One rule with one change; `policy` is `None` where the rule is gone."""

    rule: str
    kind: MutationKind
    clause: str = ""
    """`unless 1`: which of the rule's conditions, counted from 1 among its kind."""
    policy: Policy | None = None

    def __str__(self) -> str:
        if self.kind is MutationKind.REMOVED:
            return f"`{self.rule}` removed"
        return f"`{self.rule}` with `{self.clause}` {self.kind.value}"


def removed(policy: Policy) -> Mutant:
    """The policy set without this rule."""
    return Mutant(rule=policy.id, kind=MutationKind.REMOVED)


def with_changed_conditions(policy: Policy) -> Iterator[Mutant]:
    """Each `when` and `unless` of the rule left out, and turned round.

    The text stays the author's: it is what validation reads, and a mutant that no longer fits the schema
    fails when it is evaluated, which a case can notice like any other change.
    """
    clauses = policy.tree.clauses
    counts = {"when": 0, "unless": 0}
    for index, clause in enumerate(clauses):
        word = "when" if isinstance(clause, pst.When) else "unless"
        counts[word] += 1
        name = f"{word} {counts[word]}"
        without = (*clauses[:index], *clauses[index + 1 :])
        turned = pst.Unless(expr=clause.expr) if word == "when" else pst.When(expr=clause.expr)
        negated = (*clauses[:index], turned, *clauses[index + 1 :])
        for kind, changed in ((MutationKind.DROPPED, without), (MutationKind.NEGATED, negated)):
            tree = replace(policy.tree, clauses=changed)
            yield Mutant(rule=policy.id, kind=kind, clause=name, policy=replace(policy, tree=tree))


def is_in_scope(policy: Policy, action: Action, resource: Sequence[tuple[str, str]]) -> bool:
    """Whether the rule's action and resource scope hold; `resource` is the resource and its ancestors."""
    return _action_holds(policy.tree.action, action) and _resource_holds(policy.tree.resource, resource)


def _action_holds(scope: pst.ActionConstraint, action: Action) -> bool:
    names = {action.id, *action.groups}
    if isinstance(scope, pst.ActionEq):
        return scope.entity.id in names
    if isinstance(scope, pst.ActionIn):
        return any(entity.id in names for entity in scope.entities)
    return True


def _resource_holds(scope: pst.PrincipalOrResourceConstraint, resource: Sequence[tuple[str, str]]) -> bool:
    if isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and str(scope.entity_type) != resource[0][0]:
        return False
    if isinstance(scope, pst.ScopeEq):
        return _uid(scope.entity) == resource[0]
    if isinstance(scope, pst.ScopeIn | pst.ScopeIsIn):
        return _uid(scope.entity) in resource
    return True


def _uid(entity: pst.EntityOrSlot) -> tuple[str, str] | None:
    return None if isinstance(entity, pst.Slot) else (str(entity.type), entity.id)
