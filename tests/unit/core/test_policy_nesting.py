"""Rules too deep for Cedar's parser, which would end the process, are refused with their line before it."""

import subprocess
import sys
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.policy.rules import read_rule_file
from authz.core.policy_nesting import MAX_BRACKETS, MAX_DEPTH, depths, too_deep
from tests.support.world import fault_of

SHAPES: Final[dict[str, Callable[[int], str]]] = {
    "brackets": lambda n: "(" * n + "true" + ")" * n,
    "sets": lambda n: "[" * n + "]" * n + " == []",
    "records": lambda n: '{"a":' * n + "1" + "}" * n + " == 1",
    "and": lambda n: " && ".join(["true"] * n),
    "or": lambda n: " || ".join(["true"] * n),
    "plus": lambda n: "1" + " + 1" * n + " == 2",
    "minus": lambda n: "1" + "-1" * n + " == 2",
    "times": lambda n: "1" + " * 1" * n + " == 2",
    "else-if": lambda n: "if true then true else " * n + "true",
    "then-if": lambda n: "if true then " * n + "true" + " else true" * n,
    "if-if": lambda n: "if " * n + "true" + " then true else true" * n,
    "members": lambda n: "context" + ".a" * n,
    "indexes": lambda n: "context" + '["a"]' * n,
    "methods": lambda n: "context" + ".contains(1)" * n,
    "has": lambda n: "context has a" + ".a" * n,
    "mixed": lambda n: "(true && " * n + "true" + ")" * n,
    "calls in brackets": lambda n: "(context.a.b || " * n + "true" + ")" * n,
}


def rule(condition: str, name: str = "r") -> str:
    return f'@id("{name}") permit (principal, action, resource) when {{ {condition} }};'


@pytest.mark.parametrize("count", [700, 3000, 100_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_would_end_the_process_never_gets_to_cedar(shape: str, count: int) -> None:
    assert too_deep(rule(SHAPES[shape](count)))


def test_clauses_in_a_row_are_bounded_too() -> None:
    clauses = "when { true } " * 3000
    assert too_deep(f'@id("r") permit (principal, action, resource) {clauses};')


READ: Final = """
import sys
from authz.core.policy.rules import read_rule_file
for text in sys.stdin.read().split("\\0"):
    read_rule_file("r.cedar", text)
print("alive")
"""


def test_whatever_is_let_through_cedar_survives() -> None:
    """In a process of its own, which a crash may end: each shape at the greatest depth that passes."""
    texts = []
    for shape in SHAPES.values():
        greatest = next(n for n in range(MAX_DEPTH, 0, -1) if not too_deep(rule(shape(n))))
        assert greatest > 30
        texts.append(rule(shape(greatest)))
    # As deep as both bounds allow at once: every bracket in the first operand of a long row.
    row = " && true" * ((MAX_DEPTH - 3 * MAX_BRACKETS) // MAX_BRACKETS)
    both = "(" * (MAX_BRACKETS - 1) + "true" + f"{row})" * (MAX_BRACKETS - 1)
    assert not too_deep(rule(both))
    texts.append(rule(both))
    ended = subprocess.run(
        [sys.executable, "-c", READ], input="\0".join(texts), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr


@pytest.mark.parametrize("shape", ["brackets", "or", "members"])
def test_the_rule_and_its_line_are_named(shape: str) -> None:
    text = f"// first\n{rule('true', 'good')}\n\n{rule(SHAPES[shape](3000), 'deep')}\n"
    problem = fault_of(text)
    assert (problem.file, problem.line, problem.code) == ("rules/main.cedar", 4, "rule.too-deep")
    assert problem.hint
    policies, problems = read_rule_file("r.cedar", text)
    assert ([policy.id for policy in policies], len(problems)) == (["good"], 1)


def test_what_cedar_itself_finds_too_deep_has_the_same_code() -> None:
    assert fault_of(rule(SHAPES["or"](300))).code == "rule.too-deep"


def test_a_wide_rule_is_not_deep() -> None:
    wide = "[" + ", ".join(["1 + 1"] * 2000) + "].contains(1)"
    text = "(((" * 100 + "if && || . [ {"
    for condition in (wide, f'context.a like "{text}"', f"true // {text}\n && true"):
        assert not too_deep(rule(condition))
    many = " || ".join(f'context.a.b.c == "x{number}"' for number in range(125))
    assert not too_deep(rule(many))


Made = tuple[str, int, int]
"""(text, brackets inside one another, depth of the tree)."""


def _row(parts: list[Made]) -> Made:
    depth = len(parts) - 1 + max(part[2] for part in parts)
    return " && ".join(f"({part[0]})" for part in parts), 1 + max(part[1] for part in parts), depth


def _set(parts: list[Made]) -> Made:
    text = f"[{', '.join(part[0] for part in parts)}]"
    return text, 1 + max(part[1] for part in parts), 1 + max(part[2] for part in parts)


def _choice(parts: list[Made]) -> Made:
    parts = [parts[0], parts[-1]]
    text = f"if {parts[0][0]} then {parts[1][0]} else {parts[0][0]}"
    return text, max(part[1] for part in parts), 1 + max(part[2] for part in parts)


EXPRESSIONS: Final = st.recursive(
    st.sampled_from([("true", 0, 0), ('"(("', 0, 0), ("ifs", 0, 0), ("context.a", 0, 1)]),
    lambda inner: (
        inner.map(lambda made: (f"({made[0]})", made[1] + 1, made[2]))
        | inner.map(lambda made: (f"({made[0]}).a", made[1] + 1, made[2] + 1))
        | st.lists(inner, min_size=1, max_size=3).flatmap(
            lambda parts: st.sampled_from([_row(parts), _set(parts), _choice(parts)])
        )
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_the_depth_that_is_told_is_never_less_than_the_trees(made: Made) -> None:
    text, brackets, depth = made
    found_brackets, found_depth = depths(text)
    assert found_brackets == brackets
    assert found_depth >= depth
