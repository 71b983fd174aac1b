"""Notices: what is told outside when an approval is asked for, and what became of it (spec section 8).

A notice is written with what it tells of and delivered later (`authz.service.notices`). Its body is JSON in
the envelope of the Standard Webhooks specification: `type`, `timestamp`, `data`. Values in it have been made
visible and are bounded; none is secret. The signature is over `id.timestamp.body`, and the id of a notice is
the same at every attempt, so that whoever got it twice can tell.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from authz.core.approval_limits import subject_key
from authz.core.fingerprint import digest
from authz.core.log_chain import rfc3339_ms
from authz.core.rendering_summary import render_headline, render_summary, unescaped, value_as_code
from authz.core.shown_types import ShownDocument
from authz.core.visible import spelled
from authz.core.visible_characters import spelled_out
from authz.core.visible_scripts import Reading
from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest
from authz.model.approval_writes import Notice
from authz.model.record import Event, EventType

MAX_SUMMARY: Final = 2400
MAX_HEADLINE: Final = 600
MAX_VALUE: Final = 200
"""Characters of one value in a notice, before its spelling."""
MAX_RULES: Final = 5


class NoticeKind(StrEnum):
    """What a notice tells. Closed: webhooks choose by it."""

    REQUESTED = "approval.requested"
    APPROVED = "approval.approved"
    DENIED = "approval.denied"
    EXPIRED = "approval.expired"
    """Nobody answered in time."""
    CANCELLED = "approval.cancelled"
    """Its requester took it back."""
    REVOKED = "approval.revoked"
    """What a yes permitted is void."""
    HELD_BACK = "notices.held_back"
    """Somebody asks so much that further notices about it are not sent for a while."""


_STATES: Final = {
    NoticeKind.REQUESTED: ApprovalState.PENDING,
    NoticeKind.APPROVED: ApprovalState.APPROVED,
    NoticeKind.DENIED: ApprovalState.DENIED,
    NoticeKind.EXPIRED: ApprovalState.EXPIRED,
    NoticeKind.CANCELLED: ApprovalState.CANCELLED,
    NoticeKind.REVOKED: ApprovalState.VOID,
}
_TOLD: Final = {
    NoticeKind.REQUESTED: "An approval is asked for",
    NoticeKind.APPROVED: "Approved",
    NoticeKind.DENIED: "Denied",
    NoticeKind.EXPIRED: "Expired: nobody answered in time",
    NoticeKind.CANCELLED: "Taken back by whoever asked",
    NoticeKind.REVOKED: "Revoked: what was approved is void",
}


def approval_url(public_url: str, approval_id: str) -> str:
    """The page on which people answer."""
    return f"{public_url}/ui/approvals/{approval_id}"


def approval_notice(
    kind: NoticeKind,
    request: ApprovalRequest,
    *,
    public_url: str,
    now_ms: int,
    document: ShownDocument | None = None,
    by: str = "",
) -> Notice:
    """The notice of `kind` about a request, for `CommitUnit.notices`.

    `document` is what approvers are shown, where it is at hand: then the notice says what will happen. `by`
    is the person who answered or revoked. Raises `ValueError` for a kind that is not about one request.
    """
    if kind not in _STATES:
        raise ValueError(f"`{kind}` is not about one approval")
    requester = request.asked.requester
    data: dict[str, Any] = {
        "tenant": requester.tenant,
        "approval_id": request.id,
        "state": _STATES[kind].value,
        "headline": _headline(kind, request, document, by),
        "summary": "" if document is None else unescaped(render_summary(document, MAX_SUMMARY)),
        "agent": bounded(requester.agent),
        "on_behalf_of": None if requester.on_behalf_of is None else bounded(requester.on_behalf_of),
        "tool": bounded(f"{request.asked.tool.server}/{request.asked.tool.name}"),
        "rules": [
            {"rule": bounded(rule.rule), "reason": bounded(rule.reason, Reading.TEXT)}
            for rule in request.asked.rules[:MAX_RULES]
        ],
        "rules_left_out": max(len(request.asked.rules) - MAX_RULES, 0),
        "by": bounded(by) if by else None,
        "expires_at": rfc3339_ms(request.expires_at_ms),
        "url": approval_url(public_url, request.id),
    }
    return Notice(
        tenant=requester.tenant,
        kind=kind.value,
        subject_key=digest([*subject_key(request.asked)]),
        approval_id=request.id,
        body=_envelope(kind, data, now_ms),
        at_ms=now_ms,
    )


def held_back_notice(over: Notice, *, public_url: str, until_ms: int, now_ms: int) -> Notice:
    """In place of `over` and all that follow it about the same subject until that time."""
    about = json.loads(over.body)["data"]
    user = about["on_behalf_of"]
    behalf = f" for the user `{in_code(user)}`" if user is not None else ""
    headline = (
        f"The agent `{in_code(about['agent'])}`{behalf} asks so much that further notices about it are held "
        f"back until {rfc3339_ms(until_ms)}: the list of approvals has them all."
    )
    data = {
        "tenant": over.tenant,
        "headline": headline,
        "summary": "",
        "agent": about["agent"],
        "on_behalf_of": user,
        "until": rfc3339_ms(until_ms),
        "url": f"{public_url}/ui/approvals",
    }
    return Notice(
        tenant=over.tenant,
        kind=NoticeKind.HELD_BACK.value,
        subject_key=over.subject_key,
        # One a window for each subject, whoever finds the limit reached.
        approval_id=digest([over.tenant, over.subject_key, until_ms]).removeprefix("sha256:")[:32],
        body=_envelope(NoticeKind.HELD_BACK, data, now_ms),
        at_ms=now_ms,
    )


def bounded(text: str, reading: Reading = Reading.NAME) -> str:
    """A value on one line, made visible; of a long one the beginning, and how long all of it is."""
    if len(text) <= MAX_VALUE:
        return spelled(text, reading)
    return f"{spelled(text[:MAX_VALUE], reading)} (the first {MAX_VALUE} of {len(text):,} characters)"


def message_id(notice: Notice, webhook: str) -> str:
    """`webhook-id`: the same for every attempt to tell this webhook of this notice."""
    return "msg_" + digest([notice_key(notice), webhook]).removeprefix("sha256:")[:32]


def notice_key(notice: Notice) -> str:
    """What a notice is known by: one for each approval and kind, however often it is written."""
    return digest([notice.tenant, notice.approval_id, notice.kind]).removeprefix("sha256:")


def sign_headers(
    keys: Sequence[bytes], *, message_id: str, at_seconds: int, body: bytes
) -> Mapping[str, str]:
    """The three headers of the Standard Webhooks specification, with one signature for each key."""
    signed = f"{message_id}.{at_seconds}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys]
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at_seconds)}
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{signature}" for signature in signatures)
    return headers


def undelivered_event(
    notice: Notice, *, message_id: str, webhook: str, attempts: int, fault: str, now_ms: int
) -> Event:
    """The record of a notice that nobody took."""
    body = {
        "notice": {
            "message_id": message_id,
            "webhook": webhook,
            "kind": notice.kind,
            "approval_id": notice.approval_id,
            "attempts": attempts,
            "fault": fault,
        }
    }
    return Event(
        type=EventType.NOTICE_UNDELIVERED,
        tenant=notice.tenant,
        occurred_at_ms=now_ms,
        body=json.dumps(body, separators=(",", ":")).encode(),
    )


def _headline(kind: NoticeKind, request: ApprovalRequest, document: ShownDocument | None, by: str) -> str:
    requester = request.asked.requester
    told = _TOLD[kind] + (f" by {_as_code(by)}" if by else "")
    if document is not None:
        return f"{told}: {unescaped(render_headline(document, MAX_HEADLINE))}"
    user = requester.on_behalf_of
    behalf = f"for the user {_as_code(user)}" if user is not None else "on behalf of nobody"
    return (
        f"{told}: the agent {_as_code(requester.agent)}, {behalf}, calls the tool "
        f"{_as_code(request.asked.tool.name)}."
    )


def _as_code(text: str) -> str:
    return unescaped(value_as_code(text, MAX_VALUE))


def in_code(visible: str) -> str:
    """What has been made visible, where only the sign that ends code could still act."""
    return visible.replace("`", spelled_out("`"))


def _envelope(kind: NoticeKind, data: Mapping[str, Any], now_ms: int) -> bytes:
    envelope = {"type": kind.value, "timestamp": rfc3339_ms(now_ms), "data": data}
    return json.dumps(envelope, ensure_ascii=True, separators=(",", ":")).encode()
