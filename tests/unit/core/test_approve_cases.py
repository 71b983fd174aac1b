"""Cases that say who may approve: what was expected is held against what the rules say to each person."""

from dataclasses import replace
from typing import Any

import pytest

from authz.bundle.case_expectations import expectation
from authz.core.cases.case import Case
from authz.core.cases.judging import judge
from tests.policies.deciding import sample_cases, sample_ruleset

(CASE,) = (case for case in sample_cases() if case.id == "approvals:payments are for the finance group")
ASKED = {"effect": "require_approval", "rules": ["payments-need-a-human"]}


def expecting(**people: Any) -> Case:
    found, faults = expectation({**ASKED, **people})
    assert not faults
    return replace(CASE, expected=found)


def test_whoever_is_named_is_asked_about() -> None:
    assert judge(expecting(may_approve=["grace"], may_not_approve={"zoe": []}), sample_ruleset()).passed


@pytest.mark.parametrize(
    ("people", "name", "got"),
    [
        ({"may_approve": ["zoe"]}, "may_approve/zoe", []),
        ({"may_approve": {"grace": ["approve-as-staff"]}}, "may_approve/grace", ["approve-payments"]),
        ({"may_not_approve": {"grace": []}}, "may_not_approve/grace", ["approve-payments"]),
        ({"may_not_approve": {"lin": []}}, "may_not_approve/lin", ["approve-not-contractors"]),
    ],
)
def test_every_difference_is_told_by_its_person(people: dict[str, Any], name: str, got: list[str]) -> None:
    (difference,) = judge(expecting(**people), sample_ruleset()).differences

    assert (difference.name, difference.got) == (name, got)


def test_of_what_nobody_is_asked_nobody_approves() -> None:
    case = expecting(may_approve=["grace"])
    allowed = replace(case, given=replace(case.given, approved=frozenset({"payments-need-a-human"})))

    found = {one.name: one.note for one in judge(allowed, sample_ruleset()).differences}
    assert found["may_approve/grace"] == "nobody is asked"


@pytest.mark.parametrize(
    ("people", "said"),
    [
        ({"effect": "allow", "may_approve": ["grace"]}, "nobody is asked"),
        ({"may_approve": ["grace"], "may_not_approve": {"grace": []}}, "may approve and may not"),
    ],
)
def test_what_cannot_be_meant_is_a_fault(people: dict[str, Any], said: str) -> None:
    _, faults = expectation({**ASKED, **people})

    assert [said in message for _, message, _ in faults] == [True]
