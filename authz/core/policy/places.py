"""The places that rules name, and what a rule says of everything beneath one (spec section 4, trees).

An access to a tree is judged at its root and at every literal beneath it that a rule names. That covers all
that lies beneath only as far as rules speak of places: `resource in` a place that holds others, `resource is`
a type when nothing else lies there. A rule that looks closer (at an attribute, at one object) may say
something else of what nobody has named. Whatever is not plainly about places counts as looking closer.
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
Uid = tuple[str, str]
_CONTAINERS: Final = frozenset(("Directory", "UrlPath", "Repo", "Schema", "Database"))
_HOLDING: Final = _CONTAINERS | {"Host", "Domain"}
_ALONE: Final = frozenset(("File", "Endpoint", "Host", "Mailbox", "Object", "Program", "Opaque"))
"""Types with no other type beside them in a place: whatever lies in a folder is a `File`."""


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
        if container is None:
            return ()
        return self._beneath(names, (container.type, container.id), (root.entity.type, root.entity.id))

    def _find(self, names: frozenset[str], container: Uid, root: Uid) -> Sequence[Resource]:
        return tuple(
            place
            for place in self._for(names, tuple(self._policies)).places
            if (place.entity.type, place.entity.id) != root
            and any((entity.type, entity.id) == container for entity in place.chain)
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
        """Whether a rule that forbids or asks reads more of the resource than where it lies."""

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
                scope = policy.tree.resource
                looks_closer |= isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and _tells(scope)
                looks_closer |= any(_looks_closer(clause.expr) for clause in policy.tree.clauses)
        return cls([found[uri] for uri in sorted(found)], looks_closer=looks_closer)


def _is_heritable(policy: Policy) -> bool:
    """Whether a permit that holds for a place holds for whatever is in it, named places apart."""
    scope = policy.tree.resource
    if isinstance(scope, pst.ScopeEq) or (isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and _tells(scope)):
        return False
    if isinstance(scope, pst.ScopeIn | pst.ScopeIsIn) and not _holds_others(scope.entity):
        return False
    return not any(_looks_closer(clause.expr) for clause in policy.tree.clauses)


def _looks_closer(node: Any) -> bool:
    """Whether an expression reads more of the resource than in which places it lies."""
    if isinstance(node, pst.Is) and _is_resource(node.base):
        return _tells(node) or (node.in_expr is not None and not _are_places(node.in_expr))
    if isinstance(node, pst.BinaryOp) and node.op == "in" and _is_resource(node.left):
        return not _are_places(node.right)
    return _is_resource(node) or any(map(_looks_closer, children(node)))


def _tells(node: Any) -> bool:
    """Whether a test of the type tells apart what may lie in one place."""
    return str(node.entity_type) not in _ALONE


def _are_places(node: Any) -> bool:
    """Whether an expression is a literal place that holds others, or a set of such."""
    if isinstance(node, pst.Set):
        return all(map(_are_places, node.elements))
    return isinstance(node, pst.EntityLit) and _holds_others(node.value)


def _holds_others(uid: Any) -> bool:
    return not isinstance(uid, pst.Slot) and str(uid.type) in _HOLDING


def _is_resource(node: Any) -> bool:
    return isinstance(node, pst.Var) and node.name == "resource"
