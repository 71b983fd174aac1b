"""How deeply the text of a rule is nested, told before Cedar reads it.

Cedar's parser goes down as deep as a text does and has no bound of its own: some hundred brackets inside one
another, or a few thousand operators in a row, end the process. So the depth is told from the text alone.
"""

import re
from dataclasses import dataclass
from typing import Final

MAX_BRACKETS: Final = 64
"""Inside one another. Cedar's parser ends the process at about 500 to 700."""
MAX_DEPTH: Final = 512
"""Of brackets, and operators that each hold the one before. Cedar's parser ends the process at about 2,000,
and an expression of over about 125 is refused by its conversion to a tree."""

_DEEPENS: Final = re.compile(r"[(\[{.+*-]|&&|\|\||\bif\b")
_TOKEN: Final = re.compile(
    r"""
      (?P<skip>//[^\n]*|"(?:[^"\\]|\\.)*"|\s+)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<operator>&&|\|\||[+*-]|\bif\b)
    | (?P<member>\.)
    | (?P<apart>[,;])
    | (?P<compares>[=<>!])
    | (?P<other>\w+|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(slots=True)
class _Level:
    """What stands between two brackets, up to the comma at hand."""

    operators: int = 0
    members: int = 0
    """Of the value at hand: `.a`, `["a"]` and `.f()` each hold the ones before."""
    longest: int = 0
    inner: int = 0
    deepest: int = 0
    """Of what stands before the comma."""

    def end_value(self) -> None:
        self.longest = max(self.longest, self.members)
        self.members = 0

    def end_part(self) -> int:
        self.end_value()
        self.deepest = max(self.deepest, self.operators + self.longest + self.inner)
        self.operators = self.longest = self.inner = 0
        return self.deepest


def too_deep(policy: str) -> str:
    """What about a rule's text is too deep for Cedar's parser, in words; empty if nothing is."""
    if len(_DEEPENS.findall(policy)) <= MAX_BRACKETS:
        return ""
    brackets, depth = depths(policy)
    if brackets > MAX_BRACKETS:
        return f"brackets stand {brackets:,} deep inside one another, over {MAX_BRACKETS}"
    if depth > MAX_DEPTH:
        return f"the rule is nested {depth:,} deep, over {MAX_DEPTH}: every operator in a row counts"
    return ""


def depths(policy: str) -> tuple[int, int]:
    """(brackets inside one another, upper bound of the depth of the tree) of a rule's text."""
    levels, brackets = [_Level()], 0
    for token in _TOKEN.finditer(policy):
        level = levels[-1]
        match token.lastgroup:
            case "open":
                level.members += 1
                levels.append(_Level())
                brackets = max(brackets, len(levels) - 1)
            case "close" if len(levels) > 1:
                _close(levels)
            case "operator":
                level.operators += 1
                level.end_value()
            case "member":
                level.members += 1
            case "compares":
                level.end_value()
            case "apart":
                level.end_part()
            case _:
                pass
    while len(levels) > 1:
        _close(levels)
    return brackets, levels[0].end_part()


def _close(levels: list[_Level]) -> None:
    inner = levels.pop().end_part()
    levels[-1].inner = max(levels[-1].inner, inner + 1)
