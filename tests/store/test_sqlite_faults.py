"""What SQLite does when its disk is full, its file locked, gone or cut off: refuse, then recover."""

import asyncio
import contextlib
import dataclasses
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from authz.errors import StoreUnavailable
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.sqlite_connection import SqliteWriteConnection, open_read_only
from tests.store.world import QUIET, WatchedConnection, event, open_watched, unit


def records_on_disk(path: Path) -> int:
    with contextlib.closing(open_read_only(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM events").fetchone()
    assert isinstance(count, int)
    return count


async def assert_sound(path: Path, keys: ServiceKeys, records: int) -> None:
    with LogSnapshot(path) as snapshot:
        report = verify_log(snapshot, keys.public_keys())
    assert report.findings == ()
    assert report.records == records


def fill_disk(connection: sqlite3.Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def free_disk(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1000000")


def forbid_writes(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


def allow_writes(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = OFF")


@pytest.mark.parametrize(
    ("harm", "heal"),
    [
        pytest.param(fill_disk, free_disk, id="disk full"),
        pytest.param(forbid_writes, allow_writes, id="read-only"),
    ],
)
async def test_a_store_that_fails_recovers(
    tmp_path: Path,
    harm: Callable[[sqlite3.Connection], None],
    heal: Callable[[sqlite3.Connection], None],
) -> None:
    path, keys = tmp_path / "authz.db", ServiceKeys.generate()
    ledger, connection = open_watched(path, signer=keys)
    assert isinstance(connection.inner, SqliteWriteConnection)
    async with ledger:
        await ledger.commit(unit(0))
        raw = connection.inner._connection
        assert raw is not None
        harm(raw)
        written = 1
        refused: BaseException | None = None
        for number in range(1, 200):  # the last page may still have room for a few
            (outcome,) = await asyncio.gather(ledger.commit(unit(number)), return_exceptions=True)
            if isinstance(outcome, StoreUnavailable):
                refused = outcome
                break
            written += 1
        assert isinstance(refused, StoreUnavailable)
        assert records_on_disk(path) == written

        heal(raw)
        after = await ledger.commit(unit(999))
        assert isinstance(after, Committed)
        assert after.sequence == written + 1
    await assert_sound(path, keys, written + 1)


@pytest.mark.parametrize("is_idle", [True, False], ids=["idle", "after a refusal"])
async def test_readiness_follows_the_store(tmp_path: Path, is_idle: bool) -> None:
    now = [0.0]
    ledger, connection = open_watched(tmp_path / "authz.db", monotonic=lambda: now[0])
    assert isinstance(connection.inner, SqliteWriteConnection)
    async with ledger:
        await ledger.commit(unit(0))
        assert await ledger.is_ready()
        raw = connection.inner._connection
        assert raw is not None
        forbid_writes(raw)
        if not is_idle:
            with pytest.raises(StoreUnavailable):
                await ledger.commit(unit(1))
        now[0] += 1
        assert not await ledger.is_ready()
        allow_writes(raw)
        assert not await ledger.is_ready(), "asked once a second"
        now[0] += 1
        assert await ledger.is_ready()
    now[0] += 1
    assert not await ledger.is_ready()


@pytest.mark.parametrize("recovers_by", ["probe", "commit"])
async def test_a_full_disk_is_not_ready_where_one_page_still_fits(tmp_path: Path, recovers_by: str) -> None:
    now = [0.0]
    path = tmp_path / "authz.db"
    ledger, _ = open_watched(path, monotonic=lambda: now[0])
    async with ledger:
        await ledger.commit(unit(0))
        assert await ledger.is_ready()
        wal_bytes = Path(f"{path}-wal").stat().st_size  # noqa: ASYNC240 - a look at a local file
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The kernel refuses to let the file grow by more than two pages, as a full disk does.
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal_bytes + 2 * 4120, before[1]))
        try:
            with pytest.raises(StoreUnavailable):
                await ledger.commit(unit(1))
            assert not await ledger.is_ready(), "at once, though it was ready within this second"
            now[0] += 1
            assert not await ledger.is_ready()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not await ledger.is_ready(), "asked once a second"
        if recovers_by == "commit":
            assert isinstance(await ledger.commit(unit(2)), Committed)
        now[0] += 1
        assert await ledger.is_ready()
    await assert_only_records(path, 2 if recovers_by == "commit" else 1)


async def assert_only_records(path: Path, records: int) -> None:
    with contextlib.closing(open_read_only(path)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM store_meta")}
    assert names == {"schema_version", "writer"}, "the probe's row is gone"
    assert records_on_disk(path) == records


async def test_an_idle_store_is_not_ready_when_a_record_does_not_fit(tmp_path: Path) -> None:
    now = [0.0]
    ledger, connection = open_watched(tmp_path / "authz.db", monotonic=lambda: now[0])
    assert isinstance(connection.inner, SqliteWriteConnection)
    async with ledger:
        raw = connection.inner._connection
        assert raw is not None
        fill_disk(raw)
        assert not await ledger.is_ready()
        free_disk(raw)
        now[0] += 1
        assert await ledger.is_ready()


async def test_a_batch_that_fails_although_a_small_one_fits(tmp_path: Path) -> None:
    now = [0.0]
    ledger, connection = open_watched(tmp_path / "authz.db", monotonic=lambda: now[0])
    assert isinstance(connection.inner, SqliteWriteConnection)
    large = dataclasses.replace(event(1), body=b'{"decision_id":"' + b"x" * 500_000 + b'"}')
    async with ledger:
        raw = connection.inner._connection
        assert raw is not None
        (pages,) = raw.execute("PRAGMA page_count").fetchone()
        raw.execute(f"PRAGMA max_page_count = {pages + 100}")
        assert await ledger.is_ready()
        with pytest.raises(StoreUnavailable):
            await ledger.commit(CommitUnit(event=large))
        assert not await ledger.is_ready(), "as much as was refused does not fit"
        assert isinstance(await ledger.commit(unit(2)), Committed)
        now[0] += 1
        assert await ledger.is_ready()


async def test_a_locked_database_refuses_and_recovers(tmp_path: Path) -> None:
    path, keys = tmp_path / "authz.db", ServiceKeys.generate()
    ledger, _ = open_watched(path, busy_timeout_ms=1, signer=keys)
    async with ledger:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
                await ledger.commit(unit(1))
            other.execute("ROLLBACK")
        assert isinstance(await ledger.commit(unit(2)), Committed)
    await assert_sound(path, keys, 1)


async def test_a_removed_database_takes_nothing(tmp_path: Path) -> None:
    ledger, _ = open_watched(tmp_path / "authz.db")
    async with ledger:
        await ledger.commit(unit(0))
        (tmp_path / "authz.db").rename(tmp_path / "gone.db")

        for number in (1, 2):
            with pytest.raises(StoreUnavailable) as refused:
                await ledger.commit(unit(number))
            assert refused.value.code == "store.replaced"


async def test_a_log_that_lost_its_end_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    ledger, _ = open_watched(path)
    async with ledger:
        await ledger.commit(unit(0))
        await ledger.commit(unit(1))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("DROP TRIGGER events_no_delete")
            (first_hash,) = other.execute("SELECT hash FROM events WHERE sequence = 1").fetchone()
            other.execute("DELETE FROM events WHERE sequence = 2")
            other.execute("UPDATE log_heads SET sequence = 1, hash = ?", (first_hash,))

        for number in (2, 3):
            with pytest.raises(StoreUnavailable) as refused:
                await ledger.commit(unit(number))
            assert refused.value.code == "log.corrupt"


def test_an_idle_watched_connection_passes_things_on(tmp_path: Path) -> None:
    # The double stands for the real connection, so it must not hide a method of it.
    real = {name for name in dir(SqliteWriteConnection) if not name.startswith("_")}
    assert real <= {name for name in dir(WatchedConnection) if not name.startswith("_")}
    assert QUIET.max_batch == 256
