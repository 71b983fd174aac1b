"""`given.capability`: a case whose call presents a capability, judged as a real one is."""

from typing import Any

import pytest
from authz_client.capabilities import VerifiedChain

from authz.bundle.cases import parse_cases
from authz.core.cases.case import Case
from authz.core.cases.deciding import Answered, UnusableCase, answer, call_of, facts_of
from authz.errors import BundleError
from authz.model.decision import Code, Decision, Effect
from tests.support.world import world

RULES = """
@id("deep") permit (principal, action, resource) when {
  context.capability.presented && context.capability has depth && context.capability.depth == 1
  && context.capability has root && context.capability.root == "coder-1"
};
@id("soon-over") forbid (principal, action, resource) when {
  context.capability has expires_at && context.capability.expires_at < context.now.offset(duration("5m"))
};
@id("not-sub-2") forbid (principal == Agent::"sub-2", action, resource);
"""
WORLD = world(RULES)


def case_of(given: str, *, agent: str = "sub-1", call: str = "") -> Case:
    text = f"""\
cases:
  - name: one
    given: {{capability: {given}}}
    call:
      subject: {{agent: {agent}, on_behalf_of: ada, session: s}}
      tool: {{server: fs, name: file_read}}
      arguments: {{path: /workspace/a}}
      context: {{cwd: /workspace, sandbox_root: /workspace}}
{call}    expect: {{effect: allow, rules: [deep]}}
"""
    (case,) = parse_cases("tests/one.yaml", text.encode())
    return case


def decided(given: str, **more: Any) -> Decision:
    answered = answer(case_of(given, **more), WORLD)
    assert isinstance(answered, Answered), answered
    return answered.outcome.decision


def test_rules_see_the_chain() -> None:
    decision = decided("{agents: [coder-1, sub-1]}")
    assert (decision.effect, [rule.rule for rule in decision.matched]) == (Effect.ALLOW, ["deep"])
    assert decided("{}").code is Code.POLICY_NO_MATCH, "of the call's own agent alone: nobody handed it on"
    assert decided("{agents: [other, sub-1]}").code is Code.POLICY_NO_MATCH
    assert decided("{agents: [coder-1, sub-2, sub-1]}").code is Code.POLICY_FORBID, "of every agent of it"
    assert decided("{agents: [coder-1, sub-1], expires_in: 60}").code is Code.POLICY_FORBID


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("actions: [write]", Code.CAPABILITY_RIGHT_MISSING),
        ("actions: [fs/file_read]", Code.POLICY_PERMIT),
        ("locations: [file:///workspace/b]", Code.CAPABILITY_OBJECT_OUTSIDE),
        ("locations: [file:///workspace]", Code.POLICY_PERMIT),
        ("constraints: {path: {equals: /workspace/b}}", Code.CAPABILITY_CONSTRAINT),
    ],
)
def test_it_is_judged_like_one_that_was_issued(more: str, code: Code) -> None:
    assert decided(f"{{agents: [coder-1, sub-1], {more}}}").code is code


def test_it_is_signed_and_proven() -> None:
    """Nothing is waved through: a chain of which one character differs is refused."""
    case = case_of("{agents: [coder-1, sub-1]}")
    facts = facts_of(case, WORLD)
    assert facts.presented is not None
    assert isinstance(facts.presented.verified, VerifiedChain)
    call = call_of(case, WORLD)
    assert call == call_of(case, WORLD), "the same case, the same call"
    assert len(call.capability) == 2
    other = call_of(case_of("{agents: [coder-1, sub-1], holder: somebody}"), WORLD)
    assert other.capability != call.capability


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{agents: [coder-1]}", "the last of its `agents` is `coder-1`"),
        ("{locations: [file:///workspace/]}", "none that there could be"),
        ("{actions: ['*']}", "none that there could be"),
    ],
)
def test_what_cannot_be_is_said(given: str, says: str) -> None:
    with pytest.raises(UnusableCase) as refused:
        answer(case_of(given), WORLD)
    assert says in refused.value.message


def test_one_of_its_own_and_one_that_is_given_are_too_many() -> None:
    with pytest.raises(UnusableCase):
        answer(
            case_of("{agents: [coder-1, sub-1]}", call="      capability: [a.b.c]\n      proof: a.b.c\n"),
            WORLD,
        )


def test_who_asks_for_one_presents_none() -> None:
    text = (
        "cases:\n  - name: one\n    given: {capability: {}}\n"
        "    call: {issue: {agent: coder-1, actions: [read], locations: [file:///workspace]}}\n"
        "    expect: {effect: deny, code: policy.no_match, rules: []}\n"
    )
    (case,) = parse_cases("tests/one.yaml", text.encode())
    with pytest.raises(UnusableCase):
        answer(case, WORLD)


@pytest.mark.parametrize(
    "given",
    ["{agent: coder-1}", "{agents: []}", "{expires_in: 0}", "{expires_in: true}", "{depth: 2}", "[]", "yes"],
)
def test_its_format_is_strict(given: str) -> None:
    with pytest.raises(BundleError):
        case_of(given)
