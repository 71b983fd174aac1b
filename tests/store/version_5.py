"""What versions 3 to 5 of the schema added, word for word, and a database of version 5 full of records.

A frozen copy, as `version_1` is.
"""

import contextlib
import sqlite3
from typing import Final

import psycopg
from psycopg.sql import SQL, Identifier, Placeholder

from authz.store.postgres_url import PostgresUrl
from tests.store import version_2
from tests.store.durable import DurableStore
from tests.store.version_1 import Rows
from tests.store.version_2 import make_version_2

TABLES: Final = (*version_2.TABLES, "capability_links", "revocations", "proof_uses")
SETTLEMENT: Final = (
    *("settles", "cancel_requested", "attempt", "first_at_ms", "settled_at_ms", "external_id"),
    *("result_digest", "due_ms", "ticketed", "basis"),
)

_ADDED: Final = """
CREATE TABLE capability_links (
  link_hash {text} NOT NULL, tenant {text} NOT NULL, parent_hash {text}, root_hash {text} NOT NULL,
  origin {text} NOT NULL, jti {text} NOT NULL, holder {text} NOT NULL, agent {text} NOT NULL,
  subject {text} NOT NULL, depth BIGINT NOT NULL, issued_at_ms BIGINT NOT NULL, expires_at_ms BIGINT NOT NULL,
  details {text} NOT NULL, inherited {text} NOT NULL, tool_digests {text} NOT NULL,
  child_trace {text} NOT NULL, task {text}, issued_by {text} NOT NULL, PRIMARY KEY (link_hash, tenant));
CREATE INDEX capability_links_by_agent ON capability_links (tenant, agent, issued_at_ms, link_hash);
CREATE INDEX capability_links_by_holder ON capability_links (tenant, holder, issued_at_ms, link_hash);
CREATE INDEX capability_links_by_jti ON capability_links (tenant, jti, issued_at_ms, link_hash);
CREATE INDEX capability_links_by_root ON capability_links (tenant, root_hash, issued_at_ms, link_hash);
CREATE INDEX capability_links_by_time ON capability_links (tenant, issued_at_ms, link_hash);
CREATE TABLE revocations (
  tenant {text} NOT NULL, kind {text} NOT NULL, value {text} NOT NULL, until_ms BIGINT NOT NULL,
  reason {text} NOT NULL, revoked_by {text} NOT NULL, revoked_at_ms BIGINT NOT NULL, sequence BIGINT NOT NULL,
  PRIMARY KEY (tenant, kind, value)){small};
CREATE UNIQUE INDEX revocations_by_sequence ON revocations (sequence);
CREATE TABLE proof_uses ("key" {text} NOT NULL, until_ms BIGINT NOT NULL, PRIMARY KEY ("key")){small};
CREATE INDEX limit_reservations_by_decision ON limit_reservations (decision_id);
ALTER TABLE operations ADD COLUMN settles BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE operations ADD COLUMN cancel_requested BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE operations ADD COLUMN attempt {text} DEFAULT '' NOT NULL;
ALTER TABLE operations ADD COLUMN first_at_ms BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE operations ADD COLUMN settled_at_ms BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE operations ADD COLUMN external_id {text} DEFAULT '' NOT NULL;
ALTER TABLE operations ADD COLUMN result_digest {text} DEFAULT '' NOT NULL;
ALTER TABLE operations ADD COLUMN due_ms BIGINT DEFAULT 0 NOT NULL;
CREATE INDEX operations_by_due ON operations (due_ms) WHERE due_ms <> 0;
ALTER TABLE operations ADD COLUMN ticketed BIGINT DEFAULT 0 NOT NULL;
ALTER TABLE operations ADD COLUMN basis {text} DEFAULT '' NOT NULL;
ALTER TABLE capability_links ADD COLUMN kid {text} DEFAULT '' NOT NULL;
CREATE INDEX capability_links_roots ON capability_links (tenant, jti, issued_at_ms, link_hash)
  WHERE origin <> 'seen';
UPDATE store_meta SET value = '5' WHERE name = 'schema_version';
"""


def make_version_5(store: DurableStore, rows: Rows, settlement: Rows) -> None:
    """A database of version 5 with those rows, in an empty one.

    `settlement` has, under `operations`, the columns `SETTLEMENT` and then the key of each operation.
    """
    make_version_2(store, {table: rows[table] for table in version_2.TABLES})
    added = {table: rows[table] for table in TABLES if table not in version_2.TABLES}
    if isinstance(store.database, PostgresUrl):
        with contextlib.closing(psycopg.connect(store.database.conninfo, autocommit=True)) as server:
            server.execute(_ADDED.format(text='TEXT COLLATE "C"', small="").encode())
            for table, content in added.items():
                for row in content:
                    places = SQL(", ").join([Placeholder()] * len(row))
                    server.execute(
                        SQL("INSERT INTO {} VALUES ({})").format(Identifier(table), places), list(row)
                    )
            changes = ", ".join(f"{name} = %s" for name in SETTLEMENT)
            for row in settlement["operations"]:
                server.execute(f'UPDATE operations SET {changes} WHERE "key" = %s'.encode(), list(row))
        return
    with contextlib.closing(sqlite3.connect(store.database)) as file:
        file.executescript(_ADDED.format(text="TEXT", small=" WITHOUT ROWID"))
        for table, content in added.items():
            for row in content:
                file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        changes = ", ".join(f"{name} = ?" for name in SETTLEMENT)
        file.executemany(f"UPDATE operations SET {changes} WHERE key = ?", settlement["operations"])
        file.commit()
