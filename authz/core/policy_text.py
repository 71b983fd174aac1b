"""Rule files as text: where each policy begins, and characters that could hide one (facts of Cedar).

Cedar's parser gives no positions, so a file is split at its top-level semicolons, every piece is
parsed by itself, and `authz.core.policy` requires the pieces to equal the tree of the whole file.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from authz.core.canonical.spelling import has_odd_space, is_invisible
from authz.core.steps import Step, go_on

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
# end a line for one reader only. Anything else that nobody sees makes a literal that reads well and never
# matches.
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

# Scripts with letters that look like those of another of them (Unicode Technical Standard #39).
_ALIKE: Final = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC"})
_PLAIN_LINE: Final = re.compile(r"[\x20-\x7e\t]*")
_ANNOTATION: Final = re.compile(r"@\w+\($")
_ESCAPE: Final = re.compile(r"\\(?:u\{[^}]*\}|.)", re.DOTALL)
_COMPONENT: Final = re.compile(r"[^/\\:.@\s\"]+")
_LONGEST_ANNOTATION: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """One policy's text, from its first annotation to its semicolon."""

    line: int
    """The line of its first token, counted from 1."""
    start: int
    """Where in the file it begins, in characters."""
    text: str

    @property
    def end(self) -> int:
        """Where in the file it ends."""
        return self.start + len(self.text)


def hidden_characters(text: str) -> list[tuple[int, str]]:
    """(line, what) of whatever in a rule file could make a rule look like something else.

    Cedar's escapes are not meant: `"secr\\u{200b}ets"` shows what it holds.
    """
    return sorted([*invisible_characters(text), *_mixed_scripts(text)])


def invisible_characters(text: str) -> list[tuple[int, str]]:
    """(line, what) of every character that nobody sees, or takes for a plain space."""
    found = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not _PLAIN_LINE.fullmatch(line):
            found += [(number, what) for what in map(_hiding, line) if what]
    return found


def _hiding(char: str) -> str:
    """What is wrong with `char`, with its name; empty if nothing is."""
    what = _HIDING.get(char, "")
    if not what and char not in "\t\n":
        if is_invisible(char):
            what = "an invisible character"
        elif has_odd_space(char):
            what = "white space that is not a plain space"
    return f"{what} ({' '.join([f'U+{ord(char):04X}', unicodedata.name(char, '')]).strip()})" if what else ""


def _mixed_scripts(text: str) -> Iterator[tuple[int, str]]:
    """(line, what) of names in strings that mix letters of scripts that look alike.

    A name in one script is never meant, nor one that is written with escapes. Annotations are prose.
    """
    if text.isascii():
        return
    before = ""
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "string":
            if not token[0].isascii() and not _ANNOTATION.search(before):
                line = text.count("\n", 0, token.start()) + 1
                for name in _COMPONENT.findall(_ESCAPE.sub(_gap, token[0])):
                    if spelled := _escaped_minority(name):
                        what = f"letters of several scripts in `{name}`"
                        yield line, f"{what} (if they are meant, write `{spelled}`)"
            before = ""
        elif token.lastgroup == "other":
            before = (before + token[0])[-_LONGEST_ANNOTATION:]
        elif token.lastgroup == "end":
            before = ""


def _gap(escape: re.Match[str]) -> str:
    """What is left of an escape: an escaped letter belongs to its name, a quote or a line end parts two."""
    return "" if escape[0].startswith("\\u") else " "


def _escaped_minority(name: str) -> str:
    """`name` with the letters outside its main script as Cedar escapes; empty if it has one script."""
    scripts = {char: _script(char) for char in name}
    counts = Counter(scripts[char] for char in name if scripts[char] in _ALIKE)
    if len(counts) < 2:
        return ""
    main = max(counts, key=lambda script: (counts[script], script == "LATIN"))
    return "".join(
        f"\\u{{{ord(char):x}}}" if scripts[char] in _ALIKE and scripts[char] != main else char
        for char in name
    )


def _script(char: str) -> str:
    """The first word of the character's name, which for letters is its script."""
    if not char.isalpha():
        return ""
    return unicodedata.name(char, "").removeprefix("FULLWIDTH ").partition(" ")[0]


def split_policies(text: str, step: Step = go_on) -> list[PolicyText]:
    """The policies of a rule file, in order. Text after the last semicolon comes as a last piece."""
    pieces: list[PolicyText] = []
    start: int | None = None
    line, counted = 1, 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind in ("comment", "blank"):
            continue
        if start is None:
            start = token.start()
            line += text.count("\n", counted, start)
            counted = start
        if kind == "end":
            pieces.append(PolicyText(line=line, start=start, text=text[start : token.end()]))
            start = None
            step()
    if start is not None:
        pieces.append(PolicyText(line=line, start=start, text=text[start:]))
    return pieces
