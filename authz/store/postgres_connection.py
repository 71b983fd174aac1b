"""Opening PostgreSQL so that COMMIT means durable, and the driver side of the commit engine."""

import contextlib
import logging
import secrets
import time
from collections.abc import Sequence
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import Connection, errors
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from sqlalchemy import ClauseElement
from sqlalchemy.dialects import postgresql

from authz.errors import StoreUnavailable
from authz.store.postgres_url import PostgresUrl
from authz.store.statements import compile_statements
from authz.store.write_connection import NothingWritten, SqlRow, SqlValue

DIALECT = postgresql.dialect(paramstyle="format")  # type: ignore[no-untyped-call]
STATEMENTS = compile_statements(DIALECT)

STATEMENT_TIMEOUT_MS = 10_000
LOCK_TIMEOUT_MS = 5_000
"""How long a commit waits for the other replicas' before it is refused as unavailable."""
IDLE_TIMEOUT_MS = 5_000
"""A replica that stops in the middle of a commit holds up the others for so long at most."""
ANSWER_TIMEOUT_SECONDS = 12.0
"""How long any answer of the server is waited for: longer than it takes itself, unless it hangs."""

# Advisory locks, all under one prefix in the upper bits: other programs may use the same database.
_LOCK_SPACE = 0x6175 << 48
COMMIT_LOCK = _LOCK_SPACE | 0xFFFF_FFFF_FFFF
"""Held by the one transaction that commits records: what `BEGIN IMMEDIATE` is on SQLite."""
SCHEMA_LOCK = COMMIT_LOCK - 1
"""Held while the schema is created or migrated."""
_WRITER_BYTES = 6
_KEY = "signing_key"
"""The row of `store_meta` that names the key of the processes that run."""

_log = logging.getLogger("authz.store")
_T = TypeVar("_T")


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time. Whether it did what it was asked to is not known."""


_ENDED = (
    NoAnswer,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.DatabaseDropped,
    errors.IdleInTransactionSessionTimeout,
    errors.ConnectionException,
)
_RETRIED = (errors.SerializationFailure, errors.DeadlockDetected)


def bind(statement: ClauseElement) -> tuple[str, list[SqlValue]]:
    """A statement that was built for one use, as SQL text and its parameters by position."""
    compiled = statement.compile(dialect=DIALECT, compile_kwargs={"render_postcompile": True})
    order: Sequence[str] = getattr(compiled, "positiontup", None) or ()
    return str(compiled), [compiled.params[name] for name in order]


def raw(sql: str) -> LiteralString:
    """SQL that this program wrote, as the driver wants it marked. Never text from outside."""
    return sql


def unavailable(fault: Exception, doing: str) -> StoreUnavailable:
    """The one translation of driver errors: what failed; its SQLSTATE is for operators only.

    The driver's own words are in neither: those may quote the connection string or a row. The log gets
    them as the cause.
    """
    return StoreUnavailable(f"the store failed at {doing}", internal=f"`{_code(fault)}`")


def _code(fault: Exception) -> str:
    return getattr(fault, "sqlstate", None) or type(fault).__name__


def cause(fault: Exception, url: PostgresUrl) -> Exception | None:
    """The fault as it may be logged: `None` when its text holds the password."""
    return None if url.password and url.password in str(fault) else fault


def connect(url: PostgresUrl, *, part: str, read_only: bool = False) -> Connection[TupleRow]:
    """A connection in autocommit mode with the settings that durability and fairness rest on.

    `part` says in `pg_stat_activity` what it is for. Raises `StoreUnavailable` when the server cannot be
    reached or would not keep what it acknowledges (`store.not_durable`).
    """
    try:
        connection = _Session.connect(url.conninfo, autocommit=True, application_name=f"authz {part}")
    except (psycopg.Error, OSError, UnicodeError) as fault:
        where = f"`{url}`: `{_code(fault)}`"
        raise StoreUnavailable("the store cannot be reached", internal=where) from cause(fault, url)
    try:
        _prepare(connection, read_only=read_only)
        check_durable(connection)
    except psycopg.Error as fault:
        connection.close()
        raise unavailable(fault, "opening it") from cause(fault, url)
    except BaseException:
        connection.close()
        raise
    return connection


class _Session(Connection[TupleRow]):
    """Waits for no answer longer than `ANSWER_TIMEOUT_SECONDS`, and is closed when none came.

    A server that was stopped, or a disk beneath it, keeps its side of the socket alive and obeys no timeout.
    """

    def wait(self, gen: PQGen[_T], *args: Any, **options: Any) -> _T:
        try:
            return super().wait(_bounded(gen, time.monotonic() + ANSWER_TIMEOUT_SECONDS), *args, **options)
        except NoAnswer:
            self.close()
            raise


def _bounded(gen: PQGen[_T], until_s: float) -> PQGen[_T]:
    """What the driver waits for, given up after `until_s`: it looks up several times a second."""
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and time.monotonic() >= until_s:
                raise NoAnswer("the server did not answer in time")
            state = gen.send(ready)
    except StopIteration as end:
        result: _T = end.value
        return result


def _prepare(connection: Connection[TupleRow], *, read_only: bool) -> None:
    settings = [
        ("statement_timeout", STATEMENT_TIMEOUT_MS),
        ("lock_timeout", LOCK_TIMEOUT_MS),
        ("idle_in_transaction_session_timeout", IDLE_TIMEOUT_MS),
    ]
    for name, value in settings:
        connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
    # A server may be set to more than `on` (`remote_apply`), which stays.
    (level,) = _show(connection, "synchronous_commit")
    if level not in ("on", "remote_apply"):
        connection.execute("SET synchronous_commit = on")
    if read_only:
        connection.execute("SET default_transaction_read_only = on")


def check_durable(connection: Connection[TupleRow]) -> None:
    """Refuse (`StoreUnavailable`, `store.not_durable`) a server whose COMMIT may lose data."""
    wanted = (("fsync", ("on",)), ("synchronous_commit", ("on", "remote_apply")))
    for name, values in wanted:
        (actual,) = _show(connection, name)
        if actual not in values:
            raise StoreUnavailable(
                f"the database server does not keep `{name}` at `{values[0]}` (it is `{actual}`), so it "
                "could lose what it acknowledged; turn it on",
                code="store.not_durable",
            )
    (encoding,) = _show(connection, "server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database's encoding is `{encoding}`; create it with the encoding `UTF8`",
            code="store.schema",
        )


def _show(connection: Connection[TupleRow], name: str) -> TupleRow:
    row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return row


def writer_lock(writer: str) -> int:
    """The advisory lock of a writer id (12 hex digits): one each, without collisions."""
    return _LOCK_SPACE | int(writer, 16)


def is_lost(connection: Connection[TupleRow] | None, fault: Exception | None = None) -> bool:
    """Whether a session is over: by its own state, or because the server said so as it ended it."""
    if connection is None or connection.closed or connection.broken:
        return True
    return isinstance(fault, _ENDED)


class PostgresWriteConnection:
    """The commit engine's connection: one session, which holds the lock of the chain that it writes."""

    is_remote = True

    def __init__(self, url: PostgresUrl) -> None:
        self._url = url
        self._connection: Connection[TupleRow] | None = None
        self._writer: str | None = None
        self._warnings: list[str] = []

    def claim_writer(self) -> str:
        """Take a chain of the log that no live process writes, a new one when none is free.

        The lock lives as long as this session; who loses the session claims anew, the same chain when
        it is still free. Raises `StoreUnavailable`.
        """
        try:
            connection = self._opened()
            if self._writer is None or not self._holds(connection, self._writer):
                self._writer = self._claim(connection)
        except psycopg.Error as fault:
            raise self._failed(fault, "claiming a writer") from cause(fault, self._url)
        return self._writer

    def register_key(self, identity: str) -> None:
        """Refuse (`StoreUnavailable`, `store.key_differs`) to run beside processes with another key file.

        Keys of calls and digests in the log derive from it, so two files would be two services that do not
        know each other's. While no other process lives, a new file takes the place of the old one.
        `identity` names the file, and stays the same through rotations.
        """
        # The session that claimed a chain: a new one would hold no lock.
        connection = self._live()
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
                row = connection.execute("SELECT value FROM store_meta WHERE name = %s", (_KEY,)).fetchone()
                if row is not None and row[0] != identity and _count_others(connection) > 0:
                    raise StoreUnavailable(
                        f"the other processes on this database have the key file `{row[0]}` and this one "
                        f"has `{identity}`; give all the same key file, `keys.json` in the data directory",
                        code="store.key_differs",
                    )
                connection.execute(
                    "INSERT INTO store_meta (name, value) VALUES (%s, %s)"
                    " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    (_KEY, identity),
                )
        except psycopg.Error as fault:
            raise self._failed(fault, "registering the key") from cause(fault, self._url)

    def begin(self) -> None:
        # Never opens a connection: its session would not hold the writer's lock.
        connection = self._connection
        if connection is None or self._writer is None:
            raise NothingWritten("the connection to the database was lost")
        try:
            # Whatever the database's default is: what is read afterwards must be read after the lock.
            connection.execute(
                raw(f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({COMMIT_LOCK})")
            )
        except psycopg.Error as fault:
            raise self._failed(fault, "beginning") from cause(fault, self._url)

    def commit(self) -> None:
        connection = self._live()
        self._warnings.clear()
        try:
            status = connection.execute("COMMIT").statusmessage
        except _RETRIED as fault:
            raise NothingWritten("the database undid the transaction") from cause(fault, self._url)
        except psycopg.Error as fault:
            # Lost on the way: it may be durable or not, so nothing is tried again.
            raise unavailable(fault, "committing") from cause(fault, self._url)
        # A transaction that failed earlier ends in a ROLLBACK without an error, and one that was not
        # confirmed by a synchronous standby in a warning.
        if status != "COMMIT" or self._warnings:
            raise StoreUnavailable(f"the database did not confirm the commit ({status or 'no answer'})")

    def rollback(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.closed or connection.broken:
                self.close()
            elif connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def execute(self, sql: str, parameters: Sequence[SqlValue]) -> int:
        try:
            return self._live().execute(raw(sql), parameters).rowcount
        except (psycopg.Error, UnicodeError) as fault:
            raise self._failed(fault, "writing") from cause(fault, self._url)

    def execute_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[int]:
        counts: list[int] = []
        try:
            with self._live().cursor() as cursor:
                # One round trip for all of them; a result each.
                cursor.executemany(raw(sql), rows, returning=True)
                counts.append(cursor.rowcount)
                while cursor.nextset():
                    counts.append(cursor.rowcount)
        except (psycopg.Error, UnicodeError) as fault:
            raise self._failed(fault, "writing") from cause(fault, self._url)
        return counts

    def execute_many(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        try:
            with self._live().cursor() as cursor:
                cursor.executemany(raw(sql), rows)
        except (psycopg.Error, UnicodeError) as fault:
            raise self._failed(fault, "writing") from cause(fault, self._url)

    def fetch_one(self, sql: str, parameters: Sequence[SqlValue] = ()) -> SqlRow | None:
        try:
            return self._live().execute(raw(sql), parameters).fetchone()
        except (psycopg.Error, UnicodeError) as fault:
            raise self._failed(fault, "reading") from cause(fault, self._url)

    def fetch_all(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        try:
            return self._live().execute(raw(sql), parameters).fetchall()
        except (psycopg.Error, UnicodeError) as fault:
            raise self._failed(fault, "reading") from cause(fault, self._url)

    def fetch_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[list[SqlRow]]:
        found: list[list[SqlRow]] = []
        try:
            with self._live().cursor() as cursor:
                cursor.executemany(raw(sql), rows, returning=True)
                found.append(cursor.fetchall())
                while cursor.nextset():
                    found.append(cursor.fetchall())
        except (psycopg.Error, UnicodeError) as fault:
            raise self._failed(fault, "reading") from cause(fault, self._url)
        return found

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with contextlib.suppress(psycopg.Error):
            if connection.info.transaction_status is TransactionStatus.IDLE:
                # The server ends a session some time after its client has gone: whoever opens the store
                # next would still see this writer alive.
                connection.execute("SELECT pg_advisory_unlock_all()")
        with contextlib.suppress(psycopg.Error):
            connection.close()

    def _opened(self) -> Connection[TupleRow]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, part="writer")
            self._connection.add_notice_handler(self._notice)
        return self._connection

    def _live(self) -> Connection[TupleRow]:
        if self._connection is None:
            raise NothingWritten("the connection to the database was lost")
        return self._connection

    def _notice(self, notice: errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warnings.append(notice.sqlstate or "")
            _log.warning("the database warns", extra={"sqlstate": notice.sqlstate})

    def _failed(self, fault: Exception, doing: str) -> StoreUnavailable:
        """Before COMMIT whatever undoes the transaction leaves nothing of it, so it may be tried again."""
        lost = is_lost(self._connection, fault)
        if lost:
            self.close()
        if lost or isinstance(fault, _RETRIED):
            failed = unavailable(fault, doing)
            return NothingWritten(failed.message, internal=failed.internal)
        return unavailable(fault, doing)

    def _claim(self, connection: Connection[TupleRow]) -> str:
        # One at a time, so that two that start together do not both find no free chain and grow two.
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
            rows = connection.execute("SELECT writer FROM log_heads ORDER BY writer").fetchall()
            known = [str(writer) for (writer,) in rows]
            if self._writer in known:
                known.insert(0, self._writer)
            for writer in known:
                if _is_writer(writer) and _try_lock(connection, writer):
                    return writer
            while True:
                writer = secrets.token_hex(_WRITER_BYTES)
                if writer not in known and _try_lock(connection, writer):
                    return writer

    @staticmethod
    def _holds(connection: Connection[TupleRow], writer: str) -> bool:
        lock = writer_lock(writer)
        # `pg_locks` shows the two halves of the number. One's own locks only.
        held = connection.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
            " AND classid = %s::bigint::oid AND objid = %s::bigint::oid AND objsubid = 1",
            (lock >> 32, lock & 0xFFFF_FFFF),
        )
        return held.fetchone() is not None


def _count_others(connection: Connection[TupleRow]) -> int:
    """How many other sessions hold a writer's lock in this database."""
    row = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) >= %s"
        " AND (classid::bigint << 32 | objid::bigint) < %s",
        (_LOCK_SPACE, SCHEMA_LOCK),
    ).fetchone()
    return 0 if row is None else int(row[0])


def _is_writer(writer: str) -> bool:
    return len(writer) == 2 * _WRITER_BYTES and set(writer) <= set("0123456789abcdef")


def _try_lock(connection: Connection[TupleRow], writer: str) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (writer_lock(writer),)).fetchone()
    return row is not None and row[0] is True
