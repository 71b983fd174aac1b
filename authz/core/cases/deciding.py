"""A case decided: its request, its facts, and what `decide` makes of them."""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from authz.core.approval_asking import supposed_yes
from authz.core.approve import Permission, approve_questions, may_approve
from authz.core.cases.case import PINNED, Case, GivenCapability
from authz.core.cases.holding import Holding, hold
from authz.core.cases.issuing import answer_issue, parse_issue_case
from authz.core.claims import check_subject
from authz.core.decide import Facts, Outcome, decide
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.core.requests import parse_decide
from authz.core.ruleset import Ruleset
from authz.errors import AuthzError, MalformedInput
from authz.model.approval_writes import ApprovalFacts
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.decision import Effect
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
    approvals: Mapping[str, Permission] = field(default_factory=dict)
    """What policy says to the people whom the case names, where the call is asked for."""

    @property
    def hidden_by(self) -> frozenset[str]:
        """Rules that hide the tool from the subject."""
        named = _HIDDEN_BY.fullmatch(self.outcome.decision.internal)
        known = self.facts.ruleset.engine.policies.keys()
        return frozenset(name for name in (named[1].split(", ") if named else ()) if name in known)

    @property
    def reached(self) -> frozenset[str]:
        """Every rule that decided something: the effect, what it outranked, that the tool is hidden, or who
        may approve."""
        decision = self.outcome.decision
        decided = frozenset(rule.rule for rule in (*decision.matched, *decision.overruled))
        return decided | self.hidden_by | self.approving

    @property
    def approving(self) -> frozenset[str]:
        """Every rule that let one of the people approve, or kept it from that."""
        return frozenset(rule.rule for found in self.approvals.values() for rule in found.rules)

    @property
    def effects(self) -> tuple[Effect, frozenset[str]]:
        """The effect, and who may approve."""
        permitted = frozenset(person for person, found in self.approvals.items() if found.permitted)
        return self.outcome.decision.effect, permitted

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
            tuple(
                (person, found.permitted, tuple(rule.rule for rule in found.rules))
                for person, found in sorted(self.approvals.items())
            ),
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
    outcome = decide(call, facts)
    people = case.expected.people
    return Answered(
        call=call, facts=facts, outcome=outcome, approvals=_permissions(people, call, facts, outcome)
    )


def _permissions(
    people: Collection[str], call: Call, facts: Facts, outcome: Outcome
) -> Mapping[str, Permission]:
    """What policy says to these people of the call; to nobody where nobody is asked."""
    if not people or outcome.decision.effect is not Effect.REQUIRE_APPROVAL:
        return {}
    stored = approve_questions(call, facts, outcome, facts.ruleset.tools[(call.server, call.tool)])
    return {person: may_approve(facts.ruleset, stored, person, now_ms=facts.now_ms) for person in people}


def _answer_issue(case: Case, ruleset: Ruleset) -> Answered | Refused:
    """The same of a case about issuing a capability."""
    if case.given.capability is not None:
        raise UnusableCase("whoever asks for a capability presents none: leave out `given.capability`")
    facts = facts_of(case, ruleset)
    try:
        call, outcome = answer_issue(parse_issue_case(case.body), facts)
    except MalformedInput as error:
        return Refused(code=error.code, message=error.message)
    return Answered(call=call, facts=facts, outcome=outcome)


def call_of(case: Case, ruleset: Ruleset) -> Call:
    """The call of a case. Raises `MalformedInput` as the service would, and `UnusableCase`."""
    call = parse_decide(request_of(case, ruleset))
    if case.given.capability is None:
        return call
    return _held(call, case.given.capability, _facts_without(case, ruleset)).call


def _held(call: Call, given: GivenCapability, facts: Facts) -> Holding:
    """The call with the capability that its case gives, and what is known of that. Raises `UnusableCase`."""
    if call.capability or call.proof is not None:
        raise UnusableCase("the call has a `capability` of its own: leave out `given.capability`")
    reached = decide(call, facts).decision.accesses
    try:
        return hold(call, given, reached, facts.ruleset, tenant=facts.caller.tenant, now_ms=facts.now_ms)
    except ValueError as fault:
        raise UnusableCase(f"`given.capability` is none that there could be: {fault}") from None


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
    facts = _facts_without(case, ruleset)
    if case.is_call and case.given.capability is not None:
        held = _held(parse_decide(request_of(case, ruleset)), case.given.capability, facts)
        facts = replace(facts, presented=held.presented, tokens=held.tokens)
    if case.given.approved:
        facts = replace(facts, approvals=_approvals(case, facts))
    return replace(facts, reached=_reached(case, facts)) if case.given.reached else facts


def _facts_without(case: Case, ruleset: Ruleset) -> Facts:
    """The same without a capability, or what else rests on the call."""
    given = case.given
    profile = ruleset.profiles.get(given.profile)
    if profile is None:
        known = ", ".join(sorted(ruleset.profiles))
        raise UnusableCase(f"the bundle has no credential profile `{given.profile}`; it has {known}")
    if given.groups:
        ruleset = replace(ruleset, entities=ruleset.entities.with_groups(given.groups), visibility={})
    return Facts(
        caller=Caller(key_id="key-test", tenant=_TENANT, roles=frozenset({"decide"}), profile=profile),
        ruleset=ruleset,
        now_ms=given.now_ms,
        decision_id="d-test",
        operation=None,
        exposed=given.exposed,
        delegated=given.delegated,
        secret=_SECRET,
        ttl_ms=_TTL_MS,
    )


def _approvals(case: Case, facts: Facts) -> ApprovalFacts:
    """A yes to this very call, from people who were shown these rules."""
    call = call_of(case, facts.ruleset)
    try:
        return supposed_yes(call, decide(call, facts), facts, case.given.approved)
    except ValueError:
        raise UnusableCase(
            "the call is denied before rules are asked, so nobody can have approved it"
        ) from None


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
