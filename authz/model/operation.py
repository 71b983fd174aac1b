"""The durable record of one logical effect (spec sections 1 and 9)."""

from dataclasses import dataclass
from enum import StrEnum


class OperationState(StrEnum):
    """Where an operation stands. Settlement adds the states after `reserved`."""

    REFUSED = "refused"
    """Its last decision was a deny: the same call may be decided anew."""
    WAITING = "waiting"
    """Its last decision asked for an approval."""
    RESERVED = "reserved"
    """It was allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """What the store knows of an operation."""

    key: str
    """Digest of (tenant, subject, trace, turn, call id)."""
    fingerprint: str
    state: OperationState
    decision_id: str
    expires_at_ms: int
    """When the allow, and with it the lease, ends. 0 unless `reserved`."""
    version: int
    """Rises by one with every write; the compare-and-set of the next write names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationWrite:
    """The next state of an operation, and the version that it was decided on."""

    tenant: str
    key: str
    fingerprint: str
    state: OperationState
    decision_id: str
    expires_at_ms: int
    expected_version: int | None
    """`None`: the operation must not exist yet."""
