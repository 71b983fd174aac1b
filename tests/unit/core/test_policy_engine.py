"""Evaluation, fail closed: every way in which Cedar says nothing, or skips a rule, is a deny here."""

from typing import Any

import pytest

from authz.core.policy import PolicyAnswer, Question
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.decision import Code, Decision, Effect, RuleKind, Stage
from tests.support.world import (
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


def test_precedence_is_deny_then_ask_then_allow_in_any_order() -> None:
    """PE4, bug-159, bug-203: a narrow permit lifts neither a forbid nor an ask."""
    permit = '@id("p") permit (principal == Agent::"coder-1", action, resource in Directory::"/workspace");'
    ask = '@id("a") @requires("approval") forbid (principal, action, resource);'
    forbid = '@id("f") forbid (principal, action, resource) when { context.role == "target" };'
    orders = [(permit, ask, forbid), (forbid, ask, permit), (ask, permit, forbid), (ask, forbid, permit)]
    for order in orders:
        for files in ("\n".join(order), {f"r{index}": text for index, text in enumerate(order)}):
            assert decided(world(files), READ).code is Code.POLICY_FORBID
            without = [text for text in order if text != forbid]
            decision = decided(world("\n".join(without)), READ)
            assert (decision.effect, [rule.rule for rule in decision.matched]) == (
                Effect.REQUIRE_APPROVAL,
                ["a"],
            )


ASKS = """
@id("p") permit (principal, action, resource);
@id("a1") @requires("approval") @reason("it changes something")
  forbid (principal, action in Action::"write", resource);
@id("a2") @requires("approval") @approvers("Group::\\"finance\\"")
  forbid (principal, action, resource in Directory::"/workspace");
@id("a3") @requires("approval") forbid (principal, action, resource in Directory::"/elsewhere");
"""


def test_every_rule_that_asks_is_named_with_the_permits_it_overrules() -> None:
    """bug-158, bug-197: an ask asks, names itself and its source, and lists the overruled allow."""
    ruleset = world(ASKS)
    outcome = decide_in(ruleset, EDIT)
    decision = outcome.decision
    assert (decision.effect, decision.stage, decision.code) == (
        Effect.REQUIRE_APPROVAL,
        Stage.APPROVAL,
        Code.APPROVAL_REQUIRED,
    )
    assert rules_of(outcome) == ["a1", "a2"]
    assert {rule.kind for rule in decision.matched} == {RuleKind.ASK}
    assert [rule.rule for rule in decision.overruled] == ["p"]
    assert decision.matched[1].terms is not None
    assert decision.matched[1].terms.approvers == ('Group::"finance"',)
    assert "it changes something" in decision.message
    assert decision.lease is None
    record = record_of(ruleset, EDIT, outcome)
    assert [(rule["rule"], rule["kind"], rule["file"], rule["line"]) for rule in record["matched"]] == [
        ("a1", "ask", "rules/main.cedar", 3),
        ("a2", "ask", "rules/main.cedar", 5),
    ]
    assert [rule["rule"] for rule in record["overruled"]] == ["p"]


def test_an_ask_alone_allows_nothing() -> None:
    """What carries the asking rules is a permit of everything: it never becomes anybody's allow."""
    ruleset = world('@id("a") @requires("approval") forbid (principal, action, resource in Directory::"/w");')
    assert decided(ruleset, READ).effect is Effect.DENY
    ruleset = world(
        '@id("p") permit (principal, action, resource in Directory::"/etc");'
        '@id("a") @requires("approval") forbid (principal, action, resource in Directory::"/workspace");'
    )
    decision = decided(ruleset, READ)
    assert (decision.effect, decision.code, decision.matched) == (Effect.DENY, Code.POLICY_NO_MATCH, ())


def test_a_hard_forbid_beats_an_ask_and_is_named_alone() -> None:
    ruleset = world(ASKS + '@id("f") forbid (principal, action, resource in Directory::"/workspace/a");')
    outcome = decide_in(ruleset, EDIT)
    assert (outcome.decision.code, rules_of(outcome)) == (Code.POLICY_FORBID, ["f"])
    assert outcome.decision.overruled == ()


def test_an_ask_that_errs_is_a_deny() -> None:
    asking = erring("forbid", more='@requires("approval")')
    outcome = decide_in(world(PERMIT_ALL + asking), READ)
    assert (outcome.decision.effect, outcome.decision.code, rules_of(outcome)) == (
        Effect.DENY,
        Code.POLICY_ERROR,
        ["broken"],
    )


def test_an_ask_that_cannot_match_asks_nobody() -> None:
    ruleset = world(
        PERMIT_ALL + '@id("a") @requires("approval") forbid (principal, action in Action::"send", resource);'
    )
    assert decided(ruleset, READ).effect is Effect.ALLOW
    assert (
        decided(ruleset, call("bank/mail_send", to="a@example.com", body="")).effect
        is Effect.REQUIRE_APPROVAL
    )


def test_the_effect_of_a_call_is_the_meet_over_its_accesses() -> None:
    """PA6: copying reads the source and writes the target."""
    ruleset = world(
        '@id("p") permit (principal, action, resource);'
        '@id("secret") forbid (principal, action, resource in Directory::"/workspace/.secrets");'
        '@id("out") @requires("approval") forbid (principal, action in Action::"write", resource)'
        ' unless { resource in Directory::"/workspace" };'
    )
    for origin, target, effect, rules in [
        ("/workspace/a", "/workspace/b", Effect.ALLOW, ["p"]),
        ("/workspace/.secrets/a", "/workspace/b", Effect.DENY, ["secret"]),
        ("/workspace/a", "/workspace/.secrets", Effect.DENY, ["secret"]),
        ("/workspace/a", "/tmp/b", Effect.REQUIRE_APPROVAL, ["out"]),
        ("/workspace/.secrets/a", "/tmp/b", Effect.DENY, ["secret"]),
    ]:
        outcome = decide_in(ruleset, call("fs/file_copy", {"from": origin, "to": target}))
        assert (outcome.decision.effect, rules_of(outcome)) == (effect, rules)
        assert len(outcome.decision.verdicts) == 2


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


def asked(context: str, action: str = "fs/file_read:read:A0", added: str = "[]") -> PolicyAnswer:
    """The engine's answer to a question that no request could have made."""
    ruleset = world(
        PERMIT_ALL + '@id("f") forbid (principal, action, resource) when { context.role == "x" };'
    )
    question = Question(
        principal=("Agent", "coder-1"), action=action, resource=("File", "/a"), context=lambda reads: context
    )
    (answer,) = ruleset.engine.evaluate([question], ruleset.engine.prepare_entities("[]"), added)
    return answer


CONTEXTS = [
    "",
    "{",
    "[]",
    "{}",
    '{"role": 1.5}',
    '{"role": null}',
    '{"role": "x", "surplus": 1}',
    '{"role": "x"} {}',
]


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_context_that_cedar_does_not_take_is_a_deny(context: str) -> None:
    """`NoDecision` and exceptions are denies, never a missing answer (PE1)."""
    answer = asked(context)
    assert (answer.effect, answer.code) == (Effect.DENY, Code.POLICY_ERROR)


def test_an_unknown_action_and_entities_that_do_not_fit_are_a_deny() -> None:
    """PE5: what the engine was never told of gets no abstention."""
    good = '{"role": "y"}'
    assert asked(good).effect is Effect.ALLOW
    for answer in (
        asked(good, action="fs/other:read:A0"),
        asked(good, added="["),
        asked(good, added='[{"uid": 1}]'),
    ):
        assert (answer.effect, answer.code) == (Effect.DENY, Code.POLICY_ERROR)
