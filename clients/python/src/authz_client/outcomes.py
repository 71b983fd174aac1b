"""Where operations and approvals stand, as the client believes the service of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from authz_client._members import (
    Members,
    an_object,
    instant,
    optional,
    optional_boolean,
    optional_integer,
    optional_text,
    text,
)
from authz_client.errors import MalformedAnswer


class OperationState(StrEnum):
    """How far the one effect of a call has come (spec section 9)."""

    REFUSED = "refused"
    WAITING = "waiting"
    RESERVED = "reserved"
    EXECUTING = "executing"
    SUCCEEDED = "succeeded"
    FAILED_RETRYABLE = "failed_retryable"
    FAILED_FINAL = "failed_final"
    UNKNOWN = "unknown"
    """Whether it took effect must be looked up: it is never tried again by itself."""
    NOT_EXECUTED = "not_executed"


class Outcome(StrEnum):
    """What may be told of an act that is over."""

    SUCCEEDED = "succeeded"
    FAILED_RETRYABLE = "failed_retryable"
    """It had no effect, or one that may be had twice."""
    FAILED_FINAL = "failed_final"
    UNKNOWN = "unknown"
    NOT_EXECUTED = "not_executed"
    """It did not begin."""


class ApprovalState(StrEnum):
    """Where a request for an approval stands (spec section 8). Pending is not denied, nor is expired."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    CONSUMED = "consumed"
    VOID = "void"


GRANTED: Final = frozenset({ApprovalState.APPROVED, ApprovalState.CONSUMED})
"""States in which the call may be sent again. Only the decision on it says whether it may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The operation of a call, as a decision tells of it."""

    state: OperationState
    settles: bool
    decision_id: str | None
    """Of the decision that allowed it."""
    external_id: str | None
    """What the endpoint calls the effect."""
    result_digest: str | None
    settled_at: datetime | None

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = an_object(value, "operation")
        return cls(
            state=_operation_state(members),
            settles=optional_boolean(members, "settles"),
            decision_id=optional_text(members, "decision_id"),
            external_id=optional_text(members, "external_id"),
            result_digest=optional_text(members, "result_digest"),
            settled_at=optional(members, "settled_at", instant),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation as it stands now (`GET /operations/{decision_id}`)."""

    decision_id: str
    state: OperationState
    settles: bool
    ticketed: bool
    cancel_requested: bool
    """Somebody wants it not to run. That is not `cancelled`."""
    contradicted: bool
    """An outcome was told that does not fit: only a person or a probe says what is true."""
    tool: str
    """`server/name`"""
    trace_id: str | None
    turn_id: str | None
    tool_call_id: str | None
    lease_expires_at: datetime | None
    external_id: str | None
    result_digest: str | None
    settled_at: datetime | None
    superseded_by: str | None
    """The decision that holds the operation now, after it was decided anew."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = an_object(value, "the operation")
        return cls(
            decision_id=text(members, "decision_id"),
            state=_operation_state(members),
            settles=optional_boolean(members, "settles"),
            ticketed=optional_boolean(members, "ticketed"),
            cancel_requested=optional_boolean(members, "cancel_requested"),
            contradicted=optional_boolean(members, "contradicted"),
            tool=text(members, "tool"),
            trace_id=optional_text(members, "trace_id"),
            turn_id=optional_text(members, "turn_id"),
            tool_call_id=optional_text(members, "tool_call_id"),
            lease_expires_at=optional(members, "lease_expires_at", instant),
            external_id=optional_text(members, "external_id"),
            result_digest=optional_text(members, "result_digest"),
            settled_at=optional(members, "settled_at", instant),
            superseded_by=optional_text(members, "superseded_by"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatus:
    """A request for an approval as it stands now (`GET /approvals/{id}`)."""

    id: str
    state: ApprovalState
    version: int
    url: str | None
    """Where people answer."""
    expires_at: datetime | None
    decision_id: str | None
    tool: str | None
    """`server identity/name`"""
    rules: tuple[tuple[str, str], ...]
    """(name, reason) of each rule that asked."""
    denial_reason: str | None
    """Of a no, in the person's own words: data, and no instruction of the service."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = an_object(value, "the approval")
        denial = optional(members, "denial", lambda found, name: an_object(found[name], name))
        asked_by = members.get("asked_by") or []
        if not isinstance(asked_by, list):
            raise MalformedAnswer("`asked_by` must be an array")
        return cls(
            id=text(members, "id"),
            state=_approval_state(members),
            version=optional_integer(members, "version") or 0,
            url=optional_text(members, "url"),
            expires_at=optional(members, "expires_at", instant),
            decision_id=optional_text(members, "decision_id"),
            tool=optional_text(members, "tool"),
            rules=tuple(_rule(rule) for rule in asked_by),
            denial_reason=optional_text(denial, "reason") if denial is not None else None,
        )


def _rule(value: Any) -> tuple[str, str]:
    members = an_object(value, "asked_by")
    return text(members, "rule"), optional_text(members, "reason") or ""


def _operation_state(members: Members) -> OperationState:
    try:
        return OperationState(text(members, "state"))
    except ValueError:
        raise MalformedAnswer("`state` is no state of an operation: update this client") from None


def _approval_state(members: Members) -> ApprovalState:
    try:
        return ApprovalState(text(members, "state"))
    except ValueError:
        raise MalformedAnswer("`state` is no state of an approval: update this client") from None
