"""What is read from SQLite: the hot look-ups of a decision, and searches of the decision log.

A failed read raises `StoreUnavailable`. It is never `None` or an empty set, which would mean "no such
operation" or "exposed to nothing" and could turn into an allow.
"""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Select

from authz.errors import StoreUnavailable
from authz.model.capability import LinkQuery, LinkRecord, RevocationRecord
from authz.model.operation import OperationRecord
from authz.model.record import EventQuery, EventType, StoredEvent
from authz.ports import Credential
from authz.store import capability_reads, event_search
from authz.store.capability_rows import read_link, read_revocation
from authz.store.sqlite_connection import DIALECT, bind, open_read_only, read_writer, unavailable
from authz.store.write_connection import SqlValue


def _compiled(statement: Select[Any]) -> str:
    return str(statement.compile(dialect=DIALECT))


_FIND_OPERATION = _compiled(event_search.FIND_OPERATION)
_FIND_DUE = _compiled(event_search.FIND_DUE)
_FIND_EVENT = _compiled(event_search.FIND_EVENT)
_FIND_MOVES = _compiled(event_search.FIND_MOVES)
_FIND_EXPOSURE = _compiled(event_search.FIND_EXPOSURE)
_FIND_CREDENTIAL = _compiled(event_search.FIND_CREDENTIAL)
_FIND_LINK = _compiled(capability_reads.FIND_LINK)
_FIND_COUNTER = _compiled(capability_reads.FIND_COUNTER)
_FIND_REVOCATIONS = _compiled(capability_reads.FIND_REVOCATIONS)
_FIND_CHECKPOINT = _compiled(event_search.FIND_CHECKPOINT)


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
        return event_search.read_operation(key, rows[0]) if rows else None

    def due_operations(self, now_ms: int, most: int) -> list[tuple[str, str]]:
        return [(str(tenant), str(key)) for tenant, key in self._fetch(_FIND_DUE, (now_ms, most))]

    def session_exposure(self, session_key: str) -> frozenset[str]:
        return frozenset(label for (label,) in self._fetch(_FIND_EXPOSURE, (session_key,)))

    def find_credential(self, key_digest: str) -> Credential | None:
        rows = self._fetch(_FIND_CREDENTIAL, (key_digest,))
        return event_search.read_credential(rows[0]) if rows else None

    def find_link(self, tenant: str, link_hash: str) -> LinkRecord | None:
        rows = self._fetch(_FIND_LINK, (link_hash, tenant))
        return read_link(rows[0]) if rows else None

    def find_links(self, query: LinkQuery) -> list[LinkRecord]:
        return [read_link(row) for row in self._fetch(*bind(capability_reads.build_find_links(query)))]

    def revocations_since(self, sequence: int) -> list[RevocationRecord]:
        values = (sequence, capability_reads.REVOCATIONS_AT_ONCE)
        return [read_revocation(row) for row in self._fetch(_FIND_REVOCATIONS, values)]

    def counter_used(self, key: str) -> int:
        rows = self._fetch(_FIND_COUNTER, (key,))
        return int(rows[0][0]) if rows else 0

    def find_checkpoint_hash(self, number: int) -> str | None:
        rows = self._fetch(_FIND_CHECKPOINT, (number,))
        return str(rows[0][0]) if rows else None

    def search(self, query: EventQuery) -> list[StoredEvent]:
        return self._fetch_events(event_search.build_search(query))

    def find_event(self, tenant: str, decision_id: str) -> StoredEvent | None:
        rows = self._fetch(_FIND_EVENT, (tenant, decision_id, EventType.DECISION_MADE.value))
        return event_search.newest([event_search.read_event(row) for row in rows])

    def find_moves(self, tenant: str, decision_id: str) -> list[StoredEvent]:
        rows = self._fetch(_FIND_MOVES, (tenant, decision_id, event_search.MOVES_PREFIX))
        return event_search.oldest_first([event_search.read_event(row) for row in rows])

    def fetch(self, statement: Select[Any]) -> list[Sequence[Any]]:
        return self._fetch(*bind(statement))

    def fetch_raw(self, sql: str, parameters: Sequence[SqlValue]) -> list[Any]:
        """All rows of a statement of this program. Raises `StoreUnavailable`."""
        return self._fetch(sql, parameters)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _fetch_events(self, statement: Select[Any]) -> list[StoredEvent]:
        return [event_search.read_event(row) for row in self._fetch(*bind(statement))]

    def _fetch(self, sql: str, parameters: Sequence[SqlValue]) -> list[Any]:
        try:
            with self._lock:
                return self._connection.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as fault:
            if isinstance(fault, sqlite3.Error):
                raise unavailable(fault, "reading") from fault
            raise StoreUnavailable("the database cannot be asked for that") from fault
