"""Counters of limits and budgets in memory: `authz.store.limit_counters` as plain lists, for tests."""

from dataclasses import dataclass, field

from authz.core.limits import counter_time
from authz.model.limit import LimitReached, Reached, Reservation


@dataclass(slots=True)
class _Counter:
    tenant: str
    seen_ms: int = 0
    live: list[tuple[int, str, int]] = field(default_factory=list)
    """(until_ms, decision id, amount) in order."""

    @property
    def used(self) -> int:
        return sum(amount for _, _, amount in self.live)


class MemoryLimits:
    """All counters. Nothing here gives way, so a check and the writing after it are one step."""

    def __init__(self) -> None:
        self._counters: dict[str, _Counter] = {}

    def check(self, reservations: tuple[Reservation, ...], now_ms: int) -> LimitReached | None:
        """Whether all of them fit at once; `None` when they do."""
        reached = []
        for taken in reservations:
            counter = self._counter_at(taken, now_ms)
            if counter.used + taken.amount > taken.cap:
                reached.append(Reached(key=taken.key, frees_at_ms=_frees_at(counter, taken)))
        return LimitReached(reached=tuple(reached)) if reached else None

    def take(self, reservations: tuple[Reservation, ...], decision_id: str, now_ms: int) -> None:
        """Keep reservations that have just been found to fit."""
        for taken in reservations:
            counter = self._counter_at(taken, now_ms)
            counter.seen_ms = counter_time(now_ms, counter.seen_ms)
            until_ms = counter.seen_ms + taken.length_ms(now_ms)
            if until_ms <= counter.seen_ms:
                continue
            counter.live.append((until_ms, decision_id, taken.amount))
            counter.live.sort()

    def release(self, decision_id: str, tenant: str) -> None:
        """Give back what that decision of that tenant holds."""
        for counter in self._counters.values():
            if counter.tenant == tenant:
                counter.live = [entry for entry in counter.live if entry[1] != decision_id]

    def used(self, key: str) -> int:
        """What is taken of a counter."""
        return self._counters[key].used if key in self._counters else 0

    def _counter_at(self, taken: Reservation, now_ms: int) -> _Counter:
        counter = self._counters.setdefault(taken.key, _Counter(taken.tenant))
        at_ms = counter_time(now_ms, counter.seen_ms)
        if at_ms < counter.seen_ms:
            ahead_ms = counter.seen_ms - at_ms
            counter.live = sorted(
                (_moved_back(until, taken, at_ms, ahead_ms), by, amount) for until, by, amount in counter.live
            )
            counter.seen_ms = at_ms
        live = [entry for entry in counter.live if entry[0] > at_ms]
        if len(live) < len(counter.live):
            counter.live, counter.seen_ms = live, at_ms
        return counter


def _moved_back(until_ms: int, taken: Reservation, now_ms: int, ahead_ms: int) -> int:
    """Where one ends whose counter was judged by a clock that was so far ahead, when `taken` is asked for."""
    if taken.window_ms:
        return min(until_ms, now_ms + taken.window_ms)
    return min(until_ms, max(until_ms - ahead_ms, taken.expires_at_ms))


def _frees_at(counter: _Counter, taken: Reservation) -> int | None:
    if taken.amount > taken.cap:
        return None
    over = counter.used + taken.amount - taken.cap
    for until_ms, _, amount in counter.live:
        over -= amount
        if over <= 0:
            return until_ms
    raise AssertionError("a counter that is full holds what fills it")
