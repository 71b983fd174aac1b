"""What is read from the store, as SQL without a driver, and its rows as values."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
)

from authz.core.log_chain import encode_rule
from authz.errors import StoreUnavailable
from authz.model.operation import OperationRecord, OperationState
from authz.model.record import EventQuery, EventType, StoredEvent
from authz.ports import Credential
from authz.store.operation_rows import read_basis
from authz.store.sql_parts import NO_OFFSET
from authz.store.tables import API_KEYS, EVENTS, LOG_CHECKPOINTS, OPERATIONS, SESSION_EXPOSURE

MAX_SEARCH_LIMIT = 1000
"""Records that one search returns at most, whatever it asks for."""

_STORED_EVENT = (
    EVENTS.c.writer,
    EVENTS.c.sequence,
    EVENTS.c.recorded_at_ms,
    EVENTS.c.hash,
    EVENTS.c.text,
)
OPERATION_FIELDS = (
    OPERATIONS.c.fingerprint,
    OPERATIONS.c.state,
    OPERATIONS.c.decision_id,
    OPERATIONS.c.expires_at_ms,
    OPERATIONS.c.version,
    OPERATIONS.c.settles,
    OPERATIONS.c.cancel_requested,
    OPERATIONS.c.attempt,
    OPERATIONS.c.first_at_ms,
    OPERATIONS.c.settled_at_ms,
    OPERATIONS.c.external_id,
    OPERATIONS.c.result_digest,
    OPERATIONS.c.ticketed,
    OPERATIONS.c.basis,
    OPERATIONS.c.approval,
)
FIND_EVENT = (
    # Compiled once: each report about an operation looks its decision up. Not sorted, as `build_find_event`.
    select(*_STORED_EVENT)
    .where(EVENTS.c.tenant == bindparam("tenant"))
    .where(EVENTS.c.decision_id == bindparam("decision_id"), literal_column("decision_id <> ''"))
    .where(EVENTS.c.type == bindparam("type"))
)
"""tenant, decision_id, and the type of the records of decisions."""
MOVES_PREFIX = "operation."
FIND_MOVES = (
    select(*_STORED_EVENT)
    .where(EVENTS.c.tenant == bindparam("tenant"))
    .where(EVENTS.c.decision_id == bindparam("decision_id"), literal_column("decision_id <> ''"))
    .where(literal_column(f"substr(type, 1, {len(MOVES_PREFIX)})") == bindparam("prefix", type_=Text))
)
"""tenant, decision_id, `MOVES_PREFIX`. Not sorted, either."""
CREDENTIAL_FIELDS = (
    API_KEYS.c.key_id,
    API_KEYS.c.tenant,
    API_KEYS.c.name,
    API_KEYS.c.roles,
    API_KEYS.c.profile,
    API_KEYS.c.dev,
)

FIND_OPERATION = select(*OPERATION_FIELDS).where(OPERATIONS.c.key == bindparam("key"))
FIND_DUE = (
    select(OPERATIONS.c.tenant, OPERATIONS.c.key)
    # Written out, as the index says it: else it would not be used.
    .where(literal_column("due_ms <> 0"))
    .where(OPERATIONS.c.due_ms <= bindparam("now_ms"))
    .order_by(OPERATIONS.c.due_ms)
    .limit(bindparam("most", type_=BigInteger))
    .offset(NO_OFFSET)
)
FIND_EXPOSURE = select(SESSION_EXPOSURE.c.label).where(
    SESSION_EXPOSURE.c.session_key == bindparam("session_key")
)
FIND_CREDENTIAL = (
    select(*CREDENTIAL_FIELDS)
    .where(API_KEYS.c.key_digest == bindparam("key_digest"))
    .where(API_KEYS.c.revoked_at_ms.is_(None))
)
FIND_CHECKPOINT = select(LOG_CHECKPOINTS.c.hash).where(LOG_CHECKPOINTS.c.number == bindparam("number"))


def read_operation(key: str, row: Sequence[Any]) -> OperationRecord:
    """A row of `OPERATION_FIELDS`. Raises `StoreUnavailable` for a state that this program does not know."""
    fingerprint, state, decision_id, expires_at_ms, version, *settlement = row
    settles, cancel_requested, attempt, first_at_ms, settled_at_ms, external_id, *rest = settlement
    result_digest, ticketed, basis, approval = rest
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
        settles=bool(settles),
        cancel_requested=bool(cancel_requested),
        attempt=attempt,
        first_at_ms=first_at_ms,
        settled_at_ms=settled_at_ms,
        external_id=external_id,
        result_digest=result_digest,
        ticketed=bool(ticketed),
        basis=read_basis(basis),
        approval=approval,
    )


def read_credential(row: Sequence[Any]) -> Credential:
    """A row of `CREDENTIAL_FIELDS`."""
    key_id, tenant, name, roles, profile, dev = row
    return Credential(
        key_id=key_id,
        tenant=tenant,
        name=name,
        roles=frozenset(filter(None, roles.split(","))),
        profile=profile,
        dev=bool(dev),
    )


def read_event(row: Sequence[Any]) -> StoredEvent:
    """A row of a search."""
    writer, sequence, recorded_at_ms, text_hash, text = row
    return StoredEvent(
        writer=writer, sequence=sequence, recorded_at_ms=recorded_at_ms, hash=text_hash, text=text
    )


def newest(found: Sequence[StoredEvent]) -> StoredEvent | None:
    """The last of some records; `None` of none."""
    return max(found, key=_place, default=None)


def oldest_first(found: Sequence[StoredEvent]) -> list[StoredEvent]:
    """Some records in their order."""
    return sorted(found, key=_place)


def _place(event: StoredEvent) -> tuple[int, str, int]:
    return (event.recorded_at_ms, event.writer, event.sequence)


def clamp_limit(limit: int) -> int:
    """How many records a search that asks for `limit` returns at most."""
    return max(1, min(limit, MAX_SEARCH_LIMIT))


def build_search(query: EventQuery, *, position_function: str = "instr") -> Select[Any]:
    """The search as SQL: always within the tenant, newest first, after `query.before`.

    A rule is found by the position of its name (`instr`, on PostgreSQL `strpos`) and not by LIKE, which
    has metacharacters and ignores case.
    """
    columns = EVENTS.c
    statement = _newest_first(query.tenant).limit(clamp_limit(query.limit))
    for name in ("agent", "user", "tool", "effect", "type"):
        if wanted := getattr(query, name):
            statement = statement.where(columns[name] == wanted)
    if query.trace_id:
        statement = statement.where(columns.trace_id == query.trace_id, literal_column("trace_id <> ''"))
    if query.rule:
        position = getattr(func, position_function)
        statement = statement.where(position(columns.rules, f"|{encode_rule(query.rule)}|") > 0)
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
