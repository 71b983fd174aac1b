"""Case files are read strictly: a case that would quietly test something else is an error."""

import pytest

from authz.bundle.case_merging import merged
from authz.bundle.cases import parse_cases
from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.self_protection import Protected
from authz.core.cases.case import NOW_MS
from authz.core.ruleset import Ruleset
from authz.errors import BundleError, BundleProblem
from tests.support.world import bundle_files, faults_of, world

GOOD = """\
defaults:
  subject: {agent: a, session: s-1}
  context: {cwd: /w}
given: {exposed: [untrusted]}
cases:
  - name: one
    call:
      tool: {server: fs, name: file_read}
      context: {cwd: null, ask: true}
    given: {profile: ci}
    each:
      - {arguments: {path: a, mode: null}}
      - {arguments: {path: b}}
    expect: {effect: deny, code: policy.forbid, rules: [x], authority: null}
"""


def problems_of(text: str) -> list[BundleProblem]:
    with pytest.raises(BundleError) as refused:
        parse_cases("tests/f.yaml", text.encode())
    return list(refused.value.problems)


def problem_of(text: str) -> str:
    (problem,) = problems_of(text)
    return str(problem)


def one_case(expect: str, call: str = "", given: str = "{}") -> str:
    """A file of one case; its expectation stands on line 6."""
    return (
        "cases:\n  - name: one\n    call:\n"
        f"      {{subject: {{agent: a}}, tool: {{server: fs, name: file_read}}{call}}}\n"
        f"    given: {given}\n    expect: {expect}\n"
    )


@pytest.mark.parametrize("text", ["[]", "3", "text", ""])
def test_a_file_of_the_wrong_kind_is_told_as_such(text: str) -> None:
    assert problem_of(text) == "tests/f.yaml:1: the file: expected a mapping"


def test_a_value_spelled_like_a_mark_is_named_to_be_meant() -> None:
    text = one_case("{effect: allow, rules: [r]}", ", arguments: {path: '<<fill in: x>>'}")
    assert "`/arguments/path` was redacted in the log" in problem_of(text)
    named = text.replace("    given:", "    verbatim: [/arguments/path]\n    given:")
    (case,) = parse_cases("tests/f.yaml", named.encode())
    assert case.body["arguments"]["path"] == "<<fill in: x>>"
    # One place is no other.
    other = text.replace("    given:", "    verbatim: [/arguments/other]\n    given:")
    assert "was redacted" in problem_of(other)
    for wrong in ("path", "/path", '""'):
        assert "JSON Pointer" in problem_of(
            text.replace("    given:", f"    verbatim: [{wrong}]\n    given:")
        )


def test_rows_are_merged_over_the_call_and_the_call_over_the_defaults() -> None:
    first, second = parse_cases("tests/f.yaml", GOOD.encode())

    assert first.body == {
        "subject": {"agent": "a", "session": "s-1"},
        "tool": {"server": "fs", "name": "file_read"},
        "context": {"ask": True},
        "arguments": {"path": "a", "mode": None},
    }
    assert (first.name, second.name, first.line, second.line) == ("one [1]", "one [2]", 12, 13)
    assert (first.given.profile, first.given.exposed) == ("ci", frozenset({"untrusted"}))
    assert (first.id, first.expected_line) == ("f:one [1]", 14)


def test_null_takes_a_member_away_but_is_a_value_inside_arguments() -> None:
    base = {"context": {"cwd": "/w"}, "arguments": {"a": 1}}
    over = {"context": {"cwd": None}, "arguments": {"a": None, "b": {"c": None}}}

    assert merged(base, over) == {"context": {}, "arguments": {"a": None, "b": {"c": None}}}


def test_only_what_is_stated_is_expected() -> None:
    (case,) = parse_cases("tests/f.yaml", one_case("{effect: deny, rules: [x], authority: null}").encode())

    assert case.expected.stated == {"effect", "rules", "authority"}
    assert (case.given.now_ms, case.given.fresh_ids) == (NOW_MS, True)


def test_what_is_given() -> None:
    text = one_case(
        "{effect: deny, rules: [x]}",
        given='{now: "2026-11-30T11:00:00.5+01:00", groups: {agents: {a: [g]}, users: {u: []}}}',
    )
    (case,) = parse_cases("tests/f.yaml", text.encode())

    assert case.given.now_ms == 1_796_032_800_500
    assert case.given.groups == {("Agent", "a"): ("g",), ("User", "u"): ()}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("defaults:", "default:", "tests/f.yaml:1: `default`: unknown key (did you mean `defaults`?)"),
        ("  context: {cwd: /w}", "  contexts: {cwd: /w}", "tests/f.yaml:3: `defaults/contexts`: unknown key"),
        ("    call:", "    cal:", "tests/f.yaml:7: `cases/0/cal`: unknown key (did you mean `call`?)"),
        ("rules: [x], ", "", "tests/f.yaml:14: `rules` is missing"),
        ("effect: deny, ", "", "tests/f.yaml:14: `effect` is missing"),
        ("code: policy.forbid, rules: [x]", "rules: []", "tests/f.yaml:14: `code` is missing"),
        ("effect: deny", "effect: no", "`cases/0/expect/effect`: should be 'allow', 'require_approval' or"),
        (
            "code: policy.forbid",
            "code: policy.forbidden",
            "`cases/0/expect/code`: must be one of tool.unknown",
        ),
        ("code: policy.forbid", "code: null", "`cases/0/expect/code`: has no value"),
        ("authority: null", "authority: A4", "should be 'A0', 'A1', 'A2' or 'A3'"),
        ("authority: null", "authority: null, rule: x", "unknown key (did you mean `rules`?)"),
        ("authority: null", "refused: a.b", "`refused` stands alone"),
        ("rules: [x]", "rules: x", "`cases/0/expect/rules`: should be a valid list"),
        ("rules: [x]", "rules: [x, x]", "`x` stands here twice"),
        ("given: {profile: ci}", "given: {now: 1}", "`cases/0/given/now`: should be a valid string"),
        ("given: {profile: ci}", "given: {now: today}", "must be an RFC 3339 time with an offset"),
        (
            "given: {profile: ci}",
            "given: {now: 2026-11-30T10:00:00}",
            "must be an RFC 3339 time with an offset",
        ),
        (
            "{arguments: {path: b}}",
            "{argument: {path: b}}",
            "tests/f.yaml:13: `cases/0/each/1/argument`: unknown",
        ),
        ("  - name: one", "  - name: 1", "tests/f.yaml:6: `cases/0/name`: should be a valid string"),
        ("ask: true}", "ask: 1}", "tests/f.yaml:9: `one [1]`: the call is no request: `/context/ask`"),
        ("{arguments: {path: b}}", "{tool: {nam: b}}", "tests/f.yaml:13: `one [2]`: the call is no request"),
        (
            "  subject: {agent: a, session: s-1}",
            "  subject: {session: s-1}",
            "`/subject/agent`: the member is",
        ),
    ],
)
def test_what_is_misspelt_is_an_error_with_its_line(old: str, new: str, message: str) -> None:
    assert old in GOOD

    found = "\n".join(str(problem) for problem in problems_of(GOOD.replace(old, new, 1)))

    assert message in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cases: []\n",
        "cases: {}\n",
        "defaults: {}\n",
        GOOD.replace(
            "      - {arguments: {path: a, mode: null}}\n      - {arguments: {path: b}}\n", ""
        ).replace("each:", "each: []"),
        GOOD + GOOD.partition("cases:\n")[2],
        GOOD.replace("rules: [x]", "rules: [x], rules: [y]"),
    ],
    ids=["nothing", "no cases", "a mapping", "no list", "an empty table", "two of one name", "a key twice"],
)
def test_what_would_test_nothing_is_an_error(text: str) -> None:
    assert problems_of(text)


def test_every_fault_of_a_file_is_told_at_once() -> None:
    text = one_case("{effect: deny, uris: ['file:///W/../a']}", call=", dry_run: 1")

    assert [problem.line for problem in problems_of(text)] == [4]  # the format comes first
    text = one_case("{effect: deny, uris: ['file:///W/../a']}", call=", context: {ask: 3}")
    assert [problem.line for problem in problems_of(text)] == [6, 6, 4]


@pytest.mark.parametrize(
    ("uri", "canonical"),
    [
        ("file:///w/../a", "file:///a"),
        ("https://EXAMPLE.org", "https://example.org/"),
        ("mailto:Ada%20<ada@Example.com>", "mailto:ada@example.com"),
        ("domain:Example.com", "domain:example.com"),
    ],
)
@pytest.mark.parametrize(
    "expect", ["uris: ['{uri}']", "accesses: [{{uri: '{uri}'}}]", "record: {{accesses: [{{uri: '{uri}'}}]}}"]
)
def test_an_expected_uri_is_canonical_and_the_canonical_spelling_is_named(
    uri: str, canonical: str, expect: str
) -> None:
    """Requests may be spelled any way; what decisions and logs say is spelled in exactly one."""
    text = one_case("{effect: allow, rules: [x], " + expect.format(uri=uri) + "}")

    assert f"tests/f.yaml:6: `{uri}` is not canonical and can never be met (write {canonical})" == problem_of(
        text
    )
    parse_cases("tests/f.yaml", text.replace(uri, canonical).encode())


def test_a_uri_of_no_kind_is_refused() -> None:
    text = one_case("{effect: allow, rules: [x], uris: [/w/a]}")

    assert "`/w/a` is no canonical uri" in problem_of(text)


def test_a_refusal_before_a_decision_can_be_expected() -> None:
    text = one_case("{refused: input.invalid}", call=", context: {ask: 3}")
    (case,) = parse_cases("tests/f.yaml", text.encode())

    assert case.expected.refused == "input.invalid"


def test_a_value_that_the_log_redacted_must_be_filled_in() -> None:
    mark = "<<fill in: hmac-sha256:0, 3 characters>>"
    text = one_case("{effect: allow, rules: [x]}", call=f', arguments: {{path: a, "x": [1, "{mark}"]}}')

    assert "tests/f.yaml:4: `/arguments/x/1` was redacted in the log" in problem_of(text)
    text = one_case("{effect: allow, rules: [x]}", call=f', arguments: {{"a{mark}": 1}}')
    assert "was redacted in the log" in problem_of(text)


def test_tests_are_part_of_the_bundle() -> None:
    """A malformed case keeps the bundle from loading; one that would fail does not."""
    (fault,) = faults_with(one_case("{effect: allow, rulez: [x]}"))
    assert (fault.file, fault.line) == ("tests/f.yaml", 6)
    (fault,) = faults_with(one_case("{effect: allow, rules: [x]}", given="{profile: nobody}"))
    assert "there is no credential profile `nobody`" in fault.message
    (fault,) = faults_with(one_case("{effect: allow, rules: [x]}", given="{groups: {agents: {a: [staf]}}}"))
    assert "the group `staf` is not declared" in fault.message

    failing = {"tests/f.yaml": one_case("{effect: deny, rules: [no-such-rule]}").encode()}
    assert load(failing).version != world().version


def load(more: dict[str, bytes]) -> Ruleset:
    return compile_bundle(BundleSources(files={**bundle_files(), **more}), Protected())


def faults_with(text: str) -> tuple[BundleProblem, ...]:
    with pytest.raises(BundleError) as refused:
        load({"tests/f.yaml": text.encode()})
    assert faults_of("permit (principal, action, resource);")  # the world still finds its own faults
    return refused.value.problems
