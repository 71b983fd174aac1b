"""What a record says of its own values: where the redactor acted, and which arguments a default filled in.

A value in the clear may look like anything, a digest or a mark included. So whoever reads a record later
knows what is a digest from these members alone, never from the shape of a value.
"""

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Final

from authz.core.pointer import Tokens, format_pointer
from authz.core.redact import RedactedText, RedactedValue, Redactor

MAX_LENGTH: Final = 64 * 1024
"""Characters of all pointers of one member: a call may hold very many values, each deep down."""
_PLAIN: Final = frozenset({str, int, float, bool, NoneType})


def redaction_members(body: Mapping[str, Any]) -> dict[str, list[str]]:
    """`redacted`, and `redacted_names` where there are any: JSON Pointers into the record, in order.

    At a place of `redacted` the record holds a digest, whole or as a part of a text; the last token of a
    place of `redacted_names` is one. Where there are too many of them, `redacted` has what they stand in.
    """
    for depth in (None, 2, 1):
        members = _within(body, depth)
        if members is not None:
            return members
    raise AssertionError("a record has few members")


def _within(body: Mapping[str, Any], depth: int | None) -> dict[str, list[str]] | None:
    """Both members with places of at most `depth` tokens; `None` when they are too long."""
    found: dict[str, set[Tokens]] = {"redacted": set(), "redacted_names": set()}
    length = 0
    for place, is_name in _acted(body):
        shortened = place[:depth]
        member = found["redacted_names" if is_name and shortened == place else "redacted"]
        if shortened not in member:
            member.add(shortened)
            length += sum(map(len, shortened)) + len(shortened)
            if length > MAX_LENGTH:
                return None
    told = {name: sorted(map(format_pointer, places)) for name, places in found.items()}
    return told if told["redacted_names"] else {"redacted": told["redacted"]}


def _acted(body: Mapping[str, Any]) -> Iterator[tuple[Tokens, bool]]:
    """(place, whether it is the name) of everything in `body` that the redactor made."""
    pending: list[tuple[Tokens, Any]] = [((), body)]
    while pending:
        at, value = pending.pop()
        if isinstance(value, RedactedValue | RedactedText):
            yield at, False
        elif isinstance(value, Mapping):
            for name, member in value.items():
                if isinstance(name, RedactedText):
                    yield (*at, name), True
                if type(member) not in _PLAIN:
                    pending.append(((*at, name), member))
        elif isinstance(value, list):
            pending += [
                ((*at, str(index)), item) for index, item in enumerate(value) if type(item) not in _PLAIN
            ]


def defaulted_member(
    sent: Mapping[str, Any], decided: Mapping[str, Any], redactor: Redactor
) -> list[str] | None:
    """`defaulted`: JSON Pointers into the record of the arguments that were not sent, topmost places only.

    `None` when there are too many to name: then nobody can tell them from what was sent.
    """
    told: list[str] = []
    length = 0
    for place in _filled_in(sent, decided):
        told.append(f"/arguments{redactor.pointer(place)}")
        length += len(told[-1])
        if length > MAX_LENGTH:
            return None
    return sorted(told)


def _filled_in(sent: Any, decided: Any) -> Iterator[Tokens]:
    pending: list[tuple[Tokens, Any, Any]] = [((), sent, decided)]
    while pending:
        at, before, after = pending.pop()
        if before is after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            for name, member in after.items():
                if name in before:
                    pending.append(((*at, name), before[name], member))
                else:
                    yield (*at, name)
        elif isinstance(before, list) and isinstance(after, list):
            pairs = enumerate(zip(before, after, strict=False))
            pending += [((*at, str(index)), old, new) for index, (old, new) in pairs]
