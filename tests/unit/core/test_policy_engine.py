"""Evaluation, fail closed: every way in which Cedar says nothing, or skips a rule, is a deny here."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from authz.core.cedar_context import ContextFacts
from authz.core.cedar_request import call_entities, question
from authz.core.policy import PolicyAnswer
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY
from authz.model.decision import Code, Decision, Effect, Stage
from tests.support.world import (
    NOW_MS,
    PERMIT_ALL,
    call,
    decide_in,
    fault_of,
    record_of,
    rules_of,
    source,
    world,
)

READ = call("fs/file_read", path="/workspace/a")
EDIT = call("fs/file_edit", path="/workspace/a", text="x")
PAY = call("bank/transfer", to="acct-1", amount=5)
TAGGED = "agents: {coder-1: {tags: {team: red}}, coder-2: {}}\ngroups: {}\nusers: {ada: {}}\n"


def decided(ruleset: Ruleset, made: Call, **known: Any) -> Decision:
    return decide_in(ruleset, made, **known).decision


def erring(
    effect: str, scope: str = "principal, action, resource", name: str = "broken", more: str = ""
) -> str:
    """A rule that passes validation and errs on every evaluation: integer overflow."""
    return (
        f'@id("{name}") {more} {effect} ({scope}) '
        f"when {{ 9223372036854775807 + context.now.toTime().toMilliseconds() > 0 }};"
    )


def test_no_rules_allow_nothing() -> None:
    decision = decided(world('@id("never") permit (principal, action, resource) when { false };'), READ)
    assert (decision.effect, decision.stage) == (Effect.DENY, Stage.TOOL)
    decision = decided(world('@id("r") permit (principal, action, resource in Directory::"/other");'), READ)
    assert (decision.effect, decision.stage, decision.code) == (
        Effect.DENY,
        Stage.POLICY,
        Code.POLICY_NO_MATCH,
    )
    assert decision.matched == ()


def test_a_forbid_that_errs_is_a_deny_that_names_it() -> None:
    """Cedar skips it and says Allow (PE1, bug-144): a rule that failed is a deny, no abstention."""
    ruleset = world(f"{PERMIT_ALL}\n{erring('forbid')}")
    outcome = decide_in(ruleset, READ)
    decision = outcome.decision
    assert (decision.effect, decision.stage, decision.code) == (Effect.DENY, Stage.POLICY, Code.POLICY_ERROR)
    assert [(rule.rule, rule.file, rule.line) for rule in decision.matched] == [
        ("broken", "rules/main.cedar", 2)
    ]
    record = record_of(ruleset, READ, outcome)
    assert (record["code"], [rule["rule"] for rule in record["matched"]]) == ("policy.error", ["broken"])


def test_a_permit_that_errs_is_a_deny_too() -> None:
    decision = decided(world(f"{PERMIT_ALL}\n{erring('permit')}"), READ)
    assert (decision.effect, decision.code) == (Effect.DENY, Code.POLICY_ERROR)
    assert [rule.rule for rule in decision.matched] == ["broken"]


def test_every_rule_that_errs_is_named_even_beside_a_forbid() -> None:
    forbid = '@id("no") forbid (principal, action, resource) when { context.role == "target" };'
    ruleset = world(f"{PERMIT_ALL}{forbid}{erring('forbid', name='b1')}{erring('permit', name='b2')}")
    outcome = decide_in(ruleset, READ)
    assert (outcome.decision.code, rules_of(outcome)) == (Code.POLICY_ERROR, ["b1", "b2"])


def test_a_rule_that_errs_elsewhere_does_not_spread() -> None:
    ruleset = world(PERMIT_ALL + erring("forbid", 'principal, action in Action::"write", resource'))
    assert decided(ruleset, READ).effect is Effect.ALLOW
    assert decided(ruleset, EDIT).code is Code.POLICY_ERROR
    elsewhere = erring("forbid", 'principal, action, resource in Directory::"/etc"')
    assert decided(world(PERMIT_ALL + elsewhere), READ).effect is Effect.ALLOW


def test_a_missing_tag_is_an_error_and_no_silence() -> None:
    rule = '@id("tagged") forbid (principal, action, resource) when { principal.getTag("team") == "blue" };'
    assert "tag" in fault_of(PERMIT_ALL + rule).message
    guarded = rule.replace("principal.getTag", 'principal.hasTag("team") && principal.getTag')
    ruleset = world(PERMIT_ALL + guarded, entities=TAGGED.replace("red", "blue"))
    assert decided(ruleset, READ).effect is Effect.DENY
    assert decided(ruleset, call("fs/file_read", path="/workspace/a", agent="coder-2")).effect is Effect.ALLOW


ASKS = """
@id("p") permit (principal, action, resource);
@id("a1") @requires("approval") @reason("it changes something")
  forbid (principal, action in Action::"write", resource);
@id("a2") @requires("approval") @approvers("Group::\\"finance\\"")
  forbid (principal, action, resource in Directory::"/workspace");
@id("a3") @requires("approval") forbid (principal, action, resource in Directory::"/elsewhere");
"""


def test_an_ask_that_errs_is_a_deny() -> None:
    asking = erring("forbid", more='@requires("approval")')
    outcome = decide_in(world(PERMIT_ALL + asking), READ)
    assert (outcome.decision.effect, outcome.decision.code, rules_of(outcome)) == (
        Effect.DENY,
        Code.POLICY_ERROR,
        ["broken"],
    )


def test_a_pattern_cannot_be_fooled_by_dots_but_says_less_than_containment() -> None:
    """`like "/workspace/*"` matches `/workspace/../etc`: what is judged is canonical already."""
    ruleset = world(
        '@id("like") permit (principal, action in Action::"fs/file_read", resource)'
        'when { context.arguments.path like "/workspace/*" };'
    )
    assert decided(ruleset, READ).effect is Effect.ALLOW
    for path in (
        "/workspace/../etc/passwd",
        "../etc/passwd",
        "/workspace/x/../../etc/passwd",
        "file:///etc/passwd",
    ):
        decision = decided(ruleset, call("fs/file_read", path=path))
        assert (decision.effect, decision.arguments) == (Effect.DENY, {"path": "/etc/passwd"})


def test_a_rule_on_a_folder_covers_the_folder_itself_and_no_neighbour() -> None:
    ruleset = world(
        PERMIT_ALL + '@id("f") forbid (principal, action, resource in Directory::"/workspace/keep");'
    )
    for path, effect in [
        ("/workspace/keep", Effect.DENY),
        ("/workspace/keep/", Effect.DENY),
        ("/workspace/keep/a/b", Effect.DENY),
        ("/workspace/./keep/../keep", Effect.DENY),
        ("keep", Effect.DENY),
        ("/workspace/keeper", Effect.ALLOW),
        ("/workspace", Effect.ALLOW),
        ("/workspace/a/keep", Effect.ALLOW),
    ]:
        assert decided(ruleset, call("fs/file_remove", path=path)).effect is effect, path


def test_action_groups_and_single_actions() -> None:
    for scope, effect in [
        ('action in Action::"write"', Effect.ALLOW),
        ('action in Action::"A1"', Effect.ALLOW),
        ('action in Action::"fs/file_edit"', Effect.ALLOW),
        ('action == Action::"fs/file_edit:write:A1"', Effect.ALLOW),
        ('action in [Action::"read", Action::"write"]', Effect.ALLOW),
        ('action in Action::"A3"', Effect.DENY),
        ('action in Action::"read"', Effect.DENY),
        ('action == Action::"fs/file_edit:write:A3"', Effect.DENY),
        ('action in Action::"fs/file_remove"', Effect.DENY),
    ]:
        assert decided(world(f'@id("p") permit (principal, {scope}, resource);'), EDIT).effect is effect, (
            scope
        )


def test_an_agent_is_judged_with_its_user_and_all_groups_above() -> None:
    condition = 'when { principal.on_behalf_of in Group::"staff" }'
    ruleset = world(f'@id("p") permit (principal, action, resource) {condition};')
    for user, effect in [
        ("ada", Effect.ALLOW),
        ("grace", Effect.ALLOW),
        ("eve", Effect.DENY),
        (None, Effect.DENY),
    ]:
        assert decided(ruleset, call("fs/file_read", path="/workspace/a", user=user)).effect is effect


def test_the_answer_depends_on_all_of_the_context_that_rules_read() -> None:
    """bug-148: nothing that a rule reads is left out of anything that is remembered."""
    ruleset = world(
        '@id("p") permit (principal, action, resource) when { context.session.id == "gold" };'
        '@id("f") forbid (principal, action, resource) when { context.session.exposed.contains("secret") };'
    )
    for _ in range(2):
        for session, exposed, effect in [
            ("gold", [], Effect.ALLOW),
            ("free", [], Effect.DENY),
            ("gold", ["secret"], Effect.DENY),
            ("gold", ["web"], Effect.ALLOW),
        ]:
            made = call("fs/file_read", path="/workspace/a", session=session)
            assert decided(ruleset, made, exposed=exposed).effect is effect


def test_the_same_files_give_the_same_answer_on_every_start() -> None:
    """bug-153, PE2: twenty starts, and the same bytes."""
    answers = set()
    for _ in range(20):
        ruleset = world(ASKS)
        outcome = decide_in(ruleset, EDIT)
        answers.add((ruleset.version, ruleset.schema_text, outcome.decision.effect, *rules_of(outcome)))
    assert len(answers) == 1


def test_another_text_is_another_version_and_another_answer() -> None:
    """bug-150, bug-152, bug-155: what is compiled is keyed by content, never by a name or a number."""
    allowing = world('@id("r") permit (principal, action, resource);')
    denying = world('@id("r") permit (principal, action, resource in Directory::"/etc");')
    assert allowing.version != denying.version
    assert decided(allowing, READ).effect is Effect.ALLOW
    assert decided(denying, READ).effect is Effect.DENY
    assert (
        decided(world('@id("r") permit (principal, action, resource);'), READ).policy_version
        == allowing.version
    )


def test_a_freeze_that_is_a_rule_holds() -> None:
    """bug-199: a freeze is a fact of policy; outside it the change asks."""
    freeze = """
    @id("p") permit (principal, action, resource);
    @id("freeze") @reason("Code freeze.")
      forbid (principal, action in [Action::"write", Action::"delete"], resource)
      when {
        datetime("2026-11-30T00:00:00Z") <= context.now && context.now < datetime("2026-12-01T00:00:00Z")
      };
    @id("drop") @requires("approval") forbid (principal, action in Action::"delete", resource);
    """
    ruleset = world(freeze)
    drop = call("fs/file_remove", path="/workspace/a")
    outcome = decide_in(ruleset, drop)
    assert (outcome.decision.code, rules_of(outcome)) == (Code.POLICY_FORBID, ["freeze"])
    outcome = decide_in(ruleset, drop, now_ms=1_796_083_200_000)
    assert (outcome.decision.effect, rules_of(outcome)) == (Effect.REQUIRE_APPROVAL, ["drop"])


def test_time_is_told_to_the_millisecond() -> None:
    ruleset = world(
        '@id("p") permit (principal, action, resource)'
        ' when { context.now == datetime("2026-11-30T10:00:00.123Z") };'
    )
    at = 1_796_032_800_123
    assert decided(ruleset, READ, now_ms=at).effect is Effect.ALLOW
    assert decided(ruleset, READ, now_ms=at + 1).effect is Effect.DENY
    assert decided(ruleset, READ, now_ms=at - 123).effect is Effect.DENY


def test_provenance_is_told_by_role() -> None:
    rule = '@id("f") forbid (principal, action, resource) when { context.untrusted.contains("destination") };'
    ruleset = world(PERMIT_ALL + rule)
    for name, effect in [("user", Effect.ALLOW), ("web", Effect.DENY)]:
        made = call("web/fetch", url="https://example.com/", provenance={"/url": source(name)})
        assert decided(ruleset, made).effect is effect


def asked(
    spoil: Callable[[str], str], *, action: str | None = None, added: str | None = None
) -> PolicyAnswer:
    """The engine's answer to a good question that was spoiled in a way that no request could."""
    ruleset = world(
        PERMIT_ALL + '@id("f") forbid (principal, action, resource) when { context.role == "x" };'
    )
    outcome = decide_in(ruleset, READ)
    tool = ruleset.tools[(READ.server, READ.tool)]
    assert outcome.provenance is not None
    assert outcome.believed is not None
    facts = ContextFacts(
        call=READ,
        descriptor=tool.descriptor,
        arguments=READ.arguments,
        provenance=outcome.provenance,
        believed=outcome.believed,
        capability=NO_CAPABILITY,
        exposed=frozenset(),
        delegated=False,
        now_ms=NOW_MS,
    )
    good = question("coder-1", tool, outcome.decision.accesses[0], facts)
    bad = replace(good, action=action or good.action, context=lambda reads: spoil(good.context(reads)))
    entities = call_entities(tool, outcome.decision.accesses) if added is None else added
    (answer,) = ruleset.engine.evaluate([bad], ruleset.entities.principal("coder-1", "ada"), entities)
    return answer


def with_member(name: str, value: object) -> Callable[[str], str]:
    return lambda context: json.dumps({**json.loads(context), name: value})


@pytest.mark.parametrize(
    "spoil",
    [
        lambda context: "",
        lambda context: "{",
        lambda context: "[]",
        lambda context: "{}",
        lambda context: context + " {}",
        with_member("role", 1.5),
        with_member("role", None),
        with_member("role", {"__entity": {"type": "User", "id": "ada"}}),
        with_member("surplus", 1),
    ],
)
def test_a_context_that_cedar_does_not_take_is_a_deny(spoil: Callable[[str], str]) -> None:
    """`NoDecision` and exceptions are denies, never a missing answer (PE1)."""
    answer = asked(spoil)
    assert (answer.effect, answer.code) == (Effect.DENY, Code.POLICY_ERROR)


def test_an_unknown_action_and_entities_that_do_not_fit_are_a_deny() -> None:
    """PE5: what the engine was never told of gets no abstention."""
    assert asked(str).effect is Effect.ALLOW
    for answer in (
        asked(str, action="fs/other:read:A0"),
        asked(str, added="["),
        asked(str, added='[{"uid": 1}]'),
    ):
        assert (answer.effect, answer.code) == (Effect.DENY, Code.POLICY_ERROR)
