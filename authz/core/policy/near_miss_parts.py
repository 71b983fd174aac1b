"""A policy taken apart: the parts of its scope, and the conditions that all must hold for it to match.

`when { a && b }` asks for `a` and for `b`. `unless { a || b }` asks that `a` is false and that `b` is. Cedar
evaluates `&&` and `||` from the left and stops early, so a chain means the same however it is bracketed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from cedarpy import pst

from authz.core.policy.near_miss_text import cedar_text, scope_text

Clause = Literal["principal", "action", "resource", "when", "unless"]
_ANY = pst.ScopeAny()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a policy asks for, as a policy of its own that Cedar can evaluate alone."""

    clause: Clause
    text: str
    tree: pst.Template
    """A permit that is satisfied exactly when `text` is true."""
    inside: tuple["Part", ...] = ()
    """What `text` is put together from by `||` (in a `when`) or `&&` (in an `unless`)."""


def whole(tree: pst.Template) -> pst.Template:
    """The policy as a permit: satisfied exactly when the policy matches."""
    return replace(tree, effect="permit", annotations={})


def scope_parts(tree: pst.Template) -> Iterator[Part]:
    """What the scope asks for. A part that any request meets is left out."""
    blank = _condition(())
    scopes: tuple[tuple[Clause, Any], ...] = (
        ("principal", tree.principal),
        ("action", tree.action),
        ("resource", tree.resource),
    )
    for name, scope in scopes:
        if not isinstance(scope, pst.ScopeAny):
            yield Part(clause=name, text=scope_text(name, scope), tree=replace(blank, **{name: scope}))


def condition_parts(tree: pst.Template) -> Iterator[Part]:
    """What the clauses ask for, in the order in which Cedar evaluates it."""
    for clause in tree.clauses:
        if isinstance(clause, pst.When):
            for conjunct in _chain(clause.expr, "and"):
                yield _part("when", conjunct, "or")
        else:
            for disjunct in _chain(clause.expr, "or"):
                yield _part("unless", disjunct, "and")


def prefix(tree: pst.Template, count: int) -> pst.Template:
    """The policy, as a permit, with its scope and the first `count` of `condition_parts` only."""
    clauses: list[pst.Clause] = []
    for part in list(condition_parts(tree))[:count]:
        (clause,) = part.tree.clauses
        # The part of an `unless` is told by its own truth; in the policy it must be false.
        clauses.append(clause if part.clause == "when" else pst.Unless(expr=clause.expr))
    return replace(whole(tree), clauses=tuple(clauses))


def _part(clause: Clause, expr: pst.Expr, joined_by: str) -> Part:
    members = list(_chain(expr, joined_by))
    inside = tuple(_leaf(clause, member) for member in members) if len(members) > 1 else ()
    return replace(_leaf(clause, expr), inside=inside)


def _leaf(clause: Clause, expr: pst.Expr) -> Part:
    return Part(clause=clause, text=cedar_text(expr), tree=_condition((pst.When(expr=expr),)))


def _condition(clauses: tuple[pst.Clause, ...]) -> pst.Template:
    return pst.Template(
        id="", effect="permit", principal=_ANY, action=_ANY, resource=_ANY, clauses=clauses, annotations={}
    )


def _chain(expr: pst.Expr, op: str) -> Iterator[pst.Expr]:
    """The members of a chain of `op`, first to last; `expr` itself where it is none."""
    if isinstance(expr, pst.BinaryOp) and expr.op == op:
        yield from _chain(expr.left, op)
        yield from _chain(expr.right, op)
    else:
        yield expr
