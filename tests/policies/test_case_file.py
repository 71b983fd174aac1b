"""Case files are read strictly: a case that would quietly test something else is an error."""

import pytest

from authz.errors import BundleError
from tests.policies.case_file import CaseFileError, merged, parse_case_file

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


def test_rows_are_merged_over_the_call_and_the_call_over_the_defaults() -> None:
    first, second = parse_case_file("f.yaml", GOOD.encode())

    assert first.body == {
        "subject": {"agent": "a", "session": "s-1"},
        "tool": {"server": "fs", "name": "file_read"},
        "context": {"ask": True},
        "arguments": {"path": "a", "mode": None},
    }
    assert (first.name, second.name, first.line, second.line) == ("one [1]", "one [2]", 12, 13)
    assert (first.given.profile, first.given.exposed) == ("ci", frozenset({"untrusted"}))
    assert first.id == "f:one [1]"


def test_null_takes_a_member_away_but_is_a_value_inside_arguments() -> None:
    base = {"context": {"cwd": "/w"}, "arguments": {"a": 1}}
    over = {"context": {"cwd": None}, "arguments": {"a": None, "b": {"c": None}}}

    assert merged(base, over) == {"context": {}, "arguments": {"a": None, "b": {"c": None}}}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("defaults:", "default:", "f.yaml:1: ``: unknown key `default`"),
        ("  context: {cwd: /w}", "  contexts: {cwd: /w}", "unknown key `contexts`"),
        ("    call:", "    cal:", "unknown key `cal`"),
        ("rules: [x], ", "", "`rules` is missing"),
        ("effect: deny, ", "", "`effect` is missing"),
        (", authority: null", "", "`authority` is missing"),
        ("effect: deny", "effect: no", "expected one of allow"),
        ("code: policy.forbid", "code: policy.forbidden", "expected one of tool.unknown"),
        ("authority: null", "authority: A4", "expected one of A0, A1, A2, A3"),
        ("authority: null", "authority: null, rule: x", "unknown key `rule`"),
        ("authority: null", "authority: null, refused: x", "unknown key"),
        ("rules: [x]", "rules: x", "expected a list"),
        ("rules: [x]", "rules: [x, x]", "stands here twice"),
        ("given: {profile: ci}", "given: {now: 1}", "unknown key `now`"),
        ("{arguments: {path: b}}", "{argument: {path: b}}", "f.yaml:13: `cases/0/each/1`: unknown key"),
        ("  - name: one", "  - name: 1", "expected text"),
    ],
)
def test_what_is_misspelt_is_an_error(old: str, new: str, message: str) -> None:
    assert old in GOOD

    with pytest.raises(CaseFileError) as error:
        parse_case_file("f.yaml", GOOD.replace(old, new, 1).encode())

    assert message in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "cases: []\n",
        "cases: {}\n",
        GOOD.replace(
            "      - {arguments: {path: a, mode: null}}\n      - {arguments: {path: b}}\n", ""
        ).replace("each:", "each: []"),
        GOOD + GOOD.partition("cases:\n")[2],
    ],
    ids=["no cases", "cases as a mapping", "an empty table", "two cases of one name"],
)
def test_what_would_test_nothing_is_an_error(text: str) -> None:
    with pytest.raises(CaseFileError):
        parse_case_file("f.yaml", text.encode())


def test_a_key_that_stands_twice_is_an_error() -> None:
    with pytest.raises(BundleError):
        parse_case_file("f.yaml", GOOD.replace("rules: [x]", "rules: [x], rules: [y]").encode())
