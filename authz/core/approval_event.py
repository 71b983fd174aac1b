"""The records of an approval after it was asked for: answers, ends, revocations. No argument is in one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from authz.core.approval import is_guessable
from authz.core.approval_moves import Move, Refused
from authz.core.cedar_context import rfc3339
from authz.core.log_chain import index_members
from authz.core.record_places import redaction_members
from authz.core.redact import Redactor
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState, GrantScope
from authz.model.approval_request import ApprovalRequest, Denial, Grant, Vote
from authz.model.caller import Caller
from authz.model.record import Event, EventType

_TYPES: Final = {
    ApprovalState.PENDING: EventType.APPROVAL_VOTED,
    ApprovalState.APPROVED: EventType.APPROVAL_APPROVED,
    ApprovalState.DENIED: EventType.APPROVAL_DENIED,
    ApprovalState.CANCELLED: EventType.APPROVAL_CANCELLED,
    ApprovalState.EXPIRED: EventType.APPROVAL_EXPIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOf:
    """What all records of one approval say alike."""

    request: ApprovalRequest
    server: str
    """What the call named the tool's server, as the record of its decision has it; empty where unknown."""
    redactor: Redactor
    now_ms: int
    policy_version: str = ""
    """The bundle in force at this moment."""


def move_event(
    move: Move, record: RecordOf, by: SignedIn | Caller | None, *, saw_shown: bool | None = None
) -> Event:
    """The record of an answer that counts, of a cancelling, and of an end. `by` is nobody for an end.

    `saw_shown`: whether a no was said on a page with what would run; `None` where that is not known.
    """
    after = move.after
    body: dict[str, Any] = {
        **_about(record),
        "approval": {
            **_approval(record),
            "from": move.source.value,
            "to": after.state.value,
            "by": move.by.value,
            "version": after.version,
        },
        **_who(by),
    }
    if move.vote is not None:
        body["vote"] = _vote(move.vote, record)
    if move.grant is not None:
        body["grant"] = _grant(move.grant)
    if move.denial is not None:
        body["denial"] = {**_denial(move.denial, record.redactor), "saw_shown": saw_shown}
    return _event(_TYPES[after.state], body, record)


def revoked_event(grant: Grant, record: RecordOf, by: SignedIn) -> Event:
    """The record that what a yes permitted is void. `grant` is as it was before."""
    body = {
        **_about(record),
        "approval": {
            **_approval(record),
            "from": ApprovalState.APPROVED.value,
            "to": ApprovalState.VOID.value,
            "by": "revoker",
        },
        "grant": {**_grant(grant), "uses_left": grant.uses_left},
        **_who(by),
    }
    return _event(EventType.APPROVAL_REVOKED, body, record)


def refused_event(refused: Refused, record: RecordOf, by: SignedIn | Caller, *, wanted: str) -> Event:
    """The record of an answer that changed nothing. `wanted` is what was tried: `approve`, `deny`, …"""
    body = {
        **_about(record),
        "approval": {
            **_approval(record),
            "wanted": wanted,
            "state": refused.state.value if refused.state is not None else None,
        },
        "code": refused.code.value,
        "message": record.redactor.text(refused.message),
        **_who(by),
    }
    return _event(EventType.APPROVAL_REFUSED, body, record)


def _about(record: RecordOf) -> dict[str, Any]:
    request = record.request
    requester, ids, tool = request.asked.requester, request.ids, request.asked.tool
    return {
        "decision_id": request.decision_id or None,
        "subject": {
            "agent": requester.agent,
            "on_behalf_of": requester.on_behalf_of,
            "session": requester.session,
            "parent_agent": requester.parent_agent,
        },
        "tool": {
            "server": record.server or None,
            "name": tool.name,
            "identity": tool.server,
            "descriptor_digest": tool.descriptor_digest,
        },
        "trace_id": ids.trace,
        "turn_id": ids.turn,
        "tool_call_id": ids.call,
        "policy_version": record.policy_version or None,
    }


def _approval(record: RecordOf) -> dict[str, Any]:
    request = record.request
    return {
        "id": request.id,
        "fingerprint": _digest(request.asked.fingerprint, record),
        "shown_digest": _digest(request.shown_digest, record),
        "asked_by": [rule.rule for rule in request.asked.rules],
        "asked_under": request.policy_version,
        "expires_at": rfc3339(request.expires_at_ms),
    }


def _digest(digest: str, record: RecordOf) -> Any:
    return record.redactor.digest_of(digest) if is_guessable(record.request.asked) else digest


def _who(by: SignedIn | Caller | None) -> dict[str, Any]:
    if isinstance(by, SignedIn):
        return {"person": {"id": by.person, "account_id": by.account.account_id, "method": by.method.value}}
    if by is None:
        return {}
    return {"caller": {"key_id": by.key_id, "profile": by.profile.name}}


def _vote(vote: Vote, record: RecordOf) -> dict[str, Any]:
    return {
        "person": vote.person,
        "entities": sorted(vote.entities),
        "factor": vote.factor.value,
        "scope": _scope(vote.scope),
        # It has the digests in the clear, as they were signed: of a secret call the store alone keeps it.
        "receipt": _digest(vote.receipt, record) if vote.receipt else None,
    }


def _grant(grant: Grant) -> dict[str, Any]:
    return {
        "scope": _scope(grant.scope),
        "approvers": [vote.person for vote in grant.votes],
        "factors": [vote.factor.value for vote in grant.votes],
        "expires_at": rfc3339(grant.expires_at_ms),
    }


def _scope(scope: GrantScope) -> dict[str, Any]:
    return {"kind": scope.kind.value, "uses": scope.uses}


def _denial(denial: Denial, redactor: Redactor) -> dict[str, Any]:
    return {"person": denial.person, "reason": redactor.text(denial.reason)}


def _event(kind: EventType, body: Mapping[str, Any], record: RecordOf) -> Event:
    body = dict(body) | redaction_members(body)
    index = index_members(body)
    return Event(
        type=kind,
        tenant=record.request.asked.requester.tenant,
        occurred_at_ms=record.now_ms,
        # A redacted text is of its own type.
        body=orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
        decision_id=index.decision_id,
        trace_id=index.trace_id,
        agent=index.agent,
        user=index.user,
        tool=index.tool,
        effect=index.effect,
        rules=index.rules,
    )
