"""One counter of a limit or budget, as a transaction that has locked it knows it."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from authz.errors import StoreUnavailable
from authz.store.limit_releases import Held
from authz.store.write_connection import SqlRow, SqlValue

Entry = tuple[int, str, int]
"""(until_ms, decision id, amount) of a reservation: their order."""


@dataclass(slots=True, kw_only=True)
class Counter:
    """A counter that this transaction has locked."""

    key: str
    tenant: str = ""
    limit: str = ""
    now_ms: int
    """The time that it is judged at."""
    used: int = 0
    until_ms: int = 0
    """When the last of its reservations ends, or later."""
    is_new: bool = True
    changed: bool = False
    is_pruned: bool = False
    """Nothing of it has ended: what is used is what counts."""
    stored: list[Entry] = field(default_factory=list)
    """Its first reservations in the database, in order."""
    read_to: tuple[int, str] = (-1, "")
    """How far `stored` was read: until_ms, decision id."""
    is_read: bool = False
    """`stored` is all of them."""
    taken: list[Entry] = field(default_factory=list)
    """Those that this batch has taken, in order."""
    given_back: set[tuple[int, str]] = field(default_factory=set)
    """Those that this batch gives back, though the database still has them: until_ms, decision id."""

    def take(self, until_ms: int, decision_id: str, amount: int) -> None:
        """One more reservation."""
        bisect.insort(self.taken, (until_ms, decision_id, amount))
        self.used += amount
        self.until_ms = max(self.until_ms, until_ms)
        self.changed = True

    def give_back(self, held: Held) -> None:
        """One less of those in the database."""
        self.used -= held.amount
        self.changed = True
        self.given_back.add((held.until_ms, held.decision_id))
        self.stored = [entry for entry in self.stored if entry[:2] not in self.given_back]

    def give_back_taken(self, decision_id: str) -> None:
        """Without what that decision has taken in this batch."""
        self.used -= sum(amount for _, by, amount in self.taken if by == decision_id)
        self.taken = [entry for entry in self.taken if entry[1] != decision_id]

    def add_page(self, page: Sequence[SqlRow], most: int) -> None:
        """The next reservations in the database, of which at most so many were asked for."""
        found = [(integer(row[0]), str(row[1]), integer(row[2])) for row in page]
        if found:
            self.read_to = found[-1][:2]
        self.stored += [entry for entry in found if entry[:2] not in self.given_back]
        self.is_read = len(page) < most


def integer(value: SqlValue) -> int:
    """A number of the store. Raises `StoreUnavailable`."""
    if type(value) is not int:
        raise StoreUnavailable("a counter of a limit is not a number")
    return value
