"""Results that are worth remembering, within a bound on what they take of memory.

A bound on their number alone bounds nothing: who asks chooses how long a text is, and what it comes to.
"""

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from authz.model.resource import Resource

Value = TypeVar("Value")

ENTRY_BYTES: Final = 1000
"""What an entry takes besides its texts: its place in a table, its key, its count."""
_ENTITY_BYTES: Final = 400
"""What an entity takes besides its texts: itself and its attributes. What holds it takes no more."""


class Remembered(Generic[Value]):
    """The values that were used lately.

    In two generations: what is used comes into the younger one, and when that has half of what there may be,
    the older one is forgotten and it takes its place. So nothing is walked to find out what goes, and two
    threads at once can at worst lose count of an entry until then.
    """

    def __init__(self, *, max_bytes: int, max_entry_bytes: int) -> None:
        """`max_bytes` of all entries together; a bigger one than `max_entry_bytes` is not kept at all."""
        self._half_bytes = max_bytes // 2
        self._max_entry_bytes = max_entry_bytes
        self._young: dict[Hashable, tuple[Value, int]] = {}
        self._old: dict[Hashable, tuple[Value, int]] = {}
        self._young_bytes = 0

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    @property
    def held_bytes(self) -> int:
        """What all entries take, as it was told when they came in."""
        return sum(size for generation in (self._young, self._old) for _, size in generation.values())

    def get(self, key: Hashable) -> Value | None:
        """The value of this key, or `None`."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: Hashable, value: Value, size_bytes: int) -> None:
        """Keep a value. `size_bytes` is what it takes with its key, rather too much than too little."""
        if size_bytes > self._max_entry_bytes:
            return
        if self._young_bytes + size_bytes > self._half_bytes:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young_bytes += size_bytes
        self._young[key] = (value, size_bytes)

    def clear(self) -> None:
        """Forget everything."""
        self._old, self._young, self._young_bytes = {}, {}, 0


def text_bytes(text: str) -> int:
    """What a text takes at most."""
    return 80 + len(text) * (1 if text.isascii() else 4)


def resource_bytes(resources: Iterable[Resource]) -> int:
    """What resources take of memory, rather too much than too little: what they share counts for each."""
    total = 0
    for resource in resources:
        total += 2 * _ENTITY_BYTES + text_bytes(resource.uri) + text_bytes(resource.value)
        for entity in resource.chain:
            total += _ENTITY_BYTES + text_bytes(entity.id)
        names = resource.chain[0].attributes.get("names")
        if isinstance(names, tuple):
            total += sum(map(text_bytes, names))
    return total
