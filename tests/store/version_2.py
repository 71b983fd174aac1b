"""What version 2 of the schema added, word for word, and a database of that version full of records.

A frozen copy, as `version_1` is.
"""

import contextlib
import sqlite3
from typing import Final

import psycopg
from psycopg.sql import SQL, Identifier, Placeholder

from authz.store.postgres_url import PostgresUrl
from tests.store import version_1
from tests.store.durable import DurableStore
from tests.store.version_1 import Rows

TABLES: Final = (*version_1.TABLES, "limit_counters", "limit_reservations")

_TABLES: Final = """
CREATE TABLE limit_counters (
  "key" {text} NOT NULL, tenant {text} NOT NULL, limit_id {text} NOT NULL, used BIGINT NOT NULL,
  until_ms BIGINT NOT NULL, seen_ms BIGINT NOT NULL, PRIMARY KEY ("key")){small};
CREATE TABLE limit_reservations (
  "key" {text} NOT NULL, until_ms BIGINT NOT NULL, decision_id {text} NOT NULL, amount BIGINT NOT NULL,
  PRIMARY KEY ("key", until_ms, decision_id)){small};
UPDATE store_meta SET value = '2' WHERE name = 'schema_version';
"""


def make_version_2(store: DurableStore, rows: Rows) -> None:
    """A database of version 2 with those rows, in an empty one."""
    version_1.make_version_1(store, {table: rows[table] for table in version_1.TABLES})
    added = {table: rows[table] for table in TABLES if table not in version_1.TABLES}
    if isinstance(store.database, PostgresUrl):
        with contextlib.closing(psycopg.connect(store.database.conninfo, autocommit=True)) as server:
            server.execute(_TABLES.format(text='TEXT COLLATE "C"', small="").encode())
            for table, content in added.items():
                for row in content:
                    places = SQL(", ").join([Placeholder()] * len(row))
                    server.execute(
                        SQL("INSERT INTO {} VALUES ({})").format(Identifier(table), places), list(row)
                    )
        return
    with contextlib.closing(sqlite3.connect(store.database)) as file:
        file.executescript(_TABLES.format(text="TEXT", small=" WITHOUT ROWID"))
        for table, content in added.items():
            for row in content:
                file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        file.commit()
