"""The SQL of the hot path, compiled once per dialect from the table models.

SQLAlchemy writes the statements and a raw driver runs them: at these sizes its execution layer would
cost more than the database. Every dialect must take parameters by position, in the order given here;
`_compile` refuses to go on otherwise, since a swapped pair would be a wrong record and not an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ClauseElement, Dialect, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from authz.store.account_statements import AccountStatements, compile_account_statements
from authz.store.approval_queries import ApprovalQueries, compile_approval_queries
from authz.store.approval_statements import ApprovalStatements, compile_approval_statements
from authz.store.capability_statements import CapabilityStatements, compile_capability_statements
from authz.store.limit_statements import LimitStatements, compile_limit_statements
from authz.store.notice_tables import NOTICES
from authz.store.sql_parts import is_listed
from authz.store.tables import EVENTS, LOG_CHECKPOINTS, LOG_HEADS, OPERATIONS, SESSION_EXPOSURE, STORE_META

EVENT_COLUMNS = tuple(EVENTS.columns.keys())
OPERATION_COLUMNS = tuple(OPERATIONS.columns.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """SQL texts with positional parameters, in the order that each docstring gives."""

    insert_event: str
    """All columns of `events`, in table order."""
    insert_head: str
    """writer, sequence, hash; nothing happens when the writer has one."""
    move_head: str
    """sequence, hash; then the writer, sequence and hash that it moves from."""
    select_head: str
    """writer -> sequence, hash."""
    select_heads: str
    """-> writer, sequence, hash of every writer."""
    select_event: str
    """writer, sequence -> text, hash."""
    select_last_sequence: str
    """writer -> sequence of its newest record."""
    select_versions: str
    """JSON array of keys -> key, tenant, version of the operations that exist."""
    insert_operation: str
    """All columns of `operations`, in table order; nothing happens when the key exists."""
    move_operation: str
    """All columns of `operations` but key and tenant, in table order; then key, tenant, expected version."""
    insert_exposure: str
    """session_key, label; nothing happens when it is there."""
    select_checkpoint: str
    """-> number, hash, token of the newest checkpoint."""
    insert_checkpoint: str
    """number, at_ms, token, hash."""
    limits: LimitStatements
    """Counters of limits and budgets: see `authz.store.limit_statements`."""
    capabilities: CapabilityStatements
    """Proofs, links and revocations: see `authz.store.capability_statements`."""
    insert_notice: str
    """All columns of `notices`, in table order; nothing happens when it is there."""
    accounts: AccountStatements
    """People: see `authz.store.account_statements`."""
    approvals: ApprovalStatements
    """Approvals and the vault: see `authz.store.approval_statements`."""
    approval_queries: ApprovalQueries
    """The same outside of a commit: see `authz.store.approval_queries`."""
    write_ballast: str
    """name, value; replaces the value when the name is there."""
    remove_ballast: str
    """name."""


def compile_statements(dialect: Dialect) -> Statements:
    """The statements in `dialect`, which must be SQLite's or PostgreSQL's."""
    insert_new = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
    heads, events, operations, checkpoints = LOG_HEADS.c, EVENTS.c, OPERATIONS.c, LOG_CHECKPOINTS.c
    move_head = (
        update(LOG_HEADS)
        .where(heads.writer == bindparam("at_writer"))
        .where(heads.sequence == bindparam("from_sequence"))
        .where(heads.hash == bindparam("from_hash"))
        .values(sequence=bindparam("sequence"), hash=bindparam("hash"))
    )
    moved = tuple(name for name in OPERATION_COLUMNS if name not in ("key", "tenant"))
    move_operation = (
        update(OPERATIONS)
        .where(operations.key == bindparam("at_key"))
        .where(operations.tenant == bindparam("at_tenant"))
        .where(operations.version == bindparam("from_version"))
        .values({name: bindparam(name) for name in moved})
    )
    versions = select(operations.key, operations.tenant, operations.version).where(
        is_listed(operations.key, dialect)
    )
    event_at = select(events.text, events.hash).where(events.writer == bindparam("writer"))
    last = select(events.sequence).where(events.writer == bindparam("writer"))
    newest = select(checkpoints.number, checkpoints.hash, checkpoints.token)

    meta = insert_new(STORE_META)
    write_ballast = meta.on_conflict_do_update(index_elements=["name"], set_={"value": meta.excluded.value})
    remove_ballast = delete(STORE_META).where(STORE_META.c.name == bindparam("at_name"))

    def build(statement: ClauseElement, *order: str) -> str:
        return _compile(statement, dialect, order)

    return Statements(
        insert_event=build(insert(EVENTS), *EVENT_COLUMNS),
        insert_head=build(insert_new(LOG_HEADS).on_conflict_do_nothing(), *LOG_HEADS.columns.keys()),
        move_head=build(move_head, "sequence", "hash", "at_writer", "from_sequence", "from_hash"),
        select_head=build(
            select(heads.sequence, heads.hash).where(heads.writer == bindparam("writer")), "writer"
        ),
        select_heads=build(select(heads.writer, heads.sequence, heads.hash)),
        select_event=build(event_at.where(events.sequence == bindparam("sequence")), "writer", "sequence"),
        select_last_sequence=build(last.order_by(events.sequence.desc()), "writer"),
        select_versions=build(versions, "keys"),
        insert_operation=build(insert_new(OPERATIONS).on_conflict_do_nothing(), *OPERATION_COLUMNS),
        move_operation=build(move_operation, *moved, "at_key", "at_tenant", "from_version"),
        insert_exposure=build(
            insert_new(SESSION_EXPOSURE).on_conflict_do_nothing(), *SESSION_EXPOSURE.columns.keys()
        ),
        select_checkpoint=build(newest.order_by(checkpoints.number.desc())),
        insert_checkpoint=build(insert(LOG_CHECKPOINTS), *LOG_CHECKPOINTS.columns.keys()),
        limits=compile_limit_statements(dialect, build),
        capabilities=compile_capability_statements(dialect, build),
        insert_notice=build(insert_new(NOTICES).on_conflict_do_nothing(), *NOTICES.columns.keys()),
        accounts=compile_account_statements(dialect, build),
        approvals=compile_approval_statements(dialect, build),
        approval_queries=compile_approval_queries(dialect, build),
        write_ballast=build(write_ballast, "name", "value"),
        remove_ballast=build(remove_ballast, "at_name"),
    )


def _compile(statement: ClauseElement, dialect: Dialect, order: Sequence[str]) -> str:
    compiled = statement.compile(dialect=dialect)
    actual = tuple(getattr(compiled, "positiontup", None) or ())
    if actual != tuple(order):
        raise RuntimeError(f"parameters would be bound as {actual}, not as {tuple(order)}")
    return str(compiled)
