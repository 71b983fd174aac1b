"""The durable record of one logical effect (spec sections 1 and 9)."""

from dataclasses import dataclass
from enum import StrEnum

from authz_client.capabilities import Ancestor


class OperationState(StrEnum):
    """Where an operation stands. `authz.core.settlement` says what leads from one to another."""

    REFUSED = "refused"
    """Its last decision was a deny: the same call may be decided anew."""
    WAITING = "waiting"
    """Its last decision asked for an approval."""
    RESERVED = "reserved"
    """It was allowed."""
    EXECUTING = "executing"
    """Whoever holds the lease said that the act begins now."""
    SUCCEEDED = "succeeded"
    FAILED_RETRYABLE = "failed_retryable"
    """It failed in a way that may be tried again under the same key: it may be decided anew."""
    FAILED_FINAL = "failed_final"
    UNKNOWN = "unknown"
    """Its lease ended without an outcome, so whether it took effect is not known."""
    NOT_EXECUTED = "not_executed"
    """It is proven that it did not run: its reservations were given back, and it may be decided anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The capability that a permission rests on: by what it may be void before its act begins."""

    handles: tuple[Ancestor, ...]
    """Every link of the chain, root first, those above a narrowed root included."""
    kid: str
    """Of the key that signed its root."""
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """What the store knows of an operation."""

    key: str
    """Digest of (tenant, subject, trace, turn, call id)."""
    fingerprint: str
    state: OperationState
    decision_id: str
    expires_at_ms: int
    """When the lease ends. 0 for what was never allowed."""
    version: int
    """Rises by one with every write; the compare-and-set of the next write names it."""
    settles: bool = False
    """The runtime declared that it says when the act begins: without that word it never ran."""
    cancel_requested: bool = False
    attempt: str = ""
    """Which of the runtime's attempts began the act, by a name of its own choice."""
    first_at_ms: int = 0
    """When its key was first given out; 0 where that is not known. From then on endpoints remember it."""
    settled_at_ms: int = 0
    """When its outcome was told; 0 without one. Of one that is unknown: see `is_contradicted`."""
    external_id: str = ""
    """What the endpoint calls the effect."""
    result_digest: str = ""
    ticketed: bool = False
    """A ticket was given for it: whoever has that can let it run, and nobody else need hear of it."""
    basis: Basis | None = None
    """`None` where it was allowed without a capability."""
    approval: str = ""
    """Id of the approval that it was allowed by; empty where it needed none."""

    @property
    def is_contradicted(self) -> bool:
        """Whether it is unknown because an outcome was told that does not fit what had been told before.

        That outcome is kept with it, and so is when it was told; other unknown operations have no such time.
        """
        return self.state is OperationState.UNKNOWN and self.settled_at_ms > 0


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
    settles: bool = False
    cancel_requested: bool = False
    attempt: str = ""
    first_at_ms: int = 0
    settled_at_ms: int = 0
    external_id: str = ""
    result_digest: str = ""
    ticketed: bool = False
    basis: Basis | None = None
    approval: str = ""

    @property
    def due_ms(self) -> int:
        """When the end of the lease must be written down by whoever comes first; 0 for never.

        Of an operation whose runtime says nothing about it nothing is known at that end either.
        """
        runs = self.state is OperationState.EXECUTING
        return self.expires_at_ms if runs or (self.state is OperationState.RESERVED and self.settles) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the operation of a decision stands, as far as the answer tells."""

    state: OperationState
    settles: bool = False
    starts: bool = False
    """The act begins with this decision."""
    attempt: str = ""
    decision_id: str = ""
    """Of the decision that allowed it, where that is another one."""
    external_id: str = ""
    result_digest: str = ""
    settled_at_ms: int = 0
