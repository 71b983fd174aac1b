"""BU1: in every interleaving the reserved never exceeds the cap, and what ends is free, exactly once."""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authz.model.limit import LimitReached, Reservation
from authz.model.record import CommitOutcome, Committed, Conflict
from authz.ports import CommitUnit
from authz.store.commit_engine import CommitEngine
from authz.store.memory import MemoryLedger
from authz.store.sqlite_connection import STATEMENTS, SqliteWriteConnection
from tests.store.world import Clock, event, operation

CommitBatch = Callable[[Sequence[CommitUnit]], list[CommitOutcome]]
WINDOW_MS = 1000
NUMBERS = itertools.count(1)


@dataclass
class Stores:
    """The store in memory and the one that has SQL, beside one another under one clock."""

    clock: Clock
    batches: tuple[CommitBatch, ...]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    clock = Clock(step_ms=0)
    path: Path = tmp_path_factory.mktemp("limits") / "authz.db"
    connection = SqliteWriteConnection(path, busy_timeout_ms=5000)
    engine = CommitEngine(connection, STATEMENTS, writer="0123456789ab", clock=clock)
    engine.load()
    memory = MemoryLedger(clock=clock)

    def in_memory(units: Sequence[CommitUnit]) -> list[CommitOutcome]:
        async def commit() -> list[CommitOutcome]:
            return [await memory.commit(unit) for unit in units]

        return asyncio.run(commit())

    yield Stores(clock=clock, batches=(engine.commit_batch, in_memory))
    engine.close()


@dataclass(frozen=True)
class Wanted:
    """One decision: what it takes of a window and of slots, and whether its operation has moved."""

    amount: int
    ttl_ms: int
    conflicts: bool
    only_checked: bool


@dataclass
class Model:
    """Two counters told from first principles: everything that was ever allowed, and when it ends."""

    cap: int
    slots: int
    allowed: list[tuple[int, int, int]] = field(default_factory=list)
    """(end of the window, amount, end of the slot)."""

    def fits(self, wanted: Wanted, now_ms: int) -> bool:
        used = sum(amount for end, amount, _ in self.allowed if end > now_ms)
        open_slots = sum(1 for *_, end in self.allowed if end > now_ms)
        return used + wanted.amount <= self.cap and open_slots + 1 <= self.slots

    def frees_at_ms(self, wanted: Wanted, now_ms: int) -> int:
        """The first end at which the call would fit."""
        ends = {end for window_end, _, slot_end in self.allowed for end in (window_end, slot_end)}
        return min(end for end in ends if end > now_ms and self.fits(wanted, end))


WANTED = st.builds(
    Wanted,
    amount=st.integers(1, 3),
    ttl_ms=st.integers(1, 2500),
    conflicts=st.sampled_from([False, False, False, True]),
    only_checked=st.sampled_from([False, False, False, True]),
)
STEPS = st.lists(st.tuples(st.integers(0, 700), st.lists(WANTED, min_size=1, max_size=4)), max_size=12)


def unit(key: str, wanted: Wanted, now_ms: int, *, cap: int, slots: int) -> CommitUnit:
    number = next(NUMBERS)

    def taking(name: str, amount: int, most: int, window_ms: int) -> Reservation:
        return Reservation(
            tenant="default",
            limit=name,
            key=f"{key}-{name}",
            partition=(),
            amount=amount,
            cap=most,
            window_ms=window_ms,
            expires_at_ms=now_ms + wanted.ttl_ms,
        )

    return CommitUnit(
        event=event(number),
        operation=operation(f"op-{number}", expected_version=7 if wanted.conflicts else None),
        reservations=(taking("window", wanted.amount, cap, WINDOW_MS), taking("slots", 1, slots, 0)),
        only_checked=wanted.only_checked,
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cap=st.integers(3, 6), slots=st.integers(1, 4), steps=STEPS)
def test_every_store_answers_as_the_definition_does(
    stores: Stores, cap: int, slots: int, steps: list[tuple[int, list[Wanted]]]
) -> None:
    model, key = Model(cap=cap, slots=slots), f"k-{next(NUMBERS)}"
    for elapsed_ms, batch in steps:
        stores.clock.at_ms += elapsed_ms
        now_ms = stores.clock.at_ms
        units = [unit(key, wanted, now_ms, cap=cap, slots=slots) for wanted in batch]
        for outcomes in zip(batch, *(commit(units) for commit in stores.batches), strict=True):
            wanted, *answers = outcomes
            assert isinstance(wanted, Wanted)
            fits = model.fits(wanted, now_ms)
            for answer in answers:
                if not fits:
                    assert isinstance(answer, LimitReached)
                    frees = [reached.frees_at_ms or 0 for reached in answer.reached]
                    assert max(frees) == model.frees_at_ms(wanted, now_ms)
                else:
                    assert isinstance(answer, Conflict if wanted.conflicts else Committed)
            if fits and not wanted.conflicts and not wanted.only_checked:
                model.allowed.append((now_ms + WINDOW_MS, wanted.amount, now_ms + wanted.ttl_ms))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 600), st.sampled_from([0, 0, 0, 1, 300, 2000, 299_999, 400_000])),
        max_size=25,
    )
)
def test_a_clock_that_goes_back_never_widens_a_window(stores: Stores, steps: list[tuple[int, int]]) -> None:
    """By true time, which only the test knows: no span of the window's length has more than the cap."""
    key, cap, true_ms = f"k-{next(NUMBERS)}", 3, 0
    admitted: list[list[int]] = [[] for _ in stores.batches]
    for elapsed_ms, back_ms in steps:
        true_ms += elapsed_ms
        stores.clock.at_ms += elapsed_ms - back_ms
        wanted = Wanted(amount=1, ttl_ms=1, conflicts=False, only_checked=False)
        one = unit(key, wanted, stores.clock.at_ms, cap=cap, slots=10**6)
        for times, commit in zip(admitted, stores.batches, strict=True):
            if isinstance(commit([one])[0], Committed):
                times.append(true_ms)
    for times in admitted:
        for start in times:
            assert sum(start <= at_ms < start + WINDOW_MS for at_ms in times) <= cap
    # For the next example nothing of this one is ahead.
    stores.clock.at_ms += 10**7
