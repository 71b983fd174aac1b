"""What a rule says, without Cedar's tree: its scope, its conjuncts, and what it compares with what.

For readers outside this package: lint looks for slips here, and never evaluates a rule itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from cedarpy import pst

from authz.core.policy.constants import Constant, constant_parts
from authz.core.policy.rules import Policy
from authz.core.policy.scopes import scope_actions
from authz.core.policy.trees import children

Uid = tuple[str, str]
Value = str | int | bool | Uid
Operator = Literal["eq", "not_eq", "in", "contains", "contains_any", "contains_all", "one_of", "like"]
_BINARY: Final[dict[str, Operator]] = {
    "eq": "eq",
    "not_eq": "not_eq",
    "in": "in",
    "contains": "contains",
    "contains_any": "contains_any",
    "contains_all": "contains_all",
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """The principal's or resource's part of a scope; all `None` where it says nothing."""

    type: str | None = None
    """`is TYPE`."""
    entity: Uid | None = None
    exact: bool = False
    """Whether it is the entity itself (`==`); otherwise the entity or anything below it (`in`)."""

    @property
    def is_open(self) -> bool:
        """True when everything fits."""
        return self.type is None and self.entity is None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A path (`context.session.exposed`) held against literals."""

    path: tuple[str, ...]
    operator: Operator
    """`one_of` is a set of literals that `contains` the path."""
    values: tuple[Value, ...]
    required: bool
    """Whether the rule cannot match unless this holds: it is a conjunct of its own, not negated."""


class Outline:
    """One rule as lint reads it."""

    def __init__(self, policy: Policy) -> None:
        tree = policy.tree
        self.policy = policy
        self.id = policy.id
        self.match = policy.match
        self.principal = _constraint(tree.principal)
        self.resource = _constraint(tree.resource)
        self.actions = scope_actions(tree)
        """The actions that the scope names; `None` when it is about all of them."""
        self.has_conditions = bool(tree.clauses)
        self.annotations = dict(tree.annotations)

    @cached_property
    def entities(self) -> frozenset[Uid]:
        """Every entity that the rule names, in its scope and its conditions."""
        return frozenset((str(uid.type), uid.id) for uid in pst.entity_uids(self.policy.tree))

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every comparison of a path with literals, in the scope and anywhere in the conditions."""
        return (*self._scope_comparisons(), *self._condition_comparisons())

    def _scope_comparisons(self) -> Iterator[Comparison]:
        for name, constraint in (("principal", self.principal), ("resource", self.resource)):
            if constraint.entity is not None:
                operator: Operator = "eq" if constraint.exact else "in"
                yield Comparison((name,), operator, (constraint.entity,), True)

    def _condition_comparisons(self) -> Iterator[Comparison]:
        for clause in self.policy.tree.clauses:
            yield from _comparisons(clause.expr, required=isinstance(clause, pst.When))

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """The parts of the conditions that are the same for every call."""
        return tuple(constant_parts(self.policy.tree))

    @cached_property
    def tags(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        """(path of the entity, tag) of every tag that the conditions ask for by its name."""
        clauses = self.policy.tree.clauses
        return tuple(dict.fromkeys(found for clause in clauses for found in _tags(clause.expr)))

    def contradicts_itself(self) -> str:
        """The conjunct that stands with its own negation; empty if none does. `x && !x` never holds."""
        positive: set[Any] = set()
        negative: set[Any] = set()
        for clause in self.policy.tree.clauses:
            for part in _conjuncts(clause.expr, negated=isinstance(clause, pst.Unless)):
                expression, negated = _stripped(*part)
                (negative if negated else positive).add(expression)
        both = sorted(_shown(expression) for expression in positive & negative)
        return both[0] if both else ""

    def tautology(self) -> str:
        """The alternative that stands beside its own negation; empty if none does. `x || !x` always holds."""
        for clause in self.policy.tree.clauses:
            # What a clause rules out is the negation of what it asks for.
            for expression, negated in _conjuncts(clause.expr, negated=isinstance(clause, pst.Unless)):
                sides = [_stripped(*side) for side in _disjuncts(expression, negated=negated)]
                doubled = {side for side, no in sides if no} & {side for side, no in sides if not no}
                if doubled:
                    return min(_shown(side) for side in doubled)
        return ""


def _tags(node: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, pst.BinaryOp) and node.op in ("has_tag", "get_tag"):
        path = _path(node.left)
        if isinstance(node.left, pst.EntityLit):
            path = (str(node.left.value.type),)
        if path is not None and isinstance(node.right, pst.StringLit):
            yield path, node.right.value
    for child in children(node):
        yield from _tags(child)


def _constraint(scope: Any) -> Constraint:
    entity = getattr(scope, "entity", None)
    kind = getattr(scope, "entity_type", None)
    return Constraint(
        type=None if kind is None else str(kind),
        entity=(str(entity.type), entity.id) if isinstance(entity, pst.EntityUid) else None,
        exact=isinstance(scope, pst.ScopeEq),
    )


def _conjuncts(node: Any, *, negated: bool) -> Iterator[tuple[Any, bool]]:
    """(expression, negated) of what must all hold for `node` (or its negation) to hold."""
    node, negated = _stripped(node, negated)
    if isinstance(node, pst.BinaryOp) and node.op == ("or" if negated else "and"):
        yield from _conjuncts(node.left, negated=negated)
        yield from _conjuncts(node.right, negated=negated)
    else:
        yield node, negated


def _disjuncts(node: Any, *, negated: bool) -> Iterator[tuple[Any, bool]]:
    """(expression, negated) of which one must hold for `node` (or its negation) to hold."""
    for part, opposite in _conjuncts(node, negated=not negated):
        yield part, not opposite


def _stripped(node: Any, negated: bool) -> tuple[Any, bool]:
    while isinstance(node, pst.UnaryOp) and node.op == "not":
        node, negated = node.arg, not negated
    if isinstance(node, pst.BinaryOp) and node.op == "not_eq":
        return pst.BinaryOp("eq", node.left, node.right), not negated
    return node, negated


def _shown(node: Any) -> str:
    path = _path(node)
    if path is not None:
        return ".".join(path)
    if isinstance(node, pst.BinaryOp) and (left := _path(node.left)) is not None:
        return f"{'.'.join(left)} {node.op} …"
    return type(node).__name__


def _comparisons(node: Any, *, required: bool) -> Iterator[Comparison]:
    found = _comparison(node, required)
    if found is not None:
        yield found
        return
    both = isinstance(node, pst.BinaryOp) and node.op == "and"
    for child in children(node):
        yield from _comparisons(child, required=required and both)


def _comparison(node: Any, required: bool) -> Comparison | None:
    if isinstance(node, pst.Like):
        path = _path(node.base)
        text = "".join(part.value if isinstance(part, pst.Char) else "*" for part in node.pattern)
        return None if path is None else Comparison(path, "like", (text,), required)
    if not isinstance(node, pst.BinaryOp) or node.op not in _BINARY:
        return None
    operator = _BINARY[node.op]
    left, right = node.left, node.right
    if operator in ("eq", "not_eq") and _path(left) is None:
        left, right = right, left
    path, values = _path(left), _literals(right)
    if path is not None and values is not None:
        return Comparison(path, operator, values, required)
    # `["a", "b"].contains(resource.extension)`
    path, values = _path(right), _literals(left)
    if path is not None and values is not None and operator == "contains":
        return Comparison(path, "one_of", values, required)
    return None


def _literals(node: Any) -> tuple[Value, ...] | None:
    if isinstance(node, pst.Set):
        parts = [_literals(element) for element in node.elements]
        return None if any(part is None for part in parts) else tuple(v for part in parts for v in part or ())
    if isinstance(node, pst.EntityLit):
        return ((str(node.value.type), node.value.id),)
    if isinstance(node, pst.StringLit | pst.LongLit | pst.BoolLit):
        return (node.value,)
    return None


def _path(node: Any) -> tuple[str, ...] | None:
    if isinstance(node, pst.Var):
        return (node.name,)
    if isinstance(node, pst.GetAttr):
        base = _path(node.base)
        return None if base is None else (*base, node.attr)
    return None
