"""Real server processes on one real PostgreSQL: one truth, whichever is asked, and whatever is cut off."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from authz.cli.main import main
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.postgres_url import PostgresUrl
from tests.support.bundles import write_bundle
from tests.support.postgres import Postgres
from tests.support.server import RunningServer

RULES = """\
@id("everything") permit (principal, action, resource);
@id("guarded") @reason("What was read must not be written there.")
forbid (principal, action in Action::"write", resource in Directory::"/workspace/guarded")
when { context.session.exposed.contains("untrusted") };
"""
CLIENTS = 8
RECOVERY_POLLS = 600
POLL_SECONDS = 0.05


@pytest.fixture
def servers(tmp_path: Path, postgres_url: str) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two processes with folders of their own on one database, and with the same keys."""
    bundle = write_bundle(tmp_path / "bundle", rules=RULES)
    one, other = (
        RunningServer(bundle=bundle, data_dir=tmp_path / name, env={"AUTHZ_DATABASE_URL": postgres_url})
        for name in ("one", "other")
    )
    with one:
        other.data_dir.mkdir(mode=0o700)
        shutil.copy2(one.data_dir / "keys.json", other.data_dir / "keys.json")
        other.key = one.key
        with other:
            yield one, other


def body(tool: str, session: str, call: object, **arguments: str) -> dict[str, Any]:
    return {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": session},
        "tool": {"server": "fs", "name": tool},
        "arguments": {"path": "/workspace/a"} | arguments,
        "context": {
            "trace_id": f"t-{call}",
            "turn_id": "1",
            "tool_call_id": "c",
            "cwd": "/workspace",
            "sandbox_root": "/workspace",
        },
    }


def test_what_one_has_seen_the_other_knows(servers: tuple[RunningServer, RunningServer]) -> None:
    with servers[0].client() as one, servers[1].client() as other:
        for number in range(20):
            session = f"s-{number}"

            def write(name: str, session: str = session) -> dict[str, Any]:
                return body("file_edit", session, f"{session}-{name}", path="/workspace/guarded/a", text="x")

            for client in (one, other):  # both have looked, and found nothing
                assert client.post("/decide", json=write("b") | {"dry_run": True}).json()["effect"] == "allow"
            reading, writing = (one, other) if number % 2 else (other, one)
            read = reading.post("/decide", json=body("file_read", session, f"{session}-read")).json()
            assert read["effect"] == "allow"
            after = writing.post("/decide", json=write("after")).json()
            assert after["effect"] == "deny"
            assert [match["rule"] for match in after["matched"]] == ["guarded"]


def test_one_permission_whichever_is_asked(servers: tuple[RunningServer, RunningServer]) -> None:
    async def ask_both() -> list[Any]:
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    httpx.AsyncClient(
                        base_url=server.url, headers=server.headers, trust_env=False, timeout=30
                    )
                )
                for server in servers
            ]
            asked = [
                client.post("/decide", json=body("file_edit", "s", number, text="x"))
                for number in range(40)
                for client in clients
            ]
            return [answer.json() for answer in await asyncio.gather(*asked)]

    answers = asyncio.run(ask_both())
    assert {answer["effect"] for answer in answers} == {"allow"}
    for first, second in zip(answers[::2], answers[1::2], strict=True):
        assert first["decision_id"] == second["decision_id"]
        assert sorted((first.get("repeated", False), second.get("repeated", False))) == [False, True]


def test_a_key_that_is_revoked_is_refused_by_all(
    servers: tuple[RunningServer, RunningServer], monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.setenv("AUTHZ_DATABASE_URL", postgres_url)
    monkeypatch.setenv("AUTHZ_DATA_DIR", str(servers[0].data_dir))
    with contextlib.closing(psycopg.connect(postgres_url)) as connection:
        row = connection.execute("SELECT key_id FROM api_keys").fetchone()
    assert row is not None
    with servers[0].client() as one, servers[1].client() as other:
        assert one.get("/decisions").status_code == other.get("/decisions").status_code == 200
        assert main(["keys", "revoke", row[0]]) == 0
        for client in (one, other):
            refused = False
            for _ in range(40):
                refused = client.get("/decisions").status_code == 401
                if refused:
                    break
                # The bound itself is held by the tests of the store, by a clock of their own.
                time.sleep(POLL_SECONDS)
            assert refused


async def _load(server: RunningServer, restart: "asyncio.Future[None]", after: int) -> dict[str, Any]:
    """Decide until the database was restarted and answers again. Each call is sent until it is answered."""
    answered: dict[str, Any] = {}
    refused = 0
    numbers = itertools.count()

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal refused
        while not restart.done() or len(answered) < after + 200:
            number = next(numbers)
            for _ in range(RECOVERY_POLLS):
                response = await client.post("/decide", json=body("file_edit", "s", number, text="x"))
                if response.status_code == 200:
                    break
                assert response.status_code == 503, response.text
                assert response.json()["code"].startswith(("store.", "log."))
                refused += 1
                await asyncio.sleep(POLL_SECONDS)
            answer = response.json()
            assert answer["effect"] == "allow"
            answered[f"t-{number}"] = answer

    async with httpx.AsyncClient(
        base_url=server.url, headers=server.headers, trust_env=False, timeout=60
    ) as client:
        await asyncio.gather(*(ask(client) for _ in range(CLIENTS)))
        assert (await client.get("/readyz")).status_code == 200
    assert refused > 0, "the restart was not noticed"
    return answered


async def test_the_database_restarts_under_load(tmp_path: Path) -> None:
    with Postgres.running() as own, own.database() as url:
        server = RunningServer(
            bundle=write_bundle(tmp_path / "bundle"),
            data_dir=tmp_path / "var",
            env={"AUTHZ_DATABASE_URL": url},
        )
        with server:
            restart = asyncio.ensure_future(asyncio.to_thread(_restart_when, own, url, 200))
            answered = await _load(server, restart, 200)
            await restart
        with contextlib.closing(psycopg.connect(url)) as connection:
            made = connection.execute(
                "SELECT trace_id, decision_id FROM events WHERE type = 'decision.made' AND trace_id <> ''"
            ).fetchall()
        assert len(made) == len(set(made)) == len({trace for trace, _ in made}), "nothing is doubled"
        decided = dict(made)
        for trace, answer in answered.items():
            assert decided[trace] == answer["decision_id"], "nothing is lost"
        keys = ServiceKeys.load(tmp_path / "var" / "keys.json")
        with LogSnapshot(PostgresUrl.parse(url)) as snapshot:
            assert verify_log(snapshot, keys.public_keys()).findings == ()


def test_a_database_that_hangs_holds_up_neither_callers_nor_the_end(
    tmp_path: Path, postgres_url: str
) -> None:
    """Its writer's session stands still: who asks is refused in time, and the service ends when told to."""
    server = RunningServer(
        bundle=write_bundle(tmp_path / "bundle"),
        data_dir=tmp_path / "var",
        env={"AUTHZ_DATABASE_URL": postgres_url},
    )
    with server, server.client(timeout_seconds=60) as client:
        assert client.post("/decide", json=body("file_edit", "s", 1, text="x")).status_code == 200
        with contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
            query = (
                "SELECT pid FROM pg_stat_activity"
                " WHERE application_name = 'authz writer' AND datname = current_database()"
            )
            [(pid,)] = connection.execute(query).fetchall()
        os.kill(pid, signal.SIGSTOP)
        try:
            refused = client.post("/decide", json=body("file_edit", "s", 2, text="x"))
            assert (refused.status_code, refused.json()["code"]) == (503, "store.timeout")
            assert client.get("/readyz").status_code == 503
            assert server.stop() == 0
        finally:
            os.kill(pid, signal.SIGCONT)


def _restart_when(own: Postgres, url: str, records: int) -> None:
    """Crash the server once it holds so many records."""
    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        for _ in range(RECOVERY_POLLS):
            row = connection.execute("SELECT count(*) FROM events").fetchone()
            if row is not None and row[0] >= records:
                break
            connection.execute("SELECT pg_sleep(0.05)")
        else:
            raise AssertionError("the load never came")
    own.restart()
