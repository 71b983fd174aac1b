"""What the use cases need from the outside, as Protocols. Adapters live in `store`, `bundle`, `app`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from authz.core.canonical.shell import ShellAccess
from authz.core.lines import Line
from authz.core.ruleset import Ruleset
from authz.model.decision import Decision
from authz.model.limit import Reservation
from authz.model.operation import OperationRecord, OperationWrite
from authz.model.record import CommitOutcome, Event, EventQuery, StoredEvent


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


class Bundles(Protocol):
    """The bundle in force for each tenant. Each answer is one immutable value: read it once a request."""

    def in_force(self, tenant: str) -> Ruleset | None:
        """The bundle in force, however old; `None` for an unknown tenant. To decide by it, `check_fresh`."""
        ...

    def check_fresh(self, tenant: str) -> None:
        """Raise `BundleStale` when the bound on staleness is exceeded: nothing may be decided then."""
        ...


class BundleLoader(Protocol):
    """Makes rulesets of the files of a tenant's bundle."""

    async def load(self, tenant: str, in_force: Ruleset) -> Ruleset | None:
        """The bundle as its files are now, checked and ready to decide; `None` when it is the one in force.

        Raises `BundleError` with every fault, also for files that cannot be read, that do not hold
        still, or whose check does not end. Requests go on while it runs.
        """
        ...

    async def retire(self, ruleset: Ruleset) -> None:
        """Let go of a bundle that was in force, without holding up requests."""
        ...

    def close(self) -> None:
        """Load nothing more."""
        ...


class BundleObserver(Protocol):
    """Is told of bundles coming into force, and of attempts to load one: metrics."""

    def bundle_in_force(self, tenant: str, ruleset: Ruleset, now_ms: int) -> None:
        """This bundle decides from now on."""
        ...

    def reload_ended(self, tenant: str, trigger: str, outcome: str, seconds: float) -> None:
        """An attempt to load a bundle ended. All texts but the tenant's are from closed sets."""
        ...


class LineReader(Protocol):
    """Reads long shell lines where they hold up nothing else."""

    async def read(self, line: Line) -> tuple[ShellAccess, ...]:
        """What the line comes to; never empty, never raises for what stands in it."""
        ...


class Observer(Protocol):
    """Is told of every decision once it is durable: metrics."""

    def decided(self, tenant: str, decision: Decision) -> None:
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

    The reservations are compared with their caps and written in the same transaction, all or none. If one
    does not fit, nothing of the unit is written and the answer is `LimitReached`. That is found before a
    conflict is, so a call that was allowed before may be answered with either.
    """

    event: Event
    operation: OperationWrite | None = None
    exposure: ExposureWrite | None = None
    reservations: Sequence[Reservation] = ()
    only_checked: bool = False
    """The reservations are compared and not written: a dry run."""


class Ledger(Protocol):
    """The durable store: the decision log, operations and session exposure."""

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        """Write one unit durably and return where its record stands in the log.

        Returns only after the data is on disk. Units that arrive together share one transaction.
        Raises `StoreUnavailable` when it is not known to be on disk: usually nothing of it is, but an answer
        may also have been lost or late (`store.timeout`). So nothing may be told, and a repeat is safe.
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
