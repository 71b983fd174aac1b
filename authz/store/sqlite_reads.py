"""What is read from SQLite: the hot look-ups of a decision, and searches of the decision log.

A failed read raises `StoreUnavailable`. It is never `None` or an empty set, which would mean "no such
operation" or "exposed to nothing" and could turn into an allow.
"""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, literal_column, select, tuple_

from authz.core.log_chain import encode_rule
from authz.errors import StoreUnavailable
from authz.model.operation import OperationRecord, OperationState
from authz.model.record import EventQuery, EventType, StoredEvent
from authz.ports import Credential
from authz.store.sqlite_connection import DIALECT, bind, open_read_only, read_writer, unavailable
from authz.store.tables import API_KEYS, EVENTS, LOG_CHECKPOINTS, OPERATIONS, SESSION_EXPOSURE
from authz.store.write_connection import SqlValue

MAX_SEARCH_LIMIT = 1000
"""Records that one search returns at most, whatever it asks for."""

_STORED_EVENT = (
    EVENTS.c.writer,
    EVENTS.c.sequence,
    EVENTS.c.recorded_at_ms,
    EVENTS.c.hash,
    EVENTS.c.text,
)


def _compiled(statement: Select[Any]) -> str:
    return str(statement.compile(dialect=DIALECT))


_FIND_OPERATION = _compiled(
    select(
        OPERATIONS.c.fingerprint,
        OPERATIONS.c.state,
        OPERATIONS.c.decision_id,
        OPERATIONS.c.expires_at_ms,
        OPERATIONS.c.version,
    ).where(OPERATIONS.c.key == bindparam("key"))
)
_FIND_EXPOSURE = _compiled(
    select(SESSION_EXPOSURE.c.label).where(SESSION_EXPOSURE.c.session_key == bindparam("session_key"))
)
_FIND_CREDENTIAL = _compiled(
    select(
        API_KEYS.c.key_id,
        API_KEYS.c.tenant,
        API_KEYS.c.name,
        API_KEYS.c.roles,
        API_KEYS.c.profile,
        API_KEYS.c.dev,
    )
    .where(API_KEYS.c.key_digest == bindparam("key_digest"))
    .where(API_KEYS.c.revoked_at_ms.is_(None))
)
_FIND_CHECKPOINT = _compiled(
    select(LOG_CHECKPOINTS.c.hash).where(LOG_CHECKPOINTS.c.number == bindparam("number"))
)


class SqliteReader:
    """One read connection. Its methods block for about 10 µs; `search` for as long as it takes."""

    def __init__(self, path: Path) -> None:
        self._connection = open_read_only(path, busy_timeout_ms=1000)
        self._lock = threading.Lock()
        try:
            self.writer = read_writer(self._connection)
        except sqlite3.Error as fault:
            raise unavailable(fault, "reading") from fault

    def find_operation(self, key: str) -> OperationRecord | None:
        rows = self._fetch(_FIND_OPERATION, (key,))
        if not rows:
            return None
        fingerprint, state, decision_id, expires_at_ms, version = rows[0]
        try:
            known_state = OperationState(state)
        except ValueError as fault:
            # Written by a newer program: to treat it as absent would decide the call a second time.
            raise StoreUnavailable(f"an operation is in the unknown state `{state}`") from fault
        return OperationRecord(
            key=key,
            fingerprint=fingerprint,
            state=known_state,
            decision_id=decision_id,
            expires_at_ms=expires_at_ms,
            version=version,
        )

    def session_exposure(self, session_key: str) -> frozenset[str]:
        return frozenset(label for (label,) in self._fetch(_FIND_EXPOSURE, (session_key,)))

    def find_credential(self, key_digest: str) -> Credential | None:
        rows = self._fetch(_FIND_CREDENTIAL, (key_digest,))
        if not rows:
            return None
        key_id, tenant, name, roles, profile, dev = rows[0]
        return Credential(
            key_id=key_id,
            tenant=tenant,
            name=name,
            roles=frozenset(filter(None, roles.split(","))),
            profile=profile,
            dev=bool(dev),
        )

    def find_checkpoint_hash(self, number: int) -> str | None:
        rows = self._fetch(_FIND_CHECKPOINT, (number,))
        return str(rows[0][0]) if rows else None

    def search(self, query: EventQuery) -> list[StoredEvent]:
        return self._fetch_events(build_search(query))

    def find_event(self, tenant: str, decision_id: str) -> StoredEvent | None:
        found = self._fetch_events(build_find_event(tenant, decision_id))
        return max(
            found, key=lambda event: (event.recorded_at_ms, event.writer, event.sequence), default=None
        )

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _fetch_events(self, statement: Select[Any]) -> list[StoredEvent]:
        sql, parameters = bind(statement)
        return [
            StoredEvent(
                writer=writer, sequence=sequence, recorded_at_ms=recorded_at_ms, hash=text_hash, text=text
            )
            for writer, sequence, recorded_at_ms, text_hash, text in self._fetch(sql, parameters)
        ]

    def _fetch(self, sql: str, parameters: Sequence[SqlValue]) -> list[Any]:
        try:
            with self._lock:
                return self._connection.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as fault:
            if isinstance(fault, sqlite3.Error):
                raise unavailable(fault, "reading") from fault
            raise StoreUnavailable("the database cannot be asked for that") from fault


def clamp_limit(limit: int) -> int:
    """How many records a search that asks for `limit` returns at most."""
    return max(1, min(limit, MAX_SEARCH_LIMIT))


def build_search(query: EventQuery) -> Select[Any]:
    """The search as SQL: always within the tenant, newest first, after `query.before`.

    A rule is found by `instr` and not by LIKE, which has metacharacters and ignores case.
    """
    columns = EVENTS.c
    statement = _newest_first(query.tenant).limit(clamp_limit(query.limit))
    for name in ("agent", "user", "tool", "effect", "type"):
        if wanted := getattr(query, name):
            statement = statement.where(columns[name] == wanted)
    if query.trace_id:
        statement = statement.where(columns.trace_id == query.trace_id, literal_column("trace_id <> ''"))
    if query.rule:
        statement = statement.where(func.instr(columns.rules, f"|{encode_rule(query.rule)}|") > 0)
    if query.since_ms is not None:
        statement = statement.where(columns.recorded_at_ms >= query.since_ms)
    if query.until_ms is not None:
        statement = statement.where(columns.recorded_at_ms <= query.until_ms)
    if query.before is not None:
        statement = statement.where(_position() < tuple_(*query.before))
    return statement


def build_find_event(tenant: str, decision_id: str) -> Select[Any]:
    """The record that made a decision, as SQL; not sorted, so that its own index is used."""
    return (
        select(*_STORED_EVENT)
        .where(EVENTS.c.tenant == tenant)
        .where(EVENTS.c.decision_id == decision_id, literal_column("decision_id <> ''"))
        .where(EVENTS.c.type == EventType.DECISION_MADE.value)
    )


def _newest_first(tenant: str) -> Select[Any]:
    columns = EVENTS.c
    return (
        select(*_STORED_EVENT)
        .where(columns.tenant == tenant)
        .order_by(columns.recorded_at_ms.desc(), columns.writer.desc(), columns.sequence.desc())
    )


def _position() -> ColumnElement[Any]:
    return tuple_(EVENTS.c.recorded_at_ms, EVENTS.c.writer, EVENTS.c.sequence)
