"""What a decision depends on besides the call, and what its stages hand on to one another."""

from dataclasses import dataclass, field
from typing import Final

from authz.core.lines import Lines
from authz.core.ruleset import Ruleset
from authz.core.tools import CanonicalCall
from authz.model.approval import ApprovalTold
from authz.model.approval_request import Consumption
from authz.model.approval_writes import ApprovalFacts
from authz.model.caller import Caller
from authz.model.capability import Presented, TokenRules
from authz.model.decision import AccessVerdict, Code, Effect, RuleMatch, Stage
from authz.model.limit import Reached
from authz.model.operation import OperationRecord
from authz.model.resource import Authority

NO_APPROVALS: Final = ApprovalFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything a decision depends on besides the call: same call and facts, same decision."""

    caller: Caller
    ruleset: Ruleset
    now_ms: int
    decision_id: str
    operation: OperationRecord | None
    """The operation of the call's identity, as the store knows it."""
    exposed: frozenset[str]
    """Labels that the call's session has been exposed to."""
    secret: bytes
    """Key of idempotency keys and lease tokens."""
    ttl_ms: int
    """How long an allow, and the lease that comes with it, lasts."""
    approvals: ApprovalFacts = NO_APPROVALS
    """Read where a rule asks, or where a person may have said no: elsewhere there are none to know of."""
    lines: Lines = field(default_factory=dict)
    """What long shell lines of the call come to; one that is not here is read in place."""
    reached: tuple[Reached, ...] = ()
    """Counters of limits and budgets that a commit of this call has just found full."""
    presented: Presented | None = None
    """What loading the call's capability came to; a call that has one and no such fact is refused."""
    tokens: TokenRules | None = None
    """By what the tenant's capabilities are verified; without it every capability is refused."""
    delegated: bool = False
    """Whether the call's session or trace is on record as one that was delegated, whatever the call says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is known of the answer once the call is canonical."""

    fingerprint: str
    authority: Authority
    canonical: CanonicalCall
    idempotency_key: str
    lease_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What stages 6 to 8 come to."""

    effect: Effect
    stage: Stage
    code: Code
    matched: tuple[RuleMatch, ...]
    overruled: tuple[RuleMatch, ...]
    verdicts: tuple[AccessVerdict, ...]
    internal: str = ""
    approval: ApprovalTold | None = None
    """The yes that lifts it."""
    consumption: Consumption | None = None
    """The use of that yes which an allow takes; `None` where the operation took one before."""
