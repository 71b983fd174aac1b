"""An explanation as JSON: the one shape of `authz explain --json` and of the HTTP routes.

Members are always there; what does not apply is null or empty. New members may be added, none changes its
meaning while `format` stays. Every text in it is data: whoever shows it escapes it.
"""

from dataclasses import asdict
from typing import Any, Final

from authz.core.cedar_context import rfc3339
from authz.core.explain.model import (
    AccessReport,
    ApprovalReport,
    Change,
    Explanation,
    RuleReport,
    StageReport,
)
from authz.core.policy.near_miss import Examined
from authz.model.decision import Decision, RuleMatch

FORMAT: Final = 1


def document(explanation: Explanation, *, recorded: dict[str, Any] | None = None) -> dict[str, Any]:
    """The JSON value of an explanation; `recorded` is what the log says, for a decision of the past."""
    decision = explanation.decision
    return {
        "format": FORMAT,
        "at": rfc3339(explanation.at_ms),
        "profile": explanation.profile,
        "policy_version": explanation.policy_version,
        "subject_refused": explanation.subject_refused,
        "decision": _decision(decision) if decision is not None else None,
        "stages": [_stage(stage) for stage in explanation.stages],
        "accesses": [_access(report) for report in explanation.accesses],
        "unexplained_accesses": explanation.unexplained_accesses,
        "approval": _approval(explanation.approval) if explanation.approval is not None else None,
        "changes": [_change(change) for change in explanation.changes],
        "recorded": recorded,
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "effect": decision.effect.value,
        "stage": decision.stage.value,
        "code": decision.code.value,
        "matched": [rule_document(rule) for rule in decision.matched],
        "overruled": [rule_document(rule) for rule in decision.overruled],
        "message": decision.message,
        "next": [step.value for step in decision.next],
        "retry_unchanged": decision.retry_unchanged,
        "capability": asdict(decision.capability) if decision.capability is not None else None,
        "authority": decision.authority.name if decision.authority is not None else None,
        "fingerprint": decision.fingerprint,
        "request_digest": decision.request_digest,
    }


def rule_document(rule: RuleMatch) -> dict[str, Any]:
    """A rule with where it stands and, for one that asks, its terms."""
    terms = rule.terms
    return {
        "rule": rule.rule,
        "kind": rule.kind.value,
        "file": rule.file,
        "line": rule.line,
        "reason": rule.reason,
        "approvers": list(terms.approvers) if terms is not None else None,
        "quorum": terms.quorum if terms is not None else None,
        "factor": terms.factor.value if terms is not None else None,
        "ttl_seconds": terms.ttl_seconds if terms is not None else None,
    }


def _stage(stage: StageReport) -> dict[str, Any]:
    return {
        "number": stage.number,
        "stage": stage.name,
        "outcome": stage.outcome.value,
        "summary": stage.summary,
        "input": dict(stage.input),
        "output": dict(stage.output),
    }


def _access(report: AccessReport) -> dict[str, Any]:
    access = report.verdict.access
    known = not report.uncertain
    return {
        "agent": report.agent,
        "on_behalf_of": report.user,
        "verb": access.verb.value,
        "resource": access.resource.entity.cedar,
        "uri": access.resource.uri,
        "scope": access.scope.value,
        **({"pattern": access.pattern.text} if access.pattern is not None else {}),
        "authority": access.authority.name,
        "effect": report.verdict.effect.value if known else None,
        "code": report.verdict.code.value if known else None,
        "rules": [rule.rule for rule in report.verdict.rules] if known else [],
        "overruled": [rule.rule for rule in report.verdict.overruled] if known else [],
        "depends_on": [rule.rule for rule in report.uncertain],
        "examined": [_rule(rule) for rule in report.rules],
        "further": report.further,
        "elsewhere": report.elsewhere,
        "unexamined": report.unexamined,
        "broken": report.broken or None,
    }


def _rule(report: RuleReport) -> dict[str, Any]:
    return {
        **rule_document(report.rule.match),
        "status": _status(report),
        "distance": report.distance,
        "conditions": [_condition(part) for part in report.rule.parts],
    }


def _status(report: RuleReport) -> str:
    if report.rule.uncertain:
        return "unknown"
    if report.rule.failed:
        return "error"
    if report.determining:
        return "determining"
    return "matched" if report.rule.matched else "not_matched"


def _condition(part: Examined) -> dict[str, Any]:
    return {
        "clause": part.clause,
        "text": part.text,
        "value": part.verdict.value,
        "holds": part.holds,
        "reached": part.reached,
        "error": part.error or None,
        "inside": [_condition(member) for member in part.inside],
    }


def _approval(report: ApprovalReport) -> dict[str, Any]:
    return {
        "rules": [rule_document(rule) for rule in report.rules],
        "factor": report.factor,
        "ttl_seconds": report.ttl_seconds,
        "scopes": list(report.scopes),
        "scopes_because": report.scopes_because,
        "afterwards": report.afterwards.value,
        "afterwards_code": report.afterwards_code,
        "afterwards_matched": [rule_document(rule) for rule in report.afterwards_matched],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "rule": rule_document(change.rule),
        "access": change.access,
        "conditions": [_condition(part) for part in change.parts],
    }
