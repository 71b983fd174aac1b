"""Each kind of finding about rules is found where it is, and nowhere else."""

from operator import eq, ge, gt, le, lt, ne

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.bundle.check import RULE_LINTS
from authz.core.policy import parse_rule_file
from authz.core.policy.constants import constant_parts
from tests.support.world import BANK, ENTITIES, FS
from tests.unit.core.lint.bundles import ALLOWED, check, codes, found
from tests.unit.core.lint.rule_kinds import CASE, HEAD, KINDS, Kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.code}-{KINDS.index(kind)}")
def test_it_is_found_where_it_is_and_nowhere_else(kind: Kind) -> None:
    report = check(kind.bad, **kind.parts)
    assert not report.count("error"), [str(finding) for finding in report.findings]
    (finding,) = found(report, kind.code)
    file = "tests/main.yaml" if kind.code.startswith("test.") else "rules/main.cedar"
    assert (finding.file, finding.line) == (file, kind.line)
    assert kind.hint in finding.hint
    assert finding.message.startswith("`r`") or kind.code.startswith(
        ("test.", "rule.untested", "rule.no-reason")
    )

    clean = check(kind.good, **kind.good_parts)
    assert not clean.count("error"), [str(one) for one in clean.findings]
    assert found(clean, kind.code) == []


def test_every_kind_of_the_table_is_shown_here() -> None:
    assert {kind.code for kind in KINDS} == {lint.code for lint in RULE_LINTS}


def test_a_clean_bundle_has_no_finding_at_all() -> None:
    assert check(ALLOWED, tests=CASE % "ok").findings == ()


@pytest.mark.parametrize(
    "condition",
    [
        # Cedar cannot decide these, so nothing is said of them.
        "context.sandboxed && context.resolved",
        'resource.name == "a" || resource.name == "b"',
        'resource.name like "*.env"',
        'resource.names.containsAll([".git", "hooks"])',
        'resource == File::"/a" || resource == File::"/b"',
        'context.session.exposed.contains("secret") && context.session.exposed.contains("untrusted")',
        'context.arguments has path && context.arguments.path != "x" && context.arguments.path != "y"',
        "context.capability has depth && context.capability.depth > 3",
        'principal.hasTag("level") && principal.getTag("level") == "A"',
    ],
)
def test_what_can_hold_and_need_not_is_no_finding(condition: str) -> None:
    rule = f'{HEAD}forbid (principal, action in Action::"read", resource is File) when {{ {condition} }};'
    entities = ENTITIES.replace("coder-1: {}", "coder-1: {tags: {level: A}}")
    assert codes(check(ALLOWED + "\n" + rule, entities=entities)) == set()


NUMBERS = st.integers(-(2**63), 2**63 - 1)
OPERATORS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


@given(NUMBERS, st.sampled_from("+-*"), NUMBERS, st.sampled_from(sorted(OPERATORS)), NUMBERS)
def test_what_constants_come_to_is_what_arithmetic_says(
    one: int, sign: str, two: int, operator: str, three: int
) -> None:
    """Cedar's integers have 64 bits: what has more is an error, and never the other answer."""
    value = {"+": one + two, "-": one - two, "*": one * two}[sign]
    expected = "errs"
    if -(2**63) <= value < 2**63:
        expected = "holds" if OPERATORS[operator](value, three) else "fails"
    text = f"permit (principal, action, resource) when {{ ({one}) {sign} ({two}) {operator} ({three}) }};"
    (policy,) = parse_rule_file("x.cedar", f'@id("r") {text}')
    assert [part.outcome for part in constant_parts(policy.tree)] == [expected]


@pytest.mark.parametrize(
    ("condition", "outcomes"),
    [
        ('"a" like "b*"', ["fails"]),
        ("[1, 2].contains(2)", ["holds"]),
        ("if 1 < 2 then false else true", ["fails"]),
        ("context.sandboxed && (1 < 2 || context.resolved)", ["holds"]),
        ("1 < 2 && 1 < 2 && context.sandboxed", ["holds"]),
        ('context.now < datetime("2027-01-01").offset(duration("1d"))', []),
        ('resource == File::"/a"', []),
        ('[User::"a", User::"b"].contains(User::"a")', []),
        ("context.capability.depth > 1 + 1", []),
        ('context.role == "target"', []),
    ],
)
def test_parts_that_read_nothing_are_the_largest_ones(condition: str, outcomes: list[str]) -> None:
    """What reads an entity, or comes to a value that is neither true nor false, is no finding."""
    text = f'@id("r") permit (principal, action, resource) when {{ {condition} }};'
    (policy,) = parse_rule_file("x.cedar", text)
    assert [part.outcome for part in constant_parts(policy.tree)] == outcomes


@pytest.mark.parametrize(
    "named",
    ['context.tool == Tool::"bank/mail_sent"', '[Tool::"bank/mail_sent"].contains(context.tool)'],
)
def test_a_tool_that_is_none_is_an_error(named: str) -> None:
    """The rule would load, and its forbid would never hold."""
    report = check(f"{ALLOWED}\n{HEAD}forbid (principal, action, resource) when {{ {named} }};")
    (problem,) = (finding for finding in report.findings if finding.severity != "info")
    assert (problem.code, problem.severity, problem.line) == ("rule.unknown-tool", "error", 2)
    assert problem.hint == "did you mean `bank/mail_send`?"


def test_a_tool_that_could_not_be_read_is_told_once() -> None:
    rule = f'{HEAD}forbid (principal, action, resource) when {{ context.tool == Tool::"bank/mail_send" }};'
    report = check(f"{ALLOWED}\n{rule}", tools={"fs": FS, "bank": BANK.replace('"transact"', '"transakt"')})
    assert report.count("error")
    assert found(report, "rule.unknown-tool") == []


def test_a_rule_that_is_dead_is_told_once() -> None:
    """Not also that it is redundant, or that its test is missing a rule."""
    dead = HEAD + 'permit (principal, action in Action::"read", resource is File) when { false };'
    assert codes(check(f"{ALLOWED}\n{dead}")) == {"rule.never-matches"}


def test_of_two_equal_permits_the_later_one_is_told() -> None:
    twin = ALLOWED.replace('"ok"', '"twin"')
    (finding,) = found(check(f"{ALLOWED}\n{twin}"), "rule.redundant")
    assert (finding.line, "`ok`" in finding.message) == (2, True)


def test_a_narrower_permit_before_a_wider_one_is_told_all_the_same() -> None:
    narrow = HEAD + 'permit (principal, action in Action::"fs/file_read", resource is File);'
    (finding,) = found(check(f"{narrow}\n{ALLOWED}"), "rule.redundant")
    assert finding.line == 1


def test_a_forbid_of_everything_does_not_flood_the_others() -> None:
    everything = HEAD + "forbid (principal, action, resource);"
    assert codes(check(f"{ALLOWED}\n{everything}")) == {"rule.forbids-everything"}


def test_groups_are_looked_up_in_the_bundle_s_own_entities() -> None:
    rule = HEAD + 'forbid (principal, action, resource) when { principal in Group::"coders" };'
    assert "rule.group-undeclared" in codes(check(rule))
    entities = ENTITIES.replace("groups:", "groups:\n  coders: {}", 1).replace(
        "coder-1: {}", "coder-1: {groups: [coders]}"
    )
    assert codes(check(f"{ALLOWED}\n{rule}", entities=entities)) == set()
