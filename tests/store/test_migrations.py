"""Old databases become present ones with nothing lost; newer ones are left alone; half a step is none."""

import asyncio
import contextlib
import dataclasses
import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from authz.cli import keys_create, keys_list, store_migrate, store_status
from authz.errors import StoreUnavailable
from authz.model.record import Committed, EventQuery
from authz.ports import ExposureWrite
from authz.store import migrations
from authz.store.api_keys import digest_api_key, list_api_keys
from authz.store.database import find_version, migrate
from authz.store.keys import ServiceKeys
from authz.store.postgres_url import PostgresUrl
from tests.store import version_1, version_2
from tests.store.capability_world import link, proof, releasing, spending
from tests.store.durable import DurableStore
from tests.store.version_1 import copy_rows, make_version_1
from tests.store.version_2 import make_version_2
from tests.store.world import operation, unit
from tests.support.command import run_command
from tests.support.postgres import Postgres

KEYS = ServiceKeys.generate()
SECRETS: dict[str, str] = {}


@pytest.fixture
def other(store: DurableStore, postgres: Postgres, tmp_path: Path) -> Iterator[DurableStore]:
    """A second empty database of the same kind."""
    folder = tmp_path / "other"
    folder.mkdir()
    if not isinstance(store.database, PostgresUrl):
        yield DurableStore(database=folder / "authz.db", folder=folder)
        return
    with postgres.database() as url:
        yield DurableStore(database=PostgresUrl.parse(url), folder=folder)


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    """An old version of the schema."""
    return int(request.param)


@pytest.fixture
async def old(store: DurableStore, other: DurableStore, version: int) -> DurableStore:
    """An old database with five records, operations, exposure, a checkpoint and a key; of 2 with a limit."""
    ledger, _ = store.open(signer=KEYS)
    async with ledger:
        created = await ledger.create_api_key(name="ci", roles=["decide"], profile="runtime")
        SECRETS["ci"] = created.secret
        for number in range(5):
            exposure = ExposureWrite(session_key="s", labels=frozenset({f"label-{number}"}))
            whole = unit(number, operation(f"k-{number}"), exposure)
            await ledger.commit(dataclasses.replace(whole, reservations=(spending(cap=5),)))
    if version == 1:
        make_version_1(other, copy_rows(store))
    else:
        make_version_2(other, copy_rows(store, version_2.TABLES))
    return other


def describe(store: DurableStore) -> list[Any]:
    """All that makes up the schema, as the database itself tells it."""
    if isinstance(store.database, PostgresUrl):
        queries = (
            """SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default,
               collation_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 3""",
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
            """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
               WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
            """SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger
               WHERE NOT tgisinternal ORDER BY 1, 2""",
            "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
        )
        with contextlib.closing(psycopg.connect(store.database.conninfo)) as server:
            return [server.execute(query.encode()).fetchall() for query in queries]
    with contextlib.closing(sqlite3.connect(store.database)) as file:
        rows = file.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2").fetchall()
        return [(*row[:3], re.sub(r"[\s(),]+", " ", row[3] or "").strip().lower()) for row in rows]


def set_version(store: DurableStore, version: str) -> None:
    statement = f"UPDATE store_meta SET value = '{version}' WHERE name = 'schema_version'"
    if isinstance(store.database, PostgresUrl):
        with contextlib.closing(psycopg.connect(store.database.conninfo, autocommit=True)) as server:
            server.execute(statement.encode())
    else:
        with contextlib.closing(sqlite3.connect(store.database, isolation_level=None)) as file:
            file.execute(statement)


async def test_an_old_database_is_brought_up_to_date(
    store: DurableStore, old: DurableStore, version: int
) -> None:
    assert find_version(old.database) == version
    tables = version_1.TABLES if version == 1 else version_2.TABLES
    before = copy_rows(old, tables)

    ledger, _ = old.open(signer=KEYS)
    async with ledger:
        assert find_version(old.database) == migrations.CURRENT
        for number in range(5):
            found = await ledger.find_operation(f"k-{number}")
            assert found is not None
            assert found.version == 1
        assert await ledger.session_exposure("s") == {f"label-{number}" for number in range(5)}
        assert await ledger.find_credential(digest_api_key(SECRETS["ci"])) is not None
        assert len(await ledger.search(EventQuery(tenant="default"))) == 5
        after = await ledger.commit(unit(9))
        assert isinstance(after, Committed)
        assert after.sequence == 6, "the chain goes on"
    old.assert_sound(KEYS, 6)
    now = copy_rows(old, tables)
    for table in before.keys() - {"store_meta", "log_heads"}:
        assert set(before[table]) <= set(now[table]), f"rows of {table} are gone"
    assert describe(old) == describe(store), "as if it had been made today"


async def test_what_an_old_database_reserved_is_given_back(old: DurableStore, version: int) -> None:
    ledger, _ = old.open(signer=KEYS)
    async with ledger:
        assert await ledger.counters_used(["budget"]) == {"budget": 0 if version == 1 else 5}
        used = dataclasses.replace(releasing(9, 3), proof=proof(), links=(link("a"),))
        assert isinstance(await ledger.commit(used), Committed)
        assert await ledger.counters_used(["budget"]) == {"budget": 0 if version == 1 else 4}
        assert await ledger.find_link("default", "a") == link("a")


def test_steps_are_numbered_without_gap() -> None:
    assert [step.version for step in migrations.STEPS] == list(range(2, migrations.CURRENT + 1))


@pytest.mark.parametrize("wrong", ["99", "0", "x", ""])
async def test_a_version_that_is_not_ours_is_left_alone(store: DurableStore, wrong: str) -> None:
    ledger, _ = store.open(signer=KEYS)
    async with ledger:
        await ledger.commit(unit(1))
    set_version(store, wrong)
    before = describe(store), copy_rows(store)
    said = "run the newer program" if wrong == "99" else "not one of this program"
    for attempt in (
        lambda: store.open(signer=KEYS),
        lambda: migrate(store.database),
        lambda: list_api_keys(store.database),
    ):
        with pytest.raises(StoreUnavailable, match=said) as refused:
            attempt()
        assert refused.value.code == "store.schema"
    assert (describe(store), copy_rows(store)) == before


async def test_a_step_that_fails_leaves_nothing(old: DurableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(schema: migrations.SchemaDialect, execute: migrations.Execute) -> None:
        execute("CREATE TABLE half_done (a INTEGER)")
        execute("UPDATE store_meta SET value = 'torn' WHERE name = 'schema_version'")
        execute("this is no statement")

    step = migrations.Step(version=migrations.CURRENT, what="fails", apply=fail)
    before = describe(old), copy_rows(old)
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", (*migrations.STEPS, step))
        with pytest.raises(StoreUnavailable):
            old.open(signer=KEYS)
    assert (describe(old), copy_rows(old)) == before
    ledger, _ = old.open(signer=KEYS)
    await ledger.close()
    old.assert_sound(KEYS, 5)


async def test_many_that_start_together_migrate_once(
    postgres: Postgres, store: DurableStore, old: DurableStore
) -> None:
    if not isinstance(old.database, PostgresUrl):
        # One process at a time: the others are refused by its lock.
        ledger, _ = old.open(signer=KEYS)
        async with ledger:
            with pytest.raises(StoreUnavailable, match="another process"):
                migrate(old.database)
        return
    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(lambda _: old.open(signer=KEYS)[0], range(6)))
    assert len({ledger.writer for ledger in opened}) == 6
    await asyncio.gather(*(ledger.commit(unit(10 + number)) for number, ledger in enumerate(opened)))
    for ledger in opened:
        await ledger.close()
    old.assert_sound(KEYS, 11)


async def test_the_commands(
    old: DurableStore, version: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTHZ_DATA_DIR", str(old.folder))
    if isinstance(old.database, PostgresUrl):
        with psycopg.connect(old.database.conninfo) as server:
            host = server.info.host
            monkeypatch.setenv(
                "AUTHZ_DATABASE_URL", f"postgresql://postgres@/{server.info.dbname}?host={host}"
            )
    assert run_command(store_status) == 1
    assert f"version {version} of {migrations.CURRENT}" in capsys.readouterr().out
    for command, arguments in (
        (keys_list, ()),
        (keys_create, ("--name", "x", "--roles", "decide", "--profile", "runtime")),
    ):
        assert run_command(command, *arguments) == 2
        assert "authz store migrate" in capsys.readouterr().err
    assert run_command(store_migrate) == 0
    assert f"from version {version} to {migrations.CURRENT}" in capsys.readouterr().out
    assert run_command(store_migrate) == 0
    assert "already" in capsys.readouterr().out
    assert run_command(store_status) == 0
    assert run_command(keys_list) == 0
    assert "ci" in capsys.readouterr().out
