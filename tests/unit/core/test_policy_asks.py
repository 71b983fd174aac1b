"""Rules that ask: named, outranked by hard forbids, never a permit of their own; and the meet of a call."""

from typing import Any

from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.decision import Code, Decision, Effect, RuleKind, Stage
from tests.support.world import PERMIT_ALL, call, decide_in, record_of, rules_of, world

READ = call("fs/file_read", path="/workspace/a")
EDIT = call("fs/file_edit", path="/workspace/a", text="x")


def decided(ruleset: Ruleset, made: Call, **known: Any) -> Decision:
    return decide_in(ruleset, made, **known).decision


ASKS = """
@id("p") permit (principal, action, resource);
@id("a1") @requires("approval") @reason("it changes something")
  forbid (principal, action in Action::"write", resource);
@id("a2") @requires("approval") @approvers("Group::\\"finance\\"")
  forbid (principal, action, resource in Directory::"/workspace");
@id("a3") @requires("approval") forbid (principal, action, resource in Directory::"/elsewhere");
"""


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
