"""The shown document in a few lines for a webhook, in the form that Slack takes (spec section 8).

A summary leaves a message in somebody else's system. So it names what is touched, and tells of data that goes
along only how much it is; a person decides on the page, and the summary says what it left out. Values stand
as code, made visible and escaped: they can mention nobody, link nowhere and end no code.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from authz.core.redact import CLEAR_ROLES, looks_secret
from authz.core.rendering_words import counted, effect_words, number_words, reading_of, undo_words, value_text
from authz.core.shown_types import Part, ShownArgument, ShownDocument
from authz.core.visible import pieces
from authz.core.visible_characters import spelled_out
from authz.core.visible_scripts import Reading
from authz.core.visible_warnings import Sign, warnings

MIN_LIMIT: Final = 1500
_CLOSING_ROOM: Final = 420
_MAX_VALUE: Final = 400
_MIN_VALUE: Final = 60
_LOOKED_AT: Final = 4000
"""Characters at each end of a value that are looked at."""
_MOST_LISTED: Final = 100
"""Arguments that are given a line, and accesses whose hosts are looked at."""
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": spelled_out("`")}
# Blanks and plain markup are ordinary in prose; these are worth a word before the page is opened.
_ODD: Final = frozenset(Sign) - {Sign.SPACES, Sign.MARKUP, Sign.EMPTY, Sign.SCRIPTS, Sign.RIGHT_TO_LEFT}


def render_summary(document: ShownDocument, limit: int) -> str:
    """At most `limit` characters. Raises `ValueError` below 1500: less than that could mislead."""
    if limit < MIN_LIMIT:
        raise ValueError(
            f"a summary of `{limit}` characters would leave out too much, give {MIN_LIMIT} or more"
        )
    # Every value may take an equal part; what is cut says by how much.
    room = max(_MIN_VALUE, min(_MAX_VALUE, limit // 20))
    told = ["An approval is asked for."]
    left = max(len(document["arguments"]) - _MOST_LISTED, 0)
    used = len(told[0]) + 1
    secret = _secret_values(document)
    headline, cut_parts = _headline(document["headline"], room, limit // 3, secret)
    for line in (headline, *_lines(document, room, secret)):
        if used + len(line) + 1 > limit - _CLOSING_ROOM:
            left += 1
            continue
        told.append(line)
        used += len(line) + 1
    told.append(_closing(document, left, cut_parts))
    return "\n".join(told)


def render_headline(document: ShownDocument, limit: int) -> str:
    """What will happen, in one line of about `limit` characters, escaped as the summary is."""
    room = max(_MIN_VALUE, min(_MAX_VALUE, limit // 3))
    return _headline(document["headline"], room, limit, _secret_values(document))[0]


def escaped(text: str) -> str:
    """What Slack would read as its own (`&`, `<`, `>`) as it asks for it, and the sign that ends code spelled
    out.
    """
    return "".join(_ESCAPES.get(char, char) for char in text)


def unescaped(text: str) -> str:
    """`escaped` backwards but for the sign that ends code: for a receiver that takes text as it is."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def value_as_code(text: str, room: int, reading: Reading = Reading.NAME) -> str:
    """A value as code, escaped. Of a long one the beginning and the end stand, and how much is missing."""
    if not text:
        return "(empty)"
    head_text, tail_text = _ends(text)
    parts = _single(head_text, reading)
    spelled = [escaped(part.spelled) for part in parts]
    if not tail_text and sum(map(len, spelled)) <= room:
        return f"`{''.join(spelled)}`"
    tail_parts = _single(tail_text, reading) if tail_text else parts
    tail_spelled = [escaped(part.spelled) for part in tail_parts]
    head = _fitting(spelled, room * 2 // 3)
    tail = _fitting(tail_spelled[::-1], room // 3)
    # Of each piece one character stands in the text, but for those that stand for a run.
    shown = sum(len(part.text) for part in [*parts[:head], *tail_parts[len(tail_parts) - tail :]])
    middle = f"({len(text) - shown:,} of {counted(len(text), 'character')} are not shown here)"
    return f"`{''.join(spelled[:head])}` {middle} `{''.join(tail_spelled[len(tail_spelled) - tail :])}`"


def _ends(text: str) -> tuple[str, str]:
    """All of a text, or its beginning and its end: a decision waits for this, so it is bounded."""
    if len(text) <= 2 * _LOOKED_AT:
        return text, ""
    return text[:_LOOKED_AT], text[-_LOOKED_AT:]


class _One:
    """One printed sign of a value, and the text that it stands for."""

    __slots__ = ("spelled", "text")

    def __init__(self, text: str, spelled: str) -> None:
        self.text = text
        self.spelled = spelled


def _single(text: str, reading: Reading) -> list[_One]:
    """The pieces of a value, plain ones sign by sign, so that a cut never splits a description."""
    found: list[_One] = []
    for part in pieces(text, reading):
        if part.made_visible:
            found.append(_One(part.text, part.spelled))
        else:
            found += [_One(char, char) for char in part.text]
    return found


def _fitting(parts: list[str], room: int) -> int:
    """How many parts from the front fit; one at least, so that what is shown is never nothing."""
    used = 0
    for count, part in enumerate(parts):
        used += len(part)
        if used > room:
            return max(count, 1 if len(part) <= 2 * _MIN_VALUE else 0)
    return len(parts)


def _secret_values(document: ShownDocument) -> frozenset[str]:
    """What names a resource and came from a secret argument: only the page shows it."""
    found: set[str] = set()
    places: set[str] = set()
    for argument in document["arguments"]:
        if argument["secret"]:
            found.add(value_text(argument))
            place = argument["pointer"]
            while place:
                places.add(place)
                place = place.rpartition("/")[0]
    for access in document["accesses"]:
        if access["argument"] in places:
            found |= {access["value"], access["uri"], *access["beneath"]}
    return frozenset(found)


def _headline(parts: Iterable[Part], room: int, most: int, secret: frozenset[str]) -> tuple[str, int]:
    """The sentence, and how many parts of it did not fit."""
    told: list[str] = []
    used = cut = 0
    for part in parts:
        text = part["words"] if "words" in part else _name(part["value"], room, secret)
        if cut or used + len(text) > most:
            cut += 1
            continue
        told.append(text)
        used += len(text)
    if cut:
        told.append(" (and more, which is left out here)")
    return "".join(told) + ".", cut


def _name(value: str, room: int, secret: frozenset[str]) -> str:
    """A resource or an amount. A url's query may carry what only the page should show."""
    if value in secret:
        return f"(a secret value of {counted(len(value), 'character')})"
    if looks_secret(value):
        return f"(a value of {counted(len(value), 'character')} that looks like a secret)"
    base, mark, query = value.partition("?")
    if mark and "://" in base:
        return (
            f"{value_as_code(base, room)} (and a query of {counted(len(query), 'character')}, not sent here)"
        )
    return value_as_code(value, room)


def _lines(document: ShownDocument, room: int, secret: frozenset[str]) -> Iterator[str]:
    requester, tool = document["requester"], document["tool"]
    user = requester["on_behalf_of"]
    behalf = f"for the user {value_as_code(user, room)}" if user is not None else "on behalf of nobody"
    called = value_as_code(f"{tool['server']}/{tool['name']}", room)
    yield f"Asked by the agent {value_as_code(requester['agent'], room)} {behalf}, through the tool {called}."
    yield f"Effect: {effect_words(document)}; {undo_words(document['undo'])}."
    untrusted = [access for access in document["accesses"] if access["untrusted"]]
    if untrusted:
        named = ", ".join(_name(access["value"], room, secret) for access in untrusted[:3])
        more = f" and {len(untrusted) - 3} more" if len(untrusted) > 3 else ""
        yield f"UNTRUSTED: what it touches was named by an untrusted source: {named}{more}."
    yield from _hosts(document, secret)
    for rule in document["asked_by"][:5]:
        yield f"Rule {value_as_code(rule['rule'], room)}: {value_as_code(rule['reason'], room, Reading.TEXT)}"
    if len(document["asked_by"]) > 5:
        yield f"And {len(document['asked_by']) - 5} more rules ask."
    if document["data"]["to"]:
        to = document["data"]["to"]
        more = f" and {len(to) - 3} more" if len(to) > 3 else ""
        yield f"Data goes to: {', '.join(_name(uri, room, secret) for uri in to[:3])}{more}."
    for argument in document["arguments"][:_MOST_LISTED]:
        yield _argument(argument, room, secret)


def _hosts(document: ShownDocument, secret: frozenset[str]) -> Iterator[str]:
    """Both spellings of international names among what is touched."""
    told = {
        warning.message
        for access in document["accesses"][:_MOST_LISTED]
        if access["uri"] not in secret
        for warning in warnings(access["uri"], Reading.NAME)
        if warning.sign is Sign.HOST
    }
    for message in sorted(told)[:3]:
        yield f"NOTE: {escaped(message.replace('`', ''))}."


def _argument(argument: ShownArgument, room: int, secret: frozenset[str]) -> str:
    text = value_text(argument)
    size = f"{counted(len(text), 'character')} in {counted(text.count(chr(10)) + 1, 'line')}"
    origin = " UNTRUSTED" if argument["untrusted"] else ""
    name = f"{value_as_code(argument['pointer'], room)} ({argument['role']}{origin})"
    odd = _odd(argument, text)
    if argument["secret"]:
        return f"{name}: secret, not sent here{odd}"
    if argument["role"] not in CLEAR_ROLES or looks_secret(text):
        return f"{name}: {size}, not sent here{odd}"
    grouped = f" (that is {number_words(argument)})" if number_words(argument) else ""
    default = " (filled in by the schema)" if argument["default"] else ""
    kind = f" ({argument['type']})" if argument["type"] != "string" else ""
    return f"{name}: {_name(text, room, secret)}{kind}{grouped}{default}{odd}"


def _odd(argument: ShownArgument, text: str) -> str:
    if not isinstance(argument["value"], str):
        return ""
    head, tail = _ends(text)
    reading = reading_of(argument["role"])
    found = {warning.sign for part in (head, tail) if part for warning in warnings(part, reading)} & _ODD
    looked = f"; only {_LOOKED_AT:,} characters at each end were looked at" if tail else ""
    signs = ", ".join(sorted(sign.value.replace("_", " ") for sign in found))
    return (f"; ODD: {signs}" if signs else "") + looked


def _closing(document: ShownDocument, left: int, cut_parts: int) -> str:
    """What a reader of the summary has not seen."""
    texts = [value_text(argument) for argument in document["arguments"]]
    sizes = f"{counted(len(texts), 'argument')} of {counted(sum(map(len, texts)), 'character')} in all"
    parts = [f"This is a summary: the call has {sizes} and {_accesses(len(document['accesses']))}"]
    if left:
        parts.append(f"{counted(left, 'line')} of it did not fit and are left out")
    if cut_parts:
        parts.append("the first sentence is cut")
    if document["must_open"]:
        parts.append(f"{counted(len(document['must_open']), 'folded value')} must be opened before a yes")
    parts.append("see the page before you decide")
    return "; ".join(parts) + "."


def _accesses(count: int) -> str:
    return "1 access" if count == 1 else f"{count:,} accesses"
