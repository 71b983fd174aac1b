"""What the scopes of a policy say, read off its tree once.

A policy whose scope does not hold is false before any of its conditions is evaluated: it can neither
decide nor fail, so leaving it out changes nothing. Everything here errs on the side of "could hold":
`==` is treated as `in`, since an entity is in itself.

What a first `when` begins with counts as scope too: Cedar evaluates it right after the scope and stops
where it is false, and comparing an entity with a literal cannot fail. So `when { resource is File && … }`
costs as little as a scope that says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from cedarpy import pst

from authz.core.cedar_context import Reads
from authz.core.cedar_schema import ALL_RESOURCE_TYPES, WITHIN
from authz.core.policy.reads import context_reads, literals_looked_into
from authz.core.policy.rules import Policy
from authz.model.decision import RuleKind

Uid = tuple[str, str]

ANY: Final = ""
"""In place of an action name: a policy about every action. No action has that id."""


@dataclass(frozen=True, slots=True, eq=False)
class Scoped:
    """One policy with what its scopes say. Compared by identity; `number` orders a bundle's policies."""

    number: int
    policy: Policy
    actions: tuple[str, ...]
    """Ids of actions and groups, one of which the action must be or be in; `ANY` for every action."""
    principal: Uid | None
    """What the principal must be, or be in."""
    principal_type: str | None
    resource: Uid | None
    """What the resource must be, or be in."""
    resource_type: str | None
    literals: frozenset[Uid]
    """Entities that a condition looks into: Cedar must be handed them."""
    reads: Reads
    """What a condition reads of the context."""

    @classmethod
    def of(cls, number: int, policy: Policy) -> "Scoped":
        tree = policy.tree
        principal_type, principal = _entity_scope(tree.principal)
        resource_type, resource = _entity_scope(tree.resource)
        named = scope_actions(tree)
        actions = (ANY,) if named is None else named
        for variable, kind, literals in _leading_demands(tree):
            # Where the scope says the same kind of thing already, that is enough.
            if variable == "action" and actions == (ANY,) and literals:
                actions = tuple(dict.fromkeys(name for _, name in literals))
            if variable == "principal":
                principal_type = principal_type or kind
                principal = principal or (literals[0] if len(literals) == 1 else None)
            if variable == "resource":
                resource_type = resource_type or kind
                resource = resource or (literals[0] if len(literals) == 1 else None)
        return cls(
            number=number,
            policy=policy,
            actions=actions,
            principal=principal,
            principal_type=principal_type,
            resource=resource,
            resource_type=resource_type,
            literals=frozenset(
                found for clause in tree.clauses for found in literals_looked_into(clause.expr)
            ),
            reads=context_reads([tree]),
        )

    def moved(self, number: int, policy: Policy) -> "Scoped":
        """The same for a policy with the same tree, in another place of its bundle."""
        if number == self.number and policy is self.policy:
            return self
        return replace(self, number=number, policy=policy)

    @property
    def asks(self) -> bool:
        return self.policy.match.kind is RuleKind.ASK

    @property
    def resource_types(self) -> frozenset[str]:
        """The types of the resources that the scope can hold for."""
        types = ALL_RESOURCE_TYPES if self.resource_type is None else frozenset({self.resource_type})
        if self.resource is not None:
            types &= WITHIN.get(self.resource[0], frozenset({self.resource[0]}))
        return types


def scope_actions(tree: pst.Template) -> tuple[str, ...] | None:
    """The ids that the action scope names, each once; `None` when it is about all, empty when about none."""
    scope = tree.action
    if isinstance(scope, pst.ActionEq):
        return (scope.entity.id,)
    if isinstance(scope, pst.ActionIn):
        return tuple(dict.fromkeys(entity.id for entity in scope.entities))
    return None


def action_matches(tree: pst.Template, names: frozenset[str]) -> bool:
    """Whether the action scope holds for an action of these names: its own and its groups'."""
    named = scope_actions(tree)
    return named is None or not names.isdisjoint(named)


def _leading_demands(tree: pst.Template) -> Iterator[tuple[str, str | None, tuple[Uid, ...]]]:
    """(variable, type, entities) of each comparison that the first `when` begins with.

    The variable must be of the type, where there is one, and in one of the entities, where there are any.
    """
    if not tree.clauses or not isinstance(tree.clauses[0], pst.When):
        return
    for conjunct in _conjuncts(tree.clauses[0].expr):
        demand = _demand(conjunct)
        if demand is None:
            return
        yield demand


def _conjuncts(expr: Any) -> Iterator[Any]:
    """The members of a chain of `&&` in the order in which they are evaluated."""
    if isinstance(expr, pst.BinaryOp) and expr.op == "and":
        yield from _conjuncts(expr.left)
        yield from _conjuncts(expr.right)
    else:
        yield expr


def _demand(expr: Any) -> tuple[str, str | None, tuple[Uid, ...]] | None:
    if isinstance(expr, pst.Is) and isinstance(expr.base, pst.Var):
        inside = _literal_uids(expr.in_expr) if expr.in_expr is not None else ()
        return None if inside is None else (expr.base.name, str(expr.entity_type), inside)
    if isinstance(expr, pst.BinaryOp) and expr.op in ("in", "eq") and isinstance(expr.left, pst.Var):
        # `resource in []` holds for nothing; that there is no entity to be in must not read as no demand.
        inside = _literal_uids(expr.right) or None
        return None if inside is None else (expr.left.name, None, inside)
    return None


def _literal_uids(node: Any) -> tuple[Uid, ...] | None:
    """The entities of a literal, or of a set of literals; `None` for anything else."""
    found = []
    for element in node.elements if isinstance(node, pst.Set) else (node,):
        if not isinstance(element, pst.EntityLit):
            return None
        found.append((str(element.value.type), element.value.id))
    return tuple(found)


def _entity_scope(scope: Any) -> tuple[str | None, Uid | None]:
    """(type, entity) that something must be of and at or below; `None` where the scope does not say."""
    if isinstance(scope, pst.ScopeIs):
        return str(scope.entity_type), None
    if isinstance(scope, pst.ScopeIsIn):
        return str(scope.entity_type), _uid(scope.entity)
    if isinstance(scope, pst.ScopeEq | pst.ScopeIn):
        return None, _uid(scope.entity)
    return None, None


def _uid(entity: pst.EntityOrSlot) -> Uid | None:
    # Templates are refused at load; a slot would be anything.
    return None if isinstance(entity, pst.Slot) else (str(entity.type), entity.id)
