"""What is accepted is told apart, with its reason; an acceptance that nothing needs is told as well."""

import pytest

from tests.support.world import tool, tool_file, world
from tests.unit.core.lint.bundles import ALLOWED, check, codes, found

SEND = 'permit (principal, action in Action::"bank/mail_send", resource is Mailbox);'


def rule(allow: str) -> str:
    return f'{ALLOWED}\n@id("r") @reason("w") @lint_allow("{allow}")\n{SEND}'


def test_a_rule_says_what_it_accepts_and_why() -> None:
    report = check(rule("rule.unasked: the bank asks itself"))
    assert codes(report) == set()
    (accepted,) = report.accepted
    assert (accepted.problem.code, accepted.reason) == ("rule.unasked", "the bank asks itself")
    assert not report.fails(strict=True)


def test_several_are_parted_by_semicolons() -> None:
    text = rule("rule.unasked: the bank asks itself; rule.untested: it is new")
    assert [(one.problem.code, one.reason) for one in check(text).accepted] == [
        ("rule.unasked", "the bank asks itself"),
        ("rule.untested", "it is new"),
    ]


@pytest.mark.parametrize(
    ("allow", "code", "hint"),
    [
        ("rule.unasked", "lint.allow-without-reason", "code: reason"),
        ("rule.unasked:  ", "lint.allow-without-reason", "code: reason"),
        ("rule.unaskd: the bank asks", "lint.unknown-code", "did you mean `rule.unasked`?"),
        ("rule.shadowed: not so", "lint.unused-allow", "delete"),
    ],
)
def test_what_accepts_nothing_is_a_finding(allow: str, code: str, hint: str) -> None:
    report = check(rule(allow))
    assert codes(report) == {"rule.unasked", code}
    (finding,) = found(report, code)
    assert (finding.line, hint in finding.hint) == (2, True)
    assert report.accepted == ()


def test_it_holds_for_its_own_rule_only() -> None:
    other = f'@id("other") @reason("w") {SEND.replace("Mailbox", "Opaque")}'
    report = check(rule("rule.unasked: the bank asks itself") + "\n" + other)
    assert [finding.line for finding in found(report, "rule.unasked")] == [4]


TWO_USERS = '[User::"aad", User::"grac"].contains(principal.on_behalf_of)'
NAMES = SEND.replace(";", f" when {{ context.resolved && {TWO_USERS} }};")


def two(allow: str) -> str:
    """A rule with two findings of one code."""
    return rule(f"rule.unasked: the bank asks; {allow}").replace(SEND, NAMES)


def test_one_acceptance_of_several_findings_is_told() -> None:
    """Whoever accepted the first has not looked at the one that came later."""
    report = check(two("rule.undeclared: they join in May"))
    assert codes(report) == {"lint.allow-covers-several"}
    (finding,) = found(report, "lint.allow-covers-several")
    assert "there are 2" in finding.message
    assert "`rule.undeclared NAME: reason`" in finding.hint


def test_an_acceptance_can_name_what_it_is_about() -> None:
    report = check(two("rule.undeclared aad: joins in May"))
    (finding,) = found(report, "rule.undeclared")
    assert "grac" in finding.message
    both = check(two("rule.undeclared aad: joins in May; rule.undeclared grac: in June"))
    assert codes(both) == set()
    reasons = [one.reason for one in both.accepted if one.problem.code == "rule.undeclared"]
    assert reasons == ["joins in May", "in June"]
    unused = check(two("rule.undeclared aad: May; rule.undeclared grac: June; rule.undeclared bob: July"))
    assert codes(unused) == {"lint.unused-allow"}


def test_an_error_is_never_accepted() -> None:
    text = (
        ALLOWED
        + '\n@id("r") @lint_allow("rule.unknown-attribute: x") '
        + ('permit (principal, action in Action::"read", resource is File) when { resource.nmae == "a" };')
    )
    report = check(text)
    assert "rule.unknown-attribute" in codes(report)
    assert report.fails(strict=False)


def test_a_slip_in_the_annotation_is_an_error() -> None:
    assert codes(check(rule("x: y").replace("lint_allow", "lint_alow"))) == {"rule.annotation-typo"}


SENDS = tool(
    "send",
    [{"verb": "send", "kind": "email", "at": "/to"}],
    {"to": {"type": "string", "maxLength": 9}},
    side_effect="cumulative",
)


def test_a_tool_says_what_it_accepts_and_why() -> None:
    allow = {"allow": [{"code": "tool.no-settlement", "reason": "no endpoint tells"}]}
    report = check(tools=tool_file("x", {**SENDS, "lint": allow}), with_tools=True)
    assert "tool.no-settlement" not in codes(report)
    assert [one.reason for one in report.accepted] == ["no endpoint tells"]
    assert "tool.no-settlement" in codes(check(tools=tool_file("x", SENDS), with_tools=True))


def test_what_a_tool_accepts_is_no_part_of_its_descriptor_digest() -> None:
    """Or accepting a finding would void every approval that was given to the tool."""
    allow = {"allow": [{"code": "tool.no-settlement", "reason": "no endpoint tells"}]}
    plain, accepting = (
        world(tools=tool_file("x", one)).tools["x", "send"].descriptor.digest
        for one in (SENDS, {**SENDS, "lint": allow})
    )
    assert plain == accepting


def test_a_tool_s_acceptance_without_a_reason_does_not_load() -> None:
    lint = {"allow": [{"code": "tool.no-settlement"}]}
    assert "format.missing-key" in codes(check(tools=tool_file("x", {**SENDS, "lint": lint})))
