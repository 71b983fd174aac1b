"""Which policies tell whether a subject could ever be allowed an action (spec section 3).

Cedar evaluates them with the resource and the context unknown, and what counts is only a certain deny: that
no permit could hold, or that a forbid holds whatever the resource and the context are. So a permit that
certainly depends on one of them stands for all others, and a forbid that does cannot be certain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cedarpy import pst

from authz.core.policy.scopes import Scoped, Uid
from authz.core.policy.set_cache import PolicySetHandle
from authz.core.policy.trees import children
from authz.core.steps import Step, stepwise
from authz.model.decision import RuleKind


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """What a preview is evaluated with."""

    handle: PolicySetHandle
    literals: frozenset[Uid]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What previews of one action can depend on, whoever the principal is; in the order of the policies."""

    forbids: tuple[Scoped, ...]
    permits: tuple[tuple[Scoped, bool], ...]
    """Each with whether it stands for all others, for the principals that it concerns."""

    @classmethod
    def of(cls, policies: Sequence[Scoped], types: frozenset[str], step: Step) -> "Candidates":
        """Of the policies about an action on resources of these types."""
        forbids: list[Scoped] = []
        permits: list[tuple[Scoped, bool]] = []
        is_over = False
        for one in stepwise(policies, step):
            kind = one.policy.match.kind
            if kind is RuleKind.FORBID and _is_certain(one):
                forbids.append(one)
            elif kind is RuleKind.PERMIT and not is_over and types & one.resource_types:
                stands_for_all = _holds_for_some(one)
                permits.append((one, stands_for_all))
                # One that concerns everybody does so for everybody: none behind it is looked at.
                is_over = stands_for_all and one.principal is None and one.principal_type is None
        return cls(forbids=tuple(forbids), permits=tuple(permits))

    def preview(self, concerns: Callable[[Scoped], bool]) -> list[Scoped]:
        """Those that the preview of one principal depends on, which `concerns` tells."""
        permits = []
        for one, stands_for_all in self.permits:
            if concerns(one):
                if stands_for_all:
                    permits = [one]
                    break
                permits.append(one)
        return [one for one in self.forbids if concerns(one)] + permits


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
