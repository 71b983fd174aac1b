"""One snapshot of a database, read for the audit of the log: SQLite or PostgreSQL."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
from sqlalchemy import Select

from authz.store import postgres_connection, sqlite_connection
from authz.store.database import Database, open_postgres
from authz.store.postgres_url import PostgresUrl

_MAX_DAMAGES = 20
_ROWS_AT_ONCE = 1000
_DOING = "reading the log"

Row = tuple[Any, ...]


class LogSource(Protocol):
    """Rows as they stood when it was opened. Every method raises `StoreUnavailable`."""

    def fetch(self, statement: Select[Any]) -> list[Row]:
        """All rows of a small result."""
        ...

    def stream(self, statement: Select[Any]) -> Iterator[Row]:
        """Rows of a result that may not fit in memory."""
        ...

    def find_damage(self) -> list[str]:
        """What the database itself says is wrong with it."""
        ...

    def close(self) -> None:
        """Release the snapshot."""
        ...


def open_log_source(database: Database) -> LogSource:
    """A snapshot of `database`. Raises `StoreUnavailable`."""
    if isinstance(database, PostgresUrl):
        return _PostgresSource(database)
    return _SqliteSource(database)


class _SqliteSource:
    def __init__(self, database: Path) -> None:
        self._connection = sqlite_connection.open_read_only(database)
        # A byte that was changed may leave text that is not UTF-8: a finding, and not a failure to read.
        self._connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        try:
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT count(*) FROM log_heads").fetchone()
        except sqlite3.Error as fault:
            self._connection.close()
            raise sqlite_connection.unavailable(fault, _DOING) from fault

    def fetch(self, statement: Select[Any]) -> list[Row]:
        return list(self.stream(statement))

    def stream(self, statement: Select[Any]) -> Iterator[Row]:
        sql, parameters = sqlite_connection.bind(statement)
        try:
            yield from self._connection.execute(sql, parameters)
        except sqlite3.Error as fault:
            raise sqlite_connection.unavailable(fault, _DOING) from fault

    def find_damage(self) -> list[str]:
        try:
            rows = self._connection.execute(f"PRAGMA integrity_check({_MAX_DAMAGES})").fetchall()
        except sqlite3.Error as fault:
            raise sqlite_connection.unavailable(fault, _DOING) from fault
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def close(self) -> None:
        self._connection.close()


class _PostgresSource:
    def __init__(self, url: PostgresUrl) -> None:
        self._url = url
        self._connection = open_postgres(url, "read")
        try:
            # The audit of a long log takes its time, between rows as well.
            for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
                self._connection.execute("SELECT set_config(%s, '0', false)", (name,))
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._connection.execute("SELECT count(*) FROM log_heads").fetchone()
        except psycopg.Error as fault:
            self._connection.close()
            raise postgres_connection.unavailable(fault, _DOING) from postgres_connection.cause(fault, url)

    def fetch(self, statement: Select[Any]) -> list[Row]:
        sql, parameters = postgres_connection.bind(statement)
        if any(isinstance(value, str) and "\0" in value for value in parameters):
            return []  # no text of PostgreSQL holds it
        try:
            return self._connection.execute(postgres_connection.raw(sql), parameters).fetchall()
        except (psycopg.Error, UnicodeError) as fault:
            raise postgres_connection.unavailable(fault, _DOING) from self._cause(fault)

    def stream(self, statement: Select[Any]) -> Iterator[Row]:
        sql, parameters = postgres_connection.bind(statement)
        try:
            with self._connection.cursor(name=f"log_{id(statement)}") as cursor:
                cursor.itersize = _ROWS_AT_ONCE
                cursor.execute(postgres_connection.raw(sql), parameters)
                yield from cursor
        except psycopg.Error as fault:
            raise postgres_connection.unavailable(fault, _DOING) from self._cause(fault)

    def find_damage(self) -> list[str]:
        """Nothing: PostgreSQL checks pages as it reads them, and `pg_amcheck` is for who runs the server."""
        return []

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    def _cause(self, fault: Exception) -> Exception | None:
        return postgres_connection.cause(fault, self._url)
