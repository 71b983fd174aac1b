"""Table models of approvals and of the vault.

`details` is the whole value as JSON, as it was when its row was first written; the other columns repeat what
is searched for, or hold what changes (see `authz.store.approval_rows`).

No row is ever taken away but those of the vault. A denial sticks as long as its session may come back; a
grant is what an operation rests on that is tried again; a vote has the receipt, which the log of a call with
a secret does not. They hold no argument, and grow with what people answer and what `AskLimits` lets through.
"""

from sqlalchemy import BigInteger, Index, LargeBinary, Text, text
from sqlmodel import Field, SQLModel

from authz.store.tables import METADATA

_PENDING = text("state = 'pending'")
_SESSION = text("kind = 'session'")
_ONE_TREE = {"sqlite_with_rowid": False}


class _Table(SQLModel):
    metadata = METADATA


def _pending_index(name: str, *columns: str, unique: bool = False) -> Index:
    """Only requests that wait: few, however many there were. A query must say so too for SQLite to use it."""
    return Index(name, *columns, unique=unique, sqlite_where=_PENDING, postgresql_where=_PENDING)


class ApprovalRow(_Table, table=True):
    """`authz.model.approval_request.ApprovalRequest`."""

    __tablename__ = "approvals"
    __table_args__ = (
        Index("approvals_by_change", "tenant", "change", unique=True),
        Index("approvals_by_time", "tenant", "created_at_ms", "id"),
        _pending_index("approvals_by_due", "expires_at_ms"),
        # No two requests for the same wait at a time, whatever a program does.
        _pending_index("approvals_waiting", "tenant", "dedupe_key", unique=True),
        _pending_index("approvals_waiting_by_call", "tenant", "fingerprint"),
    )

    tenant: str = Field(sa_type=Text, primary_key=True)
    id: str = Field(sa_type=Text, primary_key=True)
    dedupe_key: str = Field(sa_type=Text)
    subject_key: str = Field(sa_type=Text)
    fingerprint: str = Field(sa_type=Text)
    agent: str = Field(sa_type=Text)
    user: str = Field(sa_type=Text)
    session: str = Field(sa_type=Text)
    tool: str = Field(sa_type=Text)
    key_id: str = Field(sa_type=Text)
    trace_id: str = Field(sa_type=Text)
    state: str = Field(sa_type=Text)
    version: int = Field(sa_type=BigInteger)
    created_at_ms: int = Field(sa_type=BigInteger)
    expires_at_ms: int = Field(sa_type=BigInteger)
    closed_at_ms: int = Field(sa_type=BigInteger)
    closed_by: str = Field(sa_type=Text)
    change: int = Field(sa_type=BigInteger)
    """Of the tenant's changes the last that was to this request or its grant. No row is ever taken away, so
    the highest number stays, and the next change is numbered after it."""
    details: str = Field(sa_type=Text)


class ApprovalVoteRow(_Table, table=True):
    """`authz.model.approval_request.Vote`. Rows are only ever added."""

    __tablename__ = "approval_votes"

    tenant: str = Field(sa_type=Text, primary_key=True)
    request_id: str = Field(sa_type=Text, primary_key=True)
    version: int = Field(sa_type=BigInteger, primary_key=True)
    """Of the request with this vote: the order in which they came."""
    person: str = Field(sa_type=Text)
    at_ms: int = Field(sa_type=BigInteger)
    details: str = Field(sa_type=Text)


class ApprovalGrantRow(_Table, table=True):
    """`authz.model.approval_request.Grant`."""

    __tablename__ = "approval_grants"
    __table_args__ = (
        Index("approval_grants_by_call", "tenant", "fingerprint"),
        Index(
            "approval_grants_by_session",
            *("tenant", "session", "server", "tool"),
            sqlite_where=_SESSION,
            postgresql_where=_SESSION,
        ),
    )

    tenant: str = Field(sa_type=Text, primary_key=True)
    request_id: str = Field(sa_type=Text, primary_key=True)
    fingerprint: str = Field(sa_type=Text)
    session: str = Field(sa_type=Text)
    server: str = Field(sa_type=Text)
    tool: str = Field(sa_type=Text)
    kind: str = Field(sa_type=Text)
    uses_left: int | None = Field(default=None, sa_type=BigInteger)
    expires_at_ms: int = Field(sa_type=BigInteger)
    voided_at_ms: int = Field(sa_type=BigInteger)
    voided_by: str = Field(sa_type=Text)
    details: str = Field(sa_type=Text)


class ApprovalDenialRow(_Table, table=True):
    """`authz.model.approval_request.Denial`. Rows are only ever added."""

    __tablename__ = "approval_denials"
    __table_args__ = (Index("approval_denials_by_call", "tenant", "fingerprint"),)

    tenant: str = Field(sa_type=Text, primary_key=True)
    request_id: str = Field(sa_type=Text, primary_key=True)
    fingerprint: str = Field(sa_type=Text)
    session: str | None = Field(default=None, sa_type=Text)
    at_ms: int = Field(sa_type=BigInteger)
    details: str = Field(sa_type=Text)


class ApprovalResourceRow(_Table, table=True):
    """What a request is about, by which asking again is counted. Rows are only ever added."""

    __tablename__ = "approval_resources"
    __table_args__ = _ONE_TREE

    tenant: str = Field(sa_type=Text, primary_key=True)
    resource: str = Field(sa_type=Text, primary_key=True)
    expires_at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    """Of the request: what ended before a time is not looked at."""
    request_id: str = Field(sa_type=Text, primary_key=True)


class VaultRow(_Table, table=True):
    """`authz.store.vault.SealedEntry`. Swept away when it is over."""

    __tablename__ = "vault"
    __table_args__ = (Index("vault_by_end", "until_ms"),)

    tenant: str = Field(sa_type=Text, primary_key=True)
    ref: str = Field(sa_type=Text, primary_key=True)
    until_ms: int = Field(sa_type=BigInteger)
    nonce: bytes = Field(sa_type=LargeBinary)
    sealed: bytes = Field(sa_type=LargeBinary)


APPROVALS = METADATA.tables["approvals"]
APPROVAL_VOTES = METADATA.tables["approval_votes"]
APPROVAL_GRANTS = METADATA.tables["approval_grants"]
APPROVAL_DENIALS = METADATA.tables["approval_denials"]
APPROVAL_RESOURCES = METADATA.tables["approval_resources"]
VAULT = METADATA.tables["vault"]
APPROVAL_TABLES = (
    *(APPROVALS.name, APPROVAL_VOTES.name, APPROVAL_GRANTS.name, APPROVAL_DENIALS.name),
    *(APPROVAL_RESOURCES.name, VAULT.name),
)
