"""Records of the decision log as pages show them: as they stand; what was redacted says so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from authz.core.fingerprint import canonical_json
from authz.core.pointer import Tokens, format_pointer, parse_pointer
from authz.errors import MalformedInput
from authz.model.record import StoredEvent

_MAX_INTEGER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One value of a record."""

    pointer: str
    """Within the part of the record that is shown."""
    text: str
    is_redacted: bool
    """The text is a keyed digest, or holds one: the value itself was never written."""
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordView:
    """One record and its place in the log."""

    stored: StoredEvent
    body: Mapping[str, Any]

    @classmethod
    def of(cls, stored: StoredEvent) -> "RecordView":
        """A stored record, parsed."""
        return cls(stored=stored, body=orjson.loads(stored.text))

    @property
    def type(self) -> str:
        """What it says happened."""
        return str(self.body.get("type", ""))

    @property
    def decision_id(self) -> str:
        """Of the decision that it is about; empty where there is none."""
        return str(self.body.get("decision_id") or "")

    @property
    def tool(self) -> str:
        """`server/name`; empty where the record names none."""
        tool = self.body.get("tool")
        if not isinstance(tool, Mapping):
            return tool if isinstance(tool, str) else ""
        return f"{tool.get('server') or ''}/{tool.get('name') or ''}"

    def text(self, *path: str) -> str:
        """The value at a path of member names, as text; empty where there is none."""
        value: Any = self.body
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            return ""
        return value if isinstance(value, str) else canonical_json(value).decode()

    def each(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The objects of a list in the record."""
        found = self.body.get(name)
        return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []

    def part(self, *path: str) -> list[Leaf]:
        """Every value beneath a path, in the order of the record."""
        value: Any = self.body
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            return []
        redacted, defaulted = self._places("redacted"), self._places("defaulted")
        if not isinstance(value, Mapping | list):
            return [self._leaf((), value, path, redacted, defaulted)]
        return [
            self._leaf(tokens, leaf, path, redacted, defaulted)
            for tokens, leaf in _leaves(value, (), path, redacted)
        ]

    def _leaf(
        self,
        tokens: Tokens,
        value: Any,
        path: Tokens,
        redacted: frozenset[Tokens],
        defaulted: frozenset[Tokens],
    ) -> Leaf:
        at = (*path, *tokens)
        above = [at[:length] for length in range(1, len(at) + 1)]
        return Leaf(
            pointer=format_pointer(tokens),
            text=value if isinstance(value, str) else canonical_json(value).decode(),
            is_redacted=any(place in redacted for place in above),
            is_default=any(place in defaulted for place in above),
        )

    def _places(self, member: str) -> frozenset[Tokens]:
        found = self.body.get(member)
        return frozenset(map(parse_pointer, found)) if isinstance(found, list) else frozenset()


def _leaves(
    value: Any, at: Tokens, path: Tokens, redacted: frozenset[Tokens]
) -> Iterator[tuple[Tokens, Any]]:
    """Scalars and what was redacted, which is one value however it is written."""
    if (*path, *at) in redacted:
        yield at, value.get("redacted", value) if isinstance(value, Mapping) else value
    elif isinstance(value, Mapping) and value:
        for name, member in value.items():
            yield from _leaves(member, (*at, name), path, redacted)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*at, str(index)), path, redacted)
    else:
        yield at, value


def moment_of(name: str, text: str) -> int | None:
    """A time that a form sends, in ms; without an offset it is UTC. Raises `MalformedInput`."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise MalformedInput(f"`{name}` is no time; write 2026-12-31T23:59", code="input.invalid") from None


def position_of(text: str) -> tuple[int, str, int] | None:
    """Where a search goes on: `time.writer.sequence`. Raises `MalformedInput`."""
    if not text:
        return None
    parts = text.split(".")
    if len(parts) == 3 and all(map(_is_number, (parts[0], parts[2]))):
        return int(parts[0]), parts[1], int(parts[2])
    raise MalformedInput("that is no place in the log", code="input.invalid")


def place_of(stored: StoredEvent) -> str:
    """`position_of` backwards."""
    return f"{stored.recorded_at_ms}.{stored.writer}.{stored.sequence}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= _MAX_INTEGER
