"""The table of notices: outbox, what was delivered lately, and dead letters."""

from sqlalchemy import BigInteger, Index, Text, text
from sqlmodel import Field, SQLModel

from authz.store.tables import METADATA

_WAITING = text("state = 'waiting'")
_DEAD = text("state = 'dead'")


class NoticeRow(SQLModel, table=True):
    """A notice for which no webhook is chosen yet (`webhook` is empty), or one delivery of it."""

    metadata = METADATA
    __tablename__ = "notices"
    __table_args__ = (
        Index(
            "notices_waiting",
            *("tenant", "webhook", "due_ms"),
            sqlite_where=_WAITING,
            postgresql_where=_WAITING,
        ),
        Index("notices_dead", "tenant", "at_ms", sqlite_where=_DEAD, postgresql_where=_DEAD),
        Index("notices_by_subject", "tenant", "webhook", "subject_key", "at_ms"),
    )

    message_id: str = Field(sa_type=Text, primary_key=True)
    """`webhook-id` of a delivery; of an undirected notice its key."""
    tenant: str = Field(sa_type=Text)
    webhook: str = Field(sa_type=Text)
    kind: str = Field(sa_type=Text)
    subject_key: str = Field(sa_type=Text)
    approval_id: str = Field(sa_type=Text)
    body: str = Field(sa_type=Text)
    at_ms: int = Field(sa_type=BigInteger)
    state: str = Field(sa_type=Text)
    attempts: int = Field(sa_type=BigInteger)
    due_ms: int = Field(sa_type=BigInteger)
    fault: str = Field(sa_type=Text)
    version: int = Field(sa_type=BigInteger)


NOTICES = METADATA.tables["notices"]
