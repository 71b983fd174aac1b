"""What the use cases need from the outside, as Protocols. Adapters live in `store`, `bundle`, `app`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from authz.model.decision import Decision
from authz.model.operation import OperationRecord, OperationWrite
from authz.model.record import Committed, Conflict, Event, EventQuery, StoredEvent


class Clock(Protocol):
    """Reads the time. The only source of `now` for everything below the service."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""
        ...


class IdSource(Protocol):
    """Makes ids that nobody can guess or repeat."""

    def new_id(self) -> str:
        """A new decision id."""
        ...


class Observer(Protocol):
    """Is told of every decision once it is durable: metrics."""

    def decided(self, decision: Decision) -> None:
        """A decision was made and recorded."""
        ...


class RequestObserver(Protocol):
    """Is told how requests ended: metrics."""

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered. `path` is a route, never what a caller made up."""
        ...

    def refused(self, code: str) -> None:
        """A request was refused before a decision."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureWrite:
    """Labels that a session has now been exposed to. The stored set only grows."""

    session_key: str
    labels: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitUnit:
    """Everything that one decision writes: all of it becomes durable, or none of it.

    The operation is written by compare-and-set: `operation.expected_version` is the version that
    the decision was based on (`None`: there was none). If it has moved, nothing of the unit is
    written and the answer is `Conflict`, after which the service decides again.
    """

    event: Event
    operation: OperationWrite | None = None
    exposure: ExposureWrite | None = None


class Ledger(Protocol):
    """The durable store: the decision log, operations and session exposure."""

    async def commit(self, unit: CommitUnit) -> Committed | Conflict:
        """Write one unit durably and return where its record stands in the log.

        Returns only after the data is on disk. Units that arrive together share one transaction.
        Raises `StoreUnavailable` when the store cannot take it; then nothing was written.
        """
        ...

    async def find_operation(self, key: str) -> OperationRecord | None:
        """The operation of that identity key (`authz.core.fingerprint.operation_key`)."""
        ...

    async def session_exposure(self, session_key: str) -> frozenset[str]:
        """Labels that the session has been exposed to so far."""
        ...

    async def search(self, query: EventQuery) -> Sequence[StoredEvent]:
        """Records of one tenant, newest first."""
        ...

    async def is_ready(self) -> bool:
        """Whether the store can be read and takes records now. Never raises."""
        ...

    async def find_event(self, tenant: str, decision_id: str) -> StoredEvent | None:
        """The record that made this decision, in this tenant."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A caller's credential as the store knows it. The key itself is not kept, only its digest."""

    key_id: str
    tenant: str
    name: str
    roles: frozenset[str]
    profile: str
    """The name of the credential profile in the tenant's bundle (`credentials.yaml`)."""
    dev: bool = False


class CredentialSource(Protocol):
    """Finds a caller by the digest of the key that it presented."""

    async def find_credential(self, key_digest: str) -> Credential | None:
        """The live credential, or `None` when it is unknown or revoked.

        A revocation takes effect within one second on every process (spec section 7's bound).
        """
        ...
