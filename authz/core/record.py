"""The record of a decision: what the log says of it, with secrets redacted before anything is written."""

from typing import Any

import orjson

from authz.core.cedar_context import rfc3339
from authz.core.decide import Outcome
from authz.core.pointer import format_pointer, parse_pointer
from authz.core.record_approval import approval_member
from authz.core.record_capability import capability_member, counter_member
from authz.core.record_places import defaulted_member, redaction_members
from authz.core.redact import MAX_UNKNOWN_LEAVES, RedactedValue, Redactor
from authz.core.ruleset import Ruleset
from authz.core.schema_undeclared import undeclared_places
from authz.model.approval import AskTerms
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.decision import Access, AccessVerdict, Effect, RuleMatch
from authz.model.operation import Standing
from authz.model.record import Event, EventType


def decision_event(
    call: Call,
    outcome: Outcome,
    caller: Caller,
    ruleset: Ruleset,
    redactor: Redactor,
    now_ms: int,
    exposed: frozenset[str] = frozenset(),
    *,
    delegated: bool = False,
) -> Event:
    """The one record of this decision. The outcome recorded is the outcome answered.

    `exposed` are the labels that the session had been exposed to before; `delegated` says that session or
    trace were known as delegated, whatever the call says.
    """
    decision = outcome.decision
    body: dict[str, Any] = {
        "decision_id": decision.decision_id,
        "effect": decision.effect.value,
        "stage": decision.stage.value,
        "code": decision.code.value,
        "matched": [_rule(rule) for rule in decision.matched],
        "overruled": [_rule(rule) for rule in decision.overruled],
        "authority": decision.authority.name if decision.authority is not None else None,
        "side_effect": decision.side_effect.value if decision.side_effect else None,
        "subject": {
            "agent": call.subject.agent,
            "on_behalf_of": call.subject.on_behalf_of,
            "session": call.subject.session,
            "parent_agent": call.subject.parent_agent,
        },
        "tool": _tool(call, ruleset, decision.descriptor_digest),
        "trace_id": call.ids.trace,
        "turn_id": call.ids.turn,
        "tool_call_id": call.ids.call,
        "parent_trace_id": call.ids.parent_trace,
        "parent_turn_id": call.ids.parent_turn,
        "arguments": _arguments(call, outcome, ruleset, redactor),
        "accesses": _accesses(outcome, redactor),
        "provenance": _provenance(call, outcome, redactor),
        "claims": _claims(call, outcome, redactor),
        "exposed": sorted(exposed),
        "capability": capability_member(call, outcome.capability, decision.capability, redactor),
        "fingerprint": _unguessable(decision.fingerprint, call, outcome, redactor),
        "request_digest": _unguessable(decision.request_digest, call, outcome, redactor),
        "policy_version": decision.policy_version,
        "caller": {"key_id": caller.key_id, "profile": caller.profile.name},
        "expires_at": rfc3339(decision.expires_at_ms) if decision.expires_at_ms is not None else None,
        "obligations": list(decision.obligations),
        "ask": call.ask,
        "dry_run": call.dry_run,
        "versions": {name: redactor.text(version) for name, version in call.versions.items()},
        "told_at": call.occurred_at,
    }
    # A dry run is told from a reservation by its own member.
    for name, is_budget in (("limits", False), ("budgets", True)):
        if taken := [one for one in decision.reservations if bool(one.link_hash) is is_budget]:
            body[name] = list(map(counter_member, taken))
    if delegated:
        body["delegated"] = True
    if call.ticket:
        body["ticket"] = True
    if decision.retry_after_ms is not None:
        body["retry_after_ms"] = decision.retry_after_ms
    if decision.standing is not None:
        body["operation"] = _operation(decision.standing, redactor)
    if decision.approval is not None:
        body["approval"] = approval_member(decision.approval, redactor) | _use(outcome)
    if decision.message:
        body["message"] = redactor.text(decision.message)
    if decision.errors:
        body["errors"] = [
            {"pointer": redactor.pointer(parse_pointer(error.pointer)), "found": error.found}
            for error in decision.errors
        ]
    if decision.internal:
        body["internal"] = decision.internal
    decided = decision.arguments if decision.arguments is not None else call.arguments
    body["defaulted"] = defaulted_member(call.arguments, decided, redactor)
    body |= redaction_members(body)
    return Event(
        type=EventType.DECISION_REPEATED if decision.repeated else EventType.DECISION_MADE,
        tenant=caller.tenant,
        occurred_at_ms=now_ms,
        # A redacted name is a text of its own type.
        body=orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
        decision_id=decision.decision_id,
        trace_id=call.ids.trace or "",
        agent=call.subject.agent,
        user=call.subject.on_behalf_of or "",
        tool=call.tool_name,
        effect=decision.effect.value,
        rules=tuple(rule.rule for rule in decision.matched),
    )


def refusal_event(
    *,
    caller: Caller,
    code: str,
    message: str,
    pointer: str | None,
    status: int,
    redactor: Redactor,
    now_ms: int,
) -> Event:
    """The record of a known caller's request that was refused before a decision (stages 0 and 1).

    Message and pointer name members as they were sent, and a secret can stand where a name should.
    """
    body = {
        "code": code,
        "message": redactor.text(message),
        "pointer": redactor.pointer(parse_pointer(pointer)) if pointer is not None else None,
        "status": status,
        "caller": {"key_id": caller.key_id, "profile": caller.profile.name},
    }
    return Event(
        type=EventType.REQUEST_REFUSED,
        tenant=caller.tenant,
        occurred_at_ms=now_ms,
        body=orjson.dumps(body),
    )


def _use(outcome: Outcome) -> dict[str, bool]:
    """Whether an allow took a use of its approval; its repeat and its recovery take none."""
    if outcome.decision.effect is not Effect.ALLOW:
        return {}
    return {"used": outcome.consumption is not None and outcome.consumption.takes}


def _operation(standing: Standing, redactor: Redactor) -> dict[str, Any]:
    return {
        "state": standing.state.value,
        "settles": standing.settles,
        "starts": standing.starts,
        "attempt": redactor.text(standing.attempt) if standing.attempt else None,
        "decision_id": standing.decision_id or None,
    }


def _unguessable(
    digest: str | None, call: Call, outcome: Outcome, redactor: Redactor
) -> str | RedactedValue | None:
    """A digest over values of which one is secret is keyed: else a short secret could be tried out on it."""
    found = outcome.provenance
    if found is not None:
        secret = bool(found.secret_leaves)
    else:
        secret = any(claim.is_secret for claim in call.provenance.values())
    return redactor.digest_of(digest) if secret and digest is not None else digest


def _rule(rule: RuleMatch) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "kind": rule.kind.value,
        "file": rule.file,
        "line": rule.line,
        "reason": rule.reason,
        **(_terms(rule.terms) if rule.terms is not None else {}),
    }


def _terms(terms: AskTerms) -> dict[str, Any]:
    return {
        "approvers": list(terms.approvers),
        "quorum": terms.quorum,
        "ttl_seconds": terms.ttl_seconds,
        "factor": terms.factor.value,
    }


def _tool(call: Call, ruleset: Ruleset, descriptor_digest: str | None) -> dict[str, Any]:
    server = ruleset.servers.get(call.server)
    return {
        "server": call.server,
        "name": call.tool,
        "identity": server.identity if server else None,
        "advertised_digest": call.advertised_digest,
        "descriptor_digest": descriptor_digest,
    }


def _arguments(call: Call, outcome: Outcome, ruleset: Ruleset, redactor: Redactor) -> Any:
    decision = outcome.decision
    tool = ruleset.tools.get((call.server, call.tool))
    # A tool that this caller cannot see is recorded like one that does not exist: all digests.
    known = tool is not None and decision.descriptor_digest is not None
    canonical = decision.arguments if decision.arguments is not None else call.arguments
    if outcome.provenance is not None:
        secret = outcome.provenance.secret_leaves
    else:
        secret = frozenset(tokens for tokens, claim in call.provenance.items() if claim.is_secret)
        if secret:
            # The call never became canonical, so where the secret ended up is not known.
            known = False
    if tool is None or not known:
        return redactor.arguments(canonical, None, secret)
    undeclared = undeclared_places(tool.descriptor.input_schema, canonical, MAX_UNKNOWN_LEAVES)
    return redactor.arguments(canonical, tool.roles.role_of, secret, undeclared)


def _accesses(outcome: Outcome, redactor: Redactor) -> list[dict[str, Any]]:
    decision = outcome.decision
    verdicts: tuple[AccessVerdict | None, ...] = decision.told_verdicts or (None,) * len(decision.accesses)
    secret = outcome.provenance.secret_leaves if outcome.provenance is not None else frozenset()
    return [
        _access(access, verdict, redactor, hidden=bool(access.argument) and _is_secret(access, secret))
        for access, verdict in zip(decision.accesses, verdicts, strict=True)
    ]


def _is_secret(access: Access, secret: frozenset[tuple[str, ...]]) -> bool:
    return bool(secret) and parse_pointer(access.argument) in secret


def _access(
    access: Access, verdict: AccessVerdict | None, redactor: Redactor, *, hidden: bool
) -> dict[str, Any]:
    uri = access.resource.uri
    pattern = access.pattern.text if access.pattern is not None else None
    return {
        "verb": access.verb.value,
        "type": access.resource.entity.type,
        "uri": redactor.hidden_uri(uri) if hidden else redactor.uri(uri),
        "scope": access.scope.value,
        "authority": access.authority.name,
        "argument": access.argument,
        "resolved": access.resolved,
        "effect": verdict.effect.value if verdict else None,
        "code": verdict.code.value if verdict else None,
        "rules": [rule.rule for rule in verdict.rules] if verdict else [],
        **({"pattern": redactor.digest_of(pattern) if hidden else redactor.text(pattern)} if pattern else {}),
        # Places that rules name, which the requester need not know of: in the record, not on the wire.
        **({"beneath": list(verdict.beneath)} if verdict and verdict.beneath else {}),
    }


def _provenance(call: Call, outcome: Outcome, redactor: Redactor) -> dict[str, Any]:
    told: dict[str, Any] = {
        "leaves": {
            redactor.pointer(tokens): {
                "source": redactor.text(claim.source),
                "uri": redactor.uri(claim.uri) if claim.uri else None,
                "call": claim.call,
                "tool": claim.tool,
                "field": format_pointer(claim.field) if claim.field is not None else None,
                "trust": claim.trust.value if claim.trust else None,
                "labels": [redactor.text(label) for label in sorted(claim.labels)],
                "allowed_use": [redactor.text(use) for use in sorted(claim.allowed_use)],
            }
            for tokens, claim in call.provenance.items()
        }
    }
    found = outcome.provenance
    if found is not None:
        told["untrusted"] = sorted(found.untrusted)
        told["secret"] = sorted(found.secret)
        told["not_believed"] = sorted(found.unknown_sources)
    return told


def _claims(call: Call, outcome: Outcome, redactor: Redactor) -> dict[str, Any]:
    claims = call.claims
    secret = outcome.provenance.secret_leaves if outcome.provenance is not None else None

    def hidden(pointer: str) -> bool:
        # A call that never became canonical does not tell which of its paths are secret.
        return parse_pointer(pointer) in secret if secret is not None else True

    return {
        "cwd": redactor.text(claims.cwd) if claims.cwd else None,
        "sandbox_root": redactor.text(claims.sandbox_root) if claims.sandbox_root else None,
        "resolved": {
            redactor.pointer(parse_pointer(pointer)): {
                "path": redactor.digest_of(found.path) if hidden(pointer) else redactor.text(found.path),
                "device": found.device,
                "inode": found.inode,
            }
            for pointer, found in claims.resolved.items()
        },
        "not_believed": list(outcome.believed.disbelieved) if outcome.believed else [],
    }
