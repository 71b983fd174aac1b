"""BU1 for budgets: what was taken of one and not given back never exceeds it, in every interleaving."""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authz.model.limit import LimitReached, Reservation
from authz.model.record import CommitOutcome, Committed
from authz.ports import CommitUnit
from authz.store.commit_engine import CommitEngine
from authz.store.memory import MemoryLedger
from authz.store.postgres_connection import STATEMENTS as POSTGRES_STATEMENTS
from authz.store.postgres_connection import PostgresWriteConnection, connect
from authz.store.postgres_schema import prepare_schema
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite_connection import STATEMENTS as SQLITE_STATEMENTS
from authz.store.sqlite_connection import SqliteWriteConnection
from tests.store.capability_world import DAY_MS, HOLD_MS, calling, releasing, spending
from tests.store.world import Clock
from tests.support.postgres import Postgres

CommitBatch = Callable[[Sequence[CommitUnit]], list[CommitOutcome]]
WINDOW_MS = 60_000
HOUR_MS = 3_600_000
NUMBERS = itertools.count(1)


@dataclass
class Stores:
    """Every store beside one another under one clock."""

    clock: Clock
    batches: tuple[CommitBatch, ...]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Stores]:
    clock = Clock(step_ms=0)
    path: Path = tmp_path_factory.mktemp("budgets") / "authz.db"
    file = SqliteWriteConnection(path, busy_timeout_ms=5000)
    local = CommitEngine(file, SQLITE_STATEMENTS, writer="0123456789ab", clock=clock)
    local.load()
    memory = MemoryLedger(clock=clock)

    def in_memory(units: Sequence[CommitUnit]) -> list[CommitOutcome]:
        async def commit() -> list[CommitOutcome]:
            return [await memory.commit(unit) for unit in units]

        return asyncio.run(commit())

    with postgres.database() as text:
        url = PostgresUrl.parse(text)
        with connect(url, part="test") as connection:
            prepare_schema(connection, migrate=True)
        session = PostgresWriteConnection(url)
        remote = CommitEngine(
            session, POSTGRES_STATEMENTS, writer="", clock=clock, claim_writer=session.claim_writer
        )
        remote.load()
        yield Stores(clock=clock, batches=(local.commit_batch, remote.commit_batch, in_memory))
        remote.close()
    local.close()


@dataclass(frozen=True)
class Take:
    """One call: what it takes of the budget of calls of each of two links, and of the rate of one."""

    child: int
    parent: int


@dataclass(frozen=True)
class GiveBack:
    """The reservations of an earlier decision, counted from the last one."""

    back: int


@dataclass
class Model:
    """Three counters told from first principles: what is held, by whom, and when it ends."""

    caps: dict[str, int]
    held: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """By decision and counter: (end, amount)."""

    def used(self, counter: str, now_ms: int) -> int:
        """What counts at a time."""
        found = (each.get(counter, (0, 0)) for each in self.held.values())
        return sum(amount for end, amount in found if end > now_ms)

    def frees_at_ms(self, wanted: Reservation, now_ms: int) -> int | None:
        """The first end at which it would fit."""
        if wanted.amount > wanted.cap:
            return None
        ends = {each[wanted.limit][0] for each in self.held.values() if wanted.limit in each}
        fitting = (
            end
            for end in sorted(ends)
            if end > now_ms and self.used(wanted.limit, end) + wanted.amount <= wanted.cap
        )
        return next(fitting)


ACTIONS = st.one_of(
    st.builds(Take, child=st.integers(1, 3), parent=st.integers(1, 3)),
    st.builds(GiveBack, back=st.integers(0, 6)),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 20_000, WINDOW_MS, HOLD_MS, DAY_MS // 2]),
        st.lists(ACTIONS, min_size=1, max_size=6),
    ),
    max_size=10,
)


def taking(key: str, take: Take, caps: dict[str, int], ends_ms: int) -> tuple[Reservation, ...]:
    def one(name: str, amount: int) -> Reservation:
        wanted = spending(f"{key}-{name}", amount=amount, cap=caps[name], ends_ms=ends_ms)
        return replace(wanted, limit=name)

    return (
        one("child", take.child),
        one("parent", take.parent),
        replace(one("rate", 1), window_ms=WINDOW_MS),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    caps=st.fixed_dictionaries(
        {"child": st.integers(2, 5), "parent": st.integers(2, 9), "rate": st.integers(1, 4)}
    ),
    lives_ms=st.sampled_from([WINDOW_MS // 2, DAY_MS, 3 * DAY_MS]),
    steps=STEPS,
)
def test_every_store_answers_as_the_definition_does(
    stores: Stores, caps: dict[str, int], lives_ms: int, steps: list[tuple[int, list[Take | GiveBack]]]
) -> None:
    model, key = Model(caps=caps), f"k-{next(NUMBERS)}"
    decisions: list[int] = []
    ends_ms = stores.clock.at_ms + lives_ms
    for elapsed_ms, actions in steps:
        stores.clock.at_ms += elapsed_ms
        now_ms = stores.clock.at_ms
        units: list[CommitUnit] = []
        expected: list[dict[str, int | None]] = []
        for action in actions:
            number = next(NUMBERS)
            if isinstance(action, GiveBack):
                given = decisions[-1 - action.back] if action.back < len(decisions) else 0
                units.append(releasing(number, given))
                model.held.pop(given, None)
                expected.append({})
                continue
            wanted = taking(key, action, caps, ends_ms)
            units.append(calling(number, *wanted))
            full = {
                each.key: model.frees_at_ms(each, now_ms)
                for each in wanted
                if model.used(each.limit, now_ms) + each.amount > each.cap
            }
            expected.append(full)
            if not full:
                decisions.append(number)
                model.held[number] = {
                    each.limit: (now_ms + each.window_ms if each.window_ms else ends_ms, each.amount)
                    for each in wanted
                }
        for commit in stores.batches:
            answers = commit(units)
            told = [
                {each.key: each.frees_at_ms for each in answer.reached}
                if isinstance(answer, LimitReached)
                else {}
                for answer in answers
            ]
            assert told == expected
    # For the next example nothing of this one is ahead.
    stores.clock.at_ms += 10 * DAY_MS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 600, HOUR_MS]),
            st.sampled_from([0, 0, -2000, -299_999, -400_000, 299_999, 400_000, 2 * HOUR_MS, 2 * HOUR_MS]),
            st.integers(0, 4),
        ),
        max_size=25,
    )
)
def test_no_clock_gives_a_budget_back(stores: Stores, steps: list[tuple[int, int, int]]) -> None:
    """By whatever clock, as long as it does not say that the link is over: each call counts until then."""
    key, cap, ends_ms = f"k-{next(NUMBERS)}", 2, stores.clock.at_ms + 4 * HOUR_MS
    true_ms = stores.clock.at_ms
    held: list[set[int]] = [set() for _ in stores.batches]
    for elapsed_ms, ahead_ms, given_back in steps:
        true_ms += elapsed_ms
        if true_ms >= ends_ms:
            break
        stores.clock.at_ms = min(true_ms + ahead_ms, ends_ms - 1)
        number = next(NUMBERS)
        wanted = calling(number, spending(key, cap=cap, ends_ms=ends_ms))
        for decisions, commit in zip(held, stores.batches, strict=True):
            gone = sorted(decisions)[given_back] if given_back < len(decisions) else None
            units = [wanted] if gone is None else [releasing(next(NUMBERS), gone), wanted]
            decisions.discard(gone or 0)
            if isinstance(commit(units)[-1], Committed):
                decisions.add(number)
            assert len(decisions) <= cap
    assert held[0] == held[1] == held[2]
    stores.clock.at_ms = true_ms + 10 * DAY_MS
