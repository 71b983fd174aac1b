"""Which condition of a rule failed: Cedar's verdict on each part, and only as far as Cedar goes."""

from authz.core.policy.near_miss import MAX_EXAMINED
from authz.model.decision import Code, Effect
from tests.support.world import call, world
from tests.unit.core.explain.examining import explained, only_access, rule_of, verdicts

EDIT = call("fs/file_edit", path="/workspace/a.py", text="x")


def test_a_scope_and_conditions_are_told_one_by_one() -> None:
    ruleset = world(
        """@id("near") permit (principal, action in Action::"write", resource in Directory::"/workspace")
        when { context.sandboxed && resource.extension == "txt" } unless { context.role == "payload" };"""
    )
    near = rule_of(explained(ruleset, EDIT), "near")
    assert verdicts(near.rule.parts) == [
        ("action", 'action in Action::"write"', "true", True),
        ("resource", 'resource in Directory::"/workspace"', "true", True),
        ("when", "context.sandboxed", "true", True),
        ("when", 'resource.extension == "txt"', "false", True),
        ("unless", 'context.role == "payload"', "false", False),
    ]
    assert [part.text for part in near.rule.missing] == ['resource.extension == "txt"']
    assert (near.distance, near.rule.matched, near.determining) == (1, False, False)


def test_what_a_guard_keeps_cedar_from_has_no_verdict() -> None:
    ruleset = world(
        """@id("guarded") permit (principal, action, resource)
        when { context.capability has depth && context.capability.depth < 2 };"""
    )
    guarded = rule_of(explained(ruleset, EDIT), "guarded")
    assert [verdict for _, _, verdict, _ in verdicts(guarded.rule.parts)] == ["false", "not_reached"]
    assert not guarded.rule.failed


def test_an_error_is_told_by_kind_and_not_in_cedars_words() -> None:
    ruleset = world(
        """@id("all") permit (principal, action, resource);
        @id("breaks") forbid (principal, action, resource)
        when { context.sandboxed && 9223372036854775807 + 1 > 0 };"""
    )
    explanation = explained(ruleset, EDIT)
    assert explanation.decision is not None
    assert explanation.decision.code is Code.POLICY_ERROR
    breaks = rule_of(explanation, "breaks")
    assert breaks.rule.failed
    assert [part.verdict.value for part in breaks.rule.parts] == ["true", "error"]
    assert breaks.rule.parts[1].error == "a number overflows"
    (change,) = explanation.changes
    assert change.rule.rule == "breaks"


def test_alternatives_are_opened_one_level() -> None:
    ruleset = world(
        """@id("either") permit (principal, action, resource is File)
        when { (resource.extension == "txt" && context.sandboxed) || context.role == "payload" }
        unless { context.sandboxed && context.resolved };"""
    )
    _, alternatives, exception = rule_of(explained(ruleset, EDIT), "either").rule.parts
    assert verdicts(alternatives.inside) == [
        ("when", 'resource.extension == "txt" && context.sandboxed', "false", True),
        ("when", 'context.role == "payload"', "false", True),
    ]
    assert verdicts(exception.inside) == [
        ("unless", "context.sandboxed", "true", False),
        ("unless", "context.resolved", "false", False),
    ]
    assert not alternatives.holds
    assert exception.holds


def test_an_alternative_behind_a_true_one_is_not_reached() -> None:
    ruleset = world(
        """@id("either") permit (principal, action, resource)
        when { context.sandboxed || 9223372036854775807 + 1 > 0 };"""
    )
    (either,) = rule_of(explained(ruleset, EDIT), "either").rule.parts
    assert [(member.verdict.value, member.reached) for member in either.inside] == [
        ("true", True),
        ("not_reached", False),
    ]


def test_unless_one_or_another_is_two_demands() -> None:
    ruleset = world(
        """@id("unless") permit (principal, action, resource)
        unless { context.resolved || context.sandboxed };"""
    )
    rule = rule_of(explained(ruleset, EDIT), "unless").rule
    assert [(part.text, part.holds) for part in rule.parts] == [
        ("context.resolved", True),
        ("context.sandboxed", False),
    ]


def test_rules_about_something_else_are_counted() -> None:
    ruleset = world(
        """@id("mine") permit (principal, action in Action::"write", resource in Directory::"/etc");
        @id("reads") permit (principal, action in Action::"read", resource);
        @id("hosts") permit (principal, action in Action::"write", resource is File in Directory::"/srv");
        @id("mail") permit (principal, action, resource in Domain::"example.com");"""
    )
    report = only_access(explained(ruleset, EDIT))
    assert [found.rule.match.rule for found in report.rules] == ["hosts", "mine"]
    # The bundle protects itself with a rule of its own, which is switched off here.
    assert (report.further, report.elsewhere) == (1, 2)
    assert report.verdict.effect is Effect.DENY


def test_every_rule_on_demand() -> None:
    ruleset = world(
        """@id("reads") permit (principal, action in Action::"read", resource);
        @id("all") permit (principal, action, resource);"""
    )
    report = only_access(explained(ruleset, EDIT, every_rule=True))
    assert {found.rule.match.rule for found in report.rules} >= {"reads", "all"}
    assert (report.further, report.elsewhere, report.unexamined) == (0, 0, 0)


def test_the_rules_that_decide_are_examined_however_many_there_are() -> None:
    crowd = "".join(
        f'@id("r{number}") permit (principal, action, resource) when {{ context.role == "{number}" }};\n'
        for number in range(MAX_EXAMINED + 20)
    )
    ruleset = world(crowd + '@id("zz-decides") permit (principal, action, resource);')
    report = only_access(explained(ruleset, EDIT))
    assert report.rules[0].rule.match.rule == "zz-decides"
    assert report.rules[0].determining
    # 276 of the crowd, the one that decides, and the bundle's own.
    assert report.unexamined == MAX_EXAMINED + 22 - MAX_EXAMINED
