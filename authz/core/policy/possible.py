"""Which policies tell whether a subject could ever be allowed an action (spec section 3).

Cedar evaluates them with the resource and the context unknown, and what counts is only a certain deny: that
no permit could hold, or that a forbid holds whatever the resource and the context are. So a permit that
certainly depends on one of them stands for all others, and a forbid that does cannot be certain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cedarpy import pst

from authz.core.policy.scopes import Scoped, Uid
from authz.core.policy.set_cache import PolicySetHandle
from authz.core.policy.trees import children
from authz.model.decision import RuleKind


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """What a preview is evaluated with."""

    handle: PolicySetHandle
    literals: frozenset[Uid]


def preview(policies: Sequence[Scoped], types: frozenset[str]) -> list[Scoped]:
    """Of the policies about an action and a principal, those that a preview depends on."""
    kept: list[Scoped] = []
    permits: list[Scoped] = []
    for one in policies:
        if one.policy.match.kind is RuleKind.FORBID:
            if _is_certain(one):
                kept.append(one)
        elif one.policy.match.kind is RuleKind.PERMIT and types & one.resource_types:
            permits.append(one)
    open_ended = next((one for one in permits if _holds_for_some(one)), None)
    return kept + (permits if open_ended is None else [open_ended])


def _is_certain(scoped: Scoped) -> bool:
    """Whether Cedar could tell that the policy holds without knowing the resource and the context."""
    return isinstance(scoped.policy.tree.resource, pst.ScopeAny) and all(
        not _needs_unknown(clause.expr) for clause in scoped.policy.tree.clauses
    )


def _holds_for_some(scoped: Scoped) -> bool:
    """Whether Cedar certainly leaves it open if the policy holds, given that its action scope does."""
    tree = scoped.policy.tree
    if isinstance(tree.principal, pst.ScopeEq) and (scoped.principal or ("",))[0] != "Agent":
        # An agent that is in the named group is not equal to it.
        return False
    if not isinstance(tree.resource, pst.ScopeAny):
        return True
    return bool(tree.clauses) and _needs_unknown(tree.clauses[0].expr)


def _needs_unknown(node: Any) -> bool:
    """Whether Cedar cannot evaluate the expression without the resource or the context.

    `&&`, `||` and `if` are decided by their left-most part where that is known, and by nothing else.
    """
    if isinstance(node, pst.Var):
        return node.name in ("resource", "context")
    if isinstance(node, pst.BinaryOp) and node.op in ("and", "or"):
        return _needs_unknown(node.left)
    if isinstance(node, pst.IfThenElse):
        return _needs_unknown(node.cond)
    return any(_needs_unknown(child) for child in children(node))
