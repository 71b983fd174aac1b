"""Opening SQLite so that COMMIT means durable, and the driver side of the commit engine."""

import contextlib
import fcntl
import logging
import os
import secrets
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import ClauseElement
from sqlalchemy.dialects import sqlite as sqlite_dialect

from authz.errors import StoreUnavailable
from authz.store import migrations
from authz.store.statements import compile_statements
from authz.store.write_connection import SqlRow, SqlValue

DIALECT = sqlite_dialect.dialect(paramstyle="qmark")
STATEMENTS = compile_statements(DIALECT)

_WAL_AUTOCHECKPOINT_PAGES = 16_384
"""64 MB: the checkpointer thread normally comes first; this bounds the file if it cannot keep up."""
_FULL = 2
_SELECT_META = "SELECT value FROM store_meta WHERE name = ?"
_SET_VERSION = "UPDATE store_meta SET value = ? WHERE name = 'schema_version'"

_log = logging.getLogger("authz.store")


def bind(statement: ClauseElement) -> tuple[str, list[SqlValue]]:
    """A statement that was built for one use, as SQL text and its parameters by position."""
    compiled = statement.compile(dialect=DIALECT, compile_kwargs={"render_postcompile": True})
    order: Sequence[str] = getattr(compiled, "positiontup", None) or ()
    return str(compiled), [compiled.params[name] for name in order]


def unavailable(fault: sqlite3.Error, doing: str) -> StoreUnavailable:
    """The one translation of driver errors. The driver's own words stay in `__cause__`, for the log."""
    name = getattr(fault, "sqlite_errorname", type(fault).__name__)
    return StoreUnavailable(f"the database failed at {doing} (`{name}`)")


def open_database(
    path: Path, *, busy_timeout_ms: int = 5000, must_exist: bool = False, migrate: bool = False
) -> sqlite3.Connection:
    """A read-write connection; creates file (0600), directory (0700) and schema where absent.

    With `must_exist` nothing is created, and a database that is absent is one that cannot be
    opened. An older schema is brought up to date with `migrate` and refused without. Raises
    `StoreUnavailable` when the database cannot be opened, belongs to another version (`store.schema`),
    or does not take the settings on which durability rests.
    """
    try:
        if must_exist:
            check_exists(path)
        else:
            _create_file(path)
        connection = connect(f"{path.absolute().as_uri()}?mode=rw", busy_timeout_ms)
        try:
            _set_pragmas(connection)
            if must_exist and not migrate:
                _check_version(connection)
            else:
                _prepare_schema(connection, migrate=migrate)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as fault:
        raise unavailable(fault, "opening it") from fault
    except OSError as fault:
        why = f"`{path}`: {fault.strerror}"
        raise StoreUnavailable("the database cannot be opened", internal=why) from fault
    return connection


def open_read_only(path: Path, *, busy_timeout_ms: int = 5000) -> sqlite3.Connection:
    """A connection that cannot write, to a database that exists. Raises `StoreUnavailable`.

    Also where nothing may be written: SQLite wants to make a `-shm` file beside the database, and does
    without only when told that nobody else writes. That is certain enough where no write-ahead log is.
    """
    check_exists(path)
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        return _opened_read_only(uri, busy_timeout_ms)
    except sqlite3.OperationalError as fault:
        if not _is_for_want_of_writing(fault):
            raise unavailable(fault, "opening it") from fault
        if _has_wal(path):
            raise StoreUnavailable(
                f"the newest records are in `{path.name}-wal`, which cannot be read in a directory where "
                "nothing may be written; copy both files to one where you may write"
            ) from fault
    except sqlite3.Error as fault:
        raise unavailable(fault, "opening it") from fault
    try:
        return _opened_read_only(f"{uri}&immutable=1", busy_timeout_ms)
    except sqlite3.Error as fault:
        raise unavailable(fault, "opening it") from fault


def _opened_read_only(uri: str, busy_timeout_ms: int) -> sqlite3.Connection:
    connection = connect(uri, busy_timeout_ms)
    try:
        connection.execute("PRAGMA query_only = ON")
        _check_version(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_for_want_of_writing(fault: sqlite3.OperationalError) -> bool:
    # The low byte is the primary code; the others say which file it was.
    return fault.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _has_wal(path: Path) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def check_exists(path: Path) -> None:
    """Refuse (`StoreUnavailable`) a path where no database is."""
    if not path.is_file():
        raise StoreUnavailable(f"there is no database at `{path}`")


def make_private(path: Path) -> None:
    """Give the database files to their owner alone, where they exist. Raises `StoreUnavailable`.

    Files that this program makes are private from the start; a restored backup may not be, and its
    `-wal` and `-shm` files would be made with the same mode.
    """
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}.lock")):
        try:
            if stat.S_IMODE(name.stat().st_mode) != 0o600:
                name.chmod(0o600)
        except FileNotFoundError:
            continue
        except OSError as fault:
            message = f"`{name}` is not private to this user and cannot be made so: {fault.strerror}"
            raise StoreUnavailable(message) from fault


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
    # Whatever the umask took away, the owner needs.
    os.fchmod(descriptor, 0o600)
    os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _set_pragmas(connection: sqlite3.Connection) -> None:
    """Set what durability rests on, and read it back: SQLite ignores what it cannot do."""
    wanted: Sequence[tuple[str, str | int]] = (
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


class SqliteSchema:
    """`migrations.SchemaDialect` for SQLite."""

    dialect = DIALECT

    def append_only(self, table: str) -> Sequence[str]:
        """Triggers against changed and deleted rows."""
        return [
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            for verb in ("UPDATE", "DELETE")
        ]


SCHEMA = SqliteSchema()


def _prepare_schema(connection: sqlite3.Connection, *, migrate: bool) -> None:
    """Make the schema where there is none, and with `migrate` bring an older one up to date."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = find_version(connection)
        if found is None:
            migrations.create_schema(SCHEMA, connection.execute)
            for meta in (("schema_version", str(migrations.CURRENT)), ("writer", secrets.token_hex(6))):
                connection.execute("INSERT INTO store_meta VALUES (?, ?)", meta)
        elif migrate:
            migrations.check_not_newer(found)
            for step in migrations.migrate_schema(SCHEMA, connection.execute, found):
                _log.info("the database is migrated", extra={"version": step.version, "step": step.what})
            connection.execute(_SET_VERSION, (str(migrations.CURRENT),))
        else:
            migrations.check_current(found)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def find_version(connection: sqlite3.Connection) -> int | None:
    """The version of the schema; `None` where there is none. Raises `StoreUnavailable` when it is unknown."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    if not tables:
        return None
    if ("store_meta",) not in tables:
        return migrations.read_version(None)
    found = connection.execute(_SELECT_META, ("schema_version",)).fetchone()
    return migrations.read_version(None if found is None else str(found[0]))


def read_version_of(path: Path) -> int | None:
    """The version of the schema in a database that exists. Raises `StoreUnavailable`."""
    check_exists(path)
    try:
        with contextlib.closing(connect(f"{path.absolute().as_uri()}?mode=ro", 5000)) as connection:
            return find_version(connection)
    except sqlite3.Error as fault:
        raise unavailable(fault, "reading its version") from fault


def _check_version(connection: sqlite3.Connection) -> None:
    found = find_version(connection)
    migrations.check_current(migrations.read_version(None) if found is None else found)


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

    is_remote = False

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

    def execute_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[int]:
        return [self.execute(sql, row) for row in rows]

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

    def fetch_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[list[SqlRow]]:
        return [self.fetch_all(sql, row) for row in rows]

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
            connection = open_database(self._path, busy_timeout_ms=self._busy_timeout_ms, migrate=True)
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
