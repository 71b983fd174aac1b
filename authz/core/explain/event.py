"""The record that somebody looked at an explanation: who, at whose call, under which rules."""

from collections.abc import Mapping
from typing import Any

import orjson

from authz.core.redact import Redactor
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.record import Event, EventType


def explanation_event(
    *,
    caller: Caller,
    told: Mapping[str, Any],
    redactor: Redactor,
    now_ms: int,
    call: Call | None = None,
    decision_id: str | None = None,
) -> Event:
    """The record of one explanation: of `call`, or of the decision `decision_id`.

    What it is about stands below `explained`, so that a search for decisions does not find it.
    """
    decision = told["decision"]
    explained: dict[str, Any] = {
        "decision_id": decision_id,
        "profile": told["profile"],
        "at": told["at"],
        "effect": decision["effect"] if decision is not None else None,
        "code": decision["code"] if decision is not None else None,
        "rules": [rule["rule"] for rule in decision["matched"]] if decision is not None else [],
    }
    if call is not None:
        explained["subject"] = {
            "agent": call.subject.agent,
            "on_behalf_of": call.subject.on_behalf_of,
            "session": call.subject.session,
        }
        explained["tool"] = {"server": call.server, "name": call.tool}
        # Keyed: a digest over a short secret could be guessed.
        explained["request_digest"] = redactor.digest_of(call.request_digest)
    body = {
        "explained": explained,
        "policy_version": told["policy_version"],
        "caller": {"key_id": caller.key_id, "profile": caller.profile.name},
    }
    return Event(
        type=EventType.EXPLANATION_MADE, tenant=caller.tenant, occurred_at_ms=now_ms, body=orjson.dumps(body)
    )
