"""The schema as version 1 made it, word for word, and a database of that version full of records.

A frozen copy: what was released stays as it was, whatever the models say today.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg.sql import SQL, Identifier, Placeholder

from authz.store.postgres_url import PostgresUrl
from tests.store.durable import DurableStore

TABLES: Final = (
    *("events", "log_heads", "log_checkpoints", "operations", "session_exposure", "api_keys", "store_meta"),
)

# `{text}` is how the database spells a text, `{small}` what follows a small table, `{user}` a quoted name.
_TABLES: Final = """
CREATE TABLE api_keys (
  key_id {text} NOT NULL, tenant {text} NOT NULL, name {text} NOT NULL, key_digest {text} NOT NULL,
  roles {text} NOT NULL, profile {text} NOT NULL, dev BOOLEAN NOT NULL, created_at_ms BIGINT NOT NULL,
  revoked_at_ms BIGINT, PRIMARY KEY (key_id), UNIQUE (key_digest));
CREATE TABLE events (
  writer {text} NOT NULL, sequence BIGINT NOT NULL, tenant {text} NOT NULL, type {text} NOT NULL,
  decision_id {text} NOT NULL, trace_id {text} NOT NULL, agent {text} NOT NULL, {user} {text} NOT NULL,
  tool {text} NOT NULL, effect {text} NOT NULL, rules {text} NOT NULL, recorded_at_ms BIGINT NOT NULL,
  occurred_at_ms BIGINT NOT NULL, text {text} NOT NULL, hash {text} NOT NULL,
  PRIMARY KEY (writer, sequence));
CREATE INDEX events_by_decision ON events (tenant, decision_id) WHERE decision_id <> '';
CREATE INDEX events_by_time ON events (tenant, recorded_at_ms, writer, sequence);
CREATE INDEX events_by_trace ON events (tenant, trace_id, recorded_at_ms, writer, sequence)
  WHERE trace_id <> '';
CREATE TABLE log_checkpoints (
  number BIGINT NOT NULL, at_ms BIGINT NOT NULL, token {text} NOT NULL, hash {text} NOT NULL,
  PRIMARY KEY (number));
CREATE TABLE log_heads (
  writer {text} NOT NULL, sequence BIGINT NOT NULL, hash {text} NOT NULL, PRIMARY KEY (writer)){small};
CREATE TABLE operations (
  "key" {text} NOT NULL, tenant {text} NOT NULL, fingerprint {text} NOT NULL, state {text} NOT NULL,
  decision_id {text} NOT NULL, expires_at_ms BIGINT NOT NULL, version BIGINT NOT NULL,
  PRIMARY KEY ("key")){small};
CREATE TABLE session_exposure (
  session_key {text} NOT NULL, label {text} NOT NULL, PRIMARY KEY (session_key, label)){small};
CREATE TABLE store_meta (name {text} NOT NULL, value {text} NOT NULL, PRIMARY KEY (name)){small};
"""
_SQLITE_TRIGGER: Final = """
CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
  BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
"""
_POSTGRES_TRIGGERS: Final = """
CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table}
  FOR EACH ROW EXECUTE FUNCTION authz_append_only();
CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION authz_append_only();
"""
_POSTGRES_FUNCTION: Final = """
CREATE FUNCTION authz_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
"""
Rows = Mapping[str, Sequence[Sequence[Any]]]


def copy_rows(store: DurableStore, tables: Sequence[str] = TABLES) -> Rows:
    """Everything that the tables of an old version hold in a database of today."""
    if isinstance(store.database, PostgresUrl):
        with contextlib.closing(psycopg.connect(store.database.conninfo)) as server:
            return {
                table: server.execute(SQL(_select(table)).format(Identifier(table))).fetchall()
                for table in tables
            }
    with contextlib.closing(sqlite3.connect(store.database)) as file:
        return {table: file.execute(_select(table).format(table)).fetchall() for table in tables}


def _select(table: str) -> LiteralString:
    """The columns that the table had in old versions."""
    if table == "operations":
        return 'SELECT "key", tenant, fingerprint, state, decision_id, expires_at_ms, version FROM {}'
    return "SELECT * FROM {}"


def make_version_1(store: DurableStore, rows: Rows) -> None:
    """A database of version 1 with those rows, in an empty one."""
    rows = {**rows, "store_meta": [*_without_version(rows["store_meta"]), ("schema_version", "1")]}
    if isinstance(store.database, PostgresUrl):
        with contextlib.closing(psycopg.connect(store.database.conninfo, autocommit=True)) as server:
            script = _TABLES.format(text='TEXT COLLATE "C"', small="", user='"user"') + _POSTGRES_FUNCTION
            for table in ("events", "log_checkpoints"):
                script += _POSTGRES_TRIGGERS.format(table=table)
            server.execute(script.encode())
            for table, content in rows.items():
                for row in content:
                    places = SQL(", ").join([Placeholder()] * len(row))
                    server.execute(
                        SQL("INSERT INTO {} VALUES ({})").format(Identifier(table), places), list(row)
                    )
        return
    with contextlib.closing(sqlite3.connect(store.database)) as file:
        script = _TABLES.format(text="TEXT", small=" WITHOUT ROWID", user="user")
        for table in ("events", "log_checkpoints"):
            for verb in ("update", "delete"):
                script += _SQLITE_TRIGGER.format(table=table, verb=verb)
        file.executescript(script)
        for table, content in rows.items():
            for row in content:
                file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        file.commit()


def _without_version(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    return [row for row in rows if row[0] != "schema_version"]
