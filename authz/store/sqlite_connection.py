"""Opening SQLite so that COMMIT means durable, and the driver side of the commit engine."""

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import ClauseElement
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from authz.errors import StoreUnavailable
from authz.store.commit_engine import SqlRow, SqlValue
from authz.store.statements import compile_statements
from authz.store.tables import METADATA, SCHEMA_VERSION

DIALECT = sqlite_dialect.dialect(paramstyle="qmark")
STATEMENTS = compile_statements(DIALECT)

_WAL_AUTOCHECKPOINT_PAGES = 16_384
"""64 MB: the checkpointer thread normally comes first; this bounds the file if it cannot keep up."""
_FULL = 2
_SELECT_META = "SELECT value FROM store_meta WHERE name = ?"
_APPEND_ONLY = ("events", "log_checkpoints")


def bind(statement: ClauseElement) -> tuple[str, list[SqlValue]]:
    """A statement that was built for one use, as SQL text and its parameters by position."""
    compiled = statement.compile(dialect=DIALECT, compile_kwargs={"render_postcompile": True})
    order: Sequence[str] = getattr(compiled, "positiontup", None) or ()
    return str(compiled), [compiled.params[name] for name in order]


def unavailable(fault: sqlite3.Error, doing: str) -> StoreUnavailable:
    """The one translation of driver errors. The driver's own words stay in `__cause__`, for the log."""
    name = getattr(fault, "sqlite_errorname", type(fault).__name__)
    return StoreUnavailable(f"the database failed at {doing} (`{name}`)")


def open_database(path: Path, *, busy_timeout_ms: int = 5000) -> sqlite3.Connection:
    """A read-write connection; creates file (0600), directory (0700) and schema where absent.

    Raises `StoreUnavailable` when the database cannot be opened, belongs to another version
    (`store.schema`), or does not take the settings on which durability rests.
    """
    try:
        _create_file(path)
        connection = connect(f"{path.absolute().as_uri()}?mode=rw", busy_timeout_ms)
        try:
            _set_pragmas(connection)
            _create_schema(connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as fault:
        raise unavailable(fault, "opening it") from fault
    except OSError as fault:
        raise StoreUnavailable(f"the database `{path}` cannot be opened: {fault.strerror}") from fault
    return connection


def open_read_only(path: Path, *, busy_timeout_ms: int = 5000) -> sqlite3.Connection:
    """A connection that cannot write, to a database that exists. Raises `StoreUnavailable`."""
    if not path.is_file():
        raise StoreUnavailable(f"there is no database at `{path}`")
    try:
        connection = connect(f"{path.absolute().as_uri()}?mode=ro", busy_timeout_ms)
        try:
            connection.execute("PRAGMA query_only = ON")
            version = connection.execute(_SELECT_META, ("schema_version",)).fetchone()
            if version != (SCHEMA_VERSION,):
                raise _wrong_version(version)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as fault:
        raise unavailable(fault, "opening it") from fault
    return connection


def read_writer(connection: sqlite3.Connection) -> str:
    """The id of this database as a writer of the log: 12 hex digits, for its whole life."""
    row = connection.execute(_SELECT_META, ("writer",)).fetchone()
    if row is None:
        raise StoreUnavailable("the database has no writer id", code="store.schema")
    return str(row[0])


def connect(uri: str, busy_timeout_ms: int) -> sqlite3.Connection:
    """A bare connection in autocommit mode, usable from any one thread at a time."""
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=busy_timeout_ms / 1000
    )
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _create_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made here and not by SQLite, which would leave it readable as the umask has it.
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _set_pragmas(connection: sqlite3.Connection) -> None:
    """Set what durability rests on, and read it back: SQLite ignores what it cannot do."""
    wanted: Sequence[tuple[str, SqlValue]] = (
        ("journal_mode", "wal"),
        ("synchronous", _FULL),
        ("foreign_keys", 1),
        ("wal_autocheckpoint", _WAL_AUTOCHECKPOINT_PAGES),
        ("journal_size_limit", 64 * 1024 * 1024),
    )
    for name, value in wanted:
        connection.execute(f"PRAGMA {name} = {value}")
    check_durable(connection)


def check_durable(connection: sqlite3.Connection) -> None:
    """Refuse (`StoreUnavailable`, `store.not_durable`) a connection whose COMMIT may lose data."""
    for name, wanted in (("journal_mode", "wal"), ("synchronous", _FULL), ("foreign_keys", 1)):
        (actual,) = connection.execute(f"PRAGMA {name}").fetchone()
        if actual != wanted:
            raise StoreUnavailable(
                f"the database does not keep `{name}` at `{wanted}` (it is `{actual}`); use a local disk",
                code="store.not_durable",
            )


def _create_schema(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table in METADATA.sorted_tables:
            connection.execute(str(CreateTable(table, if_not_exists=True).compile(dialect=DIALECT)))
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                connection.execute(str(CreateIndex(index, if_not_exists=True).compile(dialect=DIALECT)))
        for name in _APPEND_ONLY:
            for verb in ("UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TRIGGER IF NOT EXISTS {name}_no_{verb.lower()} BEFORE {verb} ON {name} "
                    f"BEGIN SELECT RAISE(ABORT, '{name} is append-only'); END"
                )
        for meta, value in (("schema_version", SCHEMA_VERSION), ("writer", secrets.token_hex(6))):
            connection.execute("INSERT INTO store_meta VALUES (?, ?) ON CONFLICT DO NOTHING", (meta, value))
        found = connection.execute(_SELECT_META, ("schema_version",)).fetchone()
        if found != (SCHEMA_VERSION,):
            raise _wrong_version(found)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _wrong_version(found: tuple[str] | None) -> StoreUnavailable:
    has = "none" if found is None else f"`{found[0]}`"
    message = f"the database's schema version is {has}, this program needs `{SCHEMA_VERSION}`"
    return StoreUnavailable(message, code="store.schema")


class ProcessLock:
    """Held by the one process that writes a database (flock, so it ends with the process)."""

    def __init__(self, database: Path) -> None:
        """Take the lock, or raise `StoreUnavailable` (`store.locked`)."""
        path = Path(f"{database}.lock")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as fault:
            raise StoreUnavailable(f"the lock `{path}` cannot be opened: {fault.strerror}") from fault
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(self._descriptor)
            message = f"another process writes `{database}`; stop it, or choose another data directory"
            raise StoreUnavailable(message, code="store.locked") from fault

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would let two processes hold two locks."""
        os.close(self._descriptor)


class SqliteWriteConnection:
    """The commit engine's connection. Reopens itself when the driver leaves it unusable."""

    def __init__(self, path: Path, *, busy_timeout_ms: int) -> None:
        self._path = path
        self._busy_timeout_ms = busy_timeout_ms
        self._connection: sqlite3.Connection | None = None
        self._files: tuple[tuple[int, int], ...] = ()
        self._opened()

    def begin(self) -> None:
        self._run("BEGIN IMMEDIATE")
        # A removed or replaced file would still take commits, into nothing that anyone can read again.
        if self._identify_files() != self._files:
            raise StoreUnavailable("the database file was removed or replaced", code="store.replaced")

    def commit(self) -> None:
        self._run("COMMIT")

    def rollback(self) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()  # the next `begin` opens it anew

    def execute(self, sql: str, parameters: Sequence[SqlValue]) -> int:
        return self._run(sql, parameters).rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        try:
            self._opened().executemany(sql, rows)
        except sqlite3.Error as fault:
            raise unavailable(fault, "writing") from fault

    def fetch_one(self, sql: str, parameters: Sequence[SqlValue] = ()) -> SqlRow | None:
        rows = self._run(sql, parameters)
        try:
            row: SqlRow | None = rows.fetchone()
        except sqlite3.Error as fault:
            raise unavailable(fault, "reading") from fault
        finally:
            rows.close()
        return row

    def fetch_all(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        try:
            return self._run(sql, parameters).fetchall()
        except sqlite3.Error as fault:
            raise unavailable(fault, "reading") from fault

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run(self, sql: str, parameters: Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        try:
            return self._opened().execute(sql, parameters)
        except sqlite3.Error as fault:
            raise unavailable(fault, "writing") from fault

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = open_database(self._path, busy_timeout_ms=self._busy_timeout_ms)
            connection.execute("SELECT count(*) FROM store_meta").fetchone()  # opens the WAL file
            self._connection = connection
            self._files = self._identify_files()
        return self._connection

    def _identify_files(self) -> tuple[tuple[int, int], ...]:
        try:
            found = (os.stat(self._path), os.stat(f"{self._path}-wal"))
        except OSError as fault:
            raise StoreUnavailable("the database file was removed", code="store.replaced") from fault
        return tuple((status.st_dev, status.st_ino) for status in found)
