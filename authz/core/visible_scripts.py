"""Characters that look like others: mixed scripts, compatibility forms, odd punctuation, stacked marks.

After Unicode Technical Standard #39 as far as it can be told from the standard library: a word whose letters
are of several scripts ("highly restrictive", 5.2, so Latin beside Chinese, Japanese or Korean is fine), a
word that consists of letters which look Latin and are not, and whatever NFKC turns into ASCII. Letters are
told apart by code point and name where they stand, so nothing depends on a table of pairs being complete.
"""

import re
import unicodedata
from collections import Counter
from enum import StrEnum
from functools import lru_cache
from typing import Final

from authz.core.visible_characters import Kind, own_kind


class Reading(StrEnum):
    """How a text is to be read, and so how much of it is taken for what it looks like."""

    NAME = "name"
    """It names something (a path, a host, a command): only letters of one script stand as they are."""
    TEXT = "text"
    """Prose or data: punctuation and symbols of any language stand as they are where they cannot mislead."""


_WORD: Final = re.compile(r"[^\W_]+")
_EAST_ASIAN: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
_NO_SCRIPT: Final = frozenset({"", "MODIFIER", "COMBINING", "FEMININE", "MASCULINE", "MICRO"})
# Letters of Cyrillic, Greek and Armenian that most fonts draw like a Latin one.
_LOOK_LATIN: Final = frozenset(
    # Cyrillic
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u04cf"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422"
    "\u0423\u0425\u0406\u0408\u0405\u050c\u04ae\u051a\u051c\u04c0"
    # Greek, with lunate sigma and yot
    "\u03b1\u03bf\u03b5\u03bd\u03b9\u03ba\u03c1\u03c4\u03c5\u03c7\u03b3\u03b7\u03c9\u0391\u0392\u0395\u0396"
    "\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f2\u03f3\u03f9\u037f"
    # Armenian
    "\u0585\u057d\u0578\u0566\u0584\u0581\u0570\u0582\u056c\u0555\u054d\u054f\u0548"
)
# Fractions, powers and signs that prose writes in one character, and that nobody takes for another.
_USUAL_IN_TEXT: Final = frozenset("\xaa\xba\xb9\xb2\xb3\xbc\xbd\xbe\u2122\xb5")
# They look like a character that parts names, paths, hosts or options.
_SEPARATORS: Final = frozenset(
    "\u2024\u2025\u2044\u2215\u2236\u2216\u29f5\u29f8\u02d0\ua789\ufe55\ufe52\ufe68\ufe6b\u2223\u01c0\u01c3"
    "\u2010\u2011\u2043\ufe58\ufe63\u201a\u0589\u05c3\u0701\u0702\u066a\u066b\u066c"
)
_MINUS: Final = frozenset("\u2012\u2013\u2014\u2015\u2212")
_ODD_LATIN: Final = re.compile(
    "[\u0131\u0237\u0180-\u01bf\u0250-\u02af\u1d00-\u1dbf\ua720-\ua7ff\uab30-\uab6f]"
)
_OVERLAYS: Final = re.compile("[\u0334-\u0338\u0360-\u0362\u20d0-\u20f0]")
MAX_MARKS: Final = 2
"""On one base: as many as Vietnamese, Hebrew, Arabic and Thai put there."""


def look_alikes(text: str, reading: Reading) -> frozenset[int]:
    """Where in `text` a character looks like another one that would mean something else."""
    if text.isascii():
        return frozenset()
    found = {place for place, char in enumerate(text) if char > "\x7f" and _alike(text, place, char, reading)}
    latin = any("a" <= char.lower() <= "z" for char in text) or reading is Reading.NAME
    for word in _WORD.finditer(text):
        if not word[0].isascii():
            found.update(word.start() + place for place in odd_letters(word[0], beside_latin=latin))
    return frozenset(found)


def odd_letters(word: str, *, beside_latin: bool) -> list[int]:
    """Where in one word stand letters that are not of its main script, or that only look Latin."""
    scripts = [script_of(char) for char in word]
    counts = Counter(script for script in scripts if script not in _NO_SCRIPT)
    if not counts.keys() - {"LATIN"}:
        return [place for place, char in enumerate(word) if _ODD_LATIN.match(char)] if len(word) > 1 else []
    if len(counts) == 1 or (counts.keys() <= _EAST_ASIAN | {"LATIN"}):
        letters = [char for char in word if script_of(char) not in _NO_SCRIPT]
        looks_latin = beside_latin and all(char in _LOOK_LATIN for char in letters)
        return [place for place, char in enumerate(word) if char in _LOOK_LATIN] if looks_latin else []
    # Latin is never the minority: what else stands among Latin letters is what deceives.
    main = "LATIN" if "LATIN" in counts else counts.most_common(1)[0][0]
    return [place for place, script in enumerate(scripts) if script not in _NO_SCRIPT and script != main]


@lru_cache(maxsize=4096)
def script_of(char: str) -> str:
    """The first word of a letter's name, which is its script; empty for what is no letter."""
    if not char.isalpha():
        return ""
    name = unicodedata.name(char, "")
    return name.removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ").partition(" ")[0]


def scripts_in(text: str) -> tuple[str, ...]:
    """The scripts of the letters of `text`, sorted; those of East Asia count as one each."""
    return tuple(sorted({script_of(char) for char in set(text)} - _NO_SCRIPT))


def _alike(text: str, place: int, char: str, reading: Reading) -> bool:
    if own_kind(char) not in (Kind.PLAIN, Kind.RIGHT_TO_LEFT):
        return False
    group = unicodedata.category(char)
    if reading is Reading.NAME and group[0] in "PSN":
        return True
    if group == "Nd" or char in _SEPARATORS:
        return True
    if char in _MINUS:
        # `–force` and `−5`; between words and between numbers a dash is a dash.
        before = text[place - 1] if place else " "
        after = text[place + 1 : place + 2]
        return (before.isspace() or before in "([=,;:") and _is_ascii_word(after)
    return _folds_to_ascii(text, place, char, reading)


def _folds_to_ascii(text: str, place: int, char: str, reading: Reading) -> bool:
    """Whether NFKC makes ASCII of it: full width, mathematical, circled, ligatures, superscripts."""
    folded = _nfkc(char)
    if folded == char or (reading is Reading.TEXT and char in _USUAL_IN_TEXT):
        return False
    if any(_is_ascii_word(part) for part in folded):
        return True
    # Punctuation of full width belongs to East Asian text, and deceives beside ASCII.
    beside = text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
    return folded.isascii() and folded not in ("...", " ") and any(map(_is_ascii_word, beside))


@lru_cache(maxsize=4096)
def _nfkc(char: str) -> str:
    return unicodedata.normalize("NFKC", char)


def _is_ascii_word(char: str) -> bool:
    return char.isascii() and char.isalnum()


def odd_marks(text: str) -> frozenset[int]:
    """Where in `text` a combining mark hides something.

    One without a letter to stand on, one that strikes out or encloses, one on an ASCII letter (`é` in two
    characters is another text than `é` in one), and from the third on in a row.
    """
    if text.isascii():
        return frozenset()
    found = set()
    base = ""
    row = 0
    for place, char in enumerate(text):
        if unicodedata.category(char)[0] != "M":
            base, row = char, 0
            continue
        row += 1
        carries = not base.isascii() and (base.isalpha() or base.isnumeric())
        if not carries or row > MAX_MARKS or _OVERLAYS.match(char) or unicodedata.category(char) == "Me":
            found.add(place)
    return frozenset(found)
