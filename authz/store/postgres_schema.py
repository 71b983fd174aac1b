"""The schema on PostgreSQL: made or migrated under an advisory lock, so that one of many replicas does it."""

import logging
from collections.abc import Sequence

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler

from authz.store import migrations
from authz.store.postgres_connection import SCHEMA_LOCK, raw

_log = logging.getLogger("authz.store")


class _BytewiseText(PGTypeCompiler):
    """Texts compare by their bytes, as on SQLite, whatever the database's own collation is."""

    def visit_TEXT(self, type_: object, **options: object) -> str:  # noqa: N802 - SQLAlchemy's name
        return 'TEXT COLLATE "C"'


_REFUSE = """\
CREATE OR REPLACE FUNCTION authz_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"""


class PostgresSchema:
    """`migrations.SchemaDialect` for PostgreSQL."""

    def __init__(self) -> None:
        self._dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        self._dialect.type_compiler_instance = _BytewiseText(self._dialect)

    @property
    def dialect(self) -> Dialect:
        """Compiles the table models."""
        return self._dialect

    def append_only(self, table: str) -> Sequence[str]:
        """A trigger against changed and deleted rows, and one against a table that is emptied."""
        refuse = "EXECUTE FUNCTION authz_append_only()"
        return (
            _REFUSE,
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {refuse}",
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {refuse}",
        )


SCHEMA = PostgresSchema()


def prepare_schema(connection: Connection[TupleRow], *, migrate: bool) -> None:
    """Make the schema where there is none, and with `migrate` bring an older one up to date.

    Needs no right to create anything when the schema is current. Raises `StoreUnavailable`
    (`store.schema`) for a version that cannot be used, `psycopg.Error`.
    """
    found = find_version(connection)
    if found == migrations.CURRENT:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
        found = find_version(connection)  # another replica may have been faster

        def execute(statement: str) -> object:
            return connection.execute(raw(statement))

        if found is None:
            migrations.create_schema(SCHEMA, execute)
            set_version = "INSERT INTO store_meta (name, value) VALUES ('schema_version', %s)"
        else:
            if not migrate:
                migrations.check_current(found)
            migrations.check_not_newer(found)
            for step in migrations.migrate_schema(SCHEMA, execute, found):
                _log.info("the database is migrated", extra={"version": step.version, "step": step.what})
            set_version = "UPDATE store_meta SET value = %s WHERE name = 'schema_version'"
        connection.execute(raw(set_version), (str(migrations.CURRENT),))


def find_version(connection: Connection[TupleRow]) -> int | None:
    """The version of the schema; `None` where there is none."""
    row = connection.execute("SELECT to_regclass('store_meta')").fetchone()
    if row is None or row[0] is None:
        return None
    try:
        row = connection.execute("SELECT value FROM store_meta WHERE name = 'schema_version'").fetchone()
    except psycopg.errors.UndefinedColumn:
        return migrations.read_version(None)  # someone else's table of that name
    return migrations.read_version(None if row is None else str(row[0]))
