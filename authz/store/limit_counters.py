"""Reservations under limits and budgets, compared, written and given back in the commit's own transaction.

All counters that a batch needs are read and locked by one statement before anything of it is written, in
the order of their keys, so that two writers never wait for each other. Whether a unit fits is then
arithmetic, and a unit that does not leaves nothing behind that would have to be undone. However many
counters there are, a batch asks a server a fixed number of times.
"""

import json
from collections.abc import Container, Iterable, Sequence
from typing import Final

from authz.core.limits import CLOCK_HOLD_MS, counter_time
from authz.errors import StoreUnavailable
from authz.model.limit import LimitReached, Reached, Reservation
from authz.ports import CommitUnit
from authz.store.limit_counter import Counter, Entry, integer
from authz.store.limit_releases import HeldReservations
from authz.store.limit_statements import LimitStatements
from authz.store.write_connection import SqlRow, SqlValue, WriteConnection

PRUNED_AT_ONCE: Final = 256
"""Ended reservations that one look takes away: of all counters of a batch, or of one that is full."""
READ_AHEAD: Final = 8
"""Reservations of a full counter that are read together with those of the others."""
WALKED_AT_MOST: Final = 4096
"""Reservations that are looked at to tell when a call that was refused may come again."""
SWEPT_AT_ONCE: Final = 16
"""Counters that a commit with reservations looks over; and two for each counter that it needs itself."""


class LimitCounters:
    """The counters that one batch needs, for the length of its transaction."""

    def __init__(
        self,
        connection: WriteConnection,
        statements: LimitStatements,
        units: Sequence[CommitUnit],
        now_ms: int,
    ) -> None:
        """Lock them. `now_ms` is when the batch is recorded."""
        self._connection = connection
        self._sql = statements
        self._now_ms = now_ms
        wanted: dict[str, list[Reservation]] = {}
        for unit in units:
            for taken in unit.reservations:
                wanted.setdefault(taken.key, []).append(taken)
        self._held = HeldReservations(connection, statements, units)
        self._counters = self._lock(wanted) if wanted or self._held.keys else {}
        self._prune_some(wanted)
        self._held.find_again()
        self._make_ready(
            [
                counter
                for key, counter in self._counters.items()
                if _may_be_full(counter, wanted.get(key, ()))
            ],
            wanted,
        )

    def check(self, reservations: Sequence[Reservation]) -> LimitReached | None:
        """Whether all of them fit at once; `None` when they do. Changes nothing that counts."""
        reached: list[Reached] = []
        for taken in reservations:
            counter = self._counters[taken.key]
            if counter.used + taken.amount > taken.cap:
                reached.append(Reached(key=taken.key, frees_at_ms=self._frees_at(counter, taken)))
        return LimitReached(reached=tuple(reached)) if reached else None

    def take(self, reservations: Sequence[Reservation], decision_id: str) -> None:
        """Take what has just been found to fit."""
        for taken in reservations:
            counter = self._counters[taken.key]
            until_ms = counter.now_ms + taken.length_ms(self._now_ms)
            if until_ms <= counter.now_ms:
                continue  # the decision ended before it came to be committed
            counter.take(until_ms, decision_id, taken.amount)

    def release(self, decision_id: str, tenant: str) -> None:
        """Give back what that decision of that tenant holds. Judges nothing: the counters' times stay."""
        for held in self._held.give_back(decision_id, tenant):
            self._counters[held.key].give_back(held)
        for counter in self._counters.values():
            if counter.tenant == tenant:
                counter.give_back_taken(decision_id)

    def write(self, swept_to: str) -> str:
        """Write what the counters have come to, and sweep on from `swept_to`; where to go on next time."""
        if not self._counters:
            return swept_to
        self._held.write()
        reservations = [
            (counter.key, *taken) for counter in self._counters.values() for taken in counter.taken
        ]
        if reservations:
            self._connection.execute_many(self._sql.insert_reservation, reservations)
        changed = [counter for counter in self._counters.values() if counter.changed]
        new = [
            (counter.key, counter.tenant, counter.limit, counter.used, counter.until_ms, counter.now_ms)
            for counter in changed
            if counter.is_new
        ]
        if new:
            self._connection.execute_many(self._sql.insert_counter, new)
        self._move([counter for counter in changed if not counter.is_new])
        return self._sweep(swept_to)

    def _move(self, counters: Sequence[Counter]) -> None:
        rows = [(each.used, each.until_ms, each.now_ms, each.key) for each in counters]
        if rows:
            self._connection.execute_many(self._sql.move_counter, rows)

    def _sweep(self, after_key: str) -> str:
        """Take away counters that are over: the next few in the order of keys, and again from the start."""
        most = SWEPT_AT_ONCE + 2 * len(self._counters)
        rows = self._connection.fetch_all(self._sql.select_sweep, (after_key, most))
        over = [
            Counter(
                key=str(key),
                now_ms=self._now_ms,
                used=integer(used),
                until_ms=integer(until_ms),
            )
            for key, used, until_ms in rows
            # One that is over stays as long as the clock may go back: it knows when it was judged last.
            if integer(until_ms) + CLOCK_HOLD_MS <= self._now_ms
        ]
        self._prune([counter for counter in over if counter.used > 0])
        gone = [(counter.key,) for counter in over if counter.used == 0 or counter.is_pruned]
        if gone:
            self._connection.execute_many(self._sql.delete_counter, gone)
        self._move([counter for counter in over if counter.used > 0 and not counter.is_pruned])
        return str(rows[-1][0]) if len(rows) == most else ""

    def _lock(self, wanted: dict[str, list[Reservation]]) -> dict[str, Counter]:
        """The counters as they are. One that does not exist is made when something is taken of it."""
        keys = sorted({*wanted, *self._held.keys})
        rows = self._connection.fetch_all(self._sql.lock_counters, (json.dumps(keys),))
        found = {str(row[0]): row for row in rows}
        counters: dict[str, Counter] = {}
        ahead: list[tuple[Counter, int]] = []
        for key in keys:
            counter = counters[key] = Counter(key=key, now_ms=self._now_ms)
            if key in wanted:
                counter.tenant, counter.limit = wanted[key][0].tenant, wanted[key][0].limit
            if key in found:
                counter.used, counter.until_ms, seen_ms = map(integer, found[key][1:])
                counter.is_new, counter.now_ms = False, seen_ms
                if key in wanted:
                    counter.now_ms = counter_time(self._now_ms, seen_ms)
                if counter.now_ms < seen_ms:
                    ahead.append((counter, seen_ms))
            if counter.used == 0:
                counter.is_pruned = counter.is_read = True
        for counter, seen_ms in ahead:
            self._go_back(counter, wanted[counter.key], seen_ms)
        return counters

    def _go_back(self, counter: Counter, wanted: Sequence[Reservation], seen_ms: int) -> None:
        """The clock was ahead before: what was reserved then must not hold for as long as it was."""
        counter.changed = True
        window_ms = max(taken.window_ms for taken in wanted)
        if window_ms:
            # It counts for its window from now on.
            latest_ms = counter.now_ms + window_ms
            self._connection.execute(self._sql.shorten, (latest_ms, counter.key, latest_ms))
            counter.until_ms = min(counter.until_ms, latest_ms)
        else:
            # How long each had left when the counter was judged last, it has at most. But none ends before
            # what is asked for now would: where all end with a capability, that end stays where it is.
            ahead_ms, latest_ms = seen_ms - counter.now_ms, max(taken.expires_at_ms for taken in wanted)
            values = (ahead_ms, latest_ms, ahead_ms, latest_ms, counter.key, latest_ms)
            self._connection.execute(self._sql.shift, values)
            counter.until_ms = max(counter.until_ms - ahead_ms, min(counter.until_ms, latest_ms))

    def _prune_some(self, wanted: Container[str]) -> None:
        """Take away ended reservations of all counters together, so that they do not pile up."""
        used = [counter for key, counter in self._counters.items() if counter.used > 0 and key in wanted]
        if not used:
            return
        keys = json.dumps([counter.key for counter in used])
        rows = self._connection.fetch_all(self._sql.select_some_ended, (keys, self._now_ms, PRUNED_AT_ONCE))
        for row in rows:
            counter = self._counters[str(row[0])]
            counter.used -= integer(row[3])
            counter.changed = True
        if rows:
            self._connection.execute_many(self._sql.remove_reservation, [row[:3] for row in rows])
        for counter in used:
            counter.is_pruned |= len(rows) < PRUNED_AT_ONCE and counter.now_ms == self._now_ms

    def _make_ready(self, crowded: list[Counter], wanted: dict[str, list[Reservation]]) -> None:
        """Make exact what may be full, and read what its refusals will need: a few requests for all."""
        left = crowded
        while left := [
            counter
            for counter in left
            if not counter.is_pruned and _may_be_full(counter, wanted[counter.key])
        ]:
            self._prune(left)
        unread = [counter for counter in crowded if not counter.is_read]
        pages = self._fetch_each(
            self._sql.select_next, [(counter.key, -1, "", READ_AHEAD) for counter in unread]
        )
        for counter, page in zip(unread, pages, strict=True):
            counter.add_page(page, READ_AHEAD)

    def _prune(self, counters: Sequence[Counter]) -> None:
        """Take away ended reservations of each, a bounded number."""
        pages = self._fetch_each(
            self._sql.select_ended, [(counter.key, counter.now_ms, PRUNED_AT_ONCE) for counter in counters]
        )
        ended: list[Sequence[SqlValue]] = []
        for counter, page in zip(counters, pages, strict=True):
            counter.is_pruned = len(page) < PRUNED_AT_ONCE
            if page:
                ended.append((counter.key, page[-1][0], page[-1][1]))
                counter.used -= sum(integer(row[2]) for row in page)
                counter.changed = True
        if ended:
            self._connection.execute_many(self._sql.delete_ended, ended)

    def _fetch_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[list[SqlRow]]:
        return self._connection.fetch_each(sql, rows) if rows else []

    def _frees_at(self, counter: Counter, taken: Reservation) -> int | None:
        """When `taken` fits if nothing else is reserved before; `None` when it is more than the cap.

        Where that is beyond `WALKED_AT_MOST` reservations (a cap that was lowered far), no earlier than this.
        """
        if taken.amount > taken.cap:
            return None
        over = counter.used + taken.amount - taken.cap
        until_ms = counter.now_ms
        own = iter(counter.taken)
        next_own = next(own, None)
        for place in range(WALKED_AT_MOST):
            stored = self._stored_at(counter, place)
            while next_own is not None and (stored is None or next_own < stored):
                until_ms, over, next_own = next_own[0], over - next_own[2], next(own, None)
                # Whatever is left ends with the last: so all of a capability's, which may be very many.
                if over <= 0 or until_ms == counter.until_ms:
                    return until_ms
            if stored is None:
                raise StoreUnavailable("a counter of a limit is not the sum of its reservations")
            until_ms, over = stored[0], over - stored[2]
            if over <= 0 or until_ms == counter.until_ms:
                return until_ms
        return until_ms

    def _stored_at(self, counter: Counter, place: int) -> Entry | None:
        while place >= len(counter.stored) and not counter.is_read:
            values = (counter.key, *counter.read_to, PRUNED_AT_ONCE)
            counter.add_page(self._connection.fetch_all(self._sql.select_next, values), PRUNED_AT_ONCE)
        return counter.stored[place] if place < len(counter.stored) else None


def _may_be_full(counter: Counter, wanted: Sequence[Reservation]) -> bool:
    return bool(wanted) and counter.used + _sum(wanted) > min(taken.cap for taken in wanted)


def _sum(reservations: Iterable[Reservation]) -> int:
    return sum(taken.amount for taken in reservations)
