"""What the use cases need from the outside, as Protocols. Adapters live in `store`, `bundle`, `app`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from authz_client.capabilities import PublicKey, Signer

from authz.core.approval_moves import Move
from authz.core.canonical.shell import ShellAccess
from authz.core.lines import Line
from authz.core.ruleset import Ruleset
from authz.model.account_writes import AccountWrite
from authz.model.approval_request import Consumption
from authz.model.approval_writes import GrantVoid, NewApproval, Notice, VaultWrite
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import (
    CapabilityFacts,
    LinkQuery,
    LinkRecord,
    Presented,
    ProofUse,
    RevocationRecord,
    TokenRules,
)
from authz.model.decision import Decision
from authz.model.limit import Reservation
from authz.model.operation import OperationRecord, OperationWrite
from authz.model.record import CommitOutcome, Event, EventQuery, StoredEvent
from authz.model.tool import Descriptor
from authz.ports.accounts import AccountReads
from authz.ports.approvals import ApprovalReads


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


class CapabilityObserver(Protocol):
    """Is told what becomes of capabilities, once it is durable: metrics."""

    def capability(self, tenant: str, event: str, code: str) -> None:
        """A record of a capability was made. Both texts are from closed sets; `code` is of a refusal."""
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

    What is written of approvals is compared last: whatever of it does not hold any more is answered with
    `ApprovalMoved`, and nothing of the unit is written.
    """

    event: Event
    operation: OperationWrite | None = None
    exposure: ExposureWrite | None = None
    reservations: Sequence[Reservation] = ()
    only_checked: bool = False
    """The reservations are compared and not written: a dry run."""
    proof: ProofUse | None = None
    """Used up by the unit, also by a deny and a dry run. If it was used before, nothing of the unit is
    written and the answer is `Replayed`, which is found before anything else is."""
    links: Sequence[LinkRecord] = ()
    """Put on record where they are not yet; one that is there stays as it is."""
    revocations: Sequence[RevocationRecord] = ()
    """One that is there keeps the later `until_ms`, and counts as new for `revocations_since`."""
    delegated: Sequence[ExposureWrite] = ()
    """Sessions and traces that are delegated from now on, by labels that begin with `DELEGATED`."""
    releases: str = ""
    """A decision whose reservations are given back, each once: what is no longer there is not given again."""
    asks: NewApproval | None = None
    consumes: Consumption | None = None
    """Of a grant of the event's tenant: see there what makes it fail."""
    moves: Sequence[Move] = ()
    """Each by compare-and-set on its `expected_version`: if one has moved, nothing of the unit is written."""
    voids: GrantVoid | None = None
    kept: Sequence[VaultWrite] = ()
    notices: Sequence[Notice] = ()
    accounts: Sequence[AccountWrite] = ()
    """In their order. Where one of them does not hold, nothing of the unit is written and the answer is
    `AccountMoved`, which is found after everything else is."""


class Ledger(ApprovalReads, AccountReads, Protocol):
    """The durable store: the decision log, operations, session exposure, approvals and people."""

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

    async def due_operations(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        """(tenant, key) of operations whose lease has ended and whose runtime settles, the oldest first."""
        ...

    async def session_exposure(self, *keys: str) -> frozenset[str]:
        """Labels that the sessions and traces of these keys have been exposed to so far, in one request."""
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

    async def find_moves(self, tenant: str, decision_id: str) -> Sequence[StoredEvent]:
        """The `operation.…` records of this decision, in this tenant: what became of it, oldest first."""
        ...

    async def find_link(self, tenant: str, link_hash: str) -> LinkRecord | None:
        """The link of that hash, in this tenant."""
        ...

    async def find_links(self, query: LinkQuery) -> Sequence[LinkRecord]:
        """Links on record, newest first."""
        ...

    async def revocations_since(self, sequence: int) -> Sequence[RevocationRecord]:
        """Revocations of all tenants that the store took after `sequence`, in that order, a bounded number.

        Nothing can come later with a smaller sequence.
        """
        ...

    async def counters_used(self, keys: Sequence[str]) -> Mapping[str, int]:
        """What is taken of each counter of a limit or budget, ended reservations possibly included."""
        ...


class CapabilityKeys(Protocol):
    """The service's keys, as far as capabilities and tickets need them."""

    def signer(self, now_ms: int) -> Signer:
        """The key that signs at this moment. Raises `StoreUnavailable` when none does.

        `Signer.sign` may wait for a device; `SigningKey` in memory does not.
        """
        ...

    def verifying(self, now_ms: int) -> Mapping[str, PublicKey]:
        """The keys that verify at this moment, by `kid`: published for later, in use, and retired.

        One that is retired verifies until the last token that it signed has ended, one that was withdrawn
        never.
        """
        ...

    async def find(self, kid: str, now_ms: int) -> PublicKey | None:
        """The key of that name, if it verifies at this moment.

        A name that is not known causes a look for new keys, but no more than one a second, whoever asks.
        When that fails, the keys in hand stay in use. Never raises.
        """
        ...

    def jwks(self, now_ms: int) -> Mapping[str, Any]:
        """The keys of `verifying` as a JWK set (RFC 7517), without private parts."""
        ...


class CapabilitySource(Protocol):
    """Loads the capability that a call presents, and says by what it is to be checked."""

    async def load(self, caller: Caller, call: Call) -> Presented | None:
        """What the links of the call come to, in the caller's tenant; `None` for a call without links.

        Every refusal of theirs is a value in it. Raises `RevocationsStale`, and `StoreUnavailable` where the
        store could not be asked.
        """
        ...

    async def confirm(self) -> None:
        """See that what is known of revocations is recent. Raises `RevocationsStale` when it cannot be."""
        ...

    def rules(self, tenant: str) -> TokenRules:
        """By what the tenant's tokens are verified at this moment: to be read after everything that waits.

        Raises `RevocationsStale` when what has been revoked is not known well enough to decide.
        """
        ...

    def recorded(self, digest: str) -> None:
        """Every link of the chain with this `chain_digest` is on record now: a commit wrote what was not."""
        ...


class TicketSigner(Protocol):
    """Signs tickets: what a tool server verifies offline in place of the chain (spec section 7)."""

    def sign(
        self,
        *,
        tenant: str,
        decision: Decision,
        call: Call,
        descriptor: Descriptor,
        capability: CapabilityFacts,
        now_ms: int,
    ) -> str:
        """A ticket for an allow. Raises `StoreUnavailable` when none can be made: then nothing is allowed."""
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
