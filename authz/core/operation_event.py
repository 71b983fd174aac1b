"""The records of an operation after its decision: begun, settled, resolved, ended. No token is in one."""

from dataclasses import dataclass
from typing import Any

import orjson

from authz.core.cedar_context import rfc3339
from authz.core.fingerprint import operation_key_of
from authz.core.log_chain import MalformedRecord, index_members
from authz.core.record_places import redaction_members
from authz.core.redact import Redactor
from authz.core.settlement import Move
from authz.model.call import CallIds, Subject
from authz.model.caller import Caller
from authz.model.decision import Effect
from authz.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTold:
    """What a decision's own record says of it: all that its operation's records link to."""

    decision_id: str
    subject: Subject
    ids: CallIds
    server: str
    tool: str
    key_id: str
    """Whose credential asked."""
    dry_run: bool = False
    denied: bool = False

    @property
    def has_operation(self) -> bool:
        """Without all three ids a decision has none, nor has a dry run."""
        return self.ids.complete and not self.dry_run

    def operation_key(self, tenant: str) -> str:
        """The identity of its operation."""
        ids, subject = self.ids, self.subject
        return operation_key_of(
            tenant, (subject.agent, subject.on_behalf_of), (ids.trace, ids.turn, ids.call)
        )


def read_decision(text: str) -> DecisionTold:
    """What a stored record of a decision says. Raises `MalformedRecord`."""
    record = orjson.loads(text)
    found = index_members(record)
    subject = record.get("subject") or {}
    tool, caller = record.get("tool") or {}, record.get("caller") or {}
    told = (record.get("turn_id"), record.get("tool_call_id"), subject.get("session"))
    if not all(one is None or isinstance(one, str) for one in told):
        raise MalformedRecord("an id of a decision's record is not a text")
    turn, call, session = told
    return DecisionTold(
        decision_id=found.decision_id,
        subject=Subject(
            agent=found.agent,
            on_behalf_of=subject.get("on_behalf_of"),
            session=session,
            parent_agent=subject.get("parent_agent"),
        ),
        ids=CallIds(
            trace=record.get("trace_id"),
            turn=turn,
            call=call,
            parent_trace=record.get("parent_trace_id"),
            parent_turn=record.get("parent_turn_id"),
        ),
        server=str(tool.get("server") or ""),
        tool=str(tool.get("name") or ""),
        key_id=str(caller.get("key_id") or ""),
        dry_run=record.get("dry_run") is True,
        denied=record.get("effect") == Effect.DENY.value,
    )


def operation_event(
    move: Move,
    *,
    tenant: str,
    told: DecisionTold | None,
    caller: Caller | None,
    redactor: Redactor,
    now_ms: int,
    detail: str = "",
) -> Event:
    """The record of one move. `told` is of the decision; `None` where it cannot be found any more.

    `detail` are words of whoever moved it: a reason, or what went wrong.
    """
    after = move.after
    body: dict[str, Any] = {
        "decision_id": after.decision_id,
        **(_linked(told) if told is not None else {}),
        "operation": {
            "from": move.source.value,
            "to": after.state.value,
            "by": move.by.value,
            "settles": after.settles,
            "ticketed": after.ticketed,
            "attempt": redactor.text(after.attempt) if after.attempt else None,
            "cancel_requested": after.cancel_requested,
            "lease_expires_at": rfc3339(after.expires_at_ms),
            "external_id": redactor.text(after.external_id) if after.external_id else None,
            "result_digest": after.result_digest or None,
            "released": move.refunds,
        },
        **({"detail": redactor.text(detail)} if detail else {}),
        "caller": {"key_id": caller.key_id, "profile": caller.profile.name} if caller is not None else None,
    }
    body |= redaction_members(body)
    return Event(
        type=move.event,
        tenant=tenant,
        occurred_at_ms=now_ms,
        # A redacted text is of its own type.
        body=orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
        decision_id=after.decision_id,
        trace_id=(told.ids.trace or "") if told is not None else "",
        agent=told.subject.agent if told is not None else "",
        user=(told.subject.on_behalf_of or "") if told is not None else "",
        tool=f"{told.server}/{told.tool}" if told is not None else "",
    )


def _linked(told: DecisionTold) -> dict[str, Any]:
    return {
        "subject": {
            "agent": told.subject.agent,
            "on_behalf_of": told.subject.on_behalf_of,
            "session": told.subject.session,
            "parent_agent": told.subject.parent_agent,
        },
        "tool": {"server": told.server, "name": told.tool},
        "trace_id": told.ids.trace,
        "turn_id": told.ids.turn,
        "tool_call_id": told.ids.call,
        "parent_trace_id": told.ids.parent_trace,
        "parent_turn_id": told.ids.parent_turn,
    }
