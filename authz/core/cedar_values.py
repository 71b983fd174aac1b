"""How argument values are told to Cedar: encoded by their schema type, never passed raw.

Cedar's JSON has escapes: `{"__entity": …}` becomes an entity and `{"__extn": …}` an extension
value. So no object that a model wrote is ever copied: every object emitted here has names that come
from the reviewed schema or from this file, and whatever has no such names is text. What Cedar has
no type for gets a stated encoding, and nothing is silently dropped:

| schema                     | Cedar                                                              |
|----------------------------|--------------------------------------------------------------------|
| string, enum of strings    | `String`                                                           |
| integer                    | `Long`                                                             |
| boolean                    | `Bool`                                                             |
| number                     | `{text: String, long?: Long, decimal?: decimal}`                   |
| value or null              | as the value, optional; null is absent and named in `nulls`        |
| optional property          | optional attribute                                                 |
| array of scalars           | `{items: Set<…>, count: Long}`                                     |
| array of objects           | `{count: Long, each: {field: Set<…>}}` over its scalar fields      |
| array of anything else     | `{items: Set<String>, count: Long}`, each item as its JSON text    |
| object with properties     | a record of them                                                   |
| undeclared members, maps   | `Set<{key: String, value: String}>`, values as text; `extra`       |
| other unions, any          | `{text: String, string?: String, long?: Long, bool?: Bool}`        |

Text of a string is the string itself; text of anything else is its RFC 8785 form.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz.core.fingerprint import canonical_json
from authz.core.json_schema import resolve_reference, without_null

RESERVED_NAMES: Final = frozenset({"__entity", "__extn", "__expr"})
NULLS: Final = "nulls"
EXTRA: Final = "extra"
MAX_SCHEMA_DEPTH: Final = 8
MAX_EXPANDED_PARTS: Final = 5000
"""Of one type, once references are followed: a few that name each other can come to millions."""
MAX_TYPE_CHARACTERS: Final = 512 * 1024

# Cedar's decimal: at most 4 fractional digits, and at least one, within ±922337203685477.5807.
_DECIMAL = re.compile(r"-?\d{1,14}\.\d{1,4}")


class UnencodableSchema(ValueError):
    """A schema whose arguments Cedar cannot be told of safely; the message says why."""


Shape = Mapping[str, "Shape"]
"""The attributes of an encoded value and, for each, its own; empty where there are none."""


class Encoder(ABC):
    """Encodes values of one schema type. `cedar_type` is the type in Cedar's schema syntax."""

    cedar_type: str
    parts: int = 1
    """How many types it is made up of, itself included."""

    @abstractmethod
    def encode(self, value: Any) -> Any:
        """`value` in Cedar's JSON. Raises `TypeError` for a value that the schema would refuse."""

    def shape(self) -> Shape:
        """The attributes that rules can ask for."""
        return {}

    def only(self, names: frozenset[str] | None) -> "Encoder":
        """The encoder of the named members alone; itself for `None`, and where there are no members."""
        return self


def text_of(value: Any) -> str:
    """`value` as text: a string as it is, anything else in its RFC 8785 form."""
    return value if isinstance(value, str) else canonical_json(value).decode()


class _String(Encoder):
    cedar_type = "String"

    def encode(self, value: Any) -> Any:
        return _expect(value, str)


class _Long(Encoder):
    cedar_type = "Long"

    def encode(self, value: Any) -> Any:
        # JSON Schema counts 1.0 as an integer.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool):
            raise TypeError("expected an integer")
        return _expect(value, int)


class _Bool(Encoder):
    cedar_type = "Bool"

    def encode(self, value: Any) -> Any:
        return _expect(value, bool)


class _Number(Encoder):
    cedar_type = "{text: String, long?: Long, decimal?: decimal}"

    def shape(self) -> Shape:
        return {"text": {}, "long": {}, "decimal": {}}

    def encode(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError("expected a number")
        text = text_of(value)
        encoded: dict[str, Any] = {"text": text}
        if float(value).is_integer() and abs(value) < 2**53:
            encoded["long"] = int(value)
            text = f"{int(value)}.0"
        if _DECIMAL.fullmatch(text):
            encoded["decimal"] = {"__extn": {"fn": "decimal", "arg": text}}
        return encoded


class _Union(Encoder):
    cedar_type = "{text: String, string?: String, long?: Long, bool?: Bool}"

    def shape(self) -> Shape:
        return {"text": {}, "string": {}, "long": {}, "bool": {}}

    def encode(self, value: Any) -> Any:
        encoded: dict[str, Any] = {"text": text_of(value)}
        if isinstance(value, str):
            encoded["string"] = value
        elif isinstance(value, bool):
            encoded["bool"] = value
        elif isinstance(value, (int, float)) and float(value).is_integer() and abs(value) < 2**53:
            # 5.0 is the same JSON number as 5, so a rule on `long` must see it too.
            encoded["long"] = int(value)
        return encoded


class _Array(Encoder):
    """Items as a set of scalars; what is no scalar by schema goes in as text."""

    def __init__(self, item: Encoder | None) -> None:
        self._item = item
        self.cedar_type = f"{{items: Set<{item.cedar_type if item else 'String'}>, count: Long}}"

    def shape(self) -> Shape:
        return {"items": {}, "count": {}}

    def encode(self, value: Any) -> Any:
        items = _expect(value, list)
        encode = self._item.encode if self._item else text_of
        return {"items": [encode(item) for item in items], "count": len(items)}


class _ObjectArray(Encoder):
    def __init__(self, fields: Mapping[str, Encoder]) -> None:
        self._fields = fields
        self.parts = 1 + len(fields)
        each = ", ".join(f"{quote(name)}: Set<{field.cedar_type}>" for name, field in fields.items())
        self.cedar_type = f"{{count: Long, each: {{{each}}}, items: Set<String>}}"

    def shape(self) -> Shape:
        return {"count": {}, "items": {}, "each": {name: {} for name in self._fields}}

    def encode(self, value: Any) -> Any:
        items = _expect(value, list)
        each: dict[str, list[Any]] = {name: [] for name in self._fields}
        for item in items:
            for name, member in _expect(item, dict).items():
                if name in self._fields and member is not None:
                    each[name].append(self._fields[name].encode(member))
        # The whole of every item as well: a field that is no scalar is not lost.
        return {"count": len(items), "each": each, "items": [text_of(item) for item in items]}


@dataclass(frozen=True, slots=True)
class _Member:
    encoder: Encoder
    required: bool
    nullable: bool


class _Record(Encoder):
    """An object with declared members; undeclared ones go to `extra` where the schema is open."""

    def __init__(
        self,
        members: Mapping[str, _Member],
        *,
        is_open: bool,
        has_nulls: bool | None = None,
        whole: Mapping[str, _Member] | None = None,
    ) -> None:
        self._members = members
        self._is_open = is_open
        self._whole = members if whole is None else whole
        """Members that are the schema's own, also where this encoder leaves them out."""
        self._has_nulls = (
            any(member.nullable for member in members.values()) if has_nulls is None else has_nulls
        )
        self._chosen: dict[frozenset[str], Encoder] = {}
        self.parts = 1 + sum(member.encoder.parts for member in members.values())
        parts = [
            f"{quote(name)}{'' if member.required and not member.nullable else '?'}: "
            f"{member.encoder.cedar_type}"
            for name, member in members.items()
        ]
        if self._has_nulls:
            parts.append(f"{NULLS}: Set<String>")
        if is_open:
            parts.append(f"{EXTRA}: Set<{{key: String, value: String}}>")
        self.cedar_type = "{" + ", ".join(parts) + "}"

    def encode(self, value: Any) -> Any:
        encoded: dict[str, Any] = {}
        nulls: list[str] = []
        extra: list[dict[str, str]] = []
        for name, item in _expect(value, dict).items():
            member = self._whole.get(name)
            if member is None:
                if self._is_open:
                    extra.append({"key": name, "value": text_of(item)})
            elif item is None and member.nullable:
                nulls.append(name)
            elif name in self._members:
                encoded[name] = member.encoder.encode(item)
        if self._has_nulls:
            encoded[NULLS] = nulls
        if self._is_open:
            encoded[EXTRA] = extra
        return encoded

    def shape(self) -> Shape:
        shape: dict[str, Shape] = {name: member.encoder.shape() for name, member in self._members.items()}
        if self._has_nulls:
            shape[NULLS] = {}
        if self._is_open:
            shape[EXTRA] = {}
        return shape

    def only(self, names: frozenset[str] | None) -> Encoder:
        if names is None:
            return self
        part = self._chosen.get(names)
        if part is None:
            part = _Record(
                {name: member for name, member in self._members.items() if name in names},
                is_open=self._is_open and EXTRA in names,
                has_nulls=self._has_nulls and NULLS in names,
                whole=self._whole,
            )
            self._chosen[names] = part
        return part


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}")
    return value


def quote(name: str) -> str:
    """`name` as an attribute name in Cedar's schema syntax."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name not in _CEDAR_WORDS:
        return name
    escaped = "".join(
        char if char.isprintable() and char not in '"\\' else f"\\u{{{ord(char):x}}}" for char in name
    )
    return f'"{escaped}"'


_CEDAR_WORDS: Final = frozenset(
    "true false if then else in is like has permit forbid when unless".split()
    + "principal action resource context".split()
)


def argument_encoder(schema: Mapping[str, Any]) -> Encoder:
    """The encoder of one tool's arguments. Raises `UnencodableSchema` at load, never per request."""
    encoder, _ = _Compiler(schema).compile(schema, 0)
    if not isinstance(encoder, _Record):
        encoder = _Record({}, is_open=True)
    return encoder


_SIMPLE: Final[Mapping[str, Callable[[], Encoder]]] = {
    "string": _String,
    "integer": _Long,
    "boolean": _Bool,
    "number": _Number,
}


class _Compiler:
    """Makes the encoders of one schema. Each place at each depth is looked at once, however many refer to it,
    and what a type comes to is bounded before its text is put together.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[tuple[int, int], tuple[Encoder, bool]] = {}
        # A schema without references that is within the bounds has each part in no more types than this.
        self._parts_left = MAX_EXPANDED_PARTS * (MAX_SCHEMA_DEPTH + 2)
        self._characters_left = MAX_TYPE_CHARACTERS * (MAX_SCHEMA_DEPTH + 2)

    def compile(self, node: Any, depth: int) -> tuple[Encoder, bool]:
        """(encoder, nullable) of a schema node. Beyond a fixed depth, and where recursive, text."""
        # The node is part of the root, which is held here: no other object can come to have its id.
        key = (id(node), depth)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._compiled(node, depth)
            self._parts_left -= found[0].parts
            self._characters_left -= len(found[0].cedar_type)
            if self._parts_left < 0 or self._characters_left < 0:
                raise _too_large()
        return found

    def _compiled(self, node: Any, depth: int) -> tuple[Encoder, bool]:
        schema = resolve_reference(self._root, node) if isinstance(node, Mapping) else None
        if schema is None or depth > MAX_SCHEMA_DEPTH:
            return _Union(), False
        schema, nullable = without_null(self._root, schema)
        if schema is None:
            return _Union(), nullable
        return self._encoder_of(schema, depth), nullable

    def _encoder_of(self, schema: Mapping[str, Any], depth: int) -> Encoder:
        kind = schema.get("type")
        if kind is None and _all_strings(schema.get("enum")):
            kind = "string"
        if kind is None and isinstance(schema.get("const"), str):
            kind = "string"
        if isinstance(kind, str) and kind in _SIMPLE:
            return _SIMPLE[kind]()
        if kind == "array":
            return self._array_encoder(schema, depth)
        if kind == "object":
            return self._record_encoder(schema, depth)
        return _Union()

    def _array_encoder(self, schema: Mapping[str, Any], depth: int) -> Encoder:
        items = schema.get("items")
        if not isinstance(items, Mapping) or "prefixItems" in schema:
            return _Array(None)
        encoder, nullable = self.compile(items, depth + 1)
        if nullable:
            return _Array(None)
        if isinstance(encoder, (_String, _Long, _Bool)):
            return _Array(encoder)
        if isinstance(encoder, _Record):
            declared = (resolve_reference(self._root, items) or {}).get("properties", {})
            fields = {
                name: field
                for name, member in declared.items()
                for field in [self.compile(member, depth + 2)[0]]
                if isinstance(field, (_String, _Long, _Bool))
            }
            return _ObjectArray(fields)
        return _Array(None)

    def _record_encoder(self, schema: Mapping[str, Any], depth: int) -> Encoder:
        members: dict[str, _Member] = {}
        required = frozenset(schema.get("required", []))
        is_open = schema.get("additionalProperties", True) is not False or "patternProperties" in schema
        parts, characters = 1, 0
        for name, node in schema.get("properties", {}).items():
            _check_name(name, is_open=is_open)
            resolved = resolve_reference(self._root, node) if isinstance(node, Mapping) else None
            # A default is always filled in, so the attribute is always there.
            present = name in required or (resolved is not None and "default" in resolved)
            encoder, nullable = self.compile(node, depth + 1)
            members[name] = _Member(encoder, present, nullable)
            parts += encoder.parts
            characters += len(name) + len(encoder.cedar_type)
            if parts > MAX_EXPANDED_PARTS or characters > MAX_TYPE_CHARACTERS:
                raise _too_large()
        return _Record(members, is_open=is_open)


def _all_strings(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, str) for value in values)


def _check_name(name: str, *, is_open: bool) -> None:
    if name in RESERVED_NAMES:
        raise UnencodableSchema(f"an argument cannot be called `{name}`: Cedar's JSON gives it a meaning")
    if (name == NULLS) or (name == EXTRA and is_open):
        raise UnencodableSchema(f"an argument cannot be called `{name}`: the name is taken by its encoding")


def _too_large() -> UnencodableSchema:
    return UnencodableSchema(
        f"with its references followed, the schema has over {MAX_EXPANDED_PARTS} parts, or over "
        f"{MAX_TYPE_CHARACTERS} characters: leave out what it need not hold, or declare it as text"
    )
