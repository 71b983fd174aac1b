"""An explanation is of the decision itself: its stages, their inputs and outputs, and what would lift it."""

from typing import Any

import pytest

from authz.core.cases.deciding import Answered, Refused, answer, call_of, facts_of
from authz.core.explain import Explanation, explain
from authz.core.explain.document import document
from authz.core.explain.explain import MAX_EXPLAINED_ACCESSES
from authz.core.explain.model import AccessReport, StageOutcome
from authz.model.caller import Profile
from authz.model.decision import Code, Effect, RuleKind
from authz.model.operation import OperationRecord, OperationState
from tests.policies.deciding import sample_cases, sample_ruleset
from tests.support.world import NOW_MS, call, caller_of, decide_in, source, world
from tests.unit.core.explain.examining import explained, only_access, rule_of


def stage(explanation: Explanation, name: str) -> Any:
    return next(report for report in explanation.stages if report.name == name)


def outcomes(explanation: Explanation) -> dict[str, str]:
    return {report.name: report.outcome.value for report in explanation.stages}


def test_every_case_of_the_shipped_bundle_is_explained_as_it_is_decided() -> None:
    """Effect, code, stage and rules; and every rule that determines is one that Cedar says to match."""
    explained_cases = 0
    for case in sample_cases():
        if not case.is_call:
            continue  # what may be issued is judged without a call
        answered = answer(case, sample_ruleset())
        explanation = explain(call_of(case, sample_ruleset()), facts_of(case, sample_ruleset()))
        if isinstance(answered, Refused):
            assert explanation.decision is None, case.id
            assert explanation.subject_refused, case.id
            continue
        assert explanation.decision is not None, case.id
        assert told(explanation.decision) == told(answered.outcome.decision), case.id
        check_rules(explanation, answered, case.id)
        explained_cases += 1
    assert explained_cases > 500


def told(decision: Any) -> tuple[Any, ...]:
    return (
        decision.effect,
        decision.code,
        decision.stage,
        decision.authority,
        decision.matched,
        decision.overruled,
        decision.verdicts,
        decision.message,
        decision.fingerprint,
    )


def check_rules(explanation: Explanation, answered: Answered, name: str) -> None:
    verdicts = answered.outcome.decision.verdicts
    # A tree that a place beneath it settled is told by its places.
    several = any(verdict.beneath for verdict in verdicts)
    # Everybody who handed the call on must be allowed it, so each is asked.
    agents = answered.outcome.capability.agents or (answered.call.subject.agent,)
    told_at_least = min(len(verdicts), MAX_EXPLAINED_ACCESSES) * len(agents)
    if explanation.accesses:
        assert {report.agent for report in explanation.accesses} == set(agents), name
    assert len(explanation.accesses) >= told_at_least, name
    assert several or len(explanation.accesses) == told_at_least, name
    for report in explanation.accesses:
        assert not report.broken, name
        for found in report.rules:
            assert found.rule.matched == all(part.holds for part in found.rule.parts), (name, found)
        assert all(found.rule.matched for found in report.rules if found.determining), name
    # What a verdict names matched for one agent at least, and for that one it is told to determine.
    by_verdict: dict[int, list[AccessReport]] = {}
    for report in explanation.accesses:
        by_verdict.setdefault(id(report.verdict), []).append(report)
    for reports in by_verdict.values():
        determining = {
            found.rule.match.rule for report in reports for found in report.rules if found.determining
        }
        verdict = reports[0].verdict
        named = {rule.rule for rule in (*verdict.rules, *verdict.overruled)}
        assert determining == {rule for rule in named if not is_built_in(rule)}, name


def is_built_in(rule: str) -> bool:
    """A rule that stands in no file (a colon is no part of an `@id`)."""
    return ":" in rule


def test_the_stages_end_where_the_effect_is_settled() -> None:
    ruleset = world()
    allowed = explained(ruleset, call("fs/file_edit", path="a.py", text="x"))
    assert outcomes(allowed) == {
        "caller": "passed",
        "tool": "passed",
        "schema": "passed",
        "canonical": "passed",
        "operation": "passed",
        "capability": "passed",
        "policy": "settled",
        "approval": "passed",
        "limits": "passed",
    }
    invalid = explained(ruleset, call("fs/file_edit", path=7, text="x"))
    assert stage(invalid, "schema").outcome is StageOutcome.SETTLED
    assert [stage(invalid, name).outcome for name in ("canonical", "policy", "limits")] == [
        StageOutcome.NOT_REACHED
    ] * 3
    (error,) = stage(invalid, "schema").output["errors"]
    assert (error["pointer"], error["found"], error["expected"]) == ("/path", "integer", "string")
    assert invalid.accesses == ()


def test_a_subject_that_may_not_be_asserted_is_no_decision() -> None:
    ruleset = world()
    nobody = caller_of(ruleset, Profile(name="empty"))
    explanation = explained(ruleset, call("fs/file_read", path="a"), caller=nobody)
    assert explanation.decision is None
    assert explanation.subject_refused == "this credential may not act as that agent"
    assert outcomes(explanation)["caller"] == "settled"
    assert set(list(outcomes(explanation).values())[1:]) == {"not_reached"}


def test_a_hidden_tool_says_why_it_is_hidden() -> None:
    ruleset = world('@id("reads") permit (principal, action in Action::"read", resource);')
    explanation = explained(ruleset, call("fs/file_edit", path="a", text="x"))
    assert explanation.decision is not None
    assert explanation.decision.code is Code.TOOL_UNKNOWN
    found = stage(explanation, "tool")
    assert found.output["in_bundle"]
    assert "no permit could match" in found.output["hidden_because"]
    assert "hidden" in found.summary


def test_arguments_are_told_as_written_filled_in_and_rewritten() -> None:
    explanation = explained(world(), call("fs/file_edit", path="/workspace/../workspace/./a", text="x"))
    assert stage(explanation, "schema").output["defaults"] == {"/append": False}
    assert stage(explanation, "canonical").output["rewritten"] == [
        {"pointer": "/path", "written": "/workspace/../workspace/./a", "canonical": "/workspace/a"}
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "cwd", "level", "because"),
    [
        ("fs/file_read", {"path": "a"}, "/workspace", "A0", "`read` changes nothing"),
        ("fs/file_edit", {"path": "a", "text": ""}, "/workspace", "A1", "believed sandbox"),
        ("fs/file_edit", {"path": "/etc/a", "text": ""}, "/workspace", "A3", "no believed sandbox"),
        ("fs/file_edit", {"path": "/workspace/a", "text": ""}, "/etc", "A3", "may not claim"),
        ("bank/transfer", {"to": "x", "amount": 1}, "/workspace", "A3", "always A3"),
    ],
)
def test_authority_says_what_it_came_from(
    name: str, arguments: dict[str, Any], cwd: str, level: str, because: str
) -> None:
    explanation = explained(world(), call(name, arguments, cwd=cwd))
    (access,) = stage(explanation, "canonical").output["accesses"]
    assert access["authority"] == level
    assert because in access["because"]


def test_claims_that_are_not_believed_say_why() -> None:
    explanation = explained(world(), call("fs/file_read", path="/workspace/a", sandbox_root="/srv"))
    claims = {claim["claim"]: claim for claim in stage(explanation, "canonical").output["claims"]}
    assert claims["cwd"]["believed"]
    assert not claims["sandbox_root"]["believed"]
    assert claims["sandbox_root"]["because"].endswith("may declare: /workspace")


def test_provenance_is_told_leaf_by_leaf() -> None:
    asked = call(
        "bank/mail_send",
        to="a@example.com",
        body="x",
        password="p",
        provenance={"/to": source("web"), "/body": source("model"), "/password": source("gossip")},
    )
    explanation = explained(world(), asked, exposed={"untrusted"})
    leaves = {leaf["pointer"]: leaf for leaf in stage(explanation, "canonical").output["provenance"]}
    assert (leaves["/to"]["role"], leaves["/to"]["because"]) == (
        "destination",
        "the source `web` is untrusted",
    )
    assert "read something untrusted" in leaves["/body"]["because"]
    assert (leaves["/password"]["declared_source"], leaves["/password"]["source"]) == ("gossip", "missing")
    assert leaves["/password"]["secret"]


def test_an_ask_says_which_approval_lifts_it_and_what_comes_then() -> None:
    ruleset = world(
        """@id("all") permit (principal, action, resource);
        @id("one") @requires("approval") @approvers("Group::\\"finance\\"") @quorum("2") @ttl("10m")
        forbid (principal, action in Action::"transact", resource);
        @id("two") @requires("approval") @factor("passkey") @ttl("5m")
        forbid (principal, action in Action::"A3", resource);"""
    )
    explanation = explained(ruleset, call("bank/transfer", to="x", amount=1))
    approval = explanation.approval
    assert approval is not None
    assert [rule.rule for rule in approval.rules] == ["one", "two"]
    assert (approval.factor, approval.ttl_seconds, approval.scopes) == ("passkey", 300, ("once",))
    assert (approval.afterwards, approval.afterwards_code) == (Effect.ALLOW, "approval.granted")
    assert explanation.changes == ()


def test_below_a3_and_trusted_a_wider_approval_may_be_given() -> None:
    ruleset = world(
        """@id("all") permit (principal, action, resource);
        @id("ask") @requires("approval") forbid (principal, action, resource);"""
    )
    trusted = call("fs/file_edit", path="a", text="x", provenance={"": source("user")})
    explanation = explained(ruleset, trusted)
    assert explanation.approval is not None
    assert explanation.approval.scopes == ("once", "times", "session")


def test_a_deny_that_nothing_permits_names_the_nearest_permits() -> None:
    ruleset = world(
        """@id("far") permit (principal, action in Action::"write", resource in Directory::"/srv")
        when { context.resolved };
        @id("near") permit (principal, action in Action::"write", resource in Directory::"/workspace")
        unless { context.sandboxed };
        @id("close-forbid") forbid (principal, action, resource) when { context.resolved };"""
    )
    explanation = explained(ruleset, call("fs/file_edit", path="a", text="x"))
    assert [change.rule.rule for change in explanation.changes] == ["near", "far"]
    assert [part.text for part in explanation.changes[0].parts] == ["context.sandboxed"]
    assert [part.text for part in explanation.changes[1].parts] == [
        'resource in Directory::"/srv"',
        "context.resolved",
    ]


def test_a_forbid_tells_what_of_it_holds() -> None:
    ruleset = world(
        """@id("all") permit (principal, action, resource);
        @id("no") forbid (principal, action, resource)
        when { context.sandboxed } unless { context.resolved };"""
    )
    explanation = explained(ruleset, call("fs/file_edit", path="a", text="x"))
    (change,) = explanation.changes
    assert change.rule.kind is RuleKind.FORBID
    assert [(part.text, part.holds) for part in change.parts] == [
        ("context.sandboxed", True),
        ("context.resolved", True),
    ]
    permit = rule_of(explanation, "all")
    assert (permit.rule.matched, permit.determining) == (True, False)


def test_an_explanation_is_a_dry_run_also_of_a_call_that_was_allowed() -> None:
    ruleset, asked = world(), call("fs/file_edit", path="a", text="x")
    first = decide_in(ruleset, asked).decision
    operation = OperationRecord(
        key="k",
        fingerprint=str(first.fingerprint),
        state=OperationState.RESERVED,
        decision_id="d-0",
        expires_at_ms=NOW_MS + 1000,
        version=1,
    )
    explanation = explained(ruleset, asked, operation=operation)
    assert explanation.decision is not None
    assert explanation.decision.lease is None
    assert not explanation.decision.repeated
    assert stage(explanation, "operation").output["operation"]["same_fingerprint"]


def test_a_call_of_many_accesses_says_how_many_are_left_out() -> None:
    recipients = ", ".join(f"p{number}@example.com" for number in range(MAX_EXPLAINED_ACCESSES + 3))
    ruleset = world(
        """@id("all") permit (principal, action, resource);
        @id("not-last") forbid (principal, action, resource == Mailbox::"p18@example.com");"""
    )
    explanation = explained(ruleset, call("bank/mail_send", to=recipients, body="x"))
    assert (len(explanation.accesses), explanation.unexplained_accesses) == (MAX_EXPLAINED_ACCESSES, 3)
    # What settled the effect is among those that are explained.
    assert explanation.accesses[0].verdict.access.resource.value == "p18@example.com"


def test_an_unnamed_session_may_have_read_anything() -> None:
    ruleset = world(
        """@id("clean") permit (principal, action, resource)
        unless { context.session.exposed.contains("untrusted") };"""
    )
    explanation = explained(ruleset, call("fs/file_read", path="a", session=None))
    (part,) = rule_of(explanation, "clean").rule.parts
    assert not part.holds
    assert "untrusted" in stage(explanation, "caller").output["session_exposed"]


def test_the_document_is_plain_json_of_a_stable_shape() -> None:
    told = document(explained(world(), call("fs/file_edit", path="a", text="x")))
    assert list(told) == [
        "format",
        "at",
        "profile",
        "policy_version",
        "subject_refused",
        "decision",
        "stages",
        "accesses",
        "unexplained_accesses",
        "approval",
        "changes",
        "recorded",
    ]
    (access,) = told["accesses"]
    assert access["examined"][0]["status"] == "determining"
    assert only_access(explained(world(), call("fs/file_edit", path="a", text="x"))).elsewhere == 0
