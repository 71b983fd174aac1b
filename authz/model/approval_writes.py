"""What a commit writes about approvals, and what is read of them: the shapes between service and store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest, Denial, Grant, Vote


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApproval:
    """A request that a decision which asks makes. It is written with that decision's record.

    A compare-and-set: where a request with its dedupe key is written down as pending, or a cap is reached,
    nothing of the unit is written and the answer is `ApprovalMoved`, with the id of the one that waits. That
    one may be over: its end has a record of its own, so it is first to be written down (`expire`). A cap
    counts what is not over.
    """

    request: ApprovalRequest
    subject_key: str
    """Whose pending requests are counted together."""
    pending_per_subject: int
    """The cap; likewise of the tenant."""
    pending_per_tenant: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantVoid:
    """Somebody revokes a grant. Where nothing is left of it the answer is `ApprovalMoved`."""

    tenant: str
    request_id: str
    voided_at_ms: int
    voided_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultWrite:
    """Something in the clear that is kept sealed, for a time (spec section 10). One that is there stays."""

    tenant: str
    ref: str
    """What it is: `shown:` with the id of an approval, `outcome:` with the key of an operation."""
    content: bytes
    """In the clear: the store seals it before it is written."""
    until_ms: int
    """From then on it is as if absent, and is swept away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to tell outside, written with what it tells of, so that none is lost or told of nothing."""

    tenant: str
    kind: str
    """From a closed set, such as `approval.requested`."""
    subject_key: str
    """By which notices are limited."""
    approval_id: str
    body: bytes
    """JSON, without anything that only the vault may hold."""
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalMoved:
    """An approval is no longer as it was when this was decided: nothing was written."""

    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStanding:
    """All that is on record of one request, as one consistent reading."""

    request: ApprovalRequest
    votes: tuple[Vote, ...] = ()
    grant: Grant | None = None
    denial: Denial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalFacts:
    """What is on record when a call is decided that asks, or whose session was told no before."""

    grants: tuple[Grant, ...] = ()
    """For its fingerprint, or of its session and tool; also spent, revoked and over ones."""
    denials: tuple[Denial, ...] = ()
    """Of its fingerprint in its session."""
    waiting: tuple[ApprovalRequest, ...] = ()
    """Pending for its fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuery:
    """A search in one tenant's requests, newest first. Empty fields do not restrict."""

    tenant: str
    states: frozenset[ApprovalState] = field(default_factory=frozenset)
    """As told at `now_ms` (`authz.core.approval.told_state`)."""
    now_ms: int
    agent: str = ""
    user: str = ""
    session: str = ""
    tool: str = ""
    """`server identity/name`."""
    key_id: str = ""
    """Of the credential that asked."""
    trace_id: str = ""
    only_grants: bool = False
    """Only those with a grant of which something is left."""
    limit: int = 50
    before: tuple[int, str] | None = None
    """Continue after this one (created at, id)."""


ApprovalPage = Sequence[ApprovalStanding]
