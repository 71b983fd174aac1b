"""Reservations in a database: they outlast the process, go with a failed transaction, and do not pile up."""

import asyncio
import contextlib
import dataclasses
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from authz.errors import StoreUnavailable
from authz.model.limit import LimitReached, Reservation
from authz.model.record import CommitOutcome, Committed
from authz.ports import CommitUnit
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.store.durable import DurableStore
from tests.store.world import QUIET, Clock, WatchedConnection, event, open_watched

MINUTE_MS = 60_000


def unit(number: int, key: str = "a", *, cap: int = 2, window_ms: int = MINUTE_MS) -> CommitUnit:
    taken = Reservation(
        tenant="default",
        limit="some-limit",
        key=key,
        partition=(),
        amount=1,
        cap=cap,
        window_ms=window_ms,
        expires_at_ms=0,
    )
    return CommitUnit(event=event(number), reservations=(taken,))


def rows(path: Path, table: str) -> int:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()
    return int(count)


async def test_they_outlast_the_process(tmp_path: Path) -> None:
    clock, signer = Clock(step_ms=0), ServiceKeys.generate()
    for number in (1, 2):
        async with SqliteLedger.open(tmp_path / "authz.db", clock=clock, signer=signer) as ledger:
            assert isinstance(await ledger.commit(unit(number)), Committed)
    async with SqliteLedger.open(tmp_path / "authz.db", clock=clock, signer=signer) as ledger:
        assert isinstance(await ledger.commit(unit(3)), LimitReached)
        clock.at_ms += MINUTE_MS
        assert isinstance(await ledger.commit(unit(4)), Committed)


async def test_what_was_not_committed_was_not_taken(tmp_path: Path) -> None:
    ledger, watched = open_watched(tmp_path / "authz.db")
    async with ledger:
        watched.fail_before_commit = 1
        with pytest.raises(StoreUnavailable):
            await ledger.commit(unit(1, cap=1))
        assert isinstance(await ledger.commit(unit(2, cap=1)), Committed)


async def test_what_may_have_been_committed_was_taken(tmp_path: Path) -> None:
    """The answer was withheld, but the record stands, and so does what it took."""
    ledger, watched = open_watched(tmp_path / "authz.db")
    async with ledger:
        watched.fail_after_commit = 1
        with pytest.raises(StoreUnavailable):
            await ledger.commit(unit(1, cap=1))
        assert isinstance(await ledger.commit(unit(2, cap=1)), LimitReached)


async def test_a_failed_batch_leaves_the_counters_of_all_its_units(tmp_path: Path) -> None:
    ledger, watched = open_watched(tmp_path / "authz.db")
    async with ledger:
        watched.hold()
        first = asyncio.ensure_future(ledger.commit(CommitUnit(event=event(0))))
        await asyncio.to_thread(watched.at_commit.wait, 10)
        batch = [asyncio.ensure_future(ledger.commit(unit(number, cap=3))) for number in range(1, 6)]
        await asyncio.sleep(0)
        watched.release()
        assert isinstance(await first, Committed)
        outcomes = await asyncio.gather(*batch)
        assert [isinstance(outcome, Committed) for outcome in outcomes] == [True] * 3 + [False] * 2


async def test_nothing_grows_for_ever(tmp_path: Path) -> None:
    """Counters of sessions that never come back go as well, a few with each commit that has a limit."""
    path, clock = tmp_path / "authz.db", Clock(step_ms=0)
    async with SqliteLedger.open(path, clock=clock, signer=ServiceKeys.generate(), limits=QUIET) as ledger:
        for number in range(300):
            assert isinstance(await ledger.commit(unit(number, f"session-{number}")), Committed)
        assert (rows(path, "limit_counters"), rows(path, "limit_reservations")) == (300, 300)

        clock.at_ms += 60 * MINUTE_MS
        for number in range(40):
            assert isinstance(await ledger.commit(unit(1000 + number, cap=100)), Committed)
        assert (rows(path, "limit_counters"), rows(path, "limit_reservations")) == (1, 40)

        clock.at_ms += MINUTE_MS
        assert isinstance(await ledger.commit(unit(2000, cap=100)), Committed)
        assert rows(path, "limit_reservations") == 1


async def test_replicas_share_their_counters(postgres_url: str, tmp_path: Path) -> None:
    """Two writers of one database, each with its own chain: exactly the cap, whoever asks."""
    url = PostgresUrl.parse(postgres_url)
    signer, clock = ServiceKeys.generate(), Clock(step_ms=0)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    ledgers = [
        PostgresLedger.open(url, folder, clock=clock, signer=signer, limits=QUIET) for folder in folders
    ]
    try:
        assert len({ledger.writer for ledger in ledgers}) == 2
        wanted = [
            ledger.commit(unit(number * 10 + index, "x", cap=25))
            for number in range(40)
            for index, ledger in enumerate(ledgers)
        ]
        outcomes = await asyncio.gather(*wanted)
    finally:
        for ledger in ledgers:
            await ledger.close()
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 25
    assert sum(isinstance(outcome, LimitReached) for outcome in outcomes) == 55


def many(number: int, keys: Sequence[str], *, cap: int, only_checked: bool = False) -> CommitUnit:
    reservations = tuple(reservation for key in keys for reservation in unit(0, key, cap=cap).reservations)
    return CommitUnit(event=event(number), reservations=reservations, only_checked=only_checked)


async def commit_together(
    ledger: DurableLedger, watched: WatchedConnection, units: Sequence[CommitUnit]
) -> list[CommitOutcome]:
    """Commit units that all wait for the same transaction, and count from there on."""
    watched.hold()
    first = asyncio.ensure_future(ledger.commit(CommitUnit(event=event(0))))
    await asyncio.to_thread(watched.at_commit.wait, 10)
    waiting = [asyncio.ensure_future(ledger.commit(each)) for each in units]
    await asyncio.sleep(0)
    watched.asked = 0
    watched.order.clear()
    watched.release()
    await first
    return await asyncio.gather(*waiting)


async def test_however_many_counters_are_full_the_database_is_asked_a_few_times(store: DurableStore) -> None:
    """Else one caller of many limits would hold up every other, in the one transaction that all wait for."""
    ledger, watched = store.open()
    async with ledger:
        keys = [f"key-{number}" for number in range(256)]
        fitting = [many(number, keys[number * 32 :][:32], cap=1) for number in range(8)]
        assert all(isinstance(each, Committed) for each in await commit_together(ledger, watched, fitting))
        asked_when_free = watched.asked
        outcomes = await commit_together(ledger, watched, fitting * 4)
        assert watched.order.count("begin") == 1
        assert all(isinstance(each, LimitReached) and len(each.reached) == 32 for each in outcomes)
    assert asked_when_free < 12
    assert watched.asked < 12


async def test_one_transaction_takes_a_bounded_number_of_counters(store: DurableStore) -> None:
    ledger, watched = store.open(limits=dataclasses.replace(QUIET, max_reservations=100))
    async with ledger:
        units = [many(number, [f"{number}-{key}" for key in range(30)], cap=1) for number in range(10)]
        outcomes = await commit_together(ledger, watched, units)
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert watched.order.count("begin") == 4, "three of thirty each time; none is left behind"


async def test_what_takes_nothing_makes_no_counter(tmp_path: Path) -> None:
    ledger, _ = open_watched(tmp_path / "authz.db")
    async with ledger:
        assert isinstance(await ledger.commit(many(1, ["a", "b"], cap=1, only_checked=True)), Committed)
        assert isinstance(await ledger.commit(many(2, ["a", "b"], cap=0)), LimitReached)
        assert rows(tmp_path / "authz.db", "limit_counters") == 0
        assert isinstance(await ledger.commit(many(3, ["a"], cap=1)), Committed)
        assert rows(tmp_path / "authz.db", "limit_counters") == 1


async def test_a_default_that_reads_the_past_admits_no_more(postgres_url: str, tmp_path: Path) -> None:
    """`repeatable read` would show each what was there before it waited for the other."""
    url = PostgresUrl.parse(postgres_url)
    with contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as admin:
        name = admin.info.dbname
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'".encode())
    signer, clock = ServiceKeys.generate(), Clock(step_ms=0)
    async with (
        PostgresLedger.open(url, tmp_path, clock=clock, signer=signer, limits=QUIET) as one,
        PostgresLedger.open(url, tmp_path, clock=clock, signer=signer, limits=QUIET) as other,
    ):
        wanted = [ledger.commit(unit(number, "x", cap=10)) for number in range(30) for ledger in (one, other)]
        outcomes = await asyncio.gather(*wanted)
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 10
    assert sum(isinstance(outcome, LimitReached) for outcome in outcomes) == 50
