"""Long values: what is shown at once, and what a person has to open (spec section 8).

Folding is data, and only the place of the fold is decided here: the whole value stays in the document. What
names or commands something is never folded, however long, because the harm may stand in its middle.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

FOLDED_ROLES: Final = frozenset({"payload", "credential", "undeclared"})
MAX_UNFOLDED_CHARACTERS: Final = 2000
MAX_UNFOLDED_LINES: Final = 40
HEAD_CHARACTERS: Final = 800
TAIL_CHARACTERS: Final = 400
HEAD_LINES: Final = 16
TAIL_LINES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A long text with its middle folded away. `must_open`: nobody can say yes without having opened it."""

    shown_head: str
    hidden_characters: int
    shown_tail: str
    true_length: int
    """In characters (code points)."""
    lines: int
    digest: str
    """`sha256:` of the whole text in UTF-8."""
    must_open: bool = True


def fold(text: str, role: str) -> Folded | None:
    """How a value of that role is folded; `None` when all of it is shown."""
    lines = line_count(text)
    if role not in FOLDED_ROLES or (len(text) <= MAX_UNFOLDED_CHARACTERS and lines <= MAX_UNFOLDED_LINES):
        return None
    head = _first(text, HEAD_CHARACTERS, HEAD_LINES)
    tail = _first(text[::-1], TAIL_CHARACTERS, TAIL_LINES)[::-1]
    if len(head) + len(tail) >= len(text):
        return None
    return Folded(
        shown_head=head,
        hidden_characters=len(text) - len(head) - len(tail),
        shown_tail=tail,
        true_length=len(text),
        lines=lines,
        digest=text_digest(text),
    )


def line_count(text: str) -> int:
    """Lines as an editor counts them: what stands behind the last line end is one as well."""
    return text.count("\n") + 1


def text_digest(text: str) -> str:
    """`sha256:` over the UTF-8 form; a lone surrogate counts as the three bytes that it would have."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _first(text: str, characters: int, lines: int) -> str:
    """At most so many characters of at most so many lines from the front."""
    start = text[:characters]
    end = -1
    for _ in range(lines):
        end = start.find("\n", end + 1)
        if end < 0:
            return start
    return start[:end]
