"""Reservations in a database: they outlast the process, go with a failed transaction, and do not pile up."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from authz.errors import StoreUnavailable
from authz.model.limit import LimitReached, Reservation
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.store.keys import ServiceKeys
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.store.world import QUIET, Clock, event, open_watched

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
