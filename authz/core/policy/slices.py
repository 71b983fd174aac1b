"""The part of a policy set that could matter to one action and one resource.

A policy whose scope does not match is false before any of its conditions is evaluated, so it can
neither decide nor fail: leaving it out changes nothing, and any superset of the rest is sound. The
same holds for a context field that none of the rest reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.cedar_context import Reads
from authz.core.cedar_schema import RESOURCE_TYPES, Action, evaluation_schema
from authz.core.policy.reads import context_reads
from authz.core.policy.rules import Policy
from authz.model.decision import RuleKind

Uid = tuple[str, str]
MAX_CACHED_SLICES: Final = 1024
"""Of one action. Slices differ only in which named resources lie above the resource."""

BLANKET_PERMIT: Final = "authz:asked-for"
"""Id of the permit that carries the asking set. No `@id` can equal it: a colon is not allowed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What one question is evaluated with."""

    settled: Any
    """Permits and hard forbids."""
    asking: Any | None
    """Asking forbids plus the blanket permit; `None` when no asking rule could match."""


class ActionPolicies:
    """The policies whose action scope could match one action, sliced by resource."""

    def __init__(
        self, action: Action, policies: Sequence[Policy], build: Callable[[Sequence[Policy]], Any]
    ) -> None:
        """`build` makes a Cedar policy set of policies, the same one for the same policies."""
        names = frozenset((action.id, *action.groups))
        self._policies = [policy for policy in policies if action_matches(policy.tree, names)]
        self._types = frozenset(action.resource_types)
        self._scopes = [_resource_scope(policy.tree) for policy in self._policies]
        self._named = frozenset(uid for _, uid in self._scopes if uid is not None)
        self._build = build
        self._slices: dict[tuple[Uid, ...], Slice] = {}
        self.reads: Reads = context_reads(policy.tree for policy in self._policies)
        self.tool_document = action.tool_document.decode()
        self.schema = cedarpy.Schema.from_str(evaluation_schema(action, self.reads))

    def possible(self) -> Any:
        """The hard forbids, and the permits that could be about a resource of this action at all."""
        chosen = [
            policy
            for policy, scope in zip(self._policies, self._scopes, strict=True)
            if policy.match.kind is not RuleKind.PERMIT or self._types & _types_within(scope)
        ]
        return self._build(_settled(chosen))

    def slice_for(self, resource: Sequence[Uid]) -> Slice:
        """The slice for a resource, given with all of its ancestors, itself first."""
        key = (("", resource[0][0]), *(uid for uid in resource if uid in self._named))
        found = self._slices.get(key)
        if found is None:
            found = self._select(resource[0][0], frozenset(key[1:]))
            if len(self._slices) >= MAX_CACHED_SLICES:
                self._slices.clear()
            self._slices[key] = found
        return found

    def _select(self, resource_type: str, above: frozenset[Uid]) -> Slice:
        chosen = [
            policy
            for policy, (kind, uid) in zip(self._policies, self._scopes, strict=True)
            if (kind is None or kind == resource_type) and (uid is None or uid in above)
        ]
        asks = [policy for policy in chosen if policy.match.kind is RuleKind.ASK]
        return Slice(settled=self._build(_settled(chosen)), asking=self._build(asks) if asks else None)


def build_set(policies: Sequence[Policy]) -> Any:
    """A Cedar policy set under the authors' own ids; of asking rules, with the blanket permit."""
    trees = {policy.id: policy.tree for policy in policies}
    if any(policy.match.kind is RuleKind.ASK for policy in policies):
        trees[BLANKET_PERMIT] = _BLANKET
    return cedarpy.PolicySet.from_pst(pst.PolicySet(templates={}, static_policies=trees, template_links=()))


_BLANKET: Final = pst.Template(
    id=BLANKET_PERMIT,
    effect="permit",
    principal=pst.ScopeAny(),
    action=pst.ScopeAny(),
    resource=pst.ScopeAny(),
    clauses=(),
    annotations={},
)


def _settled(policies: Sequence[Policy]) -> list[Policy]:
    return [policy for policy in policies if policy.match.kind is not RuleKind.ASK]


def action_matches(tree: pst.Template, names: frozenset[str]) -> bool:
    """Whether the action scope holds for an action of these names: its own and its groups'."""
    scope = tree.action
    if isinstance(scope, pst.ActionEq):
        return scope.entity.id in names
    if isinstance(scope, pst.ActionIn):
        return any(entity.id in names for entity in scope.entities)
    return True


def _resource_scope(tree: pst.Template) -> tuple[str | None, Uid | None]:
    """(type, entity) that a resource must be of and at or below; `None` where the scope does not say."""
    scope = tree.resource
    if isinstance(scope, pst.ScopeIs):
        return str(scope.entity_type), None
    if isinstance(scope, pst.ScopeIsIn):
        return str(scope.entity_type), _uid(scope.entity)
    if isinstance(scope, pst.ScopeEq | pst.ScopeIn):
        return None, _uid(scope.entity)
    return None, None


# What resources can be in: the types below each type that a scope can name.
_WITHIN: Final = {
    "Directory": frozenset({"File"}),
    "UrlPath": frozenset({"Endpoint"}),
    "Host": frozenset({"Host", "Endpoint"}),
    "Domain": frozenset({"Host", "Endpoint", "Mailbox"}),
    "ObjectType": frozenset({"Object"}),
}
_ALL_TYPES: Final = frozenset({*RESOURCE_TYPES.values(), "Opaque"})


def _types_within(scope: tuple[str | None, Uid | None]) -> frozenset[str]:
    """The types of the resources that a scope can hold for."""
    kind, uid = scope
    types = _ALL_TYPES if kind is None else frozenset({kind})
    if uid is not None:
        types &= _WITHIN.get(uid[0], frozenset({uid[0]}))
    return types


def _uid(entity: pst.EntityOrSlot) -> Uid | None:
    return None if isinstance(entity, pst.Slot) else (str(entity.type), entity.id)
