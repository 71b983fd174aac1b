"""What SQLite is told and held to: durability, append-only tables, one writer, credentials, access."""

import asyncio
import contextlib
import hashlib
import os
import re
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select

from authz.cli import keys_create, keys_list, keys_revoke, log_head, log_verify
from authz.errors import ConfigError, LogCorrupt, NotFound, StoreUnavailable
from authz.model.record import EventQuery
from authz.ports import Credential
from authz.store.api_keys import create_api_key, digest_api_key, list_api_keys, revoke_api_key
from authz.store.credential_cache import CREDENTIAL_CACHE_SECONDS
from authz.store.event_search import FIND_MOVES, MOVES_PREFIX, build_find_event, build_search
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from authz.store.sqlite_connection import (
    ProcessLock,
    SqliteWriteConnection,
    bind,
    check_durable,
    open_database,
    open_read_only,
)
from tests.store.world import QUIET, START_MS, Clock, open_watched, operation, unit
from tests.support.command import run_command


def open_ledger(path: Path, *, signer: ServiceKeys | None = None) -> SqliteLedger:
    return SqliteLedger.open(path, clock=Clock(), signer=signer or ServiceKeys.generate(), limits=QUIET)


def read_bytes(path: Path) -> bytes:
    return path.read_bytes()


def pragma(connection: sqlite3.Connection, name: str) -> object:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return value


async def test_the_writer_is_durable(tmp_path: Path) -> None:
    ledger, watched = open_watched(tmp_path / "authz.db")
    async with ledger:
        assert isinstance(watched.inner, SqliteWriteConnection)
        raw = watched.inner._connection
        assert raw is not None
        assert pragma(raw, "journal_mode") == "wal"
        assert pragma(raw, "synchronous") == 2
        assert pragma(raw, "foreign_keys") == 1
        assert pragma(raw, "busy_timeout") == 5000


@pytest.mark.parametrize("weaker", ["synchronous = NORMAL", "synchronous = OFF", "foreign_keys = OFF"])
def test_weaker_settings_are_refused(tmp_path: Path, weaker: str) -> None:
    with contextlib.closing(open_database(tmp_path / "authz.db")) as connection:
        connection.execute(f"PRAGMA {weaker}")
        with pytest.raises(StoreUnavailable) as refused:
            check_durable(connection)
    assert refused.value.code == "store.not_durable"


def test_a_journal_that_is_not_wal_is_refused() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA journal_mode = wal")  # ignored, as on a file system that cannot
        with pytest.raises(StoreUnavailable):
            check_durable(connection)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET effect = 'deny'",
        "DELETE FROM events",
        "UPDATE log_checkpoints SET token = ''",
        "DELETE FROM log_checkpoints",
    ],
)
async def test_the_log_is_append_only(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "authz.db"
    async with open_ledger(path) as ledger:
        await ledger.commit(unit(1))
    refused = pytest.raises(sqlite3.IntegrityError, match="append-only")
    with contextlib.closing(sqlite3.connect(path)) as connection, refused:
        connection.execute(statement)


async def test_one_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    take_lock = (
        "import pathlib, sys\n"
        "from authz.errors import StoreUnavailable\n"
        "from authz.store.sqlite_connection import ProcessLock\n"
        "try:\n"
        "    ProcessLock(pathlib.Path(sys.argv[1]))\n"
        "except StoreUnavailable as fault:\n"
        "    sys.exit(fault.code)\n"
    )
    async with open_ledger(path) as ledger:
        await ledger.commit(unit(1))
        with pytest.raises(StoreUnavailable) as refused:
            open_ledger(path)
        assert refused.value.code == "store.locked"
        command = (sys.executable, "-c", take_lock, str(path))
        other = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert other.stderr.strip() == "store.locked"
        with contextlib.closing(open_read_only(path)) as reader:
            assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
        created = create_api_key(path, name="n", roles=["decide"], profile="p", now_ms=START_MS)
        assert await ledger.find_credential(digest_api_key(created.secret)) is not None
    ProcessLock(path).release()


async def test_a_ledger_that_does_not_open_gives_the_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    path.write_bytes(b"this is not a database" * 100)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="SQLITE_NOTADB"):
            open_ledger(path)


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        pytest.param(build_search(EventQuery(tenant="t")), "events_by_time (tenant=?)", id="newest"),
        pytest.param(
            build_search(EventQuery(tenant="t", agent="a", before=(1, "w", 1))),
            "events_by_time (tenant=? AND (recorded_at_ms,writer,sequence)<(?,?,?))",
            id="next page",
        ),
        pytest.param(
            build_search(EventQuery(tenant="t", trace_id="x")),
            "events_by_trace (tenant=? AND trace_id=?)",
            id="trace",
        ),
        pytest.param(
            build_find_event("t", "d"), "events_by_decision (tenant=? AND decision_id=?)", id="decision"
        ),
        pytest.param(
            FIND_MOVES.params(tenant="t", decision_id="d", prefix=MOVES_PREFIX),
            "events_by_decision (tenant=? AND decision_id=?)",
            id="moves",
        ),
    ],
)
def test_searches_use_an_index(tmp_path: Path, statement: Select[Any], index: str) -> None:
    with contextlib.closing(open_database(tmp_path / "authz.db")) as connection:
        sql, parameters = bind(statement)
        plan = " ".join(str(row[-1]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
    assert f"SEARCH events USING INDEX {index}" in plan
    assert "TEMP B-TREE" not in plan, "the order comes with the index"


async def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    await open_ledger(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE store_meta SET value = '99' WHERE name = 'schema_version'")
    for refuse in (open_ledger, open_read_only, open_database):
        with pytest.raises(StoreUnavailable) as refused:
            refuse(path)
        assert refused.value.code == "store.schema"


async def test_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "var" / "authz.db"
    async with open_ledger(path) as ledger:
        await ledger.commit(unit(1))
        files = sorted(path.parent.iterdir())
        assert [file.name for file in files] == [
            *("authz.db", "authz.db-shm", "authz.db-wal", "authz.db.lock")
        ]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_files_of_a_restored_backup_are_made_private(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    old_umask = os.umask(0o777)
    try:
        await open_ledger(path).close()
        keys = tmp_path / "keys.json"
        ServiceKeys.load_or_create(keys)
    finally:
        os.umask(old_umask)
    made = {stat.S_IMODE(file.stat().st_mode) for file in (path, keys, Path(f"{path}.lock"))}
    assert made == {0o600}, "whatever the umask"

    path.chmod(0o644)
    async with open_ledger(path) as ledger:
        await ledger.commit(unit(1))
        files = (path, Path(f"{path}-wal"), Path(f"{path}-shm"))
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_a_reopened_ledger_goes_on(tmp_path: Path) -> None:
    path, keys = tmp_path / "authz.db", ServiceKeys.generate()
    async with open_ledger(path, signer=keys) as ledger:
        writer = ledger.writer
        first = await ledger.commit(unit(1, operation("k")))
    assert re.fullmatch(r"[0-9a-f]{12}", writer)
    async with open_ledger(path, signer=keys) as ledger:
        assert ledger.writer == writer
        second = await ledger.commit(unit(2))
        assert (await ledger.find_operation("k")) is not None
        stored = await ledger.find_event("default", "d-2")
    assert stored is not None
    assert f'"sequence":2,"previous":"{first.hash}"' in stored.text  # type: ignore[union-attr]
    assert second.sequence == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param("DELETE FROM events WHERE sequence = 3", id="tail dropped"),
        pytest.param("DELETE FROM log_heads", id="head dropped"),
        pytest.param("UPDATE log_heads SET sequence = 2", id="head moved back"),
        pytest.param("UPDATE log_heads SET hash = hex(zeroblob(32))", id="head's hash changed"),
        pytest.param("UPDATE events SET text = text || ' ' WHERE sequence = 3", id="last text changed"),
        pytest.param(
            "DELETE FROM events WHERE sequence = 3; UPDATE log_heads SET sequence = 2, "
            "hash = (SELECT hash FROM events WHERE sequence = 2)",
            id="tail dropped and head edited: the checkpoint remembers",
        ),
        pytest.param("UPDATE log_checkpoints SET token = 'x.y.z'", id="checkpoint malformed"),
    ],
)
async def test_a_log_that_does_not_end_well_is_not_continued(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "authz.db"
    async with open_ledger(path) as ledger:
        for number in (1, 2, 3):
            await ledger.commit(unit(number))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for name in ("events_no_update", "events_no_delete", "log_checkpoints_no_update"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.executescript(harm)

    with pytest.raises(LogCorrupt, match="authz log verify"):
        open_ledger(path)


async def test_an_operation_in_an_unknown_state_is_no_absent_one(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    async with open_ledger(path) as ledger:
        await ledger.commit(unit(1, operation("k")))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE operations SET state = 'teleported'")
        with pytest.raises(StoreUnavailable, match="teleported"):
            await ledger.find_operation("k")


async def test_keys_are_known_by_their_digest_alone(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    created = create_api_key(
        path, name="ci", roles=["decide", "audit"], profile="runtime", now_ms=START_MS, tenant="acme"
    )
    assert re.fullmatch(r"azk_[0-9A-Za-z_-]{43}", created.secret)
    assert created.secret not in repr(created)
    digest = hashlib.sha256(created.secret.encode()).hexdigest()
    async with open_ledger(path) as ledger:
        assert await ledger.find_credential(digest) == Credential(
            key_id=created.key_id,
            tenant="acme",
            name="ci",
            roles=frozenset({"decide", "audit"}),
            profile="runtime",
        )
        assert await ledger.find_credential(created.secret) is None
        assert await ledger.find_credential("") is None
        stored = [read_bytes(tmp_path / name) for name in ("authz.db", "authz.db-wal")]
    assert all(created.secret.encode() not in content for content in stored)


async def test_a_revocation_works_at_once_here_and_soon_elsewhere(tmp_path: Path) -> None:
    path, now = tmp_path / "authz.db", [0.0]
    ledger = SqliteLedger.open(
        path, clock=Clock(), signer=ServiceKeys.generate(), limits=QUIET, monotonic=lambda: now[0]
    )
    async with ledger:
        here = await ledger.create_api_key(name="here", roles=["decide"], profile="p")
        there = await ledger.create_api_key(name="there", roles=["decide"], profile="p")
        for created in (here, there):
            assert await ledger.find_credential(digest_api_key(created.secret)) is not None

        await ledger.revoke_api_key(here.key_id)
        assert await ledger.find_credential(digest_api_key(here.secret)) is None

        assert await ledger.find_credential(digest_api_key(there.secret)) is not None
        revoke_api_key(path, there.key_id, now_ms=START_MS)  # as the command line does
        now[0] += CREDENTIAL_CACHE_SECONDS
        assert await ledger.find_credential(digest_api_key(there.secret)) is None
    assert CREDENTIAL_CACHE_SECONDS < 1
    assert [key.revoked_at_ms is not None for key in list_api_keys(path)] == [True, True]


async def test_the_cache_never_outlives_a_failing_store(tmp_path: Path) -> None:
    now = [0.0]
    ledger = SqliteLedger.open(
        tmp_path / "authz.db", clock=Clock(), signer=ServiceKeys.generate(), monotonic=lambda: now[0]
    )
    created = await ledger.create_api_key(name="n", roles=["decide"], profile="p")
    assert await ledger.find_credential(digest_api_key(created.secret)) is not None
    await ledger.close()
    now[0] += CREDENTIAL_CACHE_SECONDS
    with pytest.raises(StoreUnavailable):
        await ledger.find_credential(digest_api_key(created.secret))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"roles": []}, "at least one role", id="no role"),
        pytest.param({"roles": ["root"]}, "`root` is not a role", id="unknown role"),
        pytest.param({"roles": ["approve"], "dev": True}, "never approves", id="dev approves"),
        pytest.param({"name": ""}, "name", id="no name"),
        pytest.param({"name": "a\nb"}, "name", id="two lines"),
        pytest.param({"profile": ""}, "profile", id="no profile"),
        pytest.param({"tenant": ""}, "tenant", id="no tenant"),
        *(
            pytest.param({"tenant": name}, "tenant", id=name)
            for name in ("Acme", "-a", "a_b", "a\n", "a" * 64)
        ),
        *(
            pytest.param({"profile": name}, "profile", id=name)
            for name in ("-p", "p q", "p\n", "ü", "p" * 65)
        ),
    ],
)
def test_keys_that_may_not_be(tmp_path: Path, change: dict[str, object], message: str) -> None:
    wanted: dict[str, object] = {"name": "n", "roles": ["decide"], "profile": "p", "now_ms": 1, **change}
    with pytest.raises(ConfigError, match=message):
        create_api_key(tmp_path / "authz.db", **wanted)  # type: ignore[arg-type]
    assert not (tmp_path / "authz.db").exists()


def test_another_tenants_key_is_as_if_absent(tmp_path: Path) -> None:
    path = tmp_path / "authz.db"
    created = create_api_key(path, name="n", roles=["decide"], profile="p", now_ms=1, tenant="a")
    with pytest.raises(NotFound):
        revoke_api_key(path, created.key_id, now_ms=2, tenant="b")
    assert list_api_keys(path, tenant="b") == []
    revoke_api_key(path, created.key_id, now_ms=2, tenant="a")
    revoke_api_key(path, created.key_id, now_ms=3)
    (key,) = list_api_keys(path)
    assert key.revoked_at_ms == 2, "the first revocation counts"


def test_keys_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--data-dir", str(tmp_path)]
    wanted = ["--name", "ci", "--roles", "decide,audit", "--profile", "runtime"]
    assert run_command(keys_create, *where, *wanted) == 0
    secret = capsys.readouterr().out.strip()
    assert re.fullmatch(r"azk_[0-9A-Za-z_-]{43}", secret)

    assert run_command(keys_list, *where) == 0
    line = capsys.readouterr().out
    assert secret not in line
    assert "ci  runtime  audit,decide" in line
    assert line.rstrip().endswith("live")

    key_id = line.split()[0]
    assert run_command(keys_revoke, *where, key_id) == 0
    assert run_command(keys_list, *where, "--json") == 0
    assert '"revoked_at": "20' in capsys.readouterr().out

    assert run_command(keys_revoke, *where, "nobody") == 2
    assert run_command(keys_create, *where, "--name", "n", "--roles", "root", "--profile", "p") == 2
    assert run_command(keys_list, "--data-dir", str(tmp_path / "absent")) == 2
    assert "there is no database" in capsys.readouterr().err
    assert not (tmp_path / "absent").exists()


def test_a_note_says_what_is_not_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["--name", "ci", "--roles", "decide", "--profile", "typo", "--tenant", "ghost"]
    assert run_command(keys_create, "--data-dir", str(tmp_path), *wanted) == 0
    said = capsys.readouterr()
    assert re.fullmatch(r"azk_[0-9A-Za-z_-]{43}\n", said.out), "the key alone, to pipe it on"
    assert "must have a tenant `ghost` whose bundle has the profile `typo`" in said.err


def test_no_command_makes_a_database_by_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typo = tmp_path / "typo"
    for command, *arguments in ((keys_revoke, "xyz"), (keys_list,), (log_verify,), (log_head,)):
        assert run_command(command, "--data-dir", str(typo), *arguments) == 2
        assert "there is no database at" in capsys.readouterr().err
        assert not typo.exists()
    (tmp_path / "authz.db").touch()
    assert run_command(keys_revoke, "--data-dir", str(tmp_path), "xyz") == 2
    assert (tmp_path / "authz.db").stat().st_size == 0 or not list_tables(tmp_path / "authz.db")


def list_tables(path: Path) -> list[object]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name FROM sqlite_schema").fetchall()


def test_commands_read_the_configuration_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("file", "variable", "option"):
        create_api_key(tmp_path / name / "authz.db", name=name, roles=["decide"], profile="p", now_ms=1)
    monkeypatch.delenv("AUTHZ_DATA_DIR", raising=False)
    config = tmp_path / "authz.toml"
    config.write_text(f'data_dir = "{tmp_path / "file"}"')
    monkeypatch.setenv("AUTHZ_CONFIG", str(config))

    def listed(*arguments: str) -> str:
        assert run_command(keys_list, *arguments) == 0
        return capsys.readouterr().out.split()[2]

    assert listed() == "file"
    monkeypatch.setenv("AUTHZ_DATA_DIR", str(tmp_path / "variable"))
    assert listed() == "variable", "as for `authz serve`, the environment wins over the file"
    assert listed("--data-dir", str(tmp_path / "option")) == "option"
    config.write_text("data_dri = 1")
    for command in (keys_list, log_verify, log_head):
        assert run_command(command) == 2
        assert "`data_dri` is no setting" in capsys.readouterr().err
    assert listed("--database", str(tmp_path / "option" / "authz.db")) == "option"
