"""Values of a case that the log holds only as digests: marked, so that no such case is ever run as it is.

What a record has as a digest is what it says of itself (`authz.core.record_places`). A mark, once written
into a case, is known by its spelling: a value that was sent and is spelled like one is named as `verbatim`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz.core.pointer import Tokens, parse_pointer

_MARK: Final = re.compile(r"<<fill in: [^<>]*>>")
_DIGEST: Final = re.compile(r"(?:redacted:)?hmac-sha256:[0-9a-f]{32}")
"""What the redactor writes in place of a text, whole or as a part of one (a name, a part of a uri)."""
_MANY: Final = "values that the log does not hold"
_DIGESTED: Final = ("arguments", "accesses", "provenance", "claims")
"""Members of a record of an earlier version in which digests may stand."""


def redacted_places(value: Any, at: Tokens = ()) -> Iterator[Tokens]:
    """Where in a call a mark still stands, in a value or in a name."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if _MARK.search(str(name)):
                yield (*at, str(name))
            yield from redacted_places(member, (*at, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from redacted_places(item, (*at, str(index)))
    elif isinstance(value, str) and _MARK.search(value):
        yield at


@dataclass(frozen=True, slots=True, kw_only=True)
class Redactions:
    """Where a record holds digests."""

    values: frozenset[Tokens]
    names: frozenset[Tokens]
    """Places whose last token is one."""
    stated: bool
    """Whether the record says so. Of one that does not, everything that looks like a digest is here."""

    def hides(self, place: Tokens) -> bool:
        """Whether the value at `place` is not in the clear, or stands in something that is not."""
        return any(place[:length] in self.values for length in range(len(place) + 1))


def redactions_of(record: Mapping[str, Any]) -> Redactions:
    """Where the record holds digests, by its own word."""
    values, names = places(record.get("redacted")), places(record.get("redacted_names", []))
    if values is not None and names is not None:
        return Redactions(values=values, names=names, stated=True)
    seen = [found for name in _DIGESTED for found in _by_shape(record.get(name), (name,))]
    return Redactions(
        values=frozenset(place for place, is_name in seen if not is_name),
        names=frozenset(place for place, is_name in seen if is_name),
        stated=False,
    )


def places(pointers: Any) -> frozenset[Tokens] | None:
    """Places that a record names; `None` where it names none that can be read."""
    if not isinstance(pointers, list) or not all(isinstance(pointer, str) for pointer in pointers):
        return None
    try:
        return frozenset(map(parse_pointer, pointers))
    except ValueError:
        return None


def _by_shape(value: Any, at: Tokens) -> Iterator[tuple[Tokens, bool]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("redacted"), str) and value.keys() <= {"redacted", "length", "leaves"}:
            yield at, False
            return
        for name, member in value.items():
            if _DIGEST.search(name):
                yield (*at, name), True
            yield from _by_shape(member, (*at, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _by_shape(item, (*at, str(index)))
    elif isinstance(value, str) and _DIGEST.search(value):
        yield at, False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """A place of a request that the log does not hold."""

    place: Tokens
    """Into the request, with the marks that stand there for names."""
    length: int | None
    """How many characters the whole value had; `None` for a name, or where only a part is a digest."""


class Restored:
    """Takes values out of a record into a request, a mark in place of each digest."""

    def __init__(self, redactions: Redactions, left_out: frozenset[Tokens] = frozenset()) -> None:
        self._redactions = redactions
        self._left_out = left_out
        self.hidden: list[Hidden] = []

    def take(self, value: Any, at: Tokens, into: Tokens) -> Any:
        """The value that the record has `at`, to stand `into` the request."""
        if self._redactions.hides(at):
            return self._hide(value, into)
        return self._take(value, at, into)

    def _hide(self, value: Any, into: Tokens) -> str:
        self.hidden.append(Hidden(place=into, length=_length(value)))
        return _marked(value)

    def _take(self, value: Any, at: Tokens, into: Tokens) -> Any:
        if at in self._redactions.values:
            return self._hide(value, into)
        if isinstance(value, Mapping):
            return dict(self._members(value, at, into))
        if isinstance(value, list):
            return [
                self._take(item, (*at, str(index)), (*into, str(index))) for index, item in enumerate(value)
            ]
        return value

    def _members(self, value: Mapping[str, Any], at: Tokens, into: Tokens) -> Iterator[tuple[str, Any]]:
        for name, member in value.items():
            here = (*at, name)
            if here in self._left_out:
                continue
            told = name
            if here in self._redactions.names:
                told = _marked(name)
                self.hidden.append(Hidden(place=(*into, told), length=None))
            yield told, self._take(member, here, (*into, told))


def _length(value: Any) -> int | None:
    length = value.get("length") if isinstance(value, Mapping) else None
    return length if type(length) is int and length >= 0 else None


def _marked(value: Any) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("redacted"), str):
        return mark(value["redacted"], _length(value))
    if isinstance(value, str):
        told, count = _DIGEST.subn(lambda found: mark(found.group().removeprefix("redacted:")), value)
        if count:
            return told
    return mark(_MANY)


def mark(what: str, length: int | None = None) -> str:
    """The text that stands for a value that is not known."""
    size = f", {length} characters" if length is not None else ""
    return f"<<fill in: {what}{size}>>"
