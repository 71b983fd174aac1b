"""Decides policy cases through the pure core, and records them as the service would."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from authz.api.wire import parse_decide
from authz.bundle.load import compile_bundle, read_sources
from authz.bundle.self_protection import Protected
from authz.core.claims import check_subject
from authz.core.decide import Facts, Outcome, decide
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.model.caller import Caller
from tests.policies.case_file import PINNED, Case, Expectation, parse_case_file

POLICIES: Final = Path(__file__).parents[2] / "policies"
NOW_MS: Final = 1_796_000_000_000
_TTL_MS: Final = 60_000
_SECRET: Final = bytes(32)
_HIDDEN_BY = re.compile(r"hidden: .*\(([^()]*)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a case came to: the outcome, and the members of its record."""

    outcome: Outcome
    record: Mapping[str, Any]
    hidden_by: frozenset[str]
    """Rules that hide the tool, as the record names them."""

    @property
    def verdict(self) -> tuple[Any, ...]:
        """What rules decide, and nothing that also depends on the version of the bundle."""
        decision = self.outcome.decision
        return (
            decision.effect,
            decision.code,
            decision.stage,
            decision.authority,
            tuple((rule.rule, rule.file, rule.line) for rule in decision.matched),
            tuple(rule.rule for rule in decision.overruled),
            tuple((verdict.access, verdict.effect) for verdict in decision.verdicts),
            self.hidden_by,
        )


@cache
def sample_ruleset() -> Ruleset:
    """The shipped bundle, compiled once."""
    return compile_bundle(read_sources(POLICIES), Protected())


@cache
def sample_cases() -> tuple[Case, ...]:
    """Every case of the shipped bundle."""
    files = sorted((POLICIES / "tests").glob("*.yaml"))
    return tuple(case for file in files for case in parse_case_file(file.name, file.read_bytes()))


def request_of(case: Case, ruleset: Ruleset) -> dict[str, Any]:
    """The body that the case sends."""
    body = dict(case.body)
    body.setdefault("arguments", {})
    tool = dict(body.get("tool", {}))
    if tool.get("advertised_digest") == PINNED:
        known = ruleset.tools[(tool["server"], tool["name"])]
        tool["advertised_digest"] = known.descriptor.advertised_digest
    body["tool"] = tool
    if case.given.fresh_ids:
        name = hashlib.sha256(case.id.encode()).hexdigest()[:16]
        fresh = {"trace_id": f"t-{name}", "turn_id": "1", "tool_call_id": f"call-{name}"}
        body["context"] = {**fresh, **body.get("context", {})}
    return body


def caller_with(ruleset: Ruleset, profile: str) -> Caller:
    """A caller of the profile, with the role that `POST /decide` asks for."""
    return Caller(
        key_id="key-test", tenant="test", roles=frozenset({"decide"}), profile=ruleset.profiles[profile]
    )


def facts_for(ruleset: Ruleset, profile: str, exposed: frozenset[str] = frozenset()) -> Facts:
    """Facts of a first call: no operation, no approvals."""
    return Facts(
        caller=caller_with(ruleset, profile),
        ruleset=ruleset,
        now_ms=NOW_MS,
        decision_id="d-test",
        operation=None,
        exposed=exposed,
        approvals=(),
        secret=_SECRET,
        ttl_ms=_TTL_MS,
    )


def answer(case: Case, ruleset: Ruleset) -> Answered | str:
    """Decide a case; a code where the credential may not assert its subject."""
    call = parse_decide(request_of(case, ruleset))
    facts = facts_for(ruleset, case.given.profile, case.given.exposed)
    if check_subject(call, facts.caller.profile) is not None:
        return "subject.not_bound"
    outcome = decide(call, facts)
    event = decision_event(call, outcome, facts.caller, ruleset, Redactor(_SECRET), NOW_MS)
    record = json.loads(event.body)
    return Answered(outcome=outcome, record=record, hidden_by=_hidden_by(record, ruleset))


def differences(expected: Expectation, answered: Answered | str) -> list[str]:
    """How the decision or its record is not what was expected; empty when all is."""
    if isinstance(answered, str) or expected.refused is not None:
        return _differ("refused", expected.refused, answered if isinstance(answered, str) else None)
    decision = answered.outcome.decision
    record = answered.record
    found = _differ("effect", expected.effect, decision.effect.value, record["effect"])
    found += _differ("code", expected.code, decision.code.value, record["code"])
    rules = frozenset(rule.rule for rule in decision.matched)
    found += _differ("rules", expected.rules, rules, frozenset(rule["rule"] for rule in record["matched"]))
    authority = decision.authority.name if decision.authority is not None else None
    found += _differ("authority", expected.authority, authority, record["authority"])
    if expected.stage is not None:
        found += _differ("stage", expected.stage, decision.stage.value, record["stage"])
    if expected.side_effect is not None:
        side_effect = decision.side_effect.value if decision.side_effect else None
        found += _differ("side_effect", expected.side_effect, side_effect, record["side_effect"])
    if expected.overruled is not None:
        overruled = frozenset(rule.rule for rule in decision.overruled)
        recorded = frozenset(rule["rule"] for rule in record["overruled"])
        found += _differ("overruled", expected.overruled, overruled, recorded)
    if expected.hidden_by is not None:
        found += _differ("hidden_by", expected.hidden_by, answered.hidden_by)
    if expected.uris is not None:
        found += _differ("uris", expected.uris, tuple(access.resource.uri for access in decision.accesses))
    if expected.reason is not None and expected.reason not in [rule.reason for rule in decision.matched]:
        found.append(f"reason: no rule gives {expected.reason!r}")
    return found


def _hidden_by(record: Mapping[str, Any], ruleset: Ruleset) -> frozenset[str]:
    """The rules that hide the tool, as the record names them."""
    named = _HIDDEN_BY.fullmatch(record.get("internal", ""))
    return frozenset(named[1].split(", ") if named else ()) & ruleset.engine.policies.keys()


def _differ(name: str, expected: Any, *found: Any) -> list[str]:
    where = ("decision", "record")
    return [
        f"{name}: expected {_shown(expected)}, the {where[index]} says {_shown(value)}"
        for index, value in enumerate(found)
        if value != expected
    ]


def _shown(value: Any) -> str:
    return repr(sorted(value)) if isinstance(value, frozenset) else repr(value)
