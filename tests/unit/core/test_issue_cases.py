"""Cases about issuing: read strictly, put to the same policies as a request, and held against the outcome."""

import pytest

from authz.bundle.cases import parse_cases
from authz.core.cases.case import Case
from authz.core.cases.coverage import cover
from authz.core.cases.deciding import Refused, answer
from authz.core.cases.judging import judge
from authz.core.cases.mutation import mutate
from authz.errors import BundleError
from tests.support.world import world

RULES = """\
@id("calls") permit (principal, action in Action::"read", resource);
@id("hand-out") permit (principal, action == Action::"issue", resource in Directory::"/workspace");
@id("secrets") forbid (principal, action, resource in Directory::"/workspace/.secrets");
"""
WORLD = world(RULES)
ASKED = "{agent: coder-1, on_behalf_of: ada, actions: [read], locations: [file:///workspace]}"


def cases(call: str, expect: str) -> tuple[Case, ...]:
    text = f"cases:\n- name: a\n  call: {call}\n  expect: {expect}\n"
    return parse_cases("tests/a.yaml", text.encode())


def case(issue: str, expect: str = "{effect: allow, rules: [hand-out]}") -> Case:
    (found,) = cases(f"{{issue: {issue}}}", expect)
    return found


def test_the_policies_answer_as_they_do_a_request() -> None:
    assert not case(ASKED).is_call
    assert judge(case(ASKED), WORLD).passed
    judged = judge(case(ASKED, "{effect: deny, code: policy.no_match, rules: []}"), WORLD)
    assert {one.name for one in judged.differences} == {"effect", "code", "rules"}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("[read]", "[fs/no_such]", "capability.right_unknown"),
        ("file:///workspace", "file:///workspace/", "capability.location_invalid"),
        ("[read]", '["*"]', "capability.action_invalid"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(old: str, new: str, code: str) -> None:
    asked = case(ASKED.replace(old, new), f"{{refused: {code}}}")
    found = answer(asked, WORLD)
    assert isinstance(found, Refused)
    assert found.code == code
    assert judge(asked, WORLD).passed


def test_a_subject_that_the_profile_may_not_assert_is_refused() -> None:
    narrow = "profiles:\n  runtime:\n    agents: [other]\n    users: []\n"
    asked = case(ASKED, "{refused: subject.not_bound}")
    assert judge(asked, world(RULES, credentials=narrow)).passed


@pytest.mark.parametrize(
    ("call", "expect", "message"),
    [
        ("{issue: {agent: a, actions: [read]}}", "{effect: deny, code: policy.no_match}", "locations"),
        (f"{{issue: {ASKED[:-1]}, verbs: [read]}}}}", "{effect: allow, rules: [hand-out]}", "verbs"),
        (
            f"{{issue: {ASKED}, tool: {{server: fs}}}}",
            "{effect: allow, rules: [hand-out]}",
            "has nothing else",
        ),
        (
            f"{{issue: {ASKED}}}",
            "{effect: allow, rules: [hand-out], authority: A0}",
            "has no `authority`",
        ),
    ],
)
def test_what_is_misspelt_is_a_fault(call: str, expect: str, message: str) -> None:
    with pytest.raises(BundleError) as caught:
        cases(call, expect)
    assert any(message in str(problem) for problem in caught.value.problems), caught.value.problems


def test_rules_about_issuing_are_covered_and_their_removal_is_noticed() -> None:
    secret = ASKED.replace("file:///workspace", "file:///workspace/.secrets")
    judged = [
        judge(case(ASKED), WORLD),
        judge(case(secret, "{effect: deny, rules: [secrets]}"), WORLD),
    ]
    assert all(one.passed for one in judged)
    ours = frozenset({"calls", "authz.self-protection"})
    assert cover(judged, WORLD, ours).percent == 100
    found = {one.mutant.rule: one for one in mutate(judged, WORLD, ours, conditions=False)}
    assert found["hand-out"].changes_effect
    assert found["secrets"].changes_effect
