"""What a person should know of a text before reading it, in words (spec section 8).

A warning's words are this service's own; what it quotes of the text has been made visible. No warning
replaces the text: whatever a list of signs here does not know is still shown by `visible.pieces`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from authz.core.visible import Piece, pieces, spelled
from authz.core.visible_characters import Kind, name_of
from authz.core.visible_hosts import Host, odd_hosts
from authz.core.visible_scripts import Reading, scripts_in


class Sign(StrEnum):
    """What is odd about a text. Closed: pages choose their symbols by it."""

    EMPTY = "empty"
    BLANK = "blank"
    DIRECTION = "direction"
    CONTROL = "control"
    TERMINAL = "terminal"
    INVISIBLE = "invisible"
    HIDDEN_TEXT = "hidden_text"
    ODD_SPACES = "odd_spaces"
    SPACES = "spaces"
    LOOK_ALIKE = "look_alike"
    SCRIPTS = "scripts"
    RIGHT_TO_LEFT = "right_to_left"
    MARKS = "marks"
    NORMALIZATION = "normalization"
    HOST = "host"
    ENCODED = "encoded"
    MARKUP = "markup"
    IMITATION = "imitation"


@dataclass(frozen=True, slots=True)
class Warning:  # noqa: A001  (the word that people know)
    """One warning, in a sentence without a final period."""

    sign: Sign
    message: str


MANY_BLANKS: Final = 8
MAX_NAMES: Final = 5
_TERMINAL: Final = re.compile("\x1b|[\x90\x98\x9b\x9d\x9e\x9f]")
_ENCODED: Final = re.compile(r"%(?:25)*(?:2[fFeE]|5[cC]|00|0[aAdD]|40|3[aA])")
_MARKUP: Final = re.compile(
    r"<[A-Za-z/!?][^<>]{0,200}>?|&(?:\#\w+|\w+);"
    r"|!?\[[^\[\]\n]{0,200}\]\(|^[ ]{0,3}(?:```|\#{1,6}[ ])|javascript:",
    re.MULTILINE,
)
# Words of this service's own pages, and of whoever would like to speak for it.
# Every gap is bounded, so that no text is searched in more than linear time.
_IMITATION: Final = re.compile(
    r"(?:(?:approved|authori[sz]ed|verified|confirmed|reviewed|signed[- ]off)\s{1,8}by\b"
    r"|already\s{1,8}(?:approved|authori[sz]ed)|no\s{1,8}approval\s{1,8}(?:is\s{1,8})?(?:needed|required)"
    r"|(?:ignore|disregard|forget)\s{1,8}(?:all\s{1,8}|any\s{1,8})?(?:previous|prior|above|the\s{1,8}above)"
    r"|(?:click|press|say|choose|select)\s{1,8}[\"'`]?(?:approve|allow|yes)\b"
    r"|system\s{0,8}(?:message|notice|prompt)?\s{0,8}:|this\s{1,8}(?:action|call|request)\s{1,8}is\s{1,8}(?:safe|harmless))",
    re.IGNORECASE,
)
_COUNTED: Final = (
    (Kind.BIDI, Sign.DIRECTION, "characters that would change the order in which the text is displayed"),
    (Kind.CONTROL, Sign.CONTROL, "control characters, which print nothing"),
    (Kind.INVISIBLE, Sign.INVISIBLE, "characters that nobody can see"),
    (Kind.PRIVATE, Sign.INVISIBLE, "characters of private use, without a meaning of their own"),
    (Kind.UNASSIGNED, Sign.INVISIBLE, "characters that Unicode has not assigned"),
    (Kind.SURROGATE, Sign.CONTROL, "lone surrogates, which are half a character"),
    (Kind.ODD_SPACE, Sign.ODD_SPACES, "characters that look like a space and are none"),
    (Kind.MARK, Sign.MARKS, "marks that strike out, overload or change what they stand on"),
    (Kind.LOOK_ALIKE, Sign.LOOK_ALIKE, "characters that look like others"),
)


def warnings(
    text: str, reading: Reading = Reading.TEXT, found: tuple[Piece, ...] | None = None
) -> tuple[Warning, ...]:
    """What is odd about `text`; `found` are its pieces, where they are known already."""
    parts = found if found is not None else pieces(text, reading)
    return tuple(_of_text(text, parts, reading))


def is_blank(text: str) -> bool:
    """Whether nothing of `text` can be seen: an approval of it would be one of nothing."""
    return _shows_nothing(pieces(text))


def _shows_nothing(parts: tuple[Piece, ...]) -> bool:
    return not any(part.kind in _SEEN for part in parts)


_SEEN: Final = (Kind.PLAIN, Kind.RIGHT_TO_LEFT, Kind.LOOK_ALIKE, Kind.MARK, Kind.RESERVED)


def _of_text(text: str, parts: tuple[Piece, ...], reading: Reading) -> Iterator[Warning]:
    if not text:
        yield Warning(Sign.EMPTY, "the value is empty")
        return
    if _shows_nothing(parts):
        yield Warning(Sign.BLANK, "nothing of the value can be seen")
    counts: Counter[Kind] = Counter()
    for part in parts:
        counts[part.kind] += len(part.text)
    for kind, sign, words in _COUNTED:
        # A carriage return before a line end is how half of the world ends lines.
        count = counts[kind] - (text.count("\r\n") if kind is Kind.CONTROL else 0)
        if count:
            yield Warning(sign, f"{words}: {count} ({_names(parts, kind)})")
    if controls := len(_TERMINAL.findall(text)):
        yield Warning(Sign.TERMINAL, f"sequences by which terminals are controlled: {controls}")
    for part in parts:
        if part.kind is Kind.TAG:
            yield Warning(Sign.HIDDEN_TEXT, f"hidden text: {part.spelled}")
    yield from _of_blanks(text, parts)
    yield from _of_letters(text, counts, reading)
    yield from _of_hosts(text)
    if encoded := len(_ENCODED.findall(text)):
        yield Warning(Sign.ENCODED, f"percent-encoded separators (`%2F`, `%2E` and the like): {encoded}")
    if _MARKUP.search(text):
        yield Warning(Sign.MARKUP, "markup, which is shown as it stands and means nothing here")
    if _IMITATION.search(text):
        yield Warning(
            Sign.IMITATION, "it speaks of approval or gives instructions: that is the value's own text"
        )


def _names(parts: tuple[Piece, ...], kind: Kind) -> str:
    """What the characters of that kind are called; the first few, and how many more there are."""
    names = list(dict.fromkeys(name_of(part.text[0]) for part in parts if part.kind is kind))
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _of_blanks(text: str, parts: tuple[Piece, ...]) -> Iterator[Warning]:
    if leading := len(text) - len(text.lstrip(" ")):
        yield Warning(Sign.SPACES, f"it begins with {leading} space{'s' if leading > 1 else ''}")
    if len(text) > leading and (trailing := len(text) - len(text.rstrip(" "))):
        yield Warning(Sign.SPACES, f"it ends with {trailing} space{'s' if trailing > 1 else ''}")
    blank = (Kind.SPACE, Kind.LINE_END, Kind.TAB, Kind.ODD_SPACE)
    longest = 0
    run = 0
    for part in parts:
        run = run + len(part.text) if part.kind in blank else 0
        longest = max(longest, run)
    if longest > MANY_BLANKS:
        yield Warning(Sign.SPACES, f"more text stands behind blanks, up to {longest} in a row")


def _of_letters(text: str, counts: Counter[Kind], reading: Reading) -> Iterator[Warning]:
    if counts[Kind.RIGHT_TO_LEFT]:
        yield Warning(
            Sign.RIGHT_TO_LEFT, "parts of it are read from right to left; they stand in their place"
        )
    if text.isascii():
        return
    scripts = scripts_in(text)
    if len(scripts) > 1 or (reading is Reading.NAME and scripts not in ((), ("LATIN",))):
        yield Warning(Sign.SCRIPTS, f"letters of these scripts: {', '.join(scripts).lower()}")
    if not unicodedata.is_normalized("NFC", text):
        yield Warning(Sign.NORMALIZATION, "another text looks exactly like it (it is not in Unicode NFC)")


def _of_hosts(text: str) -> Iterator[Warning]:
    hosts = odd_hosts(text)
    for host in hosts.found:
        yield Warning(Sign.HOST, _host_words(host))
    if hosts.more:
        yield Warning(Sign.HOST, f"{hosts.more} or more odd hosts are not listed here")


def _host_words(host: Host) -> str:
    written = spelled(host.written, Reading.NAME)
    if not host.a_label:
        return f"`{written}` names no host"
    if host.u_label != host.a_label:
        readable = spelled(host.u_label, Reading.NAME)
        if host.written.lower() == host.a_label:
            return f"the host `{written}` is in letters {readable}"
        return f"`{written}` leads to the host {host.a_label}, in letters {readable}"
    return f"`{written}` leads to the host {host.a_label}"
