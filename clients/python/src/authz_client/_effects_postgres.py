"""The same over PostgreSQL, for several machines. Needs the extra `authz-client[postgres]`."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from authz_client._effects import TABLE, SqlEffects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg


class PostgresEffects(SqlEffects):
    """In a table `authz_effects` of the database at `url`. Threads may share it; `close` it in the end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[psycopg.Connection[tuple[Any, ...]]] = []
        self._lock = threading.Lock()
        with self._connected() as connection, connection.transaction():
            # Two that create the table at once would otherwise get in each other's way.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('authz_effects'))")
            connection.execute(TABLE)

    def execute(self, statement: str, values: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        """See `SqlEffects`. What fails is raised: an effect whose claim is not certain is not had."""
        with self._connected() as connection:
            cursor = connection.execute(statement.replace("?", "%s").encode(), tuple(values))
            if cursor.description is not None:
                return 0, cursor.fetchall()
            return cursor.rowcount, []

    def close(self) -> None:
        """Close the connections that nobody uses at this moment."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection of one's own for one statement. One that failed is not used again."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            # Here, since SQLite needs no driver.
            import psycopg  # noqa: PLC0415

            connection = psycopg.connect(self._url, autocommit=True)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
