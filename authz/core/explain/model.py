"""What an explanation consists of."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from authz.core.policy.near_miss import Examined, ExaminedRule
from authz.model.decision import AccessVerdict, Decision, Effect, RuleMatch


class StageOutcome(StrEnum):
    """What a stage did to the call."""

    PASSED = "passed"
    SETTLED = "settled"
    """This stage settled the effect."""
    NOT_REACHED = "not_reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One stage of spec section 2. `input` and `output` are JSON values, by names that say what they are."""

    number: int
    name: str
    outcome: StageOutcome
    summary: str
    input: Mapping[str, Any]
    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """One rule, held against one access of one agent."""

    rule: ExaminedRule
    determining: bool
    """It matches, and is among the rules that the decision names for this access."""

    @property
    def distance(self) -> int:
        """How many of its demands are not met; 0 for a rule that matches."""
        return len(self.rule.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessReport:
    """Stage 7 for one access and one agent of the chain."""

    agent: str
    user: str | None
    verdict: AccessVerdict
    """What policy says of the access, over all agents."""
    rules: tuple[RuleReport, ...]
    """Rules that matched, then the nearest of the others."""
    further: int
    """Rules about this action that were examined and are further off, and not shown."""
    elsewhere: int
    """Rules about other actions or other types of resources."""
    unexamined: int
    """Rules about this action that were left out because there are too many."""
    broken: str = ""
    uncertain: tuple[RuleMatch, ...] = ()
    """Rules whose match depends on a value that is not known, and with them the verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalReport:
    """The approval that would lift an ask (spec section 8)."""

    rules: tuple[RuleMatch, ...]
    """Every rule that asks now: one approval must cover them all."""
    factor: str
    """The strongest that any of the rules wants."""
    ttl_seconds: int | None
    """The shortest that any of the rules gives; `None` where no rule says."""
    scopes: tuple[str, ...]
    """What may be offered: `once`, or also `times` and `session`."""
    scopes_because: str
    afterwards: Effect
    """What the same call comes to once the approval is there, by the same stages."""
    afterwards_code: str
    afterwards_matched: tuple[RuleMatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that would have to be otherwise for a rule to match or to let go."""

    rule: RuleMatch
    access: str
    """The uri of the access."""
    parts: tuple[Examined, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One call, explained."""

    at_ms: int
    profile: str
    policy_version: str
    subject_refused: str | None
    """Why the credential may not assert the subject: then there is no decision."""
    decision: Decision | None
    """`None` too where it depends on values that are not known."""
    stages: tuple[StageReport, ...]
    accesses: tuple[AccessReport, ...] = ()
    unexplained_accesses: int = 0
    """Accesses beyond `MAX_EXPLAINED_ACCESSES`, of which only the verdict is told."""
    approval: ApprovalReport | None = None
    changes: tuple[Change, ...] = ()
    """What would have to differ: nearest permits of a `policy.no_match`, the forbids of a deny."""
