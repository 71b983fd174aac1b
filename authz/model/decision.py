"""The answer: an effect, and the rule that decided (spec sections 2, 6 and 11)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from authz.model.approval import ApprovalTold, AskTerms
from authz.model.capability import CapabilityRefused
from authz.model.limit import Reservation
from authz.model.operation import Standing
from authz.model.resource import Authority, PathPattern, Resource, Scope, Verb
from authz.model.tool import SideEffect


class Effect(StrEnum):
    """What the runtime may do. The meet is deny > require_approval > allow."""

    ALLOW = "allow"
    REQUIRE_APPROVAL = "require_approval"
    DENY = "deny"


_STRICTNESS = {Effect.ALLOW: 0, Effect.REQUIRE_APPROVAL: 1, Effect.DENY: 2}


def strictest(effects: "tuple[Effect, ...] | list[Effect]") -> Effect:
    """The meet. Nothing to meet over is a deny: empty means refuse."""
    return max(effects, key=_STRICTNESS.__getitem__) if effects else Effect.DENY


class Stage(StrEnum):
    """The stage of spec section 2 that settled an effect."""

    TOOL = "tool"
    SCHEMA = "schema"
    CANONICAL = "canonical"
    OPERATION = "operation"
    CAPABILITY = "capability"
    POLICY = "policy"
    APPROVAL = "approval"
    RESERVATION = "reservation"


class Code(StrEnum):
    """Machine codes of decisions. Closed: clients may switch on them."""

    TOOL_UNKNOWN = "tool.unknown"
    TOOL_CHANGED = "tool.changed"
    TOOL_DIGEST_REQUIRED = "tool.digest_required"
    SCHEMA_INVALID = "schema.invalid"
    CANONICAL_REFUSED = "canonical.refused"
    CANONICAL_TOO_MANY = "canonical.too_many"
    OPERATION_IDS_REQUIRED = "operation.ids_required"
    OPERATION_CONFLICT = "operation.conflict"
    OPERATION_EXPIRED = "operation.expired"
    """Its key is older than endpoints remember it."""
    OPERATION_IN_PROGRESS = "operation.in_progress"
    OPERATION_SETTLED = "operation.settled"
    """The call ran before: here is what came of it."""
    OPERATION_UNKNOWN = "operation.unknown"
    """The call may have run: nobody said how it ended."""
    OPERATION_CANCEL_REQUESTED = "operation.cancel_requested"
    CAPABILITY_INVALID = "capability.invalid"
    """The chain is malformed, forged, spliced, widened, or of another issuer or audience."""
    CAPABILITY_UNKNOWN = "capability.unknown"
    """Its root is on no record here."""
    CAPABILITY_SUBJECT = "capability.subject"
    """It belongs to another agent or another user than the call says."""
    CAPABILITY_PROOF = "capability.proof"
    CAPABILITY_EXPIRED = "capability.expired"
    CAPABILITY_NOT_YET_VALID = "capability.not_yet_valid"
    CAPABILITY_REVOKED = "capability.revoked"
    CAPABILITY_DEPTH = "capability.depth"
    CAPABILITY_RIGHT_MISSING = "capability.right_missing"
    CAPABILITY_OBJECT_OUTSIDE = "capability.object_outside"
    CAPABILITY_CONSTRAINT = "capability.constraint"
    CAPABILITY_TOOL_CHANGED = "capability.tool_changed"
    """The tool was reviewed anew since the right to it was given."""
    CAPABILITY_BUDGET = "capability.budget"
    CAPABILITY_RATE = "capability.rate"
    POLICY_PERMIT = "policy.permit"
    POLICY_FORBID = "policy.forbid"
    POLICY_NO_MATCH = "policy.no_match"
    POLICY_ERROR = "policy.error"
    APPROVAL_REQUIRED = "approval.required"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_GRANTED = "approval.granted"
    APPROVAL_DENIED = "approval.denied"
    """A person said no to this very call in this session."""
    APPROVAL_TOO_MANY_PENDING = "approval.too_many_pending"
    APPROVAL_ASKED_TOO_OFTEN = "approval.asked_too_often"
    LIMIT_RATE = "limit.rate"
    LIMIT_CONCURRENCY = "limit.concurrency"
    LIMIT_COST = "limit.cost"


class Next(StrEnum):
    """What may be tried after a refusal."""

    CHANGE_ARGUMENTS = "change_arguments"
    REQUEST_APPROVAL = "request_approval"
    WAIT = "wait"
    QUERY_STATUS = "query_status"
    ESCALATE = "escalate"
    STOP = "stop"


class Obligation(StrEnum):
    """What an allow binds its runtime to. The set is closed: who does not know one does not act."""

    SETTLE_BEFORE_RETRY = "settle_before_retry"


class RuleKind(StrEnum):
    """What a rule does when it matches. `ask` is a forbid tagged `@requires("approval")`.

    `limit` is an entry of `limits.yaml` that has been reached, `budget` that of a capability's link.
    """

    PERMIT = "permit"
    FORBID = "forbid"
    ASK = "ask"
    LIMIT = "limit"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """A rule that determined an effect, by the name that its author gave it."""

    rule: str
    kind: RuleKind
    file: str | None = None
    line: int | None = None
    reason: str = ""
    terms: AskTerms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentError:
    """One fault of the arguments, in words that a model can act on."""

    pointer: str
    found: str
    """The JSON type found there."""
    expected: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One canonical (verb, resource, scope) that the call would exercise."""

    verb: Verb
    resource: Resource
    scope: Scope
    authority: Authority
    argument: str
    """JSON Pointer of the argument that names the resource; empty where none does."""
    role: str = ""
    resolved: bool = False
    """True when the executor's file system confirmed where the resource really lies."""
    identity: tuple[int, int] | None = None
    """(device, inode) of the `resolved` claim."""
    pattern: PathPattern | None = None
    """Of a tree: the names beneath its resource that the access is to; `None` for all of them."""
    authority_because: str = field(default="", compare=False)
    """For explanations: which fact the authority came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessVerdict:
    """What policy says of one access, over every agent of the chain."""

    access: Access
    effect: Effect
    code: Code
    rules: tuple[RuleMatch, ...] = ()
    overruled: tuple[RuleMatch, ...] = ()
    """Permits that an asking rule outranked. Recorded, never on the wire."""
    internal: str = ""
    """Why, for the record only."""
    places: int = field(default=0, compare=False)
    """Of a tree: how many places beneath it were judged."""
    beneath: tuple[str, ...] = ()
    """Of a tree: canonical URIs of the places beneath it that settled the effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A stage's typed no: it denies the call and names its stage."""

    stage: Stage
    code: Code
    message: str
    next: tuple[Next, ...] = (Next.STOP,)
    retry_unchanged: bool = False
    retry_after_ms: int | None = None
    """When an unchanged retry can help, if that is known."""
    matched: tuple[RuleMatch, ...] = ()
    errors: tuple[ArgumentError, ...] = ()
    capability: CapabilityRefused | None = None
    """Of stage 6, and of a budget that is spent."""
    standing: Standing | None = None
    """Of stage 5: where the operation stands that keeps this call from running."""
    approval: ApprovalTold | None = None
    """Of stage 8: the no that stands against the call."""
    internal: str = ""
    """For the record only: what the caller must not learn (why a tool is hidden)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to execute and settle an allowed operation until it ends."""

    token: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The whole answer to one call. What is unknown because a stage ended early is `None`."""

    decision_id: str
    effect: Effect
    stage: Stage
    code: Code
    policy_version: str
    request_digest: str
    matched: tuple[RuleMatch, ...] = ()
    overruled: tuple[RuleMatch, ...] = ()
    message: str = ""
    next: tuple[Next, ...] = ()
    retry_unchanged: bool = False
    retry_after_ms: int | None = None
    """From the decision on: when an unchanged retry can help, if that is known."""
    errors: tuple[ArgumentError, ...] = ()
    capability: CapabilityRefused | None = None
    """Why a capability refused the call."""
    internal: str = ""
    authority: Authority | None = None
    side_effect: SideEffect | None = None
    verdicts: tuple[AccessVerdict, ...] = ()
    accesses: tuple[Access, ...] = ()
    arguments: Mapping[str, Any] | None = None
    fingerprint: str | None = None
    descriptor_digest: str | None = None
    expires_at_ms: int | None = None
    idempotency_key: str | None = None
    lease: Lease | None = None
    obligations: tuple[str, ...] = ()
    repeated: bool = False
    """An unchanged repeat of a call that was allowed: the first decision, not a second permission."""
    exposes: frozenset[str] = field(default_factory=frozenset)
    """Labels that the session is exposed to once the call has run."""
    reservations: tuple[Reservation, ...] = ()
    """What an allow takes of the bundle's limits, or would take if it were no dry run."""
    standing: Standing | None = None
    """Of an operation that is settled, or will be."""
    approval: ApprovalTold | None = None
    """What it waits for, rests on, or is refused by."""

    @property
    def told_verdicts(self) -> tuple[AccessVerdict, ...]:
        """What is answered and recorded of each access: what the rules said, or that a capability refused it.

        A capability refuses before the rules are asked, and a holder who oversteps is told what the call
        would have reached.
        """
        if self.verdicts or self.stage is not Stage.CAPABILITY:
            return self.verdicts
        return tuple(
            AccessVerdict(access=access, effect=self.effect, code=self.code) for access in self.accesses
        )
