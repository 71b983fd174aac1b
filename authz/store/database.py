"""Where the data is, a SQLite file or a PostgreSQL database, and short sessions on either for commands."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from sqlalchemy import ClauseElement

from authz.errors import StoreUnavailable
from authz.store import migrations, postgres_connection, postgres_schema, sqlite_connection
from authz.store.postgres_url import PostgresUrl

Database = Path | PostgresUrl
Access = Literal["create", "write", "read"]
"""`create` makes the database where it is absent; `write` and `read` refuse then."""

ANCHOR_NAME = "postgres"
"""What the anchor file in the data directory is named after, where the database is a server's."""


class Session(Protocol):
    """One connection for a command's few statements. Every method raises `StoreUnavailable`."""

    def fetch(self, statement: ClauseElement) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        ...

    def run(self, statement: ClauseElement) -> None:
        """A statement that answers nothing."""
        ...

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """All or nothing, and nobody else's transaction of this kind in between."""
        ...


@contextlib.contextmanager
def open_session(database: Database, access: Access) -> Iterator[Session]:
    """A session, closed at the end. Raises `StoreUnavailable`."""
    session = (
        _PostgresSession(database, access)
        if isinstance(database, PostgresUrl)
        else _SqliteSession(database, access)
    )
    with contextlib.closing(session):
        yield session


def run_beside(database: Database, statement: ClauseElement) -> None:
    """One statement beside the log's own transactions. Raises `StoreUnavailable`."""
    with open_session(database, "write") as session:
        session.run(statement)


class _SqliteSession:
    def __init__(self, path: Path, access: Access) -> None:
        if access == "read":
            self._connection = sqlite_connection.open_read_only(path)
        else:
            self._connection = sqlite_connection.open_database(path, must_exist=access == "write")

    def fetch(self, statement: ClauseElement) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(*sqlite_connection.bind(statement)).fetchall()
        except sqlite3.Error as fault:
            raise sqlite_connection.unavailable(fault, "managing keys") from fault

    def run(self, statement: ClauseElement) -> None:
        self.fetch(statement)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as fault:
            raise sqlite_connection.unavailable(fault, "managing keys") from fault

    def close(self) -> None:
        self._connection.close()


class _PostgresSession:
    def __init__(self, url: PostgresUrl, access: Access) -> None:
        self._url = url
        self._connection = open_postgres(url, access)

    def fetch(self, statement: ClauseElement) -> list[tuple[Any, ...]]:
        return self._execute(statement).fetchall()

    def run(self, statement: ClauseElement) -> None:
        self._execute(statement)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            with self._connection.transaction():
                self._connection.execute(
                    "SELECT pg_advisory_xact_lock(%s)", (postgres_connection.COMMIT_LOCK,)
                )
                yield
        except psycopg.Error as fault:
            raise self._unavailable(fault) from postgres_connection.cause(fault, self._url)

    def close(self) -> None:
        self._connection.close()

    def _execute(self, statement: ClauseElement) -> psycopg.Cursor[TupleRow]:
        sql, parameters = postgres_connection.bind(statement)
        try:
            return self._connection.execute(postgres_connection.raw(sql), parameters)
        except (psycopg.Error, UnicodeError) as fault:
            raise self._unavailable(fault) from postgres_connection.cause(fault, self._url)

    @staticmethod
    def _unavailable(fault: Exception) -> StoreUnavailable:
        return postgres_connection.unavailable(fault, "managing keys")


def find_version(database: Database) -> int | None:
    """The version of the schema; `None` where there is none. Raises `StoreUnavailable`."""
    if isinstance(database, PostgresUrl):
        with contextlib.closing(
            postgres_connection.connect(database, part="command", read_only=True)
        ) as server:
            try:
                return postgres_schema.find_version(server)
            except psycopg.Error as fault:
                raise postgres_connection.unavailable(fault, "reading its version") from (
                    postgres_connection.cause(fault, database)
                )
    return sqlite_connection.read_version_of(database)


def migrate(database: Database) -> None:
    """Bring the schema up to date; on a server, make it where there is none. Raises `StoreUnavailable`.

    On SQLite no service may run meanwhile (`store.locked`); on PostgreSQL running ones go on with it, as
    far as the steps allow: they only ever add.
    """
    if isinstance(database, PostgresUrl):
        with contextlib.closing(postgres_connection.connect(database, part="command")) as server:
            try:
                postgres_schema.prepare_schema(server, migrate=True)
            except psycopg.Error as fault:
                raise postgres_connection.unavailable(fault, "migrating") from (
                    postgres_connection.cause(fault, database)
                )
        return
    sqlite_connection.check_exists(database)
    lock = sqlite_connection.ProcessLock(database)
    try:
        sqlite_connection.open_database(database, must_exist=True, migrate=True).close()
    finally:
        lock.release()


def open_postgres(url: PostgresUrl, access: Access) -> Connection[TupleRow]:
    """A connection to a database with the present schema, made with `create` where there is none.

    An older schema is not migrated here but refused: that is for the service or `authz store migrate`.
    """
    connection = postgres_connection.connect(url, part="command", read_only=access == "read")
    try:
        if access == "create":
            postgres_schema.prepare_schema(connection, migrate=False)
        else:
            found = postgres_schema.find_version(connection)
            if found is None:
                raise StoreUnavailable(f"there is no authz database at `{url}`; start the service first")
            migrations.check_current(found)
    except psycopg.Error as fault:
        connection.close()
        raise postgres_connection.unavailable(fault, "opening it") from postgres_connection.cause(fault, url)
    except BaseException:
        connection.close()
        raise
    return connection
