"""The records of an operation after its decision: begun, settled, resolved, ended. No token is in one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from authz.core.cedar_context import rfc3339
from authz.core.contradiction import Contradiction
from authz.core.fingerprint import operation_key_of
from authz.core.log_chain import MalformedRecord, index_members
from authz.core.record_places import redaction_members
from authz.core.redact import Redactor
from authz.core.settlement import OUTCOMES, Move
from authz.model.call import CallIds, Subject
from authz.model.caller import Caller
from authz.model.decision import Effect
from authz.model.operation import OperationRecord, OperationState
from authz.model.record import Event
from authz.model.resource import Authority


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
    is_read: bool = False
    """It changes nothing (A0), so it may be tried again."""
    expires_at_ms: int = 0

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
        is_read=record.get("authority") == Authority.A0.name,
        expires_at_ms=_milliseconds(record.get("expires_at")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTold:
    """What the record of one move says."""

    operation: OperationRecord
    """As that move left it for its decision. Texts that were redacted are so here."""
    released: bool


def read_moves(texts: Iterable[str], current: OperationRecord) -> list[MoveTold]:
    """The moves of one decision's operation, in their order. Raises `MalformedRecord`, `ValueError`.

    `current` is the operation as the store has it, whoever holds it now.
    """
    # Writers have clocks of their own, so what counts is which version each move made.
    return sorted((_read_move(text, current) for text in texts), key=lambda move: move.operation.version)


def _read_move(text: str, current: OperationRecord) -> MoveTold:
    record = orjson.loads(text)
    told = record.get("operation")
    if not isinstance(told, dict):
        raise MalformedRecord("the record of a move has no `operation`")
    attempt, external_id, result_digest = (
        told.get(name) or "" for name in ("attempt", "external_id", "result_digest")
    )
    version = told.get("version", 0)
    if not isinstance(version, int) or not all(
        isinstance(one, str) for one in (attempt, external_id, result_digest)
    ):
        raise MalformedRecord("the record of a move is not what this program writes")
    state = OperationState(str(told.get("to")))
    after = replace(
        current,
        decision_id=index_members(record).decision_id,
        state=state,
        expires_at_ms=_milliseconds(told.get("lease_expires_at")),
        version=version,
        settles=told.get("settles") is True,
        # What nobody can say any more counts as the stricter.
        ticketed=told.get("ticketed") is not False,
        cancel_requested=told.get("cancel_requested") is True,
        attempt=attempt,
        external_id=external_id,
        result_digest=result_digest,
        settled_at_ms=_milliseconds(record.get("occurred_at")) if state in OUTCOMES else 0,
    )
    return MoveTold(operation=after, released=told.get("released") is True)


def _milliseconds(text: Any) -> int:
    """Of a time as `rfc3339` writes it; 0 for none. Raises `ValueError`."""
    return 0 if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def operation_event(
    move: Move,
    *,
    tenant: str,
    told: DecisionTold | None,
    caller: Caller | None,
    redactor: Redactor,
    now_ms: int,
    detail: str = "",
    version: int | None = None,
    contradicts: Mapping[str, Any] | None = None,
) -> Event:
    """The record of one move. `told` is of the decision; `None` where it cannot be found any more.

    `detail` are words of whoever moved it: a reason, or what went wrong. `version` is that of the
    operation from then on, where it is not the next of the move's. `contradicts` is of `contradiction_event`.
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
            "version": after.version + 1 if version is None else version,
        },
        **({"contradicts": contradicts} if contradicts is not None else {}),
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


def contradiction_event(
    found: Contradiction,
    *,
    tenant: str,
    told: DecisionTold,
    caller: Caller,
    redactor: Redactor,
    now_ms: int,
    refunded: bool,
    detail: str = "",
) -> Event:
    """The record of an outcome that was not taken.

    `refunded` says that what its decision had reserved had been given back: if there is an effect all the
    same, it is not counted anywhere.
    """
    outcome = found.outcome
    return operation_event(
        found.move,
        tenant=tenant,
        told=told,
        caller=caller,
        redactor=redactor,
        now_ms=now_ms,
        detail=detail,
        version=found.after.version + found.stops,
        contradicts={
            "outcome": outcome.state.value,
            "external_id": redactor.text(outcome.external_id) if outcome.external_id else None,
            "result_digest": outcome.result_digest or None,
            "refunded": refunded,
            "superseded_by": found.after.decision_id if found.superseded else None,
            "operation": found.after.state.value,
            "stopped": found.stops,
        },
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
