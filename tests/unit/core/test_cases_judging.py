"""A case is held against the decision of the service's own `decide`, and each difference is named."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.self_protection import SELF_RULE, Protected
from authz.core.cases.case import find_case
from authz.core.cases.deciding import Answered, Refused, answer, request_of
from authz.core.cases.judging import _same, judge
from authz.core.decide import decide
from authz.core.fingerprint import canonical_json
from tests.support.case_bundles import ENTITIES, RULES, one_case
from tests.support.world import PINNED, bundle_files, world

WORLD: Final = world(RULES, entities=ENTITIES)
EDIT: Final = "{tool: {server: fs, name: file_edit}, arguments: {path: ./b/../a.txt, text: x}}"
EDITED: Final[Mapping[str, str]] = {
    "effect": "allow",
    "rules": "[writes]",
    "overruled": "[]",
    "hidden_by": "[]",
    "stage": "policy",
    "code": "policy.permit",
    "authority": "A1",
    "side_effect": "idempotent",
    "uris": '["file:///workspace/a.txt"]',
    "arguments": "{path: /workspace/a.txt, text: x, append: false}",
    "accesses": '[{verb: write, uri: "file:///workspace/a.txt", scope: object, authority: A1, effect: allow, '
    "code: policy.permit, rules: [writes]}]",
    "record": "{subject: {agent: coder-1}, claims: {cwd: /workspace}, exposed: [], dry_run: false}",
}
OTHERWISE: Final[Mapping[str, tuple[str, str]]] = {
    "effect": ("deny", "effect"),
    "rules": ("[reads]", "rules"),
    "overruled": ("[reads]", "overruled"),
    "hidden_by": ("[reads]", "hidden_by"),
    "stage": ("approval", "stage"),
    "code": ("policy.forbid", "code"),
    "authority": ("null", "authority"),
    "side_effect": ("null", "side_effect"),
    "uris": ("[]", "uris"),
    "arguments": ("{path: /workspace/a.txt, text: x}", "arguments"),
    "accesses": ("[{scope: tree}]", "accesses/0/scope"),
    "record": ("{claims: {cwd: /elsewhere}}", "record/claims/cwd"),
    "reason": ("Because.", "reason"),
}


def expectation(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in members.items()) + "}"


def test_everything_that_can_be_expected_is_met() -> None:
    judged = judge(one_case(expectation(EDITED), call=EDIT), WORLD)

    assert judged.passed, judged.differences
    assert judged.reached == {"writes"}


@pytest.mark.parametrize("name", OTHERWISE)
def test_each_difference_is_noticed_and_named(name: str) -> None:
    value, place = OTHERWISE[name]
    judged = judge(one_case(expectation({**EDITED, name: value}), call=EDIT), WORLD)

    assert [difference.name for difference in judged.differences] == [place]


def test_a_record_is_compared_by_what_is_named_and_by_json_values() -> None:
    def differing(record: str) -> list[tuple[str, Any]]:
        expect = f"{{effect: allow, rules: [writes], record: {record}}}"
        found = judge(one_case(expect, call=EDIT), WORLD).differences
        return [(difference.name, difference.got) for difference in found]

    assert differing("{dry_run: 0}") == [("record/dry_run", False)]
    assert differing("{nothing: 1}") == [("record/nothing", None)]
    assert differing("{matched: []}")[0][0] == "record/matched"
    assert differing("{matched: [{rule: writes}]}") == []
    assert differing("{arguments: {text: x}}")[0][0] == "record/arguments/text"  # a payload is a digest there


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ("{path: /workspace/a.txt, text: x, append: false}", True),
        ("{path: /workspace/a.txt, text: x, append: 0}", False),
        ("{path: /workspace/a.txt, text: x, append: true}", False),
    ],
)
def test_arguments_are_compared_by_json_values(arguments: str, same: bool) -> None:
    judged = judge(one_case(f"{{effect: allow, rules: [writes], arguments: {arguments}}}", call=EDIT), WORLD)
    assert [difference.name for difference in judged.differences] == ([] if same else ["arguments"])


VALUES: Final = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 0.5, "", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(VALUES, VALUES)
@example({"a": [{"b": 1}]}, {"a": [{"b": True}]})
@example([0], [False])
def test_whole_values_are_the_same_where_json_says_so(one: Any, other: Any) -> None:
    # The canonical form tells true from 1, and 1.0 is 1 in it.
    assert _same(one, other) == (canonical_json(one) == canonical_json(other))


def test_the_loaders_own_rule_decides_and_need_not_be_named() -> None:
    own = Protected(directories=frozenset({"/workspace/.secrets"}))
    files = bundle_files(rules=RULES, entities=ENTITIES)
    ruleset = compile_bundle(BundleSources(files=files), own)
    read = "{tool: {server: fs, name: file_read}, arguments: {path: %s}}"
    expect = "{effect: deny, rules: [%s], accesses: [{rules: [%s]}]}"
    for rules in ("secrets", f"secrets, {SELF_RULE}"):
        case = one_case(expect % (rules, rules), call=read % ".secrets/a")
        assert judge(case, ruleset, frozenset({SELF_RULE})).passed
        assert judge(case, ruleset).passed == (SELF_RULE in rules)
    # What it denies is denied.
    kept = one_case(
        "{effect: allow, rules: [reads]}",
        call=read % ".secrets/a",
        given="{groups: {agents: {coder-1: [keepers]}}}",
    )
    differing = judge(kept, ruleset, frozenset({SELF_RULE})).differences
    assert [difference.name for difference in differing] == ["effect", "rules"]


def test_a_misspelt_rule_is_told_with_what_was_meant() -> None:
    (difference,) = judge(one_case("{effect: allow, rules: [write]}", call=EDIT), WORLD).differences

    assert (difference.expected, difference.got) == (["write"], ["writes"])
    assert difference.note == "the bundle has no rule `write`, did you mean `writes`?"


def test_what_is_refused_before_a_decision() -> None:
    bad = "{tool: {server: fs, name: file_read}, context: {ask: 3}}"
    refused = one_case("{refused: input.invalid}", call=bad)
    assert isinstance(answer(refused, WORLD), Refused)
    assert judge(refused, WORLD).passed
    (difference,) = judge(one_case("{refused: input.invalid}", call=EDIT), WORLD).differences
    assert (difference.name, difference.got) == ("refused", "decided: allow")


def test_what_the_bundle_cannot_decide_fails_and_says_why() -> None:
    unknown = judge(one_case("{effect: allow, rules: [reads]}", call=EDIT, given="{profile: ghost}"), WORLD)
    assert not unknown.passed
    assert unknown.error == "the bundle has no credential profile `ghost`; it has runtime"
    unpinned = "{tool: {server: fs, name: file_read, advertised_digest: pinned}, arguments: {path: a}}"
    assert (
        "pins no digest of `fs/file_read`"
        in judge(one_case("{effect: allow, rules: [reads]}", call=unpinned), WORLD).error
    )


def test_the_pinned_digest_is_the_bundles() -> None:
    call = '{tool: {server: web, name: fetch, advertised_digest: pinned}, arguments: {url: "https://a.org"}}'
    case = one_case("{effect: deny, rules: [], code: tool.unknown}", call=call)

    assert request_of(case, WORLD)["tool"]["advertised_digest"] == PINNED
    assert judge(case, WORLD).passed


def test_groups_that_are_given_are_in_place_of_those_of_the_bundle() -> None:
    call = "{tool: {server: fs, name: file_read}, arguments: {path: .secrets/a}}"
    denied = one_case("{effect: deny, rules: [secrets]}", call=call)
    keeper = one_case(
        "{effect: allow, rules: [reads]}", call=call, given="{groups: {agents: {coder-1: [keepers]}}}"
    )

    assert judge(denied, WORLD).passed
    assert judge(keeper, WORLD).passed
    assert judge(denied, WORLD).passed  # nothing of the one is remembered in the other


def test_the_time_that_is_given_is_what_rules_see() -> None:
    rules = '@id("late") permit (principal, action, resource) when { context.now > datetime("2027-01-01") };'
    ruleset = world(rules, entities=ENTITIES)
    early = one_case("{effect: deny, rules: [], code: policy.no_match}", call=EDIT)
    late = one_case("{effect: allow, rules: [late]}", call=EDIT, given='{now: "2027-01-02T00:00:00Z"}')

    assert judge(early, ruleset).passed
    assert judge(late, ruleset).passed


BIG: Final = "{tool: {server: fs, name: file_edit}, arguments: {path: big/a, text: x}}"
LIMITS: Final = """\
limits:
  - id: edits
    reason: Not too many.
    calls: 2
    seconds: 60
    per: [agent]
    where: {tools: [fs/file_edit]}
"""


def test_an_approval_that_is_given_lifts_what_asks() -> None:
    asked = one_case("{effect: require_approval, rules: [big-asks]}", call=BIG)
    granted = one_case(
        "{effect: allow, code: approval.granted, rules: [writes], overruled: [big-asks]}",
        call=BIG,
        given="{approved: [big-asks]}",
    )
    other = one_case("{effect: require_approval, rules: [big-asks]}", call=BIG, given="{approved: [other]}")

    assert judge(asked, WORLD).passed
    assert judge(granted, WORLD).passed
    assert judge(other, WORLD).passed
    unknown = "{tool: {server: fs, name: nothing}}"
    nobody = judge(one_case("{effect: allow, rules: [writes]}", call=unknown, given="{approved: [x]}"), WORLD)
    assert "nobody can have approved it" in nobody.error


def test_a_limit_that_is_given_as_reached_denies() -> None:
    files = {**bundle_files(rules=RULES, entities=ENTITIES), "limits.yaml": LIMITS.encode()}
    ruleset = compile_bundle(BundleSources(files=files), Protected())
    expect = "{effect: deny, stage: reservation, code: limit.rate, rules: [edits]}"

    assert judge(one_case(expect, call=EDIT, given="{reached: [edits]}"), ruleset).passed
    assert judge(one_case("{effect: allow, rules: [writes]}", call=EDIT), ruleset).passed
    # A call that the limit is not about cannot be what reached it.
    read = "{tool: {server: fs, name: file_read}, arguments: {path: a}}"
    wrong = judge(one_case(expect, call=read, given="{reached: [edits]}"), ruleset)
    assert wrong.error == "the call takes nothing of the limit `edits`, so it cannot be reached"


def test_a_case_is_decided_by_decide_itself() -> None:
    answered = answer(one_case("{effect: allow, rules: [writes]}", call=EDIT), WORLD)

    assert isinstance(answered, Answered)
    assert decide(answered.call, answered.facts) == answered.outcome


def test_a_case_is_found_by_id_or_by_a_name_that_is_its_own() -> None:
    case = one_case("{effect: allow, rules: [writes]}", call=EDIT)

    assert find_case([case], "f:one") is find_case([case], "one") is case
    assert find_case([case, case], "one") is find_case([case], "two") is None
