"""The part of a policy set that could matter to one question.

A policy whose scopes do not hold can neither decide nor fail, so leaving it out changes nothing, and any
superset of the rest is sound. How narrow to cut is a matter of cost alone: to build a set costs some 20 µs a
policy, to evaluate one that is out of scope about 1 µs. So

- where few policies are about an action and a type of resource, all of them are one set;
- otherwise those at or above the resource, for every principal, as long as they are few;
- otherwise only those about this principal and its groups too, in fragments of bounded size: what is shared
  by many questions is a fragment of its own, so that no question has a big set to build.

Fragments are evaluated one by one and their findings put together, which Cedar's semantics allow: policies
do not see each other.
"""

from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import cedarpy
from cedarpy import pst

from authz.core.policy.index import PolicyIndex, Spot
from authz.core.policy.possible import Candidates, Preview
from authz.core.policy.scopes import Scoped, Uid
from authz.core.policy.set_cache import PolicySetHandle, SetCache
from authz.core.steps import Step, go_on, stepwise

COARSE: Final = 16
"""Policies about one action and resource type up to which all of them are one set."""
FRAGMENT: Final = 64
"""Policies that are gathered in one set."""
MERGED: Final = FRAGMENT // 2
"""Policies that name no resource are in one set with those of the resource as long as they are this few."""
BLOCK: Final = 128
"""Policies of one place that are too many for a fragment are cut into sets of this size."""
MAX_POLICIES: Final = 16_384
"""In all sets of a bundle together: some 4 kB each."""
MAX_SLICES: Final = 16_384

_WIDE: Final = "wide"
_PREVIEW: Final = "preview"


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """What one question is evaluated with."""

    sets: tuple[PolicySetHandle, ...]
    """At least one. Asking rules are in them as permits: `build_set` says why."""
    literals: frozenset[Uid]
    """Entities that some condition looks into."""


@dataclass(frozen=True, slots=True, eq=False)
class _Wide:
    """The policies that name no resource, for some principals."""

    policies: tuple[Scoped, ...]
    """When they are few enough to be in one set with others."""
    whole: Slice
    """When they are not. Then it has sets of its own."""


@dataclass(frozen=True, slots=True)
class _ByPrincipal:
    """Stands where the policies of every principal would be too many for one set."""


_BY_PRINCIPAL: Final = _ByPrincipal()
_Entry: TypeAlias = Slice | _Wide | _ByPrincipal | Preview


class Slicer:
    """Chooses what Cedar is handed; keeps what it has built within bounds. Not for two threads at once."""

    def __init__(
        self, index: PolicyIndex, *, max_policies: int = MAX_POLICIES, max_slices: int = MAX_SLICES
    ) -> None:
        self._index = index
        self.cache: SetCache[_Entry] = SetCache(build_set, max_policies=max_policies, max_entries=max_slices)
        self._candidates: dict[str, Candidates] = {}
        """What previews of an action depend on. As many as the bundle has actions."""
        self._coarse: dict[tuple[str, str], bool] = {}
        """Whether an action and a type have few policies. As many as the bundle has actions and types."""
        self.hits = 0
        self.misses = 0

    def slice_for(self, names: tuple[str, ...], resource: Sequence[Uid], holders: Set[Uid]) -> Slice:
        """The slice for an action, a resource with all of its ancestors, and a principal with its groups.

        `names` is from `names_of`, and its second is the action's own id. `resource[0]` is the resource.
        """
        built = self.cache.built
        found = self._find(names, resource, holders)
        if self.cache.built == built:
            self.hits += 1
        else:
            self.misses += 1
        return found

    def _find(self, names: tuple[str, ...], resource: Sequence[Uid], holders: Set[Uid]) -> Slice:
        action, kind = names[1], resource[0][0]
        if self._is_coarse(names, kind):
            return self._coarse_slice(names, kind)
        spots = self._index.spots(names, resource)
        key = (action, kind, spots)
        found = self.cache.get(key)
        if found is None:
            found = self._for_every_principal(key, names, kind, spots)
        if isinstance(found, Slice):
            return found
        named = self._index.principals.intersection(holders)
        key_of_principal = (action, kind, spots, named)
        found = self.cache.get(key_of_principal)
        if not isinstance(found, Slice):
            found = self._for_principal(key_of_principal, names, kind, spots, named)
        return found

    def warm(self, names: tuple[str, ...], kinds: Sequence[str], step: Step = go_on) -> None:
        """Build what questions about an action share, one set at a time."""
        for kind in stepwise(kinds, step):
            self._find(names, ((kind, ""),), frozenset())
        self._candidates_of(names, kinds, step)

    def preview(self, names: tuple[str, ...], kinds: Iterable[str], holders: Set[Uid]) -> Preview:
        """What tells whether any resource and context could be allowed: see `possible`."""
        named = self._index.principals.intersection(holders)
        key = (names[1], _PREVIEW, named)
        found = self.cache.get(key)
        if not isinstance(found, Preview):
            chosen = self._candidates_of(names, kinds).preview(
                # Only agents call tools; a rule about people would stand for others that concern them.
                lambda one: one.principal_type in (None, "Agent") and _concerns(one, named)
            )
            handle = self.cache.handle(chosen)
            found = Preview(handle=handle, literals=_literals(chosen))
            self.cache.put(key, found, (handle,), entities=len(found.literals) + len(named))
        return found

    def _candidates_of(self, names: tuple[str, ...], kinds: Iterable[str], step: Step = go_on) -> Candidates:
        found = self._candidates.get(names[1])
        if found is None:
            about = self._index.about(names) or []
            found = self._candidates[names[1]] = Candidates.of(about, frozenset(kinds), step)
        return found

    def _is_coarse(self, names: tuple[str, ...], kind: str) -> bool:
        key = (names[1], kind)
        found = self._coarse.get(key)
        if found is None:
            about = self._index.about(names, at_most=8 * COARSE)
            found = about is not None and len(_of_type(about, kind)) <= COARSE
            self._coarse[key] = found
        return found

    def _coarse_slice(self, names: tuple[str, ...], kind: str) -> Slice:
        key = (names[1], kind)
        found = self.cache.get(key)
        if not isinstance(found, Slice):
            found = self._put(key, [_of_type(self._index.about(names) or [], kind)])
        return found

    def _for_every_principal(
        self, key: Hashable, names: tuple[str, ...], kind: str, spots: tuple[Uid, ...]
    ) -> Slice | _ByPrincipal:
        chosen: list[Scoped] = []
        for spot in (None, *reversed(spots)):
            for one in self._index.at(spot, names, kind):
                chosen.append(one)
                if len(chosen) > FRAGMENT:
                    self.cache.put(key, _BY_PRINCIPAL)
                    return _BY_PRINCIPAL
        return self._put(key, [chosen])

    def _for_principal(
        self, key: Hashable, names: tuple[str, ...], kind: str, spots: tuple[Uid, ...], named: frozenset[Uid]
    ) -> Slice:
        wide = self._wide(names, kind, named)
        near = [self._concerning(spot, names, kind, named) for spot in reversed(spots)]
        if not wide.whole.sets:
            return self._put(key, pack([list(wide.policies), *near]))
        fragments = [fragment for fragment in pack(near) if fragment]
        handles = tuple(self.cache.handle(fragment) for fragment in fragments)
        found = Slice(
            sets=(*wide.whole.sets, *handles),
            literals=wide.whole.literals.union(*(_literals(fragment) for fragment in fragments)),
        )
        self.cache.put(key, found, found.sets, entities=len(found.literals) + len(named))
        return found

    def _wide(self, names: tuple[str, ...], kind: str, named: frozenset[Uid]) -> _Wide:
        key = (names[1], kind, _WIDE, named)
        found = self.cache.get(key)
        if not isinstance(found, _Wide):
            chosen = self._concerning(None, names, kind, named)
            common = [one for one in chosen if one.principal is None]
            special = [one for one in chosen if one.principal is not None]
            handles: tuple[PolicySetHandle, ...] = ()
            if len(chosen) > MERGED:
                handles = tuple(self.cache.handle(part) for part in pack_shared(common, special))
            found = _Wide(
                policies=() if handles else tuple(chosen),
                whole=Slice(sets=handles, literals=_literals(chosen)),
            )
            self.cache.put(key, found, handles, entities=len(found.whole.literals) + len(named))
        return found

    def _concerning(
        self, spot: Spot, names: tuple[str, ...], kind: str, named: frozenset[Uid]
    ) -> list[Scoped]:
        return [one for one in self._index.at(spot, names, kind) if _concerns(one, named)]

    def _put(self, key: Hashable, fragments: Sequence[Sequence[Scoped]]) -> Slice:
        handles = tuple(self.cache.handle(fragment) for fragment in fragments)
        found = Slice(
            sets=handles, literals=frozenset[Uid]().union(*(_literals(fragment) for fragment in fragments))
        )
        self.cache.put(key, found, handles, entities=len(found.literals))
        return found


def pack(cells: Iterable[list[Scoped]]) -> list[list[Scoped]]:
    """Cells in order, gathered into fragments; at least one, which may be empty.

    Cells that are shared by more questions come first, so that the fragments they fill are shared too.
    """
    fragments: list[list[Scoped]] = []
    current: list[Scoped] = []
    for cell in cells:
        if len(cell) > FRAGMENT:
            fragments += [cell[start : start + BLOCK] for start in range(0, len(cell), BLOCK)]
        elif len(current) + len(cell) > FRAGMENT:
            fragments.append(current)
            current = list(cell)
        else:
            current = current + cell
    if current or not fragments:
        fragments.append(current)
    return fragments


def pack_shared(common: list[Scoped], special: list[Scoped]) -> list[list[Scoped]]:
    """Fragments of policies about everybody, and of those about some: a set of the first serves everybody."""
    if len(common) > MERGED:
        return [*pack([common]), *(part for part in pack([special]) if part)]
    return pack([common, special])


def build_set(policies: Sequence[Scoped]) -> Any:
    """A Cedar policy set under the authors' own ids, in which rules that ask are permits.

    Cedar names the permits that hold only where no forbid does, which is exactly when asking rules are
    asked. So one evaluation tells all there is to know: the forbids that hold, or else which permits and
    which asking rules do. That a rule which asks allows nothing is the reader's to know: `findings`.
    """
    trees = {one.policy.id: _as_permit(one) for one in policies}
    return cedarpy.PolicySet.from_pst(pst.PolicySet(templates={}, static_policies=trees, template_links=()))


def _as_permit(scoped: Scoped) -> pst.Template:
    tree = scoped.policy.tree
    return replace(tree, effect="permit") if scoped.asks else tree


def _concerns(scoped: Scoped, named: frozenset[Uid]) -> bool:
    """Whether the principal scope could hold for a principal that has just these names, of whatever type."""
    return scoped.principal is None or scoped.principal in named


def _of_type(policies: Iterable[Scoped], kind: str) -> list[Scoped]:
    return [one for one in policies if one.resource_type is None or one.resource_type == kind]


def _literals(policies: Iterable[Scoped]) -> frozenset[Uid]:
    return frozenset(literal for one in policies for literal in one.literals)
