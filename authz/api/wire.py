"""The wire (spec section 11): what answers look like. How requests must look: `authz.core.requests`.

Requests are validated once by those models. Answers are built as plain objects and serialized once;
the answer models are what the OpenAPI document shows, and tests hold every answer to them.
"""

from typing import Any, Literal

import orjson
from pydantic import BaseModel, Field

from authz.api.problems import Problem
from authz.core.cedar_context import rfc3339
from authz.core.requests import (
    MAX_BATCH,
    BatchRequest,
    DecideRequest,
    Id,
    PathText,
    PointerText,
    SubjectIn,
    ToolIn,
    Wire,
    malformed,
    parse_batch,
    parse_decide,
    to_call,
)
from authz.model.approval import ApprovalTold
from authz.model.call import Call
from authz.model.capability import CapabilityRefused
from authz.model.decision import AccessVerdict, ArgumentError, Decision, Effect, RuleMatch
from authz.model.operation import Standing
from authz.model.record import Committed

__all__ = [
    "MAX_BATCH",
    "AccessOut",
    "ApprovalOut",
    "ArgumentErrorOut",
    "BatchOut",
    "BatchProblemOut",
    "BatchRequest",
    "CapabilityRefusedOut",
    "DecideRequest",
    "DecisionOut",
    "Id",
    "LeaseOut",
    "PathText",
    "PointerText",
    "RuleOut",
    "StandingOut",
    "SubjectIn",
    "ToolIn",
    "Wire",
    "decision_out",
    "dump",
    "malformed",
    "parse_batch",
    "parse_decide",
    "to_call",
]


class RuleOut(BaseModel):
    """A rule that determined the effect, with the place where it stands."""

    rule: str
    kind: Literal["permit", "forbid", "ask", "limit", "budget"]
    file: str | None = None
    line: int | None = None
    reason: str = ""
    approvers: list[str] | None = None
    quorum: int | None = None
    factor: str | None = None


class AccessOut(BaseModel):
    """One canonical access, and what policy says of it."""

    verb: str
    resource: str
    uri: str
    scope: Literal["object", "tree"]
    pattern: str | None = Field(
        default=None,
        description="Of a tree: the access is only to what matches beneath its resource. `*` is any run of "
        "characters of one name and `?` one character, neither a dot at its front; a part `**` is any number "
        "of names in a row.",
    )
    authority: Literal["A0", "A1", "A2", "A3"]
    effect: Literal["allow", "require_approval", "deny"] | None = None
    rules: list[str] = []


class ArgumentErrorOut(BaseModel):
    """One fault of the arguments."""

    pointer: str
    found: str
    expected: str
    message: str


class CapabilityRefusedOut(BaseModel):
    """Why a capability does not let the call through."""

    reason: str = Field(
        description="The rule that was broken: a code of the token profile, or of the service."
    )
    link: int | None = Field(
        None,
        description="Which link of the presented chain, 0 for the root; absent where it is none of them.",
    )
    agent: str | None = Field(None, description="Who holds that link, where its signature holds.")
    component: Literal["R", "O", "P", "E"] | None = Field(
        None, description="Which of rights, objects, predicate and expiry."
    )


class LeaseOut(BaseModel):
    """The right to execute and settle the operation."""

    token: str
    expires_at: str


class StandingOut(BaseModel):
    """Where the operation of a call stands. With an allow, what its runtime has declared of it."""

    state: Literal[
        "reserved", "executing", "succeeded", "failed_retryable", "failed_final", "unknown", "not_executed"
    ]
    settles: bool = Field(description="The runtime says when the act begins and how it ended.")
    decision_id: str | None = Field(None, description="Of the decision that allowed it.")
    external_id: str | None = Field(None, description="What the endpoint calls the effect.")
    result_digest: str | None = None
    settled_at: str | None = None


class ApprovalOut(BaseModel):
    """The approval that the decision waits for, rests on, or is refused by."""

    id: str
    state: Literal["pending", "approved", "denied", "expired", "cancelled", "consumed", "void"] = Field(
        description="After this decision: `consumed` where an allow took the last use."
    )
    url: str = Field(description="Where people answer, and see what they are asked.")
    expires_at: str | None = Field(None, description="When the request, or the yes, is over.")
    scope: Literal["once", "times", "session"] | None = Field(
        None, description="Of a yes: how far it reaches."
    )
    uses_left: int | None = Field(
        None, description="Of a yes, after this decision; absent where uses are not counted."
    )


class DecisionOut(BaseModel):
    """The answer to one call. Members that a stage did not get to are absent."""

    decision_id: str
    effect: Literal["allow", "require_approval", "deny"]
    expires_at: str | None = None
    request_digest: str
    matched: list[RuleOut]
    stage: str
    code: str
    message: str | None = None
    next: list[str] | None = None
    retry_unchanged: bool | None = None
    retry_after_ms: int | None = Field(
        None, description="When an unchanged retry can help, in milliseconds from this answer."
    )
    errors: list[ArgumentErrorOut] | None = None
    capability: CapabilityRefusedOut | None = Field(
        None, description="With a code `capability.…`: which link refused the call, and by what."
    )
    approval: ApprovalOut | None = Field(
        None,
        description="Of an ask, of an allow by an approval, and of a call that a person denied. Wait for a "
        "pending one, then send the same call with the same ids.",
    )
    authority: Literal["A0", "A1", "A2", "A3"] | None = None
    side_effect: Literal["none", "idempotent", "cumulative"] | None = None
    accesses: list[AccessOut] | None = None
    arguments: dict[str, Any] | None = None
    fingerprint: str | None = None
    idempotency_key: str | None = None
    lease: LeaseOut | None = None
    ticket: str | None = Field(
        None,
        description="With an allow, where `ticket` was asked for: what the tool server verifies offline.",
    )
    obligations: list[str] = []
    policy_version: str
    descriptor_digest: str | None = None
    trace_id: str | None = None
    repeated: bool | None = Field(
        None, description="True when this call was allowed before: no second permission."
    )
    dry_run: bool | None = None
    operation: StandingOut | None = Field(
        None, description="Of a call that is to be settled, or that ran before and does not run again."
    )
    sequence: int = Field(description="Where the record stands in its writer's chain of the decision log.")
    shares_written_resource_with: list[int] | None = Field(
        None,
        description="In a batch: indices of other calls that touch a resource that this or the other writes.",
    )


class BatchProblemOut(BaseModel):
    """The place of a call that could not be decided after earlier ones had been. It is never an allow."""

    problem: Problem


class BatchOut(BaseModel):
    """The answers of a batch, in the order of its calls."""

    decisions: list[DecisionOut | BatchProblemOut]


def decision_out(
    call: Call, decision: Decision, committed: Committed, ticket: str | None = None
) -> dict[str, Any]:
    """The answer as it goes on the wire. Members that a stage did not get to are left out."""
    expires_at_ms = decision.expires_at_ms
    lease = decision.lease
    refused = decision.effect is not Effect.ALLOW
    out: dict[str, Any] = {
        "decision_id": decision.decision_id,
        "effect": decision.effect.value,
        "expires_at": rfc3339(expires_at_ms) if expires_at_ms is not None else None,
        "request_digest": decision.request_digest,
        "matched": [_rule_out(rule) for rule in decision.matched],
        "stage": decision.stage.value,
        "code": decision.code.value,
        "message": decision.message if refused else None,
        "next": [step.value for step in decision.next] if refused else None,
        "retry_unchanged": decision.retry_unchanged if refused else None,
        "retry_after_ms": decision.retry_after_ms,
        "errors": [_error_out(error) for error in decision.errors] or None,
        "capability": _capability_out(decision.capability) if decision.capability is not None else None,
        "approval": _approval_out(decision.approval) if decision.approval is not None else None,
        "authority": decision.authority.name if decision.authority is not None else None,
        "side_effect": decision.side_effect.value if decision.side_effect else None,
        "accesses": [_access_out(verdict) for verdict in decision.told_verdicts] or None,
        "arguments": decision.arguments,
        "fingerprint": decision.fingerprint,
        "idempotency_key": decision.idempotency_key,
        "lease": {"token": lease.token, "expires_at": rfc3339(lease.expires_at_ms)} if lease else None,
        "ticket": ticket,
        "obligations": list(decision.obligations),
        "policy_version": decision.policy_version,
        "descriptor_digest": decision.descriptor_digest,
        "trace_id": call.ids.trace,
        "repeated": decision.repeated or None,
        "dry_run": call.dry_run or None,
        "operation": _standing_out(decision.standing) if decision.standing is not None else None,
        "sequence": committed.sequence,
    }
    return {name: value for name, value in out.items() if value is not None}


def _standing_out(standing: Standing) -> dict[str, Any]:
    out = {
        "state": standing.state.value,
        "settles": standing.settles,
        "decision_id": standing.decision_id or None,
        "external_id": standing.external_id or None,
        "result_digest": standing.result_digest or None,
        "settled_at": rfc3339(standing.settled_at_ms) if standing.settled_at_ms else None,
    }
    return {name: value for name, value in out.items() if value is not None}


def _error_out(error: ArgumentError) -> dict[str, str]:
    return {
        "pointer": error.pointer,
        "found": error.found,
        "expected": error.expected,
        "message": error.message,
    }


def _capability_out(refused: CapabilityRefused) -> dict[str, Any]:
    out = {
        "reason": refused.reason,
        "link": refused.link,
        "agent": refused.agent,
        "component": refused.component,
    }
    return {name: value for name, value in out.items() if value is not None}


def _approval_out(told: ApprovalTold) -> dict[str, Any]:
    out = {
        "id": told.id,
        "state": told.state.value,
        "url": told.url,
        "expires_at": rfc3339(told.expires_at_ms) if told.expires_at_ms is not None else None,
        "scope": told.scope.value if told.scope is not None else None,
        "uses_left": told.uses_left,
    }
    return {name: value for name, value in out.items() if value is not None}


def _rule_out(rule: RuleMatch) -> dict[str, Any]:
    out: dict[str, Any] = {
        "rule": rule.rule,
        "kind": rule.kind.value,
        "file": rule.file,
        "line": rule.line,
        "reason": rule.reason,
    }
    if rule.terms is not None:
        out["approvers"] = list(rule.terms.approvers)
        out["quorum"] = rule.terms.quorum
        out["factor"] = rule.terms.factor.value
    return out


def _access_out(verdict: AccessVerdict) -> dict[str, Any]:
    access = verdict.access
    out = {
        "verb": access.verb.value,
        "resource": access.resource.entity.cedar,
        "uri": access.resource.uri,
        "scope": access.scope.value,
        "authority": access.authority.name,
        "effect": verdict.effect.value,
        "rules": [rule.rule for rule in verdict.rules],
    }
    if access.pattern is not None:
        out["pattern"] = access.pattern.text
    return out


def dump(value: Any) -> bytes:
    """JSON bytes of an answer."""
    return orjson.dumps(value)
