"""The places that rules name, and what a rule says of everything beneath one (spec section 4, trees).

An access to a tree is judged at its root and at every literal beneath it that a rule names. That covers all
that lies beneath only as far as rules speak of places: `resource in …`, `resource is …`. A rule that looks at
an attribute of the resource may say something else of a file that nobody has named.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from cedarpy import pst

from authz.core.canonical import literal_resource
from authz.core.policy.rules import Policy
from authz.core.policy.scopes import action_matches
from authz.core.policy.trees import children
from authz.model.decision import RuleKind
from authz.model.resource import Resource

MAX_CACHED_ROOTS: Final = 1024
_CONTAINERS: Final = frozenset(("Directory", "UrlPath", "Repo", "Schema", "Database"))


class NamedPlaces:
    """The places that the rules of a bundle name. Immutable but for what it remembers."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._policies = list(policies)
        self._heritable = {policy.id for policy in self._policies if _is_heritable(policy)}
        self._for = lru_cache(maxsize=MAX_CACHED_ROOTS)(_ActionPlaces.of)
        self._beneath = lru_cache(maxsize=MAX_CACHED_ROOTS)(self._find)

    def beneath(self, names: frozenset[str], root: Resource) -> Sequence[Resource]:
        """Resources beneath `root` that a rule about one of these actions names, in a fixed order."""
        container = next((entity for entity in root.chain if entity.type in _CONTAINERS), None)
        return () if container is None else self._beneath(names, container.type, container.id)

    def _find(self, names: frozenset[str], kind: str, name: str) -> Sequence[Resource]:
        return tuple(
            place
            for place in self._for(names, tuple(self._policies)).places
            if any((entity.type, entity.id) == (kind, name) for entity in place.chain)
            and next((entity.id for entity in place.chain if entity.type == kind), "") != name
        )

    def covers(self, names: frozenset[str], permits: Iterable[str]) -> bool:
        """Whether what these permits allow at a root, they allow of everything beneath that no rule names."""
        if self._for(names, tuple(self._policies)).looks_closer:
            return False
        return any(rule in self._heritable for rule in permits)


class _ActionPlaces:
    """What the rules about one action name."""

    def __init__(self, places: Sequence[Resource], *, looks_closer: bool) -> None:
        self.places = places
        self.looks_closer = looks_closer
        """Whether a rule that forbids or asks looks at an attribute of the resource."""

    @classmethod
    def of(cls, names: frozenset[str], policies: Sequence[Policy]) -> "_ActionPlaces":
        found: dict[str, Resource] = {}
        looks_closer = False
        for policy in policies:
            if not action_matches(policy.tree, names):
                continue
            for uid in pst.entity_uids(policy.tree):
                place = literal_resource(str(uid.type), uid.id)
                if place is not None and any(entity.type in _CONTAINERS for entity in place.chain):
                    found[place.uri] = place
            if policy.match.kind is not RuleKind.PERMIT:
                looks_closer |= any(_looks_at(clause.expr) for clause in policy.tree.clauses)
        return cls([found[uri] for uri in sorted(found)], looks_closer=looks_closer)


def _is_heritable(policy: Policy) -> bool:
    """Whether a permit that holds for a place holds for whatever is in it, named places apart."""
    tree = policy.tree
    return not isinstance(tree.resource, pst.ScopeEq) and not any(
        _looks_at(clause.expr) or _compares(clause.expr) for clause in tree.clauses
    )


def _looks_at(node: Any) -> bool:
    """Whether an expression reads more of the resource than where it lies and what type it is."""
    if isinstance(node, pst.Var):
        return node.name == "resource"
    if isinstance(node, pst.Is):
        return node.in_expr is not None and _looks_at(node.in_expr)
    if isinstance(node, pst.BinaryOp) and node.op in ("in", "eq", "not_eq"):
        sides = [side for side in (node.left, node.right) if not _is_resource(side)]
        return any(map(_looks_at, sides))
    return any(map(_looks_at, children(node)))


def _compares(node: Any) -> bool:
    """Whether an expression says that the resource is one object."""
    if isinstance(node, pst.BinaryOp) and node.op in ("eq", "not_eq"):
        return _is_resource(node.left) or _is_resource(node.right)
    return any(map(_compares, children(node)))


def _is_resource(node: Any) -> bool:
    return isinstance(node, pst.Var) and node.name == "resource"
