"""The decision log's records (spec section 10)."""

from dataclasses import dataclass
from enum import StrEnum

from authz.model.account_writes import AccountMoved
from authz.model.approval_writes import ApprovalMoved
from authz.model.limit import LimitReached


class EventType(StrEnum):
    """What a record says happened."""

    DECISION_MADE = "decision.made"
    DECISION_REPEATED = "decision.repeated"
    REQUEST_REFUSED = "request.refused"
    """A known caller's request was refused before a decision (stages 0 and 1)."""
    BUNDLE_LOADED = "bundle.loaded"
    """From here on a tenant's calls are decided by this bundle."""
    BUNDLE_REJECTED = "bundle.rejected"
    """The files of a bundle were refused: the one in force stays."""
    CAPABILITY_ISSUED = "capability.issued"
    CAPABILITY_NARROWED = "capability.narrowed"
    """The service narrowed a chain that its holder presented."""
    CAPABILITY_REFUSED = "capability.refused"
    """A capability that was asked for was not issued or not narrowed."""
    CAPABILITY_REVOKED = "capability.revoked"
    OPERATION_STARTED = "operation.started"
    """The act begins."""
    OPERATION_SETTLED = "operation.settled"
    """The holder of the lease said how it ended."""
    OPERATION_RESOLVED = "operation.resolved"
    """A person or a probe found out what became of it."""
    OPERATION_CANCEL_REQUESTED = "operation.cancel_requested"
    OPERATION_EXPIRED = "operation.expired"
    """Its lease ended before it began: what it had reserved is given back."""
    OPERATION_UNKNOWN = "operation.unknown"
    """Its lease ended, and nobody said how it went."""
    OPERATION_CONTRADICTED = "operation.contradicted"
    """Its holder told an outcome that does not follow from where it stands: kept for whoever looks."""
    APPROVAL_VOTED = "approval.voted"
    """A person said yes; others still have to."""
    APPROVAL_APPROVED = "approval.approved"
    """A person said yes, and with that the request is approved."""
    APPROVAL_DENIED = "approval.denied"
    APPROVAL_CANCELLED = "approval.cancelled"
    """Its requester took the request back."""
    APPROVAL_EXPIRED = "approval.expired"
    """Nobody answered in time: no human denial."""
    APPROVAL_REVOKED = "approval.revoked"
    """What a yes permitted is void from here on."""
    APPROVAL_REFUSED = "approval.refused"
    """An answer that changed nothing, and why."""
    ACCOUNT_CHANGED = "account.changed"
    """A person's account was made, changed, disabled, or got or lost a passkey."""
    PERSON_SIGNED_IN = "person.signed_in"
    PERSON_SIGNED_OUT = "person.signed_out"
    SIGN_IN_REFUSED = "person.sign_in_refused"
    NOTICE_UNDELIVERED = "notice.undelivered"
    """Nobody took a notification: it stands in the list of dead letters."""
    EXPLANATION_MADE = "explanation.made"
    """Somebody was told why a call is decided as it is, rules that nearly matched included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A record before it has its place in the log.

    `body` is the JSON text of the record's members other than the envelope that the writer adds
    (schema, writer, sequence, previous hash, recorded time). The other fields are what searches
    select by; each repeats a member of `body`, and verification checks that they agree.
    """

    type: EventType
    tenant: str
    occurred_at_ms: int
    body: bytes
    decision_id: str = ""
    trace_id: str = ""
    agent: str = ""
    user: str = ""
    tool: str = ""
    """`server/name`."""
    effect: str = ""
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Where a record now stands, durably."""

    writer: str
    sequence: int
    recorded_at_ms: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The operation moved between the decision and its commit: nothing was written."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The unit's proof of possession was used before: nothing was written."""

    key: str


CommitOutcome = Committed | Conflict | LimitReached | Replayed | ApprovalMoved | AccountMoved
"""What a store answers to a unit. After anything but `Committed`, nothing of the unit was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """A record as it stands in the log. `text` is the exact text that was hashed."""

    writer: str
    sequence: int
    recorded_at_ms: int
    hash: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """A search in one tenant's records. Empty fields do not restrict; times are in ms, UTC."""

    tenant: str
    trace_id: str = ""
    agent: str = ""
    user: str = ""
    tool: str = ""
    rule: str = ""
    effect: str = ""
    type: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 50
    before: tuple[int, str, int] | None = None
    """Continue after this record (recorded time, writer, sequence), newest first."""
