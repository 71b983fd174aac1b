"""Reservations under the bundle's limits, compared and written in the commit's own transaction.

All counters that a batch needs are locked before anything of it is written, in the order of their keys,
so that two writers never wait for each other. Whether a unit fits is then arithmetic, and a unit that does
not leaves nothing behind that would have to be undone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from authz.core.limits import CLOCK_HOLD_MS, counter_time
from authz.errors import StoreUnavailable
from authz.model.limit import LimitReached, Reached, Reservation
from authz.ports import CommitUnit
from authz.store.limit_statements import LimitStatements
from authz.store.write_connection import SqlValue, WriteConnection

PRUNED_AT_ONCE: Final = 256
"""Ended reservations that one look at a counter takes away, unless it would be full otherwise."""
WALKED_AT_MOST: Final = 4096
"""Reservations that are looked at to tell when a call that was refused may come again."""
SWEPT_AT_ONCE: Final = 16
"""Counters that a commit with reservations looks over; and two for each counter that it needs itself."""


@dataclass(slots=True, kw_only=True)
class _Counter:
    """A counter whose row this transaction has locked."""

    key: str
    used: int
    until_ms: int
    now_ms: int
    """The time that it is judged at."""
    changed: bool = False


class LimitCounters:
    """The counters that one batch needs, for the length of its transaction."""

    def __init__(
        self,
        connection: WriteConnection,
        statements: LimitStatements,
        units: Iterable[CommitUnit],
        now_ms: int,
    ) -> None:
        """Lock them. `now_ms` is when the batch is recorded."""
        self._connection = connection
        self._sql = statements
        self._now_ms = now_ms
        self._unwritten: list[Sequence[SqlValue]] = []
        """Reservations that were taken and are not yet in the database."""
        wanted = {taken.key: taken for unit in units for taken in unit.reservations}
        self._counters = {key: self._lock(wanted[key]) for key in sorted(wanted)}

    def check(self, reservations: Sequence[Reservation]) -> LimitReached | None:
        """Whether all of them fit at once; `None` when they do. Changes nothing that counts."""
        reached: list[Reached] = []
        for taken in reservations:
            counter = self._counters[taken.key]
            while counter.used + taken.amount > taken.cap and self._prune(counter):
                pass
            if counter.used + taken.amount > taken.cap:
                reached.append(Reached(key=taken.key, frees_at_ms=self._frees_at(counter, taken)))
        return LimitReached(reached=tuple(reached)) if reached else None

    def take(self, reservations: Sequence[Reservation], decision_id: str) -> None:
        """Take what has just been found to fit."""
        for taken in reservations:
            counter = self._counters[taken.key]
            until_ms = counter.now_ms + taken.window_ms if taken.window_ms else taken.expires_at_ms
            self._unwritten.append((taken.key, until_ms, decision_id, taken.amount))
            counter.used += taken.amount
            counter.until_ms = max(counter.until_ms, until_ms)
            counter.changed = True

    def write(self, swept_to: str) -> str:
        """Write what the counters have come to, and sweep on from `swept_to`; where to go on next time."""
        if not self._counters:
            return swept_to
        self._flush()
        for counter in self._counters.values():
            if counter.changed:
                row = (counter.used, counter.until_ms, counter.now_ms, counter.key)
                self._connection.execute(self._sql.move_counter, row)
        return self._sweep(swept_to)

    def _sweep(self, after_key: str) -> str:
        """Take away counters that are over: the next few in the order of keys, and again from the start."""
        most = SWEPT_AT_ONCE + 2 * len(self._counters)
        rows = self._connection.fetch_all(self._sql.select_sweep, (after_key, most))
        for row in rows:
            key, used, until_ms = str(row[0]), _integer(row[1]), _integer(row[2])
            # One that is over stays as long as the clock may go back: it knows when it was judged last.
            if until_ms + CLOCK_HOLD_MS > self._now_ms:
                continue
            counter = _Counter(key=key, used=used, until_ms=until_ms, now_ms=self._now_ms)
            if not self._prune(counter) or counter.used == 0:
                self._connection.execute(self._sql.delete_counter, (key,))
            else:
                row_now = (counter.used, counter.until_ms, counter.now_ms, key)
                self._connection.execute(self._sql.move_counter, row_now)
        return str(rows[-1][0]) if len(rows) == most else ""

    def _lock(self, taken: Reservation) -> _Counter:
        row = self._connection.fetch_one(
            self._sql.lock_counter, (taken.key, taken.tenant, taken.limit, 0, 0, 0)
        )
        if row is None:
            raise StoreUnavailable("a counter of a limit cannot be locked")
        used, until_ms, seen_ms = map(_integer, row)
        counter = _Counter(
            key=taken.key, used=used, until_ms=until_ms, now_ms=counter_time(self._now_ms, seen_ms)
        )
        if counter.now_ms < seen_ms and taken.window_ms:
            # The clock was ahead before. What was reserved then counts for its window from now on.
            latest_ms = counter.now_ms + taken.window_ms
            self._connection.execute(self._sql.shorten, (latest_ms, taken.key, latest_ms))
            counter.until_ms = min(counter.until_ms, latest_ms)
            counter.changed = True
        if used:
            self._prune(counter)
        return counter

    def _prune(self, counter: _Counter) -> bool:
        """Take away ended reservations, a bounded number; False when there were none."""
        # What this batch has taken has not ended, unless its decision had when it came to be committed.
        self._flush()
        ended = self._connection.fetch_all(
            self._sql.select_ended, (counter.key, counter.now_ms, PRUNED_AT_ONCE)
        )
        if not ended:
            return False
        last = ended[-1]
        self._connection.execute(self._sql.delete_ended, (counter.key, last[0], last[1]))
        counter.used -= sum(_integer(row[2]) for row in ended)
        counter.changed = True
        return True

    def _flush(self) -> None:
        if self._unwritten:
            self._connection.execute_many(self._sql.insert_reservation, self._unwritten)
            self._unwritten = []

    def _frees_at(self, counter: _Counter, taken: Reservation) -> int | None:
        """When `taken` fits if nothing else is reserved before; `None` when it is more than the cap.

        Where that is beyond `WALKED_AT_MOST` reservations (a cap that was lowered far), no earlier than this.
        """
        if taken.amount > taken.cap:
            return None
        self._flush()
        over = counter.used + taken.amount - taken.cap
        until_ms: SqlValue = -1
        decision_id: SqlValue = ""
        for _ in range(0, WALKED_AT_MOST, PRUNED_AT_ONCE):
            # Each takes one at least, so no more rows than are over can matter.
            most = min(over, PRUNED_AT_ONCE)
            rows = self._connection.fetch_all(self._sql.select_next, (taken.key, until_ms, decision_id, most))
            for row in rows:
                until_ms, decision_id = row[0], row[1]
                over -= _integer(row[2])
                if over <= 0:
                    return _integer(until_ms)
            if len(rows) < most:
                raise StoreUnavailable("a counter of a limit is not the sum of its reservations")
        return _integer(until_ms)


def _integer(value: SqlValue) -> int:
    if type(value) is not int:
        raise StoreUnavailable("a counter of a limit is not a number")
    return value
