"""Tables: many requests with a shared base, a line each."""

import pytest

from authz.bundle.cases import parse_cases
from authz.core.cases.case import Case
from authz.errors import BundleError

BASE = """\
defaults:
  subject: {agent: a}
cases:
  - name: reads
    call: {tool: {server: fs, name: file_read}, arguments: {first: 1}}
    given: {exposed: [untrusted]}
"""
EXPECT = "    expect: {effect: allow, rules: [r]}\n"


def read(rest: str) -> tuple[Case, ...]:
    return parse_cases("tests/f.yaml", (BASE + rest).encode())


def problem(rest: str) -> str:
    with pytest.raises(BundleError) as refused:
        read(rest)
    return "\n".join(str(one) for one in refused.value.problems)


def test_one_column_takes_a_value_a_row() -> None:
    cases = read(
        "    columns: [/arguments/path]\n    each:\n      - a.txt\n      - [x, y]\n      - null\n" + EXPECT
    )

    assert [case.body["arguments"] for case in cases] == [
        {"first": 1, "path": "a.txt"},
        {"first": 1, "path": ["x", "y"]},
        {"first": 1, "path": None},
    ]
    assert [(case.name, case.line) for case in cases] == [
        ("reads [1]", 9),
        ("reads [2]", 10),
        ("reads [3]", 11),
    ]


def test_several_columns_reach_into_the_call_what_is_given_and_what_is_expected() -> None:
    rest = (
        "    columns: [name, /arguments/path, /context/cwd, given.exposed, expect.effect, expect.code]\n"
        "    each:\n"
        "      - [in, a.txt, /w, [], allow, policy.permit]\n"
        "      - [out, /etc/x, null, [secret], deny, policy.forbid]\n"
        "    expect: {rules: [r]}\n"
    )
    inside, outside = read(rest)

    assert (inside.name, outside.name) == ("reads [in]", "reads [out]")
    assert inside.body["context"] == {"cwd": "/w"}
    assert outside.body.get("context", {}) == {}
    assert (inside.given.exposed, outside.given.exposed) == (frozenset(), frozenset({"secret"}))
    assert (inside.expected.effect, outside.expected.effect) == ("allow", "deny")
    assert inside.expected.rules == outside.expected.rules == frozenset({"r"})


def test_a_row_may_say_what_is_its_own() -> None:
    rest = (
        "    each:\n"
        "      - {name: plain, arguments: {path: a}}\n"
        "      - name: other\n        arguments: {path: b}\n        given: {profile: ci}\n"
        "        expect: {rules: [q], authority: A1}\n"
        "      - {name: nobody, arguments: {path: c}, expect: {refused: subject.not_bound}}\n" + EXPECT
    )
    plain, other, nobody = read(rest)

    assert (plain.given.profile, other.given.profile) == ("runtime", "ci")
    assert other.given.exposed == frozenset({"untrusted"})
    assert (other.expected.effect, other.expected.rules, other.expected.authority) == (
        "allow",
        frozenset({"q"}),
        "A1",
    )
    assert nobody.expected.refused == "subject.not_bound"
    assert nobody.expected.stated == {"refused"}


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("    columns: [/arguments/path]\n" + EXPECT, "tests/f.yaml:7: a table without rows"),
        ("    columns: []\n    each: [a]\n" + EXPECT, "tests/f.yaml:7: `cases/0/columns`"),
        ("    columns: [arguments/path]\n    each: [a]\n" + EXPECT, "`arguments/path` is no column"),
        ("    columns: [/a/b, /a/b]\n    each: [[1, 2]]\n" + EXPECT, "`/a/b` stands here twice"),
        (
            "    columns: [/arguments/path, /arguments/b]\n    each:\n      - [a, b]\n      - [a]\n" + EXPECT,
            "tests/f.yaml:10: expected a list of 2 values",
        ),
        (
            "    columns: [/argument/path]\n    each:\n      - a\n" + EXPECT,
            "tests/f.yaml:9: `cases/0/each/0/argument`: unknown key",
        ),
        (
            "    columns: [expect.effekt]\n    each:\n      - a\n" + EXPECT,
            "tests/f.yaml:9: `cases/0/each/0/expect/effekt`: unknown key",
        ),
        (
            "    columns: [/context/ask]\n    each:\n      - true\n      - 3\n" + EXPECT,
            "tests/f.yaml:10: `reads [2]`: the call is no request: `/context/ask`",
        ),
        (
            "    columns: [name]\n    each:\n      - same\n      - same\n" + EXPECT,
            "tests/f.yaml:10: the name `reads [same]` is taken at line 9",
        ),
        ("    each:\n      - a\n" + EXPECT, "tests/f.yaml:8: `cases/0/each/0`: expected a mapping"),
        (
            "    columns: [expect.effect]\n    each:\n      - allow\n    expect: {code: policy.permit}\n",
            "`rules` is missing",
        ),
    ],
)
def test_a_faulty_table_is_refused_with_the_line_of_the_row(rest: str, message: str) -> None:
    assert message in problem(rest)
