"""Many processes on one PostgreSQL: chains of their own, one truth, sessions that end at any moment."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from authz.errors import ConfigError, LogCorrupt, StoreUnavailable
from authz.model.record import Committed, Conflict, EventQuery
from authz.ports import ExposureWrite
from authz.store import postgres_connection
from authz.store.api_keys import digest_api_key
from authz.store.credential_cache import CREDENTIAL_CACHE_SECONDS
from authz.store.group_commit import CommitLimits
from authz.store.key_rotation import rotate_keys
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.postgres import PostgresLedger
from authz.store.postgres_connection import PostgresWriteConnection, connect
from authz.store.postgres_url import PostgresUrl
from authz.store.write_connection import SqlValue, WriteConnection
from tests.store.world import QUIET, Clock, WatchedConnection, operation, unit
from tests.support.postgres import Postgres

KEYS = ServiceKeys.generate()


@pytest.fixture
def url(postgres_url: str) -> PostgresUrl:
    return PostgresUrl.parse(postgres_url)


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection]:
    """Somebody else's session on the same database."""
    with contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        yield connection


def open_ledger(url: PostgresUrl, folder: Path, **options: object) -> PostgresLedger:
    wanted = {"clock": Clock(), "signer": KEYS, "limits": QUIET} | options
    return PostgresLedger.open(url, folder, **wanted)  # type: ignore[arg-type]


def assert_sound(url: PostgresUrl, records: int, writers: int | None = None) -> None:
    with LogSnapshot(url) as snapshot:
        report = verify_log(snapshot, KEYS.public_keys())
    assert report.findings == ()
    assert report.records == records
    assert writers in (None, len(report.heads))


def end_sessions(admin: psycopg.Connection, part: str) -> int:
    """Cut off every session of one kind, as a server that restarts does."""
    query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s"
    return len(admin.execute(query, (f"authz {part}",)).fetchall())


async def test_each_process_writes_its_own_chain(url: PostgresUrl, tmp_path: Path) -> None:
    limits = CommitLimits(checkpoint_records=3, checkpoint_seconds=1e9)
    async with contextlib.AsyncExitStack() as stack:
        ledgers = [
            await stack.enter_async_context(open_ledger(url, tmp_path / name, limits=limits))
            for name in ("a", "b", "c")
            if (tmp_path / name).mkdir() is None
        ]
        assert len({ledger.writer for ledger in ledgers}) == 3
        for start in range(0, 60, 20):
            await asyncio.gather(
                *(ledgers[number % 3].commit(unit(start + number)) for number in range(20)),
            )
        found = await ledgers[0].search(EventQuery(tenant="default", limit=100))
        assert len({(event.writer, event.sequence) for event in found}) == 60
    # Checkpoints over all writers, signed by three at once: numbered without gap, none twice.
    assert_sound(url, 60, 3)
    for name in ("a", "b", "c"):
        assert (tmp_path / name / "postgres.anchor.json").exists()


async def test_one_of_many_processes_gets_the_operation(url: PostgresUrl, tmp_path: Path) -> None:
    async with open_ledger(url, tmp_path) as one, open_ledger(url, tmp_path) as other:
        keys = [f"k-{number}" for number in range(40)]
        # In opposite orders, so that each has rows that the other waits for.
        outcomes = await asyncio.gather(
            *(one.commit(unit(number, operation(key))) for number, key in enumerate(keys)),
            *(other.commit(unit(number, operation(key))) for number, key in enumerate(reversed(keys))),
        )
        assert sum(isinstance(outcome, Committed) for outcome in outcomes) == len(keys)
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == len(keys)
        # And from there on, exactly one step each.
        moves = await asyncio.gather(
            *(ledger.commit(unit(9, operation("k-0", expected_version=1))) for ledger in (one, other)),
        )
        assert sorted(type(outcome).__name__ for outcome in moves) == ["Committed", "Conflict"]
    assert_sound(url, len(keys) + 1)


async def test_exposure_through_one_is_seen_through_the_other(url: PostgresUrl, tmp_path: Path) -> None:
    async with open_ledger(url, tmp_path) as one, open_ledger(url, tmp_path) as other:
        seen: set[str] = set()
        for number in range(20):
            writer, reader = (one, other) if number % 2 else (other, one)
            assert await reader.session_exposure("s") == seen
            label = f"label-{number}"
            exposure = ExposureWrite(session_key="s", labels=frozenset({label}))
            await writer.commit(unit(number, exposure=exposure))
            seen.add(label)
            assert await reader.session_exposure("s") == seen, "at once, and not a moment later"


async def test_a_revocation_reaches_the_others_within_its_bound(url: PostgresUrl, tmp_path: Path) -> None:
    now = [0.0]
    async with (
        open_ledger(url, tmp_path) as one,
        open_ledger(url, tmp_path, monotonic=lambda: now[0]) as other,
    ):
        created = await one.create_api_key(name="ci", roles=["decide"], profile="runtime")
        (key,) = await other.list_api_keys()
        assert key.key_id == created.key_id
        digest = digest_api_key(created.secret)
        assert await other.find_credential(digest) is not None
        await one.revoke_api_key(created.key_id)
        assert await one.find_credential(digest) is None
        now[0] += CREDENTIAL_CACHE_SECONDS
        assert await other.find_credential(digest) is None


async def test_a_chain_is_taken_up_again(url: PostgresUrl, tmp_path: Path) -> None:
    writers: list[str] = []
    for number in range(3):
        async with open_ledger(url, tmp_path) as ledger:
            await ledger.commit(unit(number))
            writers.append(ledger.writer)
    assert len(set(writers)) == 1, "a restart grows no new chain"
    async with open_ledger(url, tmp_path) as one, open_ledger(url, tmp_path) as other:
        assert one.writer == writers[0]
        assert other.writer not in writers
        await other.commit(unit(9))
    assert_sound(url, 4, 2)


async def test_an_idle_session_that_was_cut_off_costs_no_refusal(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection
) -> None:
    async with open_ledger(url, tmp_path) as ledger:
        await ledger.commit(unit(1, operation("k")))
        writer = ledger.writer
        assert end_sessions(admin, "writer") == 1
        assert end_sessions(admin, "reader") == 1
        assert isinstance(await ledger.commit(unit(2)), Committed)
        assert await ledger.find_operation("k") is not None
        assert ledger.writer == writer, "its chain was still free"
        end_sessions(admin, "writer")
        assert await ledger.is_ready()
    assert_sound(url, 2, 1)


async def test_whose_chain_was_taken_meanwhile_goes_on_with_another(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection
) -> None:
    async with open_ledger(url, tmp_path) as first:
        for number in range(3):
            await first.commit(unit(number))
        before = first.writer
        end_sessions(admin, "writer")
        async with open_ledger(url, tmp_path) as second:
            assert second.writer == before
            await second.commit(unit(3))
            committed = await first.commit(unit(4))
            assert isinstance(committed, Committed)
            assert (committed.writer, committed.sequence) == (first.writer, 1)
            assert first.writer != before
    assert_sound(url, 5, 2)


async def test_a_session_that_ends_within_a_batch_is_tried_again(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection
) -> None:
    cut: list[int] = []

    class Cutting(WatchedConnection):
        """Ends its own session once, right before the records are written."""

        def execute_many(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
            if not cut:
                cut.append(end_sessions(admin, "writer"))
            super().execute_many(sql, rows)

    async with open_ledger(url, tmp_path, wrap_connection=Cutting) as ledger:
        outcomes = await asyncio.gather(
            *(ledger.commit(unit(number, operation(f"k-{number}"))) for number in range(8))
        )
        assert cut == [1]
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert_sound(url, 8, 1)


async def test_a_session_that_ends_at_commit_leaves_its_units_unanswered(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection
) -> None:
    watched: list[WatchedConnection] = []

    def wrap(inner: WriteConnection) -> WriteConnection:
        watched.append(WatchedConnection(inner))
        return watched[0]

    async with open_ledger(url, tmp_path, wrap_connection=wrap) as ledger:
        watched[0].hold()
        tasks = [
            asyncio.create_task(ledger.commit(unit(number, operation(f"k-{number}")))) for number in range(4)
        ]
        await asyncio.to_thread(watched[0].at_commit.wait)
        end_sessions(admin, "writer")
        watched[0].release()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        # Whether it became durable is not known, so nobody is told that it did.
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 4
        assert isinstance(await ledger.commit(unit(9)), Committed)
        stored = len(await ledger.search(EventQuery(tenant="default")))
    assert_sound(url, stored, 1)


FAULTS = """
CREATE SEQUENCE faults;
CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('faults') <= {count} THEN RAISE EXCEPTION 'made up' USING ERRCODE = '{code}'; END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER fault AFTER INSERT ON events {when} FOR EACH ROW EXECUTE FUNCTION fault();
"""


@pytest.mark.parametrize("when", ["", "DEFERRABLE INITIALLY DEFERRED"], ids=["at the write", "at COMMIT"])
@pytest.mark.parametrize("code", ["40001", "40P01"], ids=["serialization failure", "deadlock"])
async def test_what_the_server_undid_is_tried_again(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection, code: str, when: str
) -> None:
    async with open_ledger(url, tmp_path) as ledger:
        admin.execute(FAULTS.format(count=2, code=code, when=when).encode())
        first = await ledger.commit(unit(1, operation("k")))
        assert isinstance(first, Committed)
        assert first.sequence == 1
        admin.execute("ALTER SEQUENCE faults RESTART")
        admin.execute(
            "CREATE OR REPLACE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION 'made up' USING ERRCODE = '{code}'; END $$".encode()
        )
        with pytest.raises(StoreUnavailable):
            await ledger.commit(unit(2, operation("other")))
        assert await ledger.find_operation("other") is None, "refused, and nothing of it is there"
        admin.execute("DROP TRIGGER fault ON events")
        assert isinstance(await ledger.commit(unit(2, operation("other"))), Committed)
    assert_sound(url, 2, 1)


async def test_a_commit_that_is_confirmed_with_a_warning_is_not_trusted(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection
) -> None:
    # As when the wait for a synchronous standby is cut off: durable here, and maybe nowhere else.
    async with open_ledger(url, tmp_path) as ledger:
        fault = FAULTS.format(count=1, code="01000", when="DEFERRABLE INITIALLY DEFERRED")
        admin.execute(fault.replace("RAISE EXCEPTION", "RAISE WARNING").encode())
        with pytest.raises(StoreUnavailable, match="did not confirm"):
            await ledger.commit(unit(1))
        after = await ledger.commit(unit(2))
        assert isinstance(after, Committed)
        assert after.sequence == 2, "the chain goes on from what is there"
    assert_sound(url, 2, 1)


async def test_other_faults_are_refused_once(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection
) -> None:
    async with open_ledger(url, tmp_path) as ledger:
        admin.execute(FAULTS.format(count=1, code="53100", when="").encode())
        with pytest.raises(StoreUnavailable, match="the store failed"):
            await ledger.commit(unit(1))
        assert isinstance(await ledger.commit(unit(2)), Committed)
    assert_sound(url, 1, 1)


async def test_a_process_that_hangs_within_a_commit_holds_nobody_up_for_long(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_MS", 50)
    async with open_ledger(url, tmp_path) as ledger:
        with admin.transaction():
            admin.execute("SELECT pg_advisory_xact_lock(%s)", (postgres_connection.COMMIT_LOCK,))
            with pytest.raises(StoreUnavailable, match="the store failed"):
                await ledger.commit(unit(1))
        assert isinstance(await ledger.commit(unit(2)), Committed)
        # And the server itself ends a session that waits within a transaction.
        with contextlib.closing(connect(url, part="test")) as connection:
            limit = connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
            assert limit == ("5s",)
    assert_sound(url, 1, 1)


async def test_another_key_file_is_refused_beside_living_processes(url: PostgresUrl, tmp_path: Path) -> None:
    other = ServiceKeys.generate()
    async with open_ledger(url, tmp_path):
        with pytest.raises(StoreUnavailable, match="same key file") as refused:
            open_ledger(url, tmp_path, signer=other)
        assert refused.value.code == "store.key_differs"
    async with open_ledger(url, tmp_path / "new", signer=other):
        pass


async def test_processes_of_one_key_file_go_on_together_across_a_rotation(
    url: PostgresUrl, tmp_path: Path
) -> None:
    """Also one that starts when the key in use is another than when the first one started."""
    path = tmp_path / "keys.json"
    first = ServiceKeys.load_or_create(path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with open_ledger(url, tmp_path / "a", signer=first) as one:
        await one.commit(unit(1))
        rotate_keys(path, now_ms=1, publish_seconds=300, lifetime_seconds=60, at_once=True)
        second = ServiceKeys.load_or_create(path)
        assert (first.kid != second.kid, first.identity) == (True, second.identity)
        async with open_ledger(url, tmp_path / "b", signer=second) as two:
            await two.commit(unit(2))
            await one.commit(unit(3))
    with LogSnapshot(url) as snapshot:
        report = verify_log(snapshot, second.public_keys())
    assert (report.findings, report.records) == ((), 3)


async def test_an_anchor_of_another_log_is_refused(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection
) -> None:
    async with open_ledger(url, tmp_path) as ledger:
        await ledger.commit(unit(1))
    admin.execute("ALTER TABLE log_checkpoints DISABLE TRIGGER ALL")
    admin.execute("DELETE FROM log_checkpoints")
    with pytest.raises(LogCorrupt, match=r"postgres\.anchor\.json"):
        open_ledger(url, tmp_path)


@pytest.mark.parametrize("table", ["events", "log_checkpoints"])
@pytest.mark.parametrize("change", ["DELETE FROM {}", "TRUNCATE {}", "UPDATE {} SET hash = ''"])
async def test_the_log_is_append_only(
    url: PostgresUrl, tmp_path: Path, admin: psycopg.Connection, table: str, change: str
) -> None:
    async with open_ledger(url, tmp_path) as ledger:
        await ledger.commit(unit(1))
    with pytest.raises(psycopg.errors.RaiseException, match=f"{table} is append-only"):
        admin.execute(change.format(table).encode())


async def test_a_role_that_may_make_nothing_is_enough_once_the_schema_is_there(
    postgres_url: str, tmp_path: Path, admin: psycopg.Connection
) -> None:
    async with open_ledger(PostgresUrl.parse(postgres_url), tmp_path):
        pass
    name = f"service_{admin.info.dbname}"
    admin.execute(f"CREATE ROLE {name} LOGIN".encode())
    try:
        admin.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}".encode()
        )
        limited = PostgresUrl.parse(postgres_url.replace("postgres@", f"{name}@"))
        async with open_ledger(limited, tmp_path) as ledger:
            assert isinstance(await ledger.commit(unit(1, operation("k"))), Committed)
            assert await ledger.is_ready()
    finally:
        admin.execute(f"DROP OWNED BY {name}".encode())
        admin.execute(f"DROP ROLE {name}".encode())


def test_less_than_durable_is_raised_or_refused(postgres: Postgres, postgres_url: str) -> None:
    url = PostgresUrl.parse(postgres_url)
    with contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as admin:
        admin.execute(f"ALTER DATABASE {admin.info.dbname} SET synchronous_commit = off".encode())
    with contextlib.closing(connect(url, part="test")) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_server_without_fsync_is_refused(tmp_path: Path) -> None:
    with Postgres.running() as own, own.database() as text:
        with contextlib.closing(own.connect("postgres")) as admin:
            admin.execute("ALTER SYSTEM SET fsync = off")
            own.restart()
        with pytest.raises(StoreUnavailable, match="fsync") as refused:
            open_ledger(PostgresUrl.parse(text), tmp_path)
        assert refused.value.code == "store.not_durable"


def test_a_password_does_not_show(caplog: pytest.LogCaptureFixture) -> None:
    secret = "correct-horse-battery"
    url = PostgresUrl.parse(f"postgresql://ada:{secret}@127.0.0.1:1/shop?connect_timeout=2&sslmode=disable")
    assert secret not in f"{url} {url!r}"
    assert str(url) == "postgresql://127.0.0.1:1/shop"
    with pytest.raises(StoreUnavailable) as refused:
        PostgresWriteConnection(url).claim_writer()
    logging.getLogger("authz").error("refused", exc_info=refused.value)
    assert secret not in caplog.text
    for damaged in (
        f"postgresql://ada:{secret}@[::1/shop",
        f"postgresql://ada:{secret}@host/shop?no_such_option=1",
        f"postgresql://ada:{secret}%zz@host/shop",
    ):
        with pytest.raises(ConfigError) as faulty:
            PostgresUrl.parse(damaged)
        assert faulty.value.__cause__ is None
        logging.getLogger("authz").error("faulty", exc_info=faulty.value)
    assert secret not in caplog.text


def test_the_double_passes_everything_on() -> None:
    real = {name for name in dir(WriteConnection) if not name.startswith("_")}
    assert real <= set(dir(WatchedConnection))
    assert real <= set(dir(PostgresWriteConnection))
