"""A server that hangs: its side of the socket lives on, it obeys no timeout, and it never answers."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from authz.errors import StoreUnavailable
from authz.model.record import Committed, EventQuery
from authz.store import postgres_connection, postgres_reads
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from tests.store.world import Clock, operation, unit

HASTY = CommitLimits(checkpoint_records=10**9, checkpoint_seconds=1e9, answer_seconds=0.3, close_seconds=0.3)
PATIENT = CommitLimits(checkpoint_records=10**9, checkpoint_seconds=1e9)
BOUND_SECONDS = 30.0
"""Far over what these tests take: whoever hangs fails here."""


@pytest.fixture
def url(postgres_url: str) -> PostgresUrl:
    return PostgresUrl.parse(postgres_url)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection, "ANSWER_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_MS", 200)


@contextlib.contextmanager
def stopped(postgres_url: str, part: str) -> Iterator[None]:
    """The sessions of one kind, standing still until the block is left."""
    with contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as admin:
        query = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
        )
        pids = [int(pid) for (pid,) in admin.execute(query, (f"authz {part}",))]
        assert pids
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def open_ledger(url: PostgresUrl, folder: Path, limits: CommitLimits) -> PostgresLedger:
    return PostgresLedger.open(url, folder, clock=Clock(), signer=ServiceKeys.generate(), limits=limits)


async def test_a_commit_is_given_up_and_the_store_comes_back(
    url: PostgresUrl, postgres_url: str, tmp_path: Path
) -> None:
    async with asyncio.timeout(BOUND_SECONDS), open_ledger(url, tmp_path, PATIENT) as ledger:
        await ledger.commit(unit(1))
        before = ledger.writer
        with stopped(postgres_url, "writer"):
            committed = await ledger.commit(unit(2))
            assert isinstance(committed, Committed), "over a new session: nothing was written by the old"
            assert ledger.writer != before, "whose lock on its chain is still held"
        assert isinstance(await ledger.commit(unit(3)), Committed)
        assert len(await ledger.search(EventQuery(tenant="default"))) == 3


async def test_who_waits_is_answered_in_time(url: PostgresUrl, postgres_url: str, tmp_path: Path) -> None:
    async with asyncio.timeout(BOUND_SECONDS), open_ledger(url, tmp_path, HASTY) as ledger:
        await ledger.commit(unit(1, operation("k")))
        with stopped(postgres_url, "writer"):
            outcomes = await asyncio.gather(
                *(ledger.commit(unit(number)) for number in range(2, 6)), return_exceptions=True
            )
            assert [getattr(outcome, "code", None) for outcome in outcomes] == ["store.timeout"] * 4
            assert await ledger.find_operation("k") is not None, "reads have a session of their own"


async def test_a_look_up_is_given_up(
    url: PostgresUrl, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(BOUND_SECONDS), open_ledger(url, tmp_path, PATIENT) as ledger:
        await ledger.commit(unit(1, operation("k")))
        await ledger.search(EventQuery(tenant="default"))
        with stopped(postgres_url, "reader"):
            with pytest.raises(StoreUnavailable):
                await ledger.find_operation("k")
            assert await ledger.find_operation("k") is not None, "by a new session"
        with stopped(postgres_url, "searcher"), pytest.raises(StoreUnavailable):
            await ledger.search(EventQuery(tenant="default"))
        monkeypatch.setattr(postgres_reads, "ANSWER_SECONDS", 0.2)
        monkeypatch.setattr(postgres_connection, "ANSWER_TIMEOUT_SECONDS", 2.0)
        with stopped(postgres_url, "reader"):
            with pytest.raises(StoreUnavailable) as refused:
                await ledger.session_exposure("s")
            assert refused.value.code == "store.timeout"


async def test_closing_does_not_wait_for_ever(
    url: PostgresUrl, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "ANSWER_TIMEOUT_SECONDS", 3.0)
    monkeypatch.setattr(postgres_reads, "CLOSE_SECONDS", 0.3)
    async with asyncio.timeout(BOUND_SECONDS):
        ledger = open_ledger(url, tmp_path, HASTY)
        await ledger.commit(unit(1))
        with stopped(postgres_url, "writer"), stopped(postgres_url, "reader"):
            waiting = [
                asyncio.ensure_future(ledger.commit(unit(2))),
                asyncio.ensure_future(ledger.find_operation("k")),
            ]
            await asyncio.sleep(0)
            await ledger.close()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
            with pytest.raises(StoreUnavailable) as refused:
                await ledger.commit(unit(3))
            assert refused.value.code == "store.closed"


async def test_a_commit_that_was_sent_is_not_sent_again(
    url: PostgresUrl, postgres_url: str, tmp_path: Path
) -> None:
    """Whether it is durable is not known, so nobody is told so, and it stands in the log once at most."""
    with contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as admin:
        async with asyncio.timeout(BOUND_SECONDS), open_ledger(url, tmp_path, PATIENT) as ledger:
            await ledger.commit(unit(1))
            admin.execute(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$"
            )
            admin.execute(
                "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION slow()"
            )
            with pytest.raises(StoreUnavailable, match="committing"):
                await ledger.commit(unit(2))
            admin.execute("DROP TRIGGER slow ON events")
            found = await ledger.search(EventQuery(tenant="default"))
            assert len(found) <= 2
