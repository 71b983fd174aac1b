"""The stages of spec section 2 as reports: what went in, what came out, and where the effect was settled.

Input and output are read off what the stages themselves returned; the few functions that are called here
again (`check_arguments`, `hidden_because`, `judge_leaves`) are the stages' own, and pure.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from authz.core.approval import grant_state_at
from authz.core.cedar_context import rfc3339
from authz.core.decide import Outcome, check_arguments
from authz.core.delegation import is_delegated
from authz.core.explain.canonical_told import Told, canonical_told, counted
from authz.core.explain.model import StageOutcome, StageReport
from authz.core.facts import Facts
from authz.core.pointer import find_or_none, format_pointer, leaves
from authz.core.ruleset import Tool
from authz.core.visibility import hidden_because
from authz.model.approval import ApprovalState
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import Code, Effect, Stage

NUMBERS: Final[Mapping[Stage, int]] = {
    Stage.TOOL: 2,
    Stage.SCHEMA: 3,
    Stage.CANONICAL: 4,
    Stage.OPERATION: 5,
    Stage.CAPABILITY: 6,
    Stage.POLICY: 7,
    Stage.APPROVAL: 8,
}
"""Whatever is not here is stage 9."""
NAMES: Final = {
    0: "caller",
    2: "tool",
    3: "schema",
    4: "canonical",
    5: "operation",
    6: "capability",
    7: "policy",
    8: "approval",
    9: "limits",
}
_LAST: Final = 9


def stage_reports(
    call: Call, facts: Facts, subject_refused: str | None, outcome: Outcome | None
) -> tuple[StageReport, ...]:
    """Stages 0 and 2 to 9; stage 1 was passed where there is a call at all."""
    settled = NUMBERS.get(outcome.decision.stage, _LAST) if outcome is not None else 0
    # An allow is settled by rules or an approval and still passes what comes after.
    last = _LAST if outcome is not None and outcome.decision.effect is Effect.ALLOW else settled
    reports = [_caller(call, facts, subject_refused)]
    for number, name in NAMES.items():
        if number == 0:
            continue
        if outcome is None or number > last:
            reports.append(_report(number, StageOutcome.NOT_REACHED, "not reached", {}, {}))
            continue
        summary, given, found = _WRITERS[name](call, facts, outcome)
        state = StageOutcome.SETTLED if number == settled else StageOutcome.PASSED
        reports.append(_report(number, state, summary, given, found))
    return tuple(reports)


def with_policy_of(
    stages: tuple[StageReport, ...], call: Call, facts: Facts, outcome: Outcome
) -> tuple[StageReport, ...]:
    """The same reports, with that of the rules for this outcome."""
    if outcome.judged is None:
        return stages
    summary, given, found = _policy(call, facts, outcome)
    return tuple(
        replace(stage, summary=summary, input=given, output=found) if stage.name == "policy" else stage
        for stage in stages
    )


def _report(
    number: int, outcome: StageOutcome, summary: str, given: Mapping[str, Any], found: Mapping[str, Any]
) -> StageReport:
    return StageReport(
        number=number, name=NAMES[number], outcome=outcome, summary=summary, input=given, output=found
    )


def _caller(call: Call, facts: Facts, refused: str | None) -> StageReport:
    subject = call.subject
    given = {
        "profile": facts.caller.profile.name,
        "agent": subject.agent,
        "on_behalf_of": subject.on_behalf_of,
        "session": subject.session,
        "parent_agent": subject.parent_agent,
    }
    if refused is not None:
        found = {"bound": False, "code": "subject.not_bound"}
        return _report(0, StageOutcome.SETTLED, f"{refused}: no decision is made", given, found)
    whom = f" for `{subject.on_behalf_of}`" if subject.on_behalf_of is not None else ""
    summary = f"profile `{facts.caller.profile.name}` may speak for agent `{subject.agent}`{whom}"
    exposed = sorted(facts.exposed if subject.session is not None else facts.ruleset.every_label)
    return _report(0, StageOutcome.PASSED, summary, given, {"bound": True, "session_exposed": exposed})


def _tool(call: Call, facts: Facts, outcome: Outcome) -> Told:
    decision = outcome.decision
    given = {"server": call.server, "name": call.tool, "advertised_digest": call.advertised_digest}
    tool = facts.ruleset.tools.get((call.server, call.tool))
    found: dict[str, Any] = {"in_bundle": tool is not None}
    if tool is not None:
        found |= _descriptor(tool, call, facts)
    if decision.stage is Stage.TOOL:
        return decision.internal or decision.message, given, found
    return f"`{call.tool_name}` is in the bundle, bound to this profile and visible", given, found


def _descriptor(tool: Tool, call: Call, facts: Facts) -> dict[str, Any]:
    descriptor = tool.descriptor
    undo = descriptor.undo
    return {
        "identity": descriptor.server.identity,
        "local": descriptor.server.local,
        "profiles": sorted(descriptor.server.profiles),
        "descriptor_digest": descriptor.digest,
        "pinned_digest": descriptor.advertised_digest,
        "hidden_because": hidden_because(facts.ruleset, tool, call.subject.agent, call.subject.on_behalf_of),
        "side_effect": descriptor.side_effect.value,
        "leaves_sandbox": descriptor.leaves_sandbox,
        "undo": f"{undo.how} (reviewed by {undo.reviewed_by})" if undo is not None else None,
        "compensator": descriptor.compensator,
    }


def _schema(call: Call, facts: Facts, outcome: Outcome) -> Told:
    given = {"arguments": call.arguments}
    checked = check_arguments(call, facts.ruleset.tools[(call.server, call.tool)])
    if not isinstance(checked, Mapping):
        errors = [
            {
                "pointer": error.pointer,
                "found": error.found,
                "expected": error.expected,
                "message": error.message,
            }
            for error in checked.errors
        ]
        return counted(len(errors), "fault"), given, {"errors": errors}
    filled = {
        format_pointer(tokens): value
        for tokens, value in leaves(checked)
        if checked is not call.arguments and _absent(call.arguments, tokens)
    }
    summary = f"valid; {counted(len(filled), 'default')} filled in" if filled else "valid"
    return summary, given, {"defaults": filled}


def _absent(arguments: Any, tokens: tuple[str, ...]) -> bool:
    return all(value is None for _, value in find_or_none(arguments, tokens))


def _operation(call: Call, facts: Facts, outcome: Outcome) -> Told:
    decision, operation = outcome.decision, facts.operation
    given = {"trace_id": call.ids.trace, "turn_id": call.ids.turn, "tool_call_id": call.ids.call}
    known = None
    if operation is not None:
        known = {
            "state": operation.state.value,
            "decision_id": operation.decision_id,
            "same_fingerprint": operation.fingerprint == decision.fingerprint,
            "expires_at": rfc3339(operation.expires_at_ms) if operation.expires_at_ms else None,
        }
    found = {"fingerprint": decision.fingerprint, "operation": known}
    if decision.stage is Stage.OPERATION:
        return decision.message, given, found
    if operation is None:
        return "a new call" if call.ids.complete else "no ids, which is enough at A0", given, found
    return f"the same call as before, {operation.state.value}", given, found


def _capability(call: Call, facts: Facts, outcome: Outcome) -> Told:
    capability, decision = outcome.capability, outcome.decision
    given = {"links": len(call.capability), "proof": call.proof is not None}
    agents = list(capability.agents or (call.subject.agent,))
    found: dict[str, Any] = {
        "presented": capability.presented,
        "delegated": is_delegated(call, facts, capability),
        "agents": agents,
    }
    if capability.presented:
        ends_ms = capability.expires_at_ms
        found |= {
            "depth": capability.depth,
            "holder": capability.holder,
            "expires_at": rfc3339(ends_ms) if ends_ms is not None else None,
            "links": [link.as_json for link in capability.handles],
            "entries": list(capability.used),
        }
    if decision.stage is Stage.CAPABILITY:
        refused = decision.capability
        return decision.message, given, found | {"refused": asdict(refused) if refused is not None else None}
    return _by_capability(capability), given, found


def _by_capability(capability: CapabilityFacts) -> str:
    if not capability.presented:
        return "none presented, which policies can see"
    chain = " → ".join(f"`{agent}`" for agent in capability.agents)
    used = sorted(set(capability.used))
    named = "entry" if len(used) == 1 else "entries"
    return (
        f"{named} {', '.join(map(str, used))} of the capability of {chain} allow{'s' * (len(used) == 1)} it"
    )


def _policy(call: Call, facts: Facts, outcome: Outcome) -> Told:
    judged = outcome.judged
    assert judged is not None  # noqa: S101 - the stage was reached
    given = {"rules_in_force": len(facts.ruleset.engine.policies), "now": rfc3339(facts.now_ms)}
    found: dict[str, Any] = {
        "effect": judged.effect.value,
        "code": judged.code.value,
        "rules": [rule.rule for rule in judged.matched],
        "overruled": [rule.rule for rule in judged.overruled],
        "accesses": [
            {
                "uri": verdict.access.resource.uri,
                "verb": verdict.access.verb.value,
                "effect": verdict.effect.value,
                "code": verdict.code.value,
                "rules": [rule.rule for rule in verdict.rules],
            }
            for verdict in judged.verdicts
        ],
    }
    if judged.internal:
        found["internal"] = judged.internal
    named = ", ".join(f"`{rule.rule}`" for rule in judged.matched) or "no rule"
    return f"{judged.effect.value} by {named}", given, found


def _approval(call: Call, facts: Facts, outcome: Outcome) -> Told:
    decision, judged = outcome.decision, outcome.judged
    assert judged is not None  # noqa: S101 - the stage was reached
    known = facts.approvals
    live = [grant for grant in known.grants if grant_state_at(grant, facts.now_ms) is ApprovalState.APPROVED]
    given = {
        "ask": call.ask,
        "live_approvals": len(live),
        "denials": len(known.denials),
        "waiting": [request.id for request in known.waiting],
    }
    asked = decision.code.value.startswith("approval.")
    told = decision.approval
    found: dict[str, Any] = {"code": decision.code.value if asked else None, "approval": None}
    if told is not None:
        found["approval"] = {"id": told.id, "state": told.state.value}
    if decision.effect is Effect.REQUIRE_APPROVAL:
        named = ", ".join(f"`{rule.rule}`" for rule in decision.matched)
        return f"a person must approve: {named}", given, found
    if decision.effect is Effect.DENY and decision.stage is Stage.APPROVAL:
        # A person's no, or nobody may be asked now.
        return decision.message, given, found
    if decision.code is Code.APPROVAL_GRANTED and told is not None:
        return f"approval `{told.id}` covers every rule that asks", given, found
    # A limit after it refused: what lifted the ask is known by what the rules had said.
    lifted = judged.effect is Effect.REQUIRE_APPROVAL or call.ask
    return ("an approval covers every rule that asks" if lifted else "no rule asks"), given, found


def _limits(call: Call, facts: Facts, outcome: Outcome) -> Told:
    decision = outcome.decision
    given = {"limits_in_force": len(facts.ruleset.limits)}
    found: dict[str, Any] = {
        "would_take": [
            {
                "limit": taken.limit,
                "per": dict(taken.partition),
                "amount": taken.amount,
                "cap": taken.cap,
                "window_ms": taken.window_ms,
            }
            for taken in decision.reservations
        ],
        "retry_after_ms": decision.retry_after_ms,
    }
    if decision.effect is not Effect.ALLOW:
        return decision.message, given, found
    count = len(decision.reservations)
    if not count:
        return "no limit applies", given, found
    budgets = sum(bool(taken.link_hash) for taken in decision.reservations)
    named = [counted(count - budgets, "limit")] if count > budgets else []
    named += [counted(budgets, "counter") + " of budgets"] if budgets else []
    return f"would take of {' and '.join(named)}", given, found


_WRITERS: Final = {
    "tool": _tool,
    "schema": _schema,
    "canonical": canonical_told,
    "operation": _operation,
    "capability": _capability,
    "policy": _policy,
    "approval": _approval,
    "limits": _limits,
}
