"""Words that the page, the command line and the webhook share, and how each value is to be read."""

from typing import Final

from authz.core.fingerprint import canonical_json
from authz.core.shown_scopes import duration
from authz.core.shown_types import (
    OfferedScope,
    ShownAccess,
    ShownArgument,
    ShownDocument,
    ShownRule,
    Terms,
    Undo,
)
from authz.core.visible_scripts import Reading
from authz.model.tool import Role

_PROSE: Final = frozenset({Role.PAYLOAD.value, Role.CREDENTIAL.value, "undeclared"})
MAX_GROUPED_DIGITS: Final = 30
_EFFECTS: Final = {
    "none": "the tool changes nothing",
    "idempotent": "running it twice leaves what running it once leaves",
    "cumulative": "every run adds up: running it twice does it twice",
}
_AUTHORITY: Final = {
    "A0": "reads or connects, changes nothing",
    "A1": "changes something in a sandbox that can be discarded",
    "A2": "changes something outside, with a reviewed way back",
    "A3": "changes something outside that cannot be taken back",
}
NOTHING_GOES: Final = "Nothing is sent anywhere, as far as is known."
NOTHING_GOES_ALONG: Final = "No argument holds data that goes along."
ON_BEHALF_OF_NOBODY: Final = "On behalf of nobody."
WANTS_A_LOOK: Final = "The caller itself asked for a person to look."
NOT_REVIEWED: Final = "NOBODY HAS REVIEWED THIS TOOL."
HANDED_ON: Final = "Handed on by these agents, the first one first:"
NOT_UNDERSTOOD: Final = "not understood; this is all of it:"
EMPTY: Final = "nothing: the value is empty"
"""Said the same wherever a call is shown."""


def reading_of(role: str) -> Reading:
    """Prose and data are read as text, everything else names or steers something."""
    return Reading.TEXT if role in _PROSE else Reading.NAME


def value_text(argument: ShownArgument) -> str:
    """The value as it is bound: a string as it is, anything else in its RFC 8785 spelling."""
    value = argument["value"]
    return value if isinstance(value, str) else canonical_json(value).decode()


def type_words(argument: ShownArgument) -> str:
    """`string of 1,234 characters in 41 lines`, `number`, `empty array`."""
    value = argument["value"]
    if not isinstance(value, str):
        return f"empty {argument['type']}" if isinstance(value, list | dict) else argument["type"]
    if not value:
        return "empty string"
    lines = value.count("\n") + 1
    within = f" in {lines:,} lines" if lines > 1 else ""
    return f"string of {counted(len(value), 'character')}{within}"


def number_words(argument: ShownArgument) -> str:
    """A large number with its digits in groups, written out; empty for every other value."""
    value = argument["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) < 10_000:
        return ""
    if abs(value) >= 10**MAX_GROUPED_DIGITS:
        return ""
    whole = int(value)
    return f"{whole:,}" if whole == value else f"{value:,}"


def provenance_words(argument: ShownArgument) -> str:
    """Where the value came from, and whether it may steer anything."""
    if argument["default"]:
        return "filled in by the tool's schema, not sent by the caller"
    trust = f"UNTRUSTED ({argument['untrusted_because']})" if argument["untrusted"] else "trusted"
    source = "from nowhere known" if argument["source"] == "missing" else f"from {argument['source']}"
    return f"{source}, {trust}"


def effect_words(document: ShownDocument) -> str:
    """Authority and side-effect class, in words."""
    authority = document["authority"]
    return f"{authority}: {_AUTHORITY[authority]}; {_EFFECTS[document['side_effect']]}"


def undo_words(undo: Undo) -> str:
    """Whether there is a way back. `how` is a value, and not part of it."""
    return {
        "nothing_changes": "nothing is changed, so there is nothing to undo",
        "sandbox": "it stays in a sandbox that can be discarded",
        "undo": "it can be undone",
        "compensator": "another tool can make up for it",
        "cannot_be_undone": "IT CANNOT BE UNDONE",
    }[undo["kind"]]


def access_words(access: ShownAccess) -> tuple[str, ...]:
    """What is to be known of an access beside its resource and its level."""
    told = {
        "with everything beneath it": access["scope"] == "tree" and access["pattern"] is None,
        "named by a value from an UNTRUSTED source": access["untrusted"],
        "a rule asks because of this": access["asked"],
    }
    return tuple(words for words, holds in told.items() if holds)


def rule_words(rule: ShownRule) -> str:
    """What one rule that asks demands."""
    limit = f", for {duration(rule['ttl_seconds'])}" if rule["ttl_seconds"] is not None else ""
    return f"It takes {people_words(rule['quorum'])}, with {factor_words(rule['factor'])}{limit}."


def terms_words(terms: Terms) -> str:
    """What all rules that ask demand together."""
    lasts = f"a yes lasts {duration(terms['ttl_seconds'])}"
    return f"In all it takes {people_words(terms['quorum'])}, with {factor_words(terms['factor'])}; {lasts}."


def factor_words(factor: str) -> str:
    """How an approver proves to be there."""
    return {"session": "a signed-in session", "passkey": "a passkey"}[factor]


def people_words(quorum: int) -> str:
    """`one person`, `2 different people`."""
    return "one person" if quorum == 1 else f"{quorum} different people"


def scope_words(offered: OfferedScope) -> str:
    """The name of a choice."""
    return {"once": "Once", "times": "Several times", "session": "In this session"}[offered["scope"]]


def counted(number: int, noun: str) -> str:
    """`1 character`, `1,234 characters`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
