"""The sentence at the top of a shown document: verbs, canonical resources and amounts, never a tool's own
words.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from authz.core.fingerprint import canonical_json
from authz.core.shown_types import Part, ShownAccess, ShownArgument, Undo
from authz.model.decision import Access
from authz.model.resource import Authority, Scope, Verb
from authz.model.tool import Descriptor, Role

MAX_NAMED: Final = 6
"""Resources in the sentence; how many there are besides is said, and all of them are listed below it."""
_WORDS: Final = {
    Verb.TRANSACT: "make a transaction with",
    Verb.ADMINISTER: "administer",
    Verb.DELETE: "delete",
    Verb.SEND: "send to",
    Verb.EXECUTE: "run",
    Verb.WRITE: "write",
    Verb.CONNECT: "connect to",
    Verb.READ: "read",
}
_ORDER: Final = {verb.value: index for index, verb in enumerate(_WORDS)}
_READING: Final = frozenset({Verb.READ.value, Verb.CONNECT.value})
NOT_UNDERSTOOD: Final = "do something that this service does not understand:"


def headline(accesses: Sequence[ShownAccess], arguments: Iterable[ShownArgument]) -> list[Part]:
    """What will happen, worst first. Reads stand aside where something is changed."""
    changing = [access for access in accesses if access["verb"] not in _READING]
    told = sorted(changing or accesses, key=_worst_first)
    parts: list[Part] = []
    for index, (phrase, group) in enumerate(groupby(told[:MAX_NAMED], key=_phrase)):
        start = f"; {phrase} " if index else f"{phrase[0].upper()}{phrase[1:]} "
        parts.append(Part(words=start))
        parts += _listed(group)
    if len(told) > MAX_NAMED:
        parts.append(Part(words=f"; and {len(told) - MAX_NAMED} more, all listed below"))
    if beside := len(accesses) - len(told):
        parts.append(Part(words=f"; besides, read or connect to {beside} more, listed below"))
    for argument in arguments:
        if argument["role"] == Role.AMOUNT and not argument["secret"]:
            parts += [Part(words="; "), Part(value=argument["pointer"]), Part(words=" ")]
            parts.append(Part(value=_scalar(argument["value"])))
    return parts


def _worst_first(access: ShownAccess) -> tuple[int, bool, int]:
    """By authority, then what is not understood, then by verb. The sort is stable, so else in their order."""
    return (-int(access["authority"][1:]), access["type"] != "Opaque", _ORDER[access["verb"]])


def _phrase(access: ShownAccess) -> str:
    if access["type"] == "Opaque":
        return NOT_UNDERSTOOD
    everything = "everything beneath " if access["scope"] == Scope.TREE else ""
    matched = "what matches a pattern beneath " if access["pattern"] is not None else everything
    return f"{_WORDS[Verb(access['verb'])]} {matched}{_kind(access)}".rstrip()


def _kind(access: ShownAccess) -> str:
    """What is named, where its value does not tell: `the iban`, `the program`. The bundle's words."""
    if access["type"] == "Object":
        return f"the {access['uri'].split(':')[1].replace('_', ' ')}"
    kinds = {
        "Program": "the program",
        "Table": "the table",
        "Schema": "the schema",
        "Database": "the database",
    }
    return kinds.get(access["type"], "")


def _listed(group: Iterable[ShownAccess]) -> Iterator[Part]:
    for index, access in enumerate(group):
        if index:
            yield Part(words=", ")
        yield Part(value=access["value"])


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


def undo_of(descriptor: Descriptor, accesses: Sequence[Access]) -> Undo:
    """Whether there is a way back, by reviewed facts alone."""
    highest = max((access.authority for access in accesses), default=Authority.A3)
    if highest is Authority.A0:
        return Undo(kind="nothing_changes", how="", reviewed_by="")
    if highest is Authority.A1:
        return Undo(kind="sandbox", how="", reviewed_by="")
    if descriptor.undo is not None and descriptor.reviewed:
        return Undo(kind="undo", how=descriptor.undo.how, reviewed_by=descriptor.undo.reviewed_by)
    if descriptor.compensator is not None and descriptor.reviewed:
        return Undo(kind="compensator", how=descriptor.compensator, reviewed_by="")
    return Undo(kind="cannot_be_undone", how="", reviewed_by="")
