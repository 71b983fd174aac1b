"""What a run proves: which rules are at work in it, and which changes to the rules it would notice."""

from typing import Final

import pytest

from authz.bundle.cases import parse_cases
from authz.bundle.self_protection import SELF_RULE
from authz.core.cases.case import Case
from authz.core.cases.coverage import Coverage, cover
from authz.core.cases.judging import judge
from authz.core.cases.mutation import mutate
from authz.core.ruleset import Ruleset
from tests.support.case_bundles import CASES, DEFAULTS, ENTITIES, RULES
from tests.support.world import world

WORLD: Final = world(RULES, entities=ENTITIES)
ALL: Final = parse_cases("tests/f.yaml", CASES.encode())
READS: Final = parse_cases(
    "tests/f.yaml",
    f"""{DEFAULTS}cases:
  - name: read
    call: {{tool: {{server: fs, name: file_read}}, arguments: {{path: .secrets2/a}}}}
    expect: {{effect: allow, rules: [reads]}}
""".encode(),
)
NOT_OURS: Final = frozenset({SELF_RULE})


def covered(cases: tuple[Case, ...]) -> Coverage:
    return cover([judge(case, WORLD) for case in cases], WORLD, NOT_OURS)


def changes(
    cases: tuple[Case, ...], ruleset: Ruleset = WORLD, *, conditions: bool
) -> dict[str, tuple[bool, bool]]:
    judged = [judge(case, ruleset) for case in cases]
    return {
        str(result.mutant): (result.noticed, result.changes_effect)
        for result in mutate(judged, ruleset, NOT_OURS, conditions=conditions)
    }


def test_rules_are_counted_by_what_they_did() -> None:
    coverage = covered(ALL)

    assert coverage.percent == 100
    assert {rule.rule: (rule.decided, rule.outranked) for rule in coverage.rules} == {
        "reads": (2, 0),
        "writes": (1, 1),
        "secrets": (2, 0),
        "big-asks": (1, 0),
    }
    assert [(rule.file, rule.line) for rule in coverage.rules] == [
        ("rules/main.cedar", line) for line in (1, 5, 8, 13)
    ]


def test_a_rule_that_is_never_at_work_says_whether_it_was_asked() -> None:
    coverage = covered(READS)

    assert coverage.percent == 25
    assert {rule.rule: rule.in_scope for rule in coverage.rules if not rule.is_covered} == {
        "writes": 0,
        "secrets": 0,
        "big-asks": 0,
    }
    keeper = tuple(case for case in ALL if case.name == "a keeper's secret")
    in_scope = {rule.rule: rule.in_scope for rule in covered(keeper).rules}
    assert in_scope == {"reads": 0, "writes": 0, "secrets": 1, "big-asks": 0}


def test_tools_are_counted_by_their_decisions_and_actions() -> None:
    tools = {tool.tool: tool for tool in covered(ALL).tools}

    read, edit, copy = tools["fs/file_read"], tools["fs/file_edit"], tools["fs/file_copy"]
    assert (read.allowed, read.asked, read.denied) == (2, 0, 2)
    assert (edit.allowed, edit.asked, edit.denied) == (1, 1, 0)
    assert "fs/file_edit:write:A1" in edit.reached
    assert "fs/file_edit:write:A3" in set(edit.actions) - set(edit.reached)
    assert (copy.allowed, copy.reached) == (0, ())


def test_a_bundle_without_rules_of_its_own_is_covered() -> None:
    assert Coverage(rules=(), tools=()).percent == 100


def test_every_removal_is_noticed_by_cases_that_reach_the_rule() -> None:
    assert changes(ALL, conditions=False) == {
        "`reads` removed": (True, True),
        "`writes` removed": (True, True),
        "`secrets` removed": (True, True),
        "`big-asks` removed": (True, True),
    }


def test_what_no_case_reaches_survives() -> None:
    assert changes(READS, conditions=False) == {
        "`reads` removed": (True, True),
        "`writes` removed": (False, False),
        "`secrets` removed": (False, False),
        "`big-asks` removed": (False, False),
    }


def test_a_rule_that_only_adds_its_name_is_told_apart() -> None:
    twice = RULES + '@id("reads-too") permit (principal, action in Action::"read", resource);'
    found = changes(ALL, world(twice, entities=ENTITIES), conditions=False)

    assert found["`reads` removed"] == found["`reads-too` removed"] == (True, False)


@pytest.mark.parametrize(("cases", "noticed"), [(ALL, True), (ALL[:-1], False)])
def test_a_condition_counts_only_with_a_case_on_each_side(cases: tuple[Case, ...], noticed: bool) -> None:
    found = changes(cases, conditions=True)

    assert found["`secrets` with `unless 1` negated"] == (True, True)
    assert found["`secrets` with `unless 1` dropped"] == (noticed, noticed)
    assert len(found) == 6
