"""Values in a terminal: behind a label and a bar, wrapped so that no end of a line hides anything."""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from authz.core.visible import Piece, right_to_left
from authz.core.visible_characters import SPACE_SIGN, Kind

LABEL_WIDTH: Final = 12
BAR: Final = "\u2502"
WRAP_BAR: Final = "\u2506"
MAX_MOVED: Final = 24
"""Characters of a word that may be taken over to the next line."""
MAX_ISOLATED: Final = 16
"""Characters of a right-to-left run between one pair of marks."""


class Words(Piece):
    """A piece that nobody else chose: where it is wrapped, a space is only a space."""

    __slots__ = ()


def behind_bar(label: str, parts: Sequence[Piece], *, width: int) -> Iterator[str]:
    """The lines of one value. A line end is printed as its sign; a long line goes on after another bar."""
    page = _Page(label, width - LABEL_WIDTH - 3)
    for part in chain.from_iterable(map(_isolated, parts)):
        # A description stays whole where a line can hold it, and so do the marks around what is
        # right-to-left.
        length = sum(map(cells_of, part.spelled))
        if part.made_visible and page.used + length > page.room >= length:
            page.wrap()
        described = part.made_visible and part.kind is not Kind.RIGHT_TO_LEFT
        for char in part.spelled:
            page.put(char, own=described or isinstance(part, Words))
        if part.ends_line:
            page.end(BAR)
    if page.line or not page.lines:
        page.end(BAR)
    return iter(page.lines)


def _isolated(part: Piece) -> Iterator[Piece]:
    """A long right-to-left run in parts that fit on a line, so that none begins without its mark."""
    if part.kind is not Kind.RIGHT_TO_LEFT:
        yield part
        return
    start = 0
    while start < len(part.text):
        end = start + MAX_ISOLATED
        while unicodedata.category(part.text[end : end + 1] or "x")[0] == "M":
            end += 1
        yield right_to_left(part.text[start:end])
        start = end


class _Page:
    """Lines behind a bar, filled character by character."""

    __slots__ = ("bar", "label", "line", "lines", "owned", "room", "used")

    def __init__(self, label: str, room: int) -> None:
        self.label = label
        self.room = room
        self.bar = BAR
        self.lines: list[str] = []
        self.line: list[str] = []
        self.owned: list[bool] = []
        self.used = 0

    def put(self, char: str, *, own: bool) -> None:
        """One more character, on a new line where this one is full."""
        cells = cells_of(char)
        if self.used + cells > self.room:
            self.wrap()
        if char == " " and not own and not self.line and self.bar is WRAP_BAR:
            char = SPACE_SIGN
        self.line.append(char)
        self.owned.append(own)
        self.used += cells

    def wrap(self) -> None:
        """Go on below, at a word's end if one is near. A value's space at the cut is shown by its sign."""
        cut = len(self.line)
        for place in range(cut - 1, max(cut - MAX_MOVED, 0), -1):
            if self.line[place] == " ":
                cut = place + 1
                break
        rest, owned = self.line[cut:], self.owned[cut:]
        self.line, self.owned = self.line[:cut], self.owned[:cut]
        if self.line and self.line[-1] == " " and not self.owned[-1]:
            self.line[-1] = SPACE_SIGN
        self.end(WRAP_BAR)
        self.line, self.owned = rest, owned
        self.used = sum(map(cells_of, rest))

    def end(self, bar: str) -> None:
        """Finish the line; the next one begins with `bar`."""
        self.lines.append(f"{self.label:>{LABEL_WIDTH}} {self.bar} {''.join(self.line)}")
        self.label, self.bar, self.line, self.owned, self.used = "", bar, [], [], 0


@lru_cache(maxsize=4096)
def cells_of(char: str) -> int:
    """How many cells of a terminal a character takes at most (Unicode Standard Annex #11)."""
    if char.isascii():
        return 1
    narrow = unicodedata.east_asian_width(char) in ("N", "Na", "H")
    return 1 if narrow and char < "\U00010000" else 2
