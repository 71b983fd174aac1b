"""The places that rules name, and what a rule says of everything beneath one (spec section 4, trees).

An access to a tree is judged at its root and at every literal beneath it that a rule names. That covers all
that lies beneath only as far as rules speak of places: `resource in` a place that holds others, `resource is`
a type when nothing else lies there. A rule that looks closer (at an attribute, at one object) may say
something else of what nobody has named. Whatever is not plainly about places counts as looking closer.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cedarpy import pst

from authz.core.canonical import literal_resource
from authz.core.canonical.pattern import reaches
from authz.core.cedar_schema import APPROVE
from authz.core.policy.matched import Matched
from authz.core.policy.rules import Policy
from authz.core.policy.scopes import action_matches, scope_actions
from authz.core.policy.trees import children
from authz.core.steps import Step, go_on, stepwise
from authz.model.decision import RuleKind
from authz.model.resource import PathPattern, Resource

MAX_CACHED_ROOTS: Final = 1024
MAX_CACHED_CHARACTERS: Final = 1024
"""Of a root. Longer ones are not remembered, so that nobody can fill memory with them."""
Uid = tuple[str, str]
_CONTAINERS: Final = frozenset(("Directory", "UrlPath", "Repo", "Schema", "Database"))
_HOLDING: Final = _CONTAINERS | {"Host", "Domain"}
_ALONE: Final = frozenset(("File", "Endpoint", "Host", "Mailbox", "Object", "Program", "Opaque"))
"""Types with no other type beside them in a place: whatever lies in a folder is a `File`."""


class NamedPlaces:
    """The places that the rules of a bundle name. Immutable but for what it remembers."""

    def __init__(
        self, policies: Iterable[Policy], before: "NamedPlaces | None" = None, step: Step = go_on
    ) -> None:
        """What is known of policies with the very same trees is taken from those of the bundle `before`."""
        self._policies = list(policies)
        known = before.by_rule if before is not None else {}
        self.by_rule: dict[str, tuple[pst.Template, bool]] = {}
        """By rule: its tree, and whether it is heritable."""
        for policy in stepwise(self._policies, step):
            found = known.get(policy.id)
            if found is None or found[0] is not policy.tree:
                found = policy.tree, _is_heritable(policy)
            self.by_rule[policy.id] = found
        self._by_names: dict[frozenset[str], _ActionPlaces] = {}
        """As many as the bundle has actions."""
        self._beneath: OrderedDict[tuple[frozenset[str], Uid, Uid], Sequence[Resource]] = OrderedDict()

    def warm(self, names: frozenset[str], step: Step = go_on) -> None:
        """Find out what the policies about these actions name."""
        if names not in self._by_names:
            self._by_names[names] = _ActionPlaces.of(names, self._policies, step)

    def is_warm(self, names: frozenset[str]) -> bool:
        """Whether it was asked what the policies about these actions name."""
        return names in self._by_names

    def _for(self, names: frozenset[str]) -> "_ActionPlaces":
        self.warm(names)
        return self._by_names[names]

    def beneath(
        self, names: frozenset[str], root: Resource, pattern: PathPattern | None = None
    ) -> Sequence[Resource]:
        """Resources beneath `root` that a rule about one of these actions names, in a fixed order.

        With a pattern only those that it reaches: itself, something above them that is reached whole, or
        something in them.
        """
        container = next((entity for entity in root.chain if entity.type in _CONTAINERS), None)
        if container is None:
            return ()
        found = self._find(names, (container.type, container.id), (root.entity.type, root.entity.id))
        if pattern is None:
            return found
        return [place for place in found if _is_reached(pattern, container.id, place)]

    def _find(self, names: frozenset[str], container: Uid, root: Uid) -> Sequence[Resource]:
        key = (names, container, root)
        found = self._beneath.get(key)
        if found is not None:
            self._beneath.move_to_end(key)
            return found
        found = tuple(
            place
            for place in self._for(names).places
            if (place.entity.type, place.entity.id) != root
            and any((entity.type, entity.id) == container for entity in place.chain)
        )
        if len(container[1]) + len(root[1]) > MAX_CACHED_CHARACTERS:
            return found
        self._beneath[key] = found
        if len(self._beneath) > MAX_CACHED_ROOTS:
            self._beneath.popitem(last=False)
        return found

    def covers(
        self,
        names: frozenset[str],
        permits: Iterable[str],
        root: Resource,
        pattern: PathPattern | None = None,
    ) -> bool:
        """Whether what these permits allow at a root, they allow of everything beneath that no rule names.

        With a pattern, of everything that it matches.
        """
        closer = self._for(names).looking_closer
        if closer:
            matched = None if pattern is None else Matched.of(root, pattern)
            if matched is None or any(matched.may_meet(policy) for policy in closer):
                return False
        return any(self.by_rule[rule][1] for rule in permits if rule in self.by_rule)


class _ActionPlaces:
    """What the rules about one action name."""

    def __init__(self, places: Sequence[Resource], looking_closer: Sequence[pst.Template]) -> None:
        self.places = places
        self.looking_closer = looking_closer
        """Rules that forbid or ask and read more of the resource than where it lies."""

    @classmethod
    def of(cls, names: frozenset[str], policies: Sequence[Policy], step: Step) -> "_ActionPlaces":
        found: dict[str, Resource] = {}
        closer = []
        for policy in stepwise(policies, step):
            if not action_matches(policy.tree, names):
                continue
            kind, approving = policy.match.kind, APPROVE in names
            is_named = scope_actions(policy.tree) is not None
            if approving and (kind is RuleKind.ASK or (kind is RuleKind.PERMIT and not is_named)):
                # Neither has a say in who approves.
                continue
            for uid in pst.entity_uids(policy.tree):
                place = literal_resource(str(uid.type), uid.id)
                if place is not None and any(entity.type in _CONTAINERS for entity in place.chain):
                    found[place.uri] = place
            # A forbid over every action has judged the call itself, so a person was asked about the tree.
            if kind is not RuleKind.PERMIT and (is_named or not approving):
                scope = policy.tree.resource
                tells = isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and _tells(scope)
                if tells or any(_looks_closer(clause.expr) for clause in policy.tree.clauses):
                    closer.append(policy.tree)
        return cls([found[uri] for uri in sorted(found)], closer)


def _is_reached(pattern: PathPattern, folder: str, place: Resource) -> bool:
    """Whether the pattern, of names in this folder, reaches a place that lies somewhere in it."""
    path, above = place.entity.id, folder.rstrip("/") + "/"
    return not path.startswith(above) or reaches(pattern, path[len(above) :].split("/"))


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
