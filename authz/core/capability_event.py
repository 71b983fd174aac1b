"""The records of capabilities: issued, narrowed, refused, revoked. No token and no signature is in one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from authz.core.capability_told import told
from authz.core.cedar_context import rfc3339
from authz.core.redact import Redactor
from authz.model.caller import Caller
from authz.model.capability import LinkRecord, RevocationRecord
from authz.model.decision import RuleMatch
from authz.model.record import Event, EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """What a refusal is about, as far as it was understood."""

    agent: str
    user: str | None
    holder: str
    details: Sequence[Any] = ()
    lifetime_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """Why a capability is not given."""

    code: str
    message: str
    rules: tuple[RuleMatch, ...] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    """Which link, which of R, O, P, E, which entry and location: as on the wire."""
    internal: str = ""


def granted_event(
    kind: EventType,
    *,
    caller: Caller,
    link: LinkRecord,
    rules: Sequence[RuleMatch],
    policy_version: str,
    max_depth: int,
    redactor: Redactor,
    now_ms: int,
) -> Event:
    """The record that a root was issued, or narrowed from a chain."""
    body = {
        "subject": _subject(link.agent, link.subject),
        "capability": {
            **_link(link),
            "max_depth": max_depth,
            "authorization_details": told(orjson.loads(link.details), redactor, is_kept=True),
            "tools": dict(link.tool_digests),
            "child_trace_id": link.child_trace or None,
            "task": told(dict(link.task), redactor, is_kept=True) if link.task is not None else None,
            "inherited": [[share.link_hash for share in shares] for shares in link.inherited],
        },
        "matched": [_rule(rule) for rule in rules],
        "policy_version": policy_version,
        "caller": _caller(caller),
    }
    return _event(kind, caller, body, now_ms, agent=link.agent, user=link.subject, rules=rules)


def refused_event(
    *,
    caller: Caller,
    asked: AskedFor,
    denied: Denied,
    policy_version: str,
    redactor: Redactor,
    now_ms: int,
) -> Event:
    """The record that a capability was asked for and not given."""
    body: dict[str, Any] = {
        "subject": _subject(asked.agent, asked.user or ""),
        "capability": {
            "holder": asked.holder,
            "lifetime_seconds": asked.lifetime_seconds,
            "authorization_details": told(list(asked.details), redactor),
        },
        "code": denied.code,
        "message": redactor.text(denied.message),
        **({"refused": told(dict(denied.told), redactor)} if denied.told else {}),
        "matched": [_rule(rule) for rule in denied.rules],
        "policy_version": policy_version,
        "caller": _caller(caller),
    }
    if denied.internal:
        body["internal"] = denied.internal
    return _event(
        EventType.CAPABILITY_REFUSED,
        caller,
        body,
        now_ms,
        agent=asked.agent,
        user=asked.user or "",
        rules=denied.rules,
    )


def revoked_event(
    *,
    caller: Caller,
    named: Mapping[str, str],
    reason: str,
    revoked: Sequence[RevocationRecord],
    redactor: Redactor,
    now_ms: int,
) -> Event:
    """The record that something was revoked: by which handle, and until when.

    Not how much that stopped: counting comes after it is in force, and links made offline are not known.
    """
    body = {
        "named": {name: redactor.text(value) for name, value in named.items()},
        "reason": redactor.text(reason),
        "revoked": [
            {
                "kind": one.kind.value,
                "value": redactor.text(one.value),
                "until": rfc3339(one.until_ms),
            }
            for one in revoked
        ],
        "caller": _caller(caller),
    }
    return _event(EventType.CAPABILITY_REVOKED, caller, body, now_ms)


def _event(
    kind: EventType,
    caller: Caller,
    body: Mapping[str, Any],
    now_ms: int,
    *,
    agent: str = "",
    user: str = "",
    rules: Sequence[RuleMatch] = (),
) -> Event:
    return Event(
        type=kind,
        tenant=caller.tenant,
        occurred_at_ms=now_ms,
        # A redacted name is a text of its own type.
        body=orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
        agent=agent,
        user=user,
        rules=tuple(rule.rule for rule in rules),
    )


def _subject(agent: str, user: str) -> dict[str, Any]:
    return {"agent": agent, "on_behalf_of": user or None}


def _caller(caller: Caller) -> dict[str, str]:
    return {"key_id": caller.key_id, "profile": caller.profile.name}


def _link(link: LinkRecord) -> dict[str, Any]:
    return {
        "link": link.link_hash,
        "parent": link.parent_hash,
        "root": link.root_hash,
        "jti": link.jti,
        "holder": link.holder,
        "depth": link.depth,
        "issued_at": rfc3339(link.issued_at_ms),
        "expires_at": rfc3339(link.expires_at_ms),
    }


def _rule(rule: RuleMatch) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "kind": rule.kind.value,
        "file": rule.file,
        "line": rule.line,
        "reason": rule.reason,
    }
