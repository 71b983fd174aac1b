"""One character at a time: which of them deceive the eye, and what they are called (Unicode 14 and later).

Nothing here depends on neighbours; `visible` and `visible_scripts` look at those. Names and categories are
those of the interpreter's Unicode data: a character that is younger than it is shown by its code point, as
unassigned.
"""

import unicodedata
from enum import StrEnum
from functools import lru_cache
from typing import Final

from authz.core.canonical.spelling import is_invisible


class Kind(StrEnum):
    """What a piece of a text is."""

    PLAIN = "plain"
    """Shown as it is, from left to right."""
    RIGHT_TO_LEFT = "right_to_left"
    """Shown as it is, but apart, so that what stands beside it keeps its place."""
    LINE_END = "line_end"
    TAB = "tab"
    SPACE = "space"
    """U+0020 where it could be overlooked: several, or at an end."""
    ODD_SPACE = "odd_space"
    """White space that is not U+0020: no-break, ideographic, em …"""
    CONTROL = "control"
    BIDI = "bidi"
    """It changes the order in which the text around it is displayed."""
    INVISIBLE = "invisible"
    """Format characters, variation selectors, fillers: fonts leave them out."""
    TAG = "tag"
    """U+E0020 to U+E007E spell ASCII text that nobody sees and a model reads."""
    SURROGATE = "surrogate"
    PRIVATE = "private"
    UNASSIGNED = "unassigned"
    MARK = "mark"
    """A combining mark that hides, strikes out or overloads what it stands on."""
    LOOK_ALIKE = "look_alike"
    """It looks like another character that would mean something else here."""
    RESERVED = "reserved"
    """One of the signs by which this service shows all the others."""


LINE_END_SIGN: Final = "\u23ce"
TAB_SIGN: Final = "\u21e5"
RETURN_SIGN: Final = "\u240d"
"""For a carriage return right before a line end."""
SPACE_SIGN: Final = "\u2423"
OPENING: Final = "\u27e8"
CLOSING: Final = "\u27e9"
_RESERVED: Final = frozenset({LINE_END_SIGN, TAB_SIGN, RETURN_SIGN, SPACE_SIGN, OPENING, CLOSING})

_BIDI: Final = frozenset(map(chr, (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
# Symbols that fonts draw as a blank, or as a box that stands for something else.
_BLANK_SYMBOLS: Final = frozenset("\u2800\U0001d159\ufffc")
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})
_BY_CATEGORY: Final = {
    "Cc": Kind.CONTROL,
    "Cs": Kind.SURROGATE,
    "Co": Kind.PRIVATE,
    "Cn": Kind.UNASSIGNED,
    "Zs": Kind.ODD_SPACE,
    "Zl": Kind.LINE_END,
    "Zp": Kind.LINE_END,
}
_UNNAMED: Final = {
    "Cc": "CONTROL",
    "Cs": "LONE SURROGATE",
    "Co": "PRIVATE USE",
    "Cn": "UNASSIGNED",
}
# The Unicode Character Database has no names for controls; these are its aliases (NameAliases.txt).
_C0: Final = (
    "NULL,START OF HEADING,START OF TEXT,END OF TEXT,END OF TRANSMISSION,ENQUIRY,ACKNOWLEDGE,ALERT,BACKSPACE,"
    "CHARACTER TABULATION,LINE FEED,LINE TABULATION,FORM FEED,CARRIAGE RETURN,SHIFT OUT,SHIFT IN,"
    "DATA LINK ESCAPE,DEVICE CONTROL ONE,DEVICE CONTROL TWO,DEVICE CONTROL THREE,DEVICE CONTROL FOUR,"
    "NEGATIVE ACKNOWLEDGE,SYNCHRONOUS IDLE,END OF TRANSMISSION BLOCK,CANCEL,END OF MEDIUM,SUBSTITUTE,ESCAPE,"
    "INFORMATION SEPARATOR FOUR,INFORMATION SEPARATOR THREE,INFORMATION SEPARATOR TWO,"
    "INFORMATION SEPARATOR ONE"
).split(",")
_C1: Final = (
    "DELETE,PADDING CHARACTER,HIGH OCTET PRESET,BREAK PERMITTED HERE,NO BREAK HERE,INDEX,NEXT LINE,"
    "START OF SELECTED AREA,END OF SELECTED AREA,CHARACTER TABULATION SET,"
    "CHARACTER TABULATION WITH JUSTIFICATION,LINE TABULATION SET,PARTIAL LINE FORWARD,PARTIAL LINE BACKWARD,"
    "REVERSE LINE FEED,SINGLE SHIFT TWO,SINGLE SHIFT THREE,DEVICE CONTROL STRING,PRIVATE USE ONE,"
    "PRIVATE USE TWO,SET TRANSMIT STATE,CANCEL CHARACTER,MESSAGE WAITING,START OF GUARDED AREA,"
    "END OF GUARDED AREA,START OF STRING,SINGLE GRAPHIC CHARACTER INTRODUCER,SINGLE CHARACTER INTRODUCER,"
    "CONTROL SEQUENCE INTRODUCER,STRING TERMINATOR,OPERATING SYSTEM COMMAND,PRIVACY MESSAGE,"
    "APPLICATION PROGRAM COMMAND"
).split(",")


@lru_cache(maxsize=4096)
def own_kind(char: str) -> Kind:
    """What a character is by itself. Marks, letters and symbols are plain here."""
    if "!" <= char <= "~":
        return Kind.PLAIN
    if char in " \t\n":
        return {" ": Kind.SPACE, "\t": Kind.TAB, "\n": Kind.LINE_END}[char]
    if char in _RESERVED:
        return Kind.RESERVED
    if char in _BIDI:
        return Kind.BIDI
    if "\U000e0020" <= char <= "\U000e007e":
        return Kind.TAG
    category = unicodedata.category(char)
    if category in _BY_CATEGORY:
        # What is reserved for more format characters is left out by fonts, too.
        ignorable = category == "Cn" and is_invisible(char)
        return Kind.INVISIBLE if ignorable else _BY_CATEGORY[category]
    if is_invisible(char) or char in _BLANK_SYMBOLS:
        return Kind.INVISIBLE
    return Kind.RIGHT_TO_LEFT if unicodedata.bidirectional(char) in _RIGHT_TO_LEFT else Kind.PLAIN


def name_of(char: str) -> str:
    """The character's name in capitals; for one that has none, what it is."""
    code = ord(char)
    if code < 0x20:
        return _C0[code]
    if 0x7F <= code < 0xA0:
        return _C1[code - 0x7F]
    return unicodedata.name(char, "") or _UNNAMED.get(unicodedata.category(char), "UNNAMED")


def code_point(char: str) -> str:
    """`U+202E`."""
    return f"U+{ord(char):04X}"


def spelled_out(char: str, count: int = 1) -> str:
    """`⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩`, with ` ×500` where it stands so many times."""
    times = f" \u00d7{count}" if count > 1 else ""
    return f"{OPENING}{code_point(char)} {name_of(char)}{times}{CLOSING}"
