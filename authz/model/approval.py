"""What a rule that asks demands of an approval (spec sections 6 and 8)."""

from dataclasses import dataclass
from enum import StrEnum


class Factor(StrEnum):
    """How strongly the approver must prove to be there. Ordered: passkey is the strongest."""

    SESSION = "session"
    PASSKEY = "passkey"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTerms:
    """The terms of one asking rule: its `@approvers`, `@quorum`, `@ttl` and `@factor`."""

    approvers: tuple[str, ...] = ()
    """Cedar entities, `Group::"finance"`. Empty: whoever policy lets approve."""
    quorum: int = 1
    ttl_seconds: int | None = None
    factor: Factor = Factor.SESSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGrant:
    """A live, unconsumed approval that stage 8 may match. None exists before approvals do."""

    approval_id: str
    fingerprint: str
    rules: frozenset[str]
    """The asking rules that the approver was shown."""
