"""What is read from PostgreSQL: the hot look-ups of a decision, and searches of the decision log.

A look-up takes the server some hundred microseconds, so none runs on the event loop. One thread makes
all look-ups that wait in one statement for each kind, as group commit does with records. Nothing is
answered from before it was asked: another replica may just have changed it.

A failed read raises `StoreUnavailable`. It is never `None` or an empty set, which would mean "no such
operation" or "exposed to nothing" and could turn into an allow.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from sqlalchemy import Select, any_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

from authz.errors import StoreUnavailable
from authz.model.capability import LinkQuery, LinkRecord, RevocationRecord
from authz.model.operation import OperationRecord
from authz.model.record import EventQuery, EventType, StoredEvent
from authz.ports import Credential
from authz.store import capability_reads, event_search
from authz.store.capability_rows import read_link, read_revocation
from authz.store.event_search import CREDENTIAL_FIELDS, OPERATION_FIELDS
from authz.store.postgres_connection import (
    DIALECT,
    NoAnswer,
    bind,
    cause,
    connect,
    is_lost,
    raw,
    unavailable,
)
from authz.store.postgres_url import PostgresUrl
from authz.store.tables import API_KEYS, CAPABILITY_LINKS, LIMIT_COUNTERS, OPERATIONS, SESSION_EXPOSURE
from authz.store.write_connection import SqlValue

_log = logging.getLogger("authz.store")
ANSWER_SECONDS = 10.0
"""How long a decision waits for a look-up."""
CLOSE_SECONDS = 15.0
"""How long closing waits for a server that hangs: longer than an answer of it is waited for."""


def _compiled(statement: Select[Any]) -> str:
    return str(statement.compile(dialect=DIALECT))


_KEYS = any_(bindparam("keys", type_=ARRAY(Text)))
_FIND_OPERATIONS = _compiled(select(OPERATIONS.c.key, *OPERATION_FIELDS).where(OPERATIONS.c.key == _KEYS))
_FIND_EXPOSURES = _compiled(
    select(SESSION_EXPOSURE.c.session_key, SESSION_EXPOSURE.c.label).where(
        SESSION_EXPOSURE.c.session_key == _KEYS
    )
)
_FIND_CREDENTIALS = _compiled(
    select(API_KEYS.c.key_digest, *CREDENTIAL_FIELDS)
    .where(API_KEYS.c.key_digest == _KEYS)
    .where(API_KEYS.c.revoked_at_ms.is_(None))
)
_FIND_LINKS = _compiled(select(*CAPABILITY_LINKS.c).where(CAPABILITY_LINKS.c.link_hash == _KEYS))
_FIND_COUNTERS = _compiled(
    select(LIMIT_COUNTERS.c.key, LIMIT_COUNTERS.c.used).where(LIMIT_COUNTERS.c.key == _KEYS)
)
_FIND_REVOCATIONS = _compiled(capability_reads.FIND_REVOCATIONS)
_FIND_DUE = _compiled(event_search.FIND_DUE)
_FIND_EVENT = _compiled(event_search.FIND_EVENT)
_FIND_MOVES = _compiled(event_search.FIND_MOVES)
_FIND_CHECKPOINT = _compiled(event_search.FIND_CHECKPOINT)

Rows = Sequence[Sequence[Any]]


@dataclass(slots=True)
class _Waiting:
    sql: str
    key: str
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Rows]"


class PostgresConnection:
    """One read-only session for one thread at a time, opened anew when it is lost."""

    def __init__(self, url: PostgresUrl, *, part: str) -> None:
        self._url = url
        self._part = part
        self._connection: Connection[TupleRow] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def fetch(self, sql: str, parameters: Sequence[SqlValue | list[str]]) -> list[TupleRow]:
        """All rows. Reads once more over a new connection when the old one turns out to be gone."""
        with self._lock:
            was_open = self._connection is not None
            try:
                return self._fetch(sql, parameters)
            except psycopg.Error as fault:
                if not was_open or isinstance(fault, NoAnswer) or not is_lost(self._connection, fault):
                    raise unavailable(fault, "reading") from cause(fault, self._url)
            except (UnicodeError, OverflowError) as fault:
                raise StoreUnavailable("the database cannot be asked for that") from fault
            self._drop()
            try:
                return self._fetch(sql, parameters)
            except psycopg.Error as fault:
                raise unavailable(fault, "reading") from cause(fault, self._url)

    def close(self) -> None:
        """Release the session; every later read is refused."""
        with self._lock:
            self._closed = True
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _fetch(self, sql: str, parameters: Sequence[SqlValue | list[str]]) -> list[TupleRow]:
        if self._closed:
            raise StoreUnavailable("the store is closed", code="store.closed")
        if self._connection is None or is_lost(self._connection):
            self._drop()
            self._connection = connect(self._url, part=self._part, read_only=True)
        return self._connection.execute(raw(sql), parameters).fetchall()


class PostgresReader:
    """Look-ups and searches for one event loop or many."""

    def __init__(self, url: PostgresUrl) -> None:
        """Connects at once. Raises `StoreUnavailable`."""
        self._lookups = PostgresConnection(url, part="reader")
        # Of its own: a long search must not make a decision's look-ups wait.
        self._searches = PostgresConnection(url, part="searcher")
        self._condition = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._closed = False
        self._lookups.fetch("SELECT 1", ())
        self._thread = threading.Thread(target=self._run, name="authz-reader", daemon=True)
        self._thread.start()

    async def find_operation(self, key: str) -> OperationRecord | None:
        (rows,) = await self._look_up(_FIND_OPERATIONS, key)
        return event_search.read_operation(key, rows[0]) if rows else None

    async def session_exposure(self, *keys: str) -> frozenset[str]:
        found = await self._look_up(_FIND_EXPOSURES, *keys)
        return frozenset(label for rows in found for (label,) in rows)

    async def find_credential(self, key_digest: str) -> Credential | None:
        (rows,) = await self._look_up(_FIND_CREDENTIALS, key_digest)
        return event_search.read_credential(rows[0]) if rows else None

    async def find_link(self, tenant: str, link_hash: str) -> LinkRecord | None:
        (rows,) = await self._look_up(_FIND_LINKS, link_hash)
        found = (read_link((link_hash, *row)) for row in rows if row[0] == tenant)
        return next(found, None)

    async def counters_used(self, keys: Sequence[str]) -> Mapping[str, int]:
        found = await self._look_up(_FIND_COUNTERS, *keys)
        return {key: int(rows[0][0]) if rows else 0 for key, rows in zip(keys, found, strict=True)}

    def revocations_since(self, sequence: int) -> list[RevocationRecord]:
        """Blocks. Over the connection of the look-ups: a long search must not hold up a revocation."""
        rows = self._lookups.fetch(_FIND_REVOCATIONS, (sequence, capability_reads.REVOCATIONS_AT_ONCE))
        return [read_revocation(row) for row in rows]

    def due_operations(self, now_ms: int, most: int) -> list[tuple[str, str]]:
        """Blocks. Over the connection of the look-ups, as `revocations_since`."""
        return [(str(tenant), str(key)) for tenant, key in self._lookups.fetch(_FIND_DUE, (now_ms, most))]

    def find_links(self, query: LinkQuery) -> list[LinkRecord]:
        """Blocks for as long as it takes."""
        return [read_link(row) for row in self._search(capability_reads.build_find_links(query))]

    def find_checkpoint_hash(self, number: int) -> str | None:
        """Blocks."""
        rows = self._searches.fetch(_FIND_CHECKPOINT, (number,))
        return str(rows[0][0]) if rows else None

    def search(self, query: EventQuery) -> list[StoredEvent]:
        """Blocks for as long as it takes."""
        return self._fetch_events(event_search.build_search(query, position_function="strpos"))

    def find_event(self, tenant: str, decision_id: str) -> StoredEvent | None:
        """Blocks. Over the connection of the look-ups: a long search must not hold up a report."""
        if "\0" in tenant + decision_id:
            return None
        values = (tenant, decision_id, EventType.DECISION_MADE.value)
        rows = self._lookups.fetch(_FIND_EVENT, values)
        return event_search.newest([event_search.read_event(row) for row in rows])

    def find_moves(self, tenant: str, decision_id: str) -> list[StoredEvent]:
        """Blocks. Over the connection of the look-ups, as `find_event`."""
        if "\0" in tenant + decision_id:
            return []
        rows = self._lookups.fetch(_FIND_MOVES, (tenant, decision_id, event_search.MOVES_PREFIX))
        return event_search.oldest_first([event_search.read_event(row) for row in rows])

    def fetch(self, statement: Select[Any]) -> Rows:
        """Blocks. Over the connection of the look-ups, as `find_event`: for statements that find little."""
        return self._lookups.fetch(*bind(statement))

    def fetch_raw(self, sql: str, parameters: Sequence[SqlValue]) -> Rows:
        """Blocks. Over the connection of the look-ups: for what a decision waits for."""
        return self._lookups.fetch(sql, parameters)

    def search_raw(self, sql: str, parameters: Sequence[SqlValue]) -> Rows:
        """Blocks for as long as it takes."""
        return self._searches.fetch(sql, parameters)

    def close(self) -> None:
        """Refuse what waits and everything later. Blocks."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            # It ends with the process. Its session is in use, so it is not closed under it.
            _log.error("a look-up does not end")
        else:
            self._lookups.close()
        self._searches.close()

    async def _look_up(self, sql: str, *keys: str) -> list[Rows]:
        """What is found under each key: in one request, which others share."""
        loop = asyncio.get_running_loop()
        # No text of PostgreSQL holds a NUL, so nothing is found under one that does.
        asked = {key: _Waiting(sql, key, loop, loop.create_future()) for key in keys if "\0" not in key}
        if not asked:
            return [() for _ in keys]
        with self._condition:
            if self._closed:
                raise StoreUnavailable("the store is closed", code="store.closed")
            self._waiting += asked.values()
        # Not at once: whatever else this turn of the loop asks for then shares the statement.
        loop.call_soon(self._wake)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                futures = [waiting.future for waiting in asked.values()]
                answers = [await futures[0]] if len(futures) == 1 else await asyncio.gather(*futures)
        except TimeoutError:
            raise StoreUnavailable("the store did not answer in time", code="store.timeout") from None
        found = dict(zip(asked, answers, strict=True))
        return [found.get(key, ()) for key in keys]

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify()

    def _run(self) -> None:
        batch: list[_Waiting] = []
        try:
            while True:
                with self._condition:
                    while not self._waiting and not self._closed:
                        self._condition.wait()
                    batch, self._waiting = self._waiting, []
                    if self._closed:
                        break
                self._answer(batch)
                batch = []
        except BaseException:
            _log.critical("the reader stopped; every later decision is refused", exc_info=True)
            raise
        finally:
            with self._condition:
                self._closed = True
                batch, self._waiting = batch + self._waiting, []
            stopped = StoreUnavailable("the store is closed", code="store.closed")
            _resolve(batch, lambda waiting: stopped)

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        by_kind: dict[str, list[_Waiting]] = {}
        for waiting in batch:
            by_kind.setdefault(waiting.sql, []).append(waiting)
        for sql, waiters in by_kind.items():
            try:
                found = self._find(sql, {waiting.key for waiting in waiters})
            except StoreUnavailable as fault:
                fields = {"look_ups": len(waiters), "why": fault.internal}
                _log.error("the store could not be read", exc_info=fault, extra=fields)
                refused = fault
                _resolve(waiters, lambda _: refused.again())  # noqa: B023 - used at once
            else:
                _resolve(waiters, lambda waiting: found.get(waiting.key, ()))  # noqa: B023 - used at once

    def _find(self, sql: str, keys: set[str]) -> Mapping[str, Rows]:
        found: dict[str, list[Sequence[Any]]] = {}
        for key, *row in self._lookups.fetch(sql, (list(keys),)):
            found.setdefault(key, []).append(row)
        return found

    def _fetch_events(self, statement: Select[Any]) -> list[StoredEvent]:
        return [event_search.read_event(row) for row in self._search(statement)]

    def _search(self, statement: Select[Any]) -> Rows:
        sql, parameters = bind(statement)
        if any(isinstance(value, str) and "\0" in value for value in parameters):
            return []
        return self._searches.fetch(sql, parameters)


def _resolve(batch: Sequence[_Waiting], answer: Callable[[_Waiting], Rows | StoreUnavailable]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting, Rows | StoreUnavailable]]] = {}
    for waiting in batch:
        by_loop.setdefault(waiting.loop, []).append((waiting, answer(waiting)))
    for loop, answers in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set_results, answers)
        except RuntimeError:
            _log.warning("an event loop ended before it was answered")


def _set_results(answers: Sequence[tuple[_Waiting, Rows | StoreUnavailable]]) -> None:
    for waiting, answer in answers:
        if waiting.future.done():
            continue
        if isinstance(answer, StoreUnavailable):
            waiting.future.set_exception(answer)
        else:
            waiting.future.set_result(answer)
