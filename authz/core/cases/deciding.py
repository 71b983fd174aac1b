"""A case decided: its request, its facts, and what `decide` makes of them."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from authz.core.cases.case import PINNED, Case
from authz.core.cases.issuing import answer_issue, parse_issue_case
from authz.core.claims import check_subject
from authz.core.decide import Facts, Outcome, decide
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.core.requests import parse_decide
from authz.core.ruleset import Ruleset
from authz.errors import AuthzError, MalformedInput
from authz.model.approval import ApprovalGrant
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.limit import Reached

SUBJECT_NOT_BOUND: Final = "subject.not_bound"
_TENANT: Final = "test"
_TTL_MS: Final = 300_000
# Nothing outside a test run ever sees what these keys make.
_SECRET: Final = bytes(32)
_REDACTOR: Final = Redactor(_SECRET)
_HIDDEN_BY = re.compile(r"hidden: .*\(([^()]*)\)")


class UnusableCase(AuthzError):
    """A case that this bundle cannot decide, since it names something that the bundle does not have."""

    code = "case.unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a case came to: the call as it was decided, and the outcome."""

    call: Call
    facts: Facts
    outcome: Outcome

    @property
    def hidden_by(self) -> frozenset[str]:
        """Rules that hide the tool from the subject."""
        named = _HIDDEN_BY.fullmatch(self.outcome.decision.internal)
        known = self.facts.ruleset.engine.policies.keys()
        return frozenset(name for name in (named[1].split(", ") if named else ()) if name in known)

    @property
    def reached(self) -> frozenset[str]:
        """Every rule that decided something: the effect, what it outranked, or that the tool is hidden."""
        decision = self.outcome.decision
        return frozenset(rule.rule for rule in (*decision.matched, *decision.overruled)) | self.hidden_by

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

    def record(self) -> Mapping[str, Any]:
        """The members of the record that the decision leaves, redacted under a key of no worth."""
        facts = self.facts
        event = decision_event(
            self.call,
            self.outcome,
            facts.caller,
            facts.ruleset,
            _REDACTOR,
            facts.now_ms,
            facts.exposed,
            delegated=facts.delegated,
        )
        body: dict[str, Any] = orjson.loads(event.body)
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The request was refused before a decision (stages 0 and 1)."""

    code: str
    message: str


def answer(case: Case, ruleset: Ruleset) -> Answered | Refused:
    """Decide a case. Raises `UnusableCase` when it names what the bundle does not have."""
    if not case.is_call:
        return _answer_issue(case, ruleset)
    try:
        call = call_of(case, ruleset)
    except MalformedInput as error:
        return Refused(code=error.code, message=error.message)
    facts = facts_of(case, ruleset)
    unbound = check_subject(call, facts.caller.profile)
    if unbound is not None:
        return Refused(code=SUBJECT_NOT_BOUND, message=unbound)
    return Answered(call=call, facts=facts, outcome=decide(call, facts))


def _answer_issue(case: Case, ruleset: Ruleset) -> Answered | Refused:
    """The same of a case about issuing a capability."""
    facts = facts_of(case, ruleset)
    try:
        call, outcome = answer_issue(parse_issue_case(case.body), facts)
    except MalformedInput as error:
        return Refused(code=error.code, message=error.message)
    return Answered(call=call, facts=facts, outcome=outcome)


def call_of(case: Case, ruleset: Ruleset) -> Call:
    """The call of a case. Raises `MalformedInput` as the service would, and `UnusableCase`."""
    return parse_decide(request_of(case, ruleset))


def request_of(case: Case, ruleset: Ruleset) -> dict[str, Any]:
    """The body of `POST /decide` that a case stands for. Raises `UnusableCase`."""
    body = filled_in(case)
    tool = body.get("tool")
    if isinstance(tool, Mapping) and tool.get("advertised_digest") == PINNED:
        known = ruleset.tools.get((str(tool.get("server")), str(tool.get("name"))))
        digest = known.descriptor.advertised_digest if known is not None else None
        if digest is None:
            raise UnusableCase(
                f"`{PINNED}`: the bundle pins no digest of `{tool.get('server')}/{tool.get('name')}`"
            )
        body["tool"] = {**tool, "advertised_digest": digest}
    return body


def filled_in(case: Case) -> dict[str, Any]:
    """The body with what every case may leave out: no arguments, and ids of its own."""
    body = {"arguments": {}, **case.body}
    context = body.get("context", {})
    if case.given.fresh_ids and isinstance(context, Mapping):
        name = hashlib.sha256(case.id.encode()).hexdigest()[:16]
        fresh = {"trace_id": f"t-{name}", "turn_id": "1", "tool_call_id": f"call-{name}"}
        body["context"] = {**fresh, **context}
    return body


def facts_of(case: Case, ruleset: Ruleset) -> Facts:
    """Facts of a first call in the state of things that the case gives. Raises `UnusableCase`."""
    given = case.given
    profile = ruleset.profiles.get(given.profile)
    if profile is None:
        known = ", ".join(sorted(ruleset.profiles))
        raise UnusableCase(f"the bundle has no credential profile `{given.profile}`; it has {known}")
    if given.groups:
        ruleset = replace(ruleset, entities=ruleset.entities.with_groups(given.groups), visibility={})
    facts = Facts(
        caller=Caller(key_id="key-test", tenant=_TENANT, roles=frozenset({"decide"}), profile=profile),
        ruleset=ruleset,
        now_ms=given.now_ms,
        decision_id="d-test",
        operation=None,
        exposed=given.exposed,
        delegated=given.delegated,
        approvals=(),
        secret=_SECRET,
        ttl_ms=_TTL_MS,
    )
    if given.approved:
        facts = replace(facts, approvals=_approvals(case, facts))
    return replace(facts, reached=_reached(case, facts)) if given.reached else facts


def _approvals(case: Case, facts: Facts) -> tuple[ApprovalGrant, ...]:
    """A person's approval of this very call."""
    fingerprint = decide(call_of(case, facts.ruleset), facts).decision.fingerprint
    if fingerprint is None:
        raise UnusableCase("the call is denied before rules are asked, so nobody can have approved it")
    return (ApprovalGrant(approval_id="a-test", fingerprint=fingerprint, rules=case.given.approved),)


def _reached(case: Case, facts: Facts) -> tuple[Reached, ...]:
    """The counters that the call would take of and that are full, as a commit would find them."""
    taken = decide(call_of(case, facts.ruleset), facts).decision.reservations
    left_out = sorted(case.given.reached - {reservation.limit for reservation in taken})
    if left_out:
        raise UnusableCase(f"the call takes nothing of the limit `{left_out[0]}`, so it cannot be reached")
    return tuple(
        Reached(key=reservation.key, frees_at_ms=facts.now_ms + _TTL_MS)
        for reservation in taken
        if reservation.limit in case.given.reached
    )
