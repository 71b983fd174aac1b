"""The shown document as plain text for a terminal (spec section 8).

Lines are of two forms. Those that begin at the margin are this service's own words and hold no value.
Everything that somebody else chose stands behind a label and a bar, and is wrapped here, so that no line end
and no length puts a value where a line of this service would stand. Nothing but printable characters comes
out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from authz.core.rendering_lines import Words, behind_bar
from authz.core.rendering_words import (
    EMPTY,
    HANDED_ON,
    NOT_REVIEWED,
    NOT_UNDERSTOOD,
    NOTHING_GOES,
    NOTHING_GOES_ALONG,
    ON_BEHALF_OF_NOBODY,
    WANTS_A_LOOK,
    access_words,
    counted,
    effect_words,
    number_words,
    provenance_words,
    reading_of,
    rule_words,
    scope_words,
    terms_words,
    type_words,
    undo_words,
    value_text,
)
from authz.core.shown import cannot_be_approved_because
from authz.core.shown_types import Part, ShownAccess, ShownArgument, ShownDocument, ShownRule
from authz.core.visible import Piece, pieces, spelled
from authz.core.visible_characters import Kind
from authz.core.visible_scripts import Reading
from authz.core.visible_warnings import Sign, warnings

MIN_WIDTH: Final = 72
QUOTES: Final = ("\u201c", "\u201d")
"""Around values within a sentence: no value that is read as a name can hold them unspelled."""


def render_text(
    document: ShownDocument, *, width: int = 100, folded: bool = False, secrets: bool = False
) -> str:
    """All of `document`. `folded` leaves out the middle of long values, and says how much that is.

    `secrets`: whether values that are secret are printed. Raises `ValueError` for a width below 72.
    """
    if width < MIN_WIDTH:
        raise ValueError(f"a width of `{width}` leaves no room for values, give {MIN_WIDTH} or more")
    lines: list[str] = []
    for told in _document(document, folded=folded, secrets=secrets):
        if isinstance(told, str):
            lines.append(told)
        else:
            lines += behind_bar(*told, width=width)
    return "\n".join(lines) + "\n"


_Behind = tuple[str, Sequence[Piece]]
"""A label, and what stands behind its bar."""


def _document(document: ShownDocument, *, folded: bool, secrets: bool) -> Iterator[str | _Behind]:
    yield "WHAT WILL HAPPEN"
    yield "", _sentence(document["headline"])
    for reason in cannot_be_approved_because(document):
        yield f"CANNOT BE APPROVED: {reason}"
    yield from _requester(document)
    yield "WHAT IT TOUCHES"
    for access in document["accesses"]:
        yield from _access(access)
    yield from _data(document)
    yield "EFFECT"
    yield effect_words(document)
    yield undo_words(document["undo"])
    if document["undo"]["how"]:
        yield from _value("how", document["undo"]["how"], Reading.TEXT)
    yield "WHY YOU ARE ASKED"
    for rule in document["asked_by"]:
        yield from _rule(rule)
    arguments = document["arguments"]
    yield f"EVERY ARGUMENT ({len(arguments)})"
    for number, argument in enumerate(arguments, start=1):
        yield from _argument(argument, number, len(arguments), folded=folded, secrets=secrets)
    yield from _choices(document)
    yield "WHAT THE TOOL'S SERVER SAYS OF ITS TOOL (nobody answers for it)"
    yield from _value("it says", document["tool"]["says_of_itself"], Reading.TEXT)
    yield "BOUND TO"
    yield from _value("fingerprint", document["fingerprint"])
    yield from _value("rules", document["policy_version"])


def _requester(document: ShownDocument) -> Iterator[str | _Behind]:
    requester, tool = document["requester"], document["tool"]
    yield "WHO ASKS"
    yield from _value("agent", requester["agent"])
    for label, value in (
        ("for user", requester["on_behalf_of"]),
        ("session", requester["session"]),
        ("parent says", requester["parent_agent"]),
        ("directory", document["cwd"]),
        ("sandbox", document["sandbox_root"]),
    ):
        if value is not None:
            yield from _value(label, value)
    if requester["on_behalf_of"] is None:
        yield ON_BEHALF_OF_NOBODY
    if requester["wants_a_look"]:
        yield WANTS_A_LOOK
    yield from _value("tool", f"{tool['server']}/{tool['name']}")
    yield from _value("at", tool["identity"])
    if not tool["reviewed"]:
        yield NOT_REVIEWED
    if len(document["chain"]) > 1 or document["chain"][0]["link"]:
        yield HANDED_ON
        for link in document["chain"]:
            yield from _value("agent", link["agent"])
            if link["link"]:
                yield from _value("capability", link["link"])


def _access(access: ShownAccess) -> Iterator[str | _Behind]:
    yield from _value(access["verb"], access["uri"])
    if access["type"] == "Opaque":
        yield f"({NOT_UNDERSTOOD})"
        yield from _value("text", access["value"])
    elif "%" in access["uri"]:
        yield from _value("that is", access["value"])
    for warning in warnings(access["uri"], Reading.NAME):
        if warning.sign is Sign.HOST:
            yield "NOTE", _plain(warning.message)
    if access["pattern"] is not None:
        yield from _value("only names", access["pattern"])
    for place in access["beneath"]:
        yield from _value("beneath it", place)
    yield from _value("level", f"{access['authority']}, {access['authority_because']}", Reading.TEXT)
    for words in access_words(access):
        yield f"({words})"


def _data(document: ShownDocument) -> Iterator[str | _Behind]:
    data = document["data"]
    yield "WHOSE DATA GOES WHERE"
    for label, values, none in (
        ("goes to", data["to"], NOTHING_GOES),
        ("takes along", data["arguments"], NOTHING_GOES_ALONG),
        ("and reads", data["read"], ""),
        ("has read", data["session_has_read"], ""),
    ):
        for value in values:
            yield from _value(label, value)
        if not values and none:
            yield none


def _rule(rule: ShownRule) -> Iterator[str | _Behind]:
    yield from _value("rule", rule["rule"])
    if rule["reason"]:
        yield from _value("because", rule["reason"], Reading.TEXT)
    for group in rule["approvers"]:
        yield from _value("approvers", group)
    yield rule_words(rule)


def _argument(
    argument: ShownArgument, number: int, count: int, *, folded: bool, secrets: bool
) -> Iterator[str | _Behind]:
    yield f"Argument {number} of {count}: {argument['role']}, {type_words(argument)}"
    yield f"{provenance_words(argument)}{', SECRET' if argument['secret'] else ''}"
    yield from _value("name", argument["pointer"])
    for label, where in (
        ("came from", argument["uri"]),
        ("of call", argument["call"]),
        ("of tool", argument["tool"]),
    ):
        if where is not None:
            yield from _value(label, where)
    if "declared_source" in argument:
        yield from _value("claimed", argument["declared_source"])
    for mark in argument["labels"]:
        yield from _value("label", mark)
    if argument["secret"] and not secrets:
        yield "(the value is secret and not printed here)"
    else:
        yield from _argument_value(argument, folded=folded)


def _argument_value(argument: ShownArgument, *, folded: bool) -> Iterator[str | _Behind]:
    text = value_text(argument)
    fold = argument["fold"]
    reading = reading_of(argument["role"])
    label = "UNTRUSTED" if argument["untrusted"] else "value"
    if folded and fold is not None:
        yield from _value(label, text[: fold["head"]], reading)
        hidden = counted(fold["hidden_characters"], "character")
        yield f"(here {hidden} are not shown: open them before a yes)"
        yield from _value(label, text[len(text) - fold["tail"] :], reading)
    elif text:
        yield label, pieces(text, reading)
    else:
        yield f"({EMPTY})"
    if fold is not None:
        yield from _value("digest", fold["digest"])
    if number_words(argument):
        yield from _value("that is", number_words(argument))
    if "sent" in argument and isinstance(argument["sent"], str):
        yield from _value("as sent", argument["sent"])
    if isinstance(argument["value"], str):
        for warning in warnings(text, reading):
            yield "NOTE", _plain(warning.message)


def _choices(document: ShownDocument) -> Iterator[str | _Behind]:
    yield "WHAT A YES WOULD PERMIT"
    for offered in document["scopes"]:
        yield f"{scope_words(offered)}:"
        yield "", _sentence(offered["remembers"])
    for reason in document["only_once_because"]:
        yield f"Only once, because {reason}."
    yield terms_words(document["terms"])


def _sentence(parts: Iterable[Part]) -> tuple[Piece, ...]:
    """Words as they are, values in quotation marks that no value can hold."""
    told: list[Piece] = []
    for part in parts:
        if "words" in part:
            told += _plain(part["words"])
        if "value" in part:
            opening, closing = QUOTES
            told += [*_plain(opening), *pieces(part["value"], Reading.NAME), *_plain(closing)]
    return tuple(told)


def _value(label: str, text: str, reading: Reading = Reading.NAME) -> Iterator[_Behind]:
    yield label, pieces(text, reading) or _plain("(empty)")


def _plain(text: str) -> tuple[Piece, ...]:
    """This service's own words, or what has been made visible already."""
    return (Words(Kind.PLAIN, text, text),)


def render_value(text: str, reading: Reading = Reading.NAME) -> str:
    """One value on one line, for whoever prints a few of them: a list of pending requests, an error."""
    return spelled(text, reading)
