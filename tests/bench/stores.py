"""The cost of the durable record on each store: commits of a fixed batch, and whole requests.

    python -m tests.bench.stores

PostgreSQL is a real server on this machine, over a socket; its own CPU time is not counted, since it would
run on another machine. `cpu_us` is what a row costs this process, `p50_ms` how long a whole batch takes.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from authz.ports import CommitUnit
from authz.store.commit_engine import CommitEngine
from authz.store.postgres_connection import STATEMENTS as POSTGRES_STATEMENTS
from authz.store.postgres_connection import PostgresWriteConnection, connect
from authz.store.postgres_schema import prepare_schema
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite_connection import STATEMENTS as SQLITE_STATEMENTS
from authz.store.sqlite_connection import SqliteWriteConnection
from tests.bench.bundle import write_bundle
from tests.bench.core import World
from tests.bench.ledger import _Clock, _unit
from tests.bench.load import send_all
from tests.bench.server import Cores, serving_authz
from tests.support.postgres import Postgres

BATCHES: Final = (1, 16, 64)
ROUNDS: Final = 200
WRITER: Final = "0123456789ab"
REQUESTS: Final = 3000
CONNECTIONS: Final = (1, 32)


def measure_stores(folder: Path, cores: Cores, *, rounds: int = ROUNDS) -> dict[str, Any]:
    """Commits by batch, and requests by connections, on each store."""
    bundle = folder / "stores-bundle"
    write_bundle(bundle, 100)
    world = World.load(bundle)
    with Postgres.running() as server, server.database() as commits, server.database() as requests:
        return {
            "commit": {
                "sqlite": _commits(world, _sqlite(folder / "commits.db"), rounds),
                "postgres": _commits(world, _postgres(commits), rounds),
            },
            "http": {
                "sqlite": _requests(bundle, folder / "sqlite", cores, {}),
                "postgres": _requests(bundle, folder / "postgres", cores, {"AUTHZ_DATABASE_URL": requests}),
            },
        }


@contextmanager
def _sqlite(path: Path) -> Iterator[CommitEngine]:
    connection = SqliteWriteConnection(path, busy_timeout_ms=1000)
    engine = CommitEngine(connection, SQLITE_STATEMENTS, writer=WRITER, clock=_Clock())
    engine.load()
    yield engine
    engine.close()


@contextmanager
def _postgres(text: str) -> Iterator[CommitEngine]:
    url = PostgresUrl.parse(text)
    with connect(url, part="bench") as connection:
        prepare_schema(connection, migrate=True)
    session = PostgresWriteConnection(url)
    engine = CommitEngine(
        session, POSTGRES_STATEMENTS, writer="", clock=_Clock(), claim_writer=session.claim_writer
    )
    engine.load()
    yield engine
    engine.close()


def _commits(
    world: World, opening: AbstractContextManager[CommitEngine], rounds: int
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    number = 0
    with opening as engine:
        for size in BATCHES:
            batches: list[Sequence[CommitUnit]] = []
            for _ in range(rounds + 10):
                batches.append([_unit(world, number + index) for index in range(size)])
                number += size
            for batch in batches[:10]:
                engine.commit_batch(batch)
            wall_ms: list[float] = []
            cpu = time.process_time_ns()
            for batch in batches[10:]:
                begun = time.perf_counter_ns()
                engine.commit_batch(batch)
                wall_ms.append((time.perf_counter_ns() - begun) / 1e6)
            cpu_us = (time.process_time_ns() - cpu) / 1000 / (rounds * size)
            found[str(size)] = {
                "p50_ms": round(statistics.median(wall_ms), 3),
                "cpu_us": round(cpu_us, 1),
            }
    return found


def _requests(bundle: Path, data_dir: Path, cores: Cores, environment: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with serving_authz(data_dir.name, bundle, data_dir, cores, environment) as server:
        for connections in CONNECTIONS:
            for count in (REQUESTS // 5, REQUESTS // max(1, 4 // connections)):
                requests = server.requests.take(count)
                before = server.cpu_seconds()
                load = send_all(server.port, requests, connections=connections, expected=server.expected)
                cpu_us = (server.cpu_seconds() - before) / count * 1e6
                found[str(connections)] = {
                    "cpu_us": round(cpu_us, 1),
                    "per_second": round(load.per_second),
                    "p50_us": round(load.percentile_us(50)),
                    "p99_us": round(load.percentile_us(99)),
                }
    return found


if __name__ == "__main__":
    chosen = Cores.choose()
    os.sched_setaffinity(0, {chosen.load})
    with tempfile.TemporaryDirectory(prefix="authz-bench-") as name:
        print(json.dumps(measure_stores(Path(name), chosen), indent=1))
