"""Bytes as a list of changes to a value, so that a fuzzer of bytes changes structure instead of syntax."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

Item = TypeVar("Item")

MAX_CHANGES: Final = 4
PALETTE: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 2**53, 10**30, "", " ", "a", "/", "/path", "path", "url", "read", "A0"),
    *("*", "..", "\u202e", "\u0000", "[", "(?=x)", "x" * 300, [], {}, [None], {"": None}, [[]], ["/path"]),
    *({"$ref": "#"}, {"$ref": "https://example.com/x"}, {"type": "string"}, {"type": ["string", "null"]}),
    *({"anyOf": []}, {"enum": []}, {"const": {}}, {"properties": {"__entity": {"type": "string"}}}),
)


class ByteReader:
    """Reads choices from bytes; zeros when they run out."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0

    def number(self) -> int:
        """The next two bytes as a number."""
        found = self._data[self._next : self._next + 2]
        self._next += 2
        return int.from_bytes(found, "big")

    def pick(self, choices: Sequence[Item]) -> Item:
        """One of `choices`, which are not empty."""
        return choices[self.number() % len(choices)]


def changed_value(start: Any, changes: ByteReader) -> Any:
    """`start` with up to `MAX_CHANGES` changes, each at a place and of a kind that `changes` says."""
    value = copy.deepcopy(start)
    for _ in range(changes.number() % (MAX_CHANGES + 1)):
        place = changes.pick(list(_places(value)))
        value = _change(value, place, changes)
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, member in members:
        yield from _places(member, (*path, name))


def _change(value: Any, place: tuple[Any, ...], changes: ByteReader) -> Any:
    kind = changes.number() % 5
    if not place:
        return changes.pick(PALETTE) if kind == 0 else value
    holder = value
    for name in place[:-1]:
        holder = holder[name]
    last = place[-1]
    if kind == 0:
        holder[last] = copy.deepcopy(changes.pick(PALETTE))
    elif kind == 1:
        del holder[last]
    elif kind == 2:  # what stands elsewhere, here
        other: Any = value
        for name in changes.pick(list(_places(value))):
            other = other[name]
        holder[last] = copy.deepcopy(other)
    elif kind == 3 and isinstance(holder, dict):  # the same under another name
        names = sorted(str(one[-1]) for one in _places(value) if one)
        holder[changes.pick(names)] = holder.pop(last)
    elif kind == 4 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[last]))
    return value
