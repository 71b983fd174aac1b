"""Text that somebody else chose, as a tired person can read it truthfully (spec section 8).

`pieces` takes any string apart into what is shown as it is and what has to be made visible: controls,
direction, what fonts leave out, blanks that could be overlooked, look-alikes. Renderers print the pieces,
each in its way; the plain one is `spelled`. Nothing is dropped: the pieces give the string back, and so does
the spelling alone, since the few signs that it uses are themselves spelled out where a string holds them.
Repeats are counted.

What is printed of a piece never holds a character that could act on the reader's terminal or on the direction
of text. A right-to-left run stands between marks of Latin letters, so that no display moves its neighbours.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from authz.core.visible_characters import (
    CLOSING,
    LINE_END_SIGN,
    OPENING,
    RETURN_SIGN,
    SPACE_SIGN,
    TAB_SIGN,
    Kind,
    own_kind,
    spelled_out,
)
from authz.core.visible_scripts import Reading, look_alikes, odd_marks

MAX_REPEATED_SIGNS: Final = 8
"""Blanks of one kind in a row that are shown one by one; more are counted."""
RIGHT_TO_LEFT_BEGIN: Final = f"{OPENING}right-to-left{CLOSING}"
RIGHT_TO_LEFT_END: Final = f"{OPENING}end{CLOSING}"
_PLAIN_RUN: Final = re.compile(r"[!-~]+(?: [!-~]+)*")
_BREAKS: Final = "\n\t\r"
_SIGNS: Final = {
    Kind.LINE_END: (LINE_END_SIGN, "line ends"),
    Kind.TAB: (TAB_SIGN, "tabs"),
    Kind.SPACE: (SPACE_SIGN, "spaces"),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one kind. `text` is what stands in the string, `spelled` what is printed for it."""

    kind: Kind
    text: str
    spelled: str

    @property
    def ends_line(self) -> bool:
        """Whether a renderer of several lines goes on with a new one after this."""
        return self.kind is Kind.LINE_END

    @property
    def made_visible(self) -> bool:
        """Whether what is printed is a description and not the text itself."""
        return self.spelled != self.text


def pieces(text: str, reading: Reading = Reading.TEXT) -> tuple[Piece, ...]:
    """All of `text`, in order: `"".join(piece.text for piece in pieces(text)) == text`."""
    found: list[Piece] = []
    plain: list[str] = []
    for piece in _runs(text, reading):
        if piece.kind is Kind.PLAIN:
            plain.append(piece.text)
            continue
        if plain:
            found.append(_plain("".join(plain)))
            plain.clear()
        found.append(piece)
    if plain:
        found.append(_plain("".join(plain)))
    return tuple(found)


def spelled(text: str, reading: Reading = Reading.TEXT) -> str:
    """`text` on one line: plain as it is, the rest by its signs. Different texts have different spellings."""
    return "".join(piece.spelled for piece in pieces(text, reading))


def _runs(text: str, reading: Reading) -> Iterator[Piece]:
    alike = look_alikes(text, reading)
    marks = odd_marks(text)
    place = 0
    while place < len(text):
        run = _PLAIN_RUN.match(text, place)
        if run:
            yield _plain(run[0])
            place = run.end()
            continue
        kind = _kind_at(text, place, alike, marks)
        end = _end_of(text, place, kind, alike, marks)
        yield _piece(kind, text, place, end)
        place = end


def _kind_at(text: str, place: int, alike: frozenset[int], marks: frozenset[int]) -> Kind:
    if place in alike:
        return Kind.LOOK_ALIKE
    if place in marks and own_kind(text[place]) in (Kind.PLAIN, Kind.RIGHT_TO_LEFT):
        return Kind.MARK
    return own_kind(text[place])


def _end_of(text: str, place: int, kind: Kind, alike: frozenset[int], marks: frozenset[int]) -> int:
    """Where the run that begins at `place` ends: of one kind, and of one character unless it can be read."""
    end = place + 1
    if kind is Kind.RIGHT_TO_LEFT:
        while end < len(text):
            # Marks on its letters belong to it, and single spaces between its words.
            after = end + 1 if text[end] == " " else end
            if after == len(text) or after in alike or after in marks:
                break
            is_mark = after == end and unicodedata.category(text[after])[0] == "M"
            if own_kind(text[after]) is not kind and not is_mark:
                break
            end = after + 1
        return end
    if kind in (Kind.PLAIN, Kind.TAG):
        while end < len(text) and _kind_at(text, end, alike, marks) is kind:
            end += 1
        return end
    while end < len(text) and text[end] == text[place] and _kind_at(text, end, alike, marks) is kind:
        end += 1
    return end


def _piece(kind: Kind, text: str, place: int, end: int) -> Piece:
    own = text[place:end]
    if kind is Kind.PLAIN:
        return _plain(own)
    if kind is Kind.RIGHT_TO_LEFT:
        return right_to_left(own)
    if kind is Kind.SPACE and len(own) == 1 and _parts_words(text, place):
        return _plain(own)
    if kind in _SIGNS and own[0] in " \t\n":
        sign, words = _SIGNS[kind]
        shown = sign * len(own) if len(own) <= MAX_REPEATED_SIGNS else f"{OPENING}{len(own)} {words}{CLOSING}"
        return Piece(kind, own, shown)
    if own == "\r" and text[end : end + 1] == "\n":
        return Piece(kind, own, RETURN_SIGN)
    if kind is Kind.TAG:
        # Every tag character but the last stands for one of ASCII.
        hidden = "".join(chr(ord(char) - 0xE0000) for char in own)
        return Piece(kind, own, f"{OPENING}{len(own)} invisible tag characters: {hidden}{CLOSING}")
    return Piece(kind, own, spelled_out(own[0], len(own)))


def right_to_left(text: str) -> Piece:
    """A run that is read from right to left, between its marks."""
    return Piece(Kind.RIGHT_TO_LEFT, text, f"{RIGHT_TO_LEFT_BEGIN}{text}{RIGHT_TO_LEFT_END}")


def _parts_words(text: str, place: int) -> bool:
    """Whether the single space at `place` stands between two things that can be seen."""
    return 0 < place < len(text) - 1 and text[place - 1] not in _BREAKS and text[place + 1] not in _BREAKS


def _plain(text: str) -> Piece:
    return Piece(Kind.PLAIN, text, text)
