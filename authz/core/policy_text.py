"""Rule files as text: where each policy begins, and characters that could hide one (facts of Cedar).

Cedar's parser gives no positions, so a file is split at its top-level semicolons, every piece is
parsed by itself, and `authz.core.policy` requires the pieces to equal the tree of the whole file.
"""

import re
from dataclasses import dataclass
from typing import Final

_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<end>;)
    | (?P<blank>\s+)
    | (?P<other>[^;"/\s]+|/|")
    """,
    re.VERBOSE | re.DOTALL,
)

# U+202A-E and U+2066-9 reorder what a reviewer sees; a bare CR ends a Cedar comment, so that what
# follows it is a rule where an editor shows a comment; a BOM, U+2028-9 and C1 controls are invisible or
# end a line for one reader only.
_HIDING: Final = {
    "\r": "a carriage return (a bare CR ends a comment and can hide a rule)",
    "\ufeff": "a byte order mark",
    "\u2028": "a line separator",
    "\u2029": "a paragraph separator",
    "\u200e": "a bidirectional control",
    "\u200f": "a bidirectional control",
    "\u061c": "a bidirectional control",
    **{chr(code): "a bidirectional control" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    **{chr(code): "a control character" for code in (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20))},
    **{chr(code): "a control character" for code in range(0x7F, 0xA0)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """One policy's text, from its first annotation to its semicolon."""

    line: int
    """The line of its first token, counted from 1."""
    text: str


def hidden_characters(text: str) -> list[tuple[int, str]]:
    """(line, what) of every character that could make a rule look like something else."""
    found = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        found += [(number, _HIDING[char]) for char in line if char in _HIDING]
    return found


def split_policies(text: str) -> list[PolicyText]:
    """The policies of a rule file, in order. Text after the last semicolon comes as a last piece."""
    pieces: list[PolicyText] = []
    start: int | None = None
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind in ("comment", "blank"):
            continue
        if start is None:
            start = token.start()
        if kind == "end":
            pieces.append(_piece(text, start, token.end()))
            start = None
    if start is not None:
        pieces.append(_piece(text, start, len(text)))
    return pieces


def _piece(text: str, start: int, end: int) -> PolicyText:
    return PolicyText(line=text.count("\n", 0, start) + 1, text=text[start:end])
