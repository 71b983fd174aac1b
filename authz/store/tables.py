"""Table models of the durable store. They are not wire types: nothing outside `store` sees them.

The indexes on `events` are few on purpose: each is paid for at every commit. Look-ups by decision and by
trace have their own; every other filter of `EventQuery` scans one tenant's records from the newest back.
"""

from sqlalchemy import BigInteger, Index, MetaData, Text, text
from sqlmodel import Field, SQLModel

SCHEMA_VERSION = "8"


class _Table(SQLModel):
    """Keeps these tables out of SQLModel's global metadata, which belongs to nobody."""

    metadata = MetaData()


_POSITION = ("recorded_at_ms", "writer", "sequence")
_ISSUED = ("issued_at_ms", "link_hash")
_ONE_TREE = {"sqlite_with_rowid": False}
"""Small rows with a text key: one page to write instead of a table's and an index's."""
_NONE = {"server_default": text("0")}
_EMPTY = {"server_default": text("''")}
"""Of columns that a later version of the schema added: what rows from before have in them."""


def _partial_index(name: str, column: str, *rest: str) -> Index:
    """Only rows where `column` is not empty. A query must say so too for SQLite to use it."""
    condition = text(f"{column} <> ''")
    return Index(name, "tenant", column, *rest, sqlite_where=condition, postgresql_where=condition)


class EventRow(_Table, table=True):
    """One record. `text` is what was hashed; the other columns repeat members of it for searching."""

    __tablename__ = "events"
    __table_args__ = (
        # Each in the order of a search: else SQLite would walk all of a tenant's records for that order.
        Index("events_by_time", "tenant", *_POSITION),
        _partial_index("events_by_decision", "decision_id"),
        _partial_index("events_by_trace", "trace_id", *_POSITION),
    )

    writer: str = Field(sa_type=Text, primary_key=True)
    sequence: int = Field(sa_type=BigInteger, primary_key=True)
    tenant: str = Field(sa_type=Text)
    type: str = Field(sa_type=Text)
    decision_id: str = Field(sa_type=Text)
    trace_id: str = Field(sa_type=Text)
    agent: str = Field(sa_type=Text)
    user: str = Field(sa_type=Text)
    tool: str = Field(sa_type=Text)
    effect: str = Field(sa_type=Text)
    rules: str = Field(sa_type=Text)
    """`|a|b|`, see `authz.core.log_chain.encode_rules`."""
    recorded_at_ms: int = Field(sa_type=BigInteger)
    occurred_at_ms: int = Field(sa_type=BigInteger)
    text: str = Field(sa_type=Text)
    hash: str = Field(sa_type=Text)


class LogHeadRow(_Table, table=True):
    """The last record of a writer, written in the same transaction as that record."""

    __tablename__ = "log_heads"
    __table_args__ = _ONE_TREE

    writer: str = Field(sa_type=Text, primary_key=True)
    sequence: int = Field(sa_type=BigInteger)
    hash: str = Field(sa_type=Text)


class LogCheckpointRow(_Table, table=True):
    """A signed joint checkpoint."""

    __tablename__ = "log_checkpoints"

    number: int = Field(sa_type=BigInteger, primary_key=True, sa_column_kwargs={"autoincrement": False})
    at_ms: int = Field(sa_type=BigInteger)
    token: str = Field(sa_type=Text)
    hash: str = Field(sa_type=Text)


class OperationRow(_Table, table=True):
    """Where one logical effect stands."""

    __tablename__ = "operations"
    __table_args__ = (
        # Only those of runtimes that settle, and only until they do: few, and most commits write none.
        Index(
            "operations_by_due",
            "due_ms",
            sqlite_where=text("due_ms <> 0"),
            postgresql_where=text("due_ms <> 0"),
        ),
        _ONE_TREE,
    )

    key: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text)
    fingerprint: str = Field(sa_type=Text)
    state: str = Field(sa_type=Text)
    decision_id: str = Field(sa_type=Text)
    expires_at_ms: int = Field(sa_type=BigInteger)
    version: int = Field(sa_type=BigInteger)
    settles: int = Field(sa_type=BigInteger, sa_column_kwargs=_NONE)
    cancel_requested: int = Field(sa_type=BigInteger, sa_column_kwargs=_NONE)
    attempt: str = Field(sa_type=Text, sa_column_kwargs=_EMPTY)
    first_at_ms: int = Field(sa_type=BigInteger, sa_column_kwargs=_NONE)
    settled_at_ms: int = Field(sa_type=BigInteger, sa_column_kwargs=_NONE)
    external_id: str = Field(sa_type=Text, sa_column_kwargs=_EMPTY)
    result_digest: str = Field(sa_type=Text, sa_column_kwargs=_EMPTY)
    due_ms: int = Field(sa_type=BigInteger, sa_column_kwargs=_NONE)
    """`OperationWrite.due_ms`."""
    ticketed: int = Field(sa_type=BigInteger, sa_column_kwargs=_NONE)
    basis: str = Field(sa_type=Text, sa_column_kwargs=_EMPTY)
    """JSON: see `authz.store.operation_rows`. Empty where there is none."""
    approval: str = Field(sa_type=Text, sa_column_kwargs=_EMPTY)


class SessionExposureRow(_Table, table=True):
    """One label that a session was exposed to. Rows are only ever added."""

    __tablename__ = "session_exposure"
    __table_args__ = _ONE_TREE

    session_key: str = Field(sa_type=Text, primary_key=True)
    label: str = Field(sa_type=Text, primary_key=True)


class LimitCounterRow(_Table, table=True):
    """One counter of a limit: the sum of its reservations, and the lock that they are changed under."""

    __tablename__ = "limit_counters"
    __table_args__ = _ONE_TREE

    key: str = Field(sa_type=Text, primary_key=True)
    """`authz.core.limits.counter_key`."""
    tenant: str = Field(sa_type=Text)
    limit_id: str = Field(sa_type=Text)
    used: int = Field(sa_type=BigInteger)
    until_ms: int = Field(sa_type=BigInteger)
    """When the last of its reservations ends. A counter that is over is swept away."""
    seen_ms: int = Field(sa_type=BigInteger)
    """The latest time that it was judged at: see `authz.core.limits.counter_time`."""


class LimitReservationRow(_Table, table=True):
    """What one decision takes of a counter, until it ends."""

    __tablename__ = "limit_reservations"
    __table_args__ = (Index("limit_reservations_by_decision", "decision_id"), _ONE_TREE)

    key: str = Field(sa_type=Text, primary_key=True)
    until_ms: int = Field(sa_type=BigInteger, primary_key=True)
    decision_id: str = Field(sa_type=Text, primary_key=True)
    amount: int = Field(sa_type=BigInteger)


class CapabilityLinkRow(_Table, table=True):
    """One link of a capability chain: `authz.model.capability.LinkRecord`. Rows are only ever added."""

    __tablename__ = "capability_links"
    __table_args__ = (
        # Each in the order of a search, as those of `events`. The key is one tenant's, by its hash.
        Index("capability_links_by_agent", "tenant", "agent", *_ISSUED),
        Index("capability_links_by_holder", "tenant", "holder", *_ISSUED),
        Index("capability_links_by_jti", "tenant", "jti", *_ISSUED),
        Index("capability_links_by_root", "tenant", "root_hash", *_ISSUED),
        Index("capability_links_by_time", "tenant", *_ISSUED),
        # However many links of others have the `jti` of a root: see `LinkQuery.only_roots`.
        Index(
            "capability_links_roots",
            *("tenant", "jti", *_ISSUED),
            sqlite_where=text("origin <> 'seen'"),
            postgresql_where=text("origin <> 'seen'"),
        ),
    )

    link_hash: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text, primary_key=True)
    parent_hash: str | None = Field(default=None, sa_type=Text)
    root_hash: str = Field(sa_type=Text)
    origin: str = Field(sa_type=Text)
    jti: str = Field(sa_type=Text)
    holder: str = Field(sa_type=Text)
    agent: str = Field(sa_type=Text)
    subject: str = Field(sa_type=Text)
    depth: int = Field(sa_type=BigInteger)
    issued_at_ms: int = Field(sa_type=BigInteger)
    expires_at_ms: int = Field(sa_type=BigInteger)
    details: str = Field(sa_type=Text)
    inherited: str = Field(sa_type=Text)
    """JSON, as `tool_digests` and `task`: see `authz.store.capability_rows`."""
    tool_digests: str = Field(sa_type=Text)
    child_trace: str = Field(sa_type=Text)
    task: str | None = Field(default=None, sa_type=Text)
    issued_by: str = Field(sa_type=Text)
    kid: str = Field(sa_type=Text, sa_column_kwargs=_EMPTY)
    """Empty, too, of roots that are on record from before it was kept."""


class RevocationRow(_Table, table=True):
    """One revocation: `authz.model.capability.RevocationRecord`. Swept away when it stops nothing more."""

    __tablename__ = "revocations"
    __table_args__ = (Index("revocations_by_sequence", "sequence", unique=True), _ONE_TREE)

    tenant: str = Field(sa_type=Text, primary_key=True)
    kind: str = Field(sa_type=Text, primary_key=True)
    value: str = Field(sa_type=Text, primary_key=True)
    until_ms: int = Field(sa_type=BigInteger)
    reason: str = Field(sa_type=Text)
    revoked_by: str = Field(sa_type=Text)
    revoked_at_ms: int = Field(sa_type=BigInteger)
    sequence: int = Field(sa_type=BigInteger)


class ProofUseRow(_Table, table=True):
    """A proof of possession that was used. Swept away when nobody takes it any more."""

    __tablename__ = "proof_uses"
    __table_args__ = _ONE_TREE

    key: str = Field(sa_type=Text, primary_key=True)
    until_ms: int = Field(sa_type=BigInteger)


class ApiKeyRow(_Table, table=True):
    """A caller's key: its digest and what it may do. `roles` are joined by commas, sorted."""

    __tablename__ = "api_keys"

    key_id: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text)
    name: str = Field(sa_type=Text)
    key_digest: str = Field(sa_type=Text, unique=True)
    roles: str = Field(sa_type=Text)
    profile: str = Field(sa_type=Text)
    dev: bool
    created_at_ms: int = Field(sa_type=BigInteger)
    revoked_at_ms: int | None = Field(default=None, sa_type=BigInteger)


class StoreMetaRow(_Table, table=True):
    """Facts of this database: `schema_version` and `writer`."""

    __tablename__ = "store_meta"
    __table_args__ = _ONE_TREE

    name: str = Field(sa_type=Text, primary_key=True)
    value: str = Field(sa_type=Text)


METADATA = _Table.metadata
EVENTS = METADATA.tables["events"]
LOG_HEADS = METADATA.tables["log_heads"]
LOG_CHECKPOINTS = METADATA.tables["log_checkpoints"]
OPERATIONS = METADATA.tables["operations"]
SESSION_EXPOSURE = METADATA.tables["session_exposure"]
LIMIT_COUNTERS = METADATA.tables["limit_counters"]
LIMIT_RESERVATIONS = METADATA.tables["limit_reservations"]
CAPABILITY_LINKS = METADATA.tables["capability_links"]
REVOCATIONS = METADATA.tables["revocations"]
PROOF_USES = METADATA.tables["proof_uses"]
API_KEYS = METADATA.tables["api_keys"]
STORE_META = METADATA.tables["store_meta"]
