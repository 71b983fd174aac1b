"""An index over the action, principal and resource scopes of a bundle's policies.

Built once at load, its size is linear in the rules. A question is looked up by the names of its action, the
resource with its ancestors, and the principal with its groups; what is found is every policy whose scopes
could hold, and a little more: any superset is sound.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from authz.core.cedar_context import Reads
from authz.core.policy.scopes import ANY, Scoped, Uid
from authz.core.steps import Step, go_on, stepwise

Spot = Uid | None
"""Where in the hierarchy of resources a policy stands; `None` for those that name no resource."""


class PolicyIndex:
    """Finds the policies whose scopes could hold. Immutable."""

    def __init__(self, policies: Iterable[Scoped], step: Step = go_on) -> None:
        self.policies = tuple(policies)
        self._spots: dict[Spot, dict[str, list[Scoped]]] = {}
        self._by_action: dict[str, list[Scoped]] = {}
        reads: dict[str, dict[str, set[str] | None]] = {}
        for scoped in stepwise(self.policies, step):
            actions = self._spots.setdefault(scoped.resource, {})
            for name in scoped.actions:
                actions.setdefault(name, []).append(scoped)
                self._by_action.setdefault(name, []).append(scoped)
                _merge(reads.setdefault(name, {}), scoped.reads)
        self._reads = reads
        self.principals = frozenset(one.principal for one in self.policies if one.principal is not None)
        """Every agent and group that a principal scope names."""
        self.literals = frozenset(literal for one in self.policies for literal in one.literals)

    def spots(self, names: Collection[str], chain: Sequence[Uid]) -> tuple[Uid, ...]:
        """Those of a resource and its ancestors that a policy about these actions names."""
        table = self._spots
        return tuple(
            uid for uid in chain if (actions := table.get(uid)) and any(name in actions for name in names)
        )

    def at(self, spot: Spot, names: Iterable[str], resource_type: str) -> Iterator[Scoped]:
        """Policies at one spot about these actions and this type of resource, each once, in order."""
        actions = self._spots.get(spot)
        if not actions:
            return
        lists = [found for name in names if (found := actions.get(name))]
        chosen: Iterable[Scoped] = (
            lists[0]
            if len(lists) == 1
            else sorted({one for found in lists for one in found}, key=lambda one: one.number)
        )
        for one in chosen:
            if one.resource_type is None or one.resource_type == resource_type:
                yield one

    def about(self, names: Iterable[str], at_most: int | None = None) -> list[Scoped] | None:
        """Every policy about these actions, in order; `None` when there may be more than `at_most`."""
        lists = [found for name in names if (found := self._by_action.get(name))]
        if at_most is not None and max(map(len, lists), default=0) > at_most:
            return None
        return sorted({one for found in lists for one in found}, key=lambda one: one.number)

    def reads(self, names: Iterable[str]) -> Reads:
        """What any policy about these actions reads of the context: enough for every part of them."""
        found: dict[str, set[str] | None] = {}
        for name in names:
            _merge(found, self._reads.get(name, {}))
        return {
            field: None if members is None else frozenset(members) for field, members in sorted(found.items())
        }


def names_of(action: str, groups: Iterable[str]) -> tuple[str, ...]:
    """Under which names the policies about an action are to be found."""
    return (ANY, action, *groups)


def _merge(into: dict[str, set[str] | None], reads: "Reads | dict[str, set[str] | None]") -> None:
    for field, members in reads.items():
        if members is None:
            into[field] = None
        elif (known := into.setdefault(field, set())) is not None:
            known |= members
