"""The sets of policies that Cedar has parsed, kept within a bound on the policies that they hold.

The least recently used go first, one at a time: a caller who names ever new agents and resources pushes
out what nobody asks for, not what everybody does.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from authz.core.policy.scopes import Scoped

Entry = TypeVar("Entry")

ENTITIES_A_POLICY: Final = 64
"""That take as much memory, named in a set, as a policy does that Cedar has parsed."""


@dataclass(slots=True, eq=False)
class PolicySetHandle:
    """One set as Cedar has parsed it. Several entries can share it."""

    key: frozenset[int]
    """The numbers of its policies."""
    parsed: Any
    uses: int = 0
    """By how many entries it is held."""


class SetCache(Generic[Entry]):
    """Least recently used entries, each with the sets it holds. Not for two threads at once."""

    def __init__(
        self,
        build: Callable[[Sequence[Scoped]], Any],
        *,
        max_policies: int,
        max_entries: int,
    ) -> None:
        self._build = build
        self._max_policies = max_policies
        self._max_entries = max_entries
        self._entries: OrderedDict[Hashable, tuple[Entry, tuple[PolicySetHandle, ...], int]] = OrderedDict()
        self._handles: dict[frozenset[int], PolicySetHandle] = {}
        self.held = 0
        """Policies in all sets together; a set that is shared counts once. And what takes as much as they."""
        self.built = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Entry | None:
        """The entry of this key, which is then the most recently used."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def handle(self, policies: Sequence[Scoped]) -> PolicySetHandle:
        """The set of these policies: the same one for the same policies, as long as an entry holds it."""
        key = frozenset(one.number for one in policies)
        found = self._handles.get(key)
        if found is None:
            self.built += 1
            found = PolicySetHandle(key=key, parsed=self._build(policies))
        return found

    def put(
        self, key: Hashable, entry: Entry, handles: tuple[PolicySetHandle, ...] = (), *, entities: int = 0
    ) -> None:
        """Keep an entry with the sets that it needs. `entities` is how many it and its key name besides."""
        more = entities // ENTITIES_A_POLICY
        self.held += more
        for handle in handles:
            if handle.uses == 0:
                self._handles[handle.key] = handle
                self.held += len(handle.key)
            handle.uses += 1
        replaced = self._entries.pop(key, None)
        if replaced is not None:
            self._release(*replaced[1:])
        self._entries[key] = (entry, handles, more)
        # The newest stays in any case: it is about to be used.
        while len(self._entries) > 1 and (
            self.held > self._max_policies or len(self._entries) > self._max_entries
        ):
            _, (_, dropped, named) = self._entries.popitem(last=False)
            self._release(dropped, named)
            self.evicted += 1

    def _release(self, handles: tuple[PolicySetHandle, ...], more: int) -> None:
        self.held -= more
        for handle in handles:
            handle.uses -= 1
            if handle.uses == 0:
                del self._handles[handle.key]
                self.held -= len(handle.key)
