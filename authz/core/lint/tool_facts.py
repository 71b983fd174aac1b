"""What lint knows of one tool: its descriptor as it is written, and where each part of it stands."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from authz.core.json_schema import is_null, steps_of
from authz.core.lint.table import Hit
from authz.core.pointer import Tokens, format_pointer
from authz.model.resource import Authority
from authz.model.tool import Role

Path = tuple[str | int, ...]
_SHELVES: Final = ("properties", "patternProperties", "$defs", "definitions")
_UNIONS: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFacts:
    """One entry of `accesses:`."""

    verb: str
    declared: Authority | None
    """What the entry says; `None` where it says nothing."""
    derived: Authority | None
    """The least that is derived for it; `None` for a tool that could not be compiled."""
    kind: str = ""
    at: Tokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """One tool of `tools/*.yaml`."""

    name: str
    """`server/tool`."""
    file: str
    line_of: Callable[[Path], int | None]
    """The line of a part of this tool's entry."""
    description: str
    input_schema: Mapping[str, Any]
    accesses: tuple[AccessFacts, ...]
    side_effect: str
    has_idempotency_key: bool
    has_retention: bool
    has_probe: bool
    reviewed: bool = True
    is_command: bool = False
    """Whether its server is run by a command: it is no url, and not in the runtime itself."""
    roles: Mapping[Tokens, Role] = field(default_factory=dict)
    may_start_with_dash: tuple[Tokens, ...] = ()

    def at(self, message: str, hint: str, path: Path = (), pointer: Tokens | None = None) -> Hit:
        """A finding about the part at `path`, or at `pointer` into the schema."""
        if pointer is not None:
            path = ("input_schema", *steps_of(self.input_schema, pointer))
        return Hit(
            subject=self.name,
            message=f"`{self.name}`: {message}",
            file=self.file,
            line=self.line_of(path),
            hint=hint,
            pointer=format_pointer(pointer) if pointer is not None else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSchema:
    """A schema of a value that a caller sends: not one that only tests another."""

    pointer: Tokens
    name: str
    """What the value is called: the property, or the array that it is an item of. Empty for the whole."""
    node: Any
    siblings: frozenset[str] = frozenset()
    """The properties beside it."""

    @property
    def shown(self) -> str:
        """How a message names it."""
        return f"`{self.name}`" if self.name else "the arguments"


def value_schemas(schema: Mapping[str, Any]) -> Iterator[ValueSchema]:
    """Every schema of a value in a tool's schema. What `not`, `if` and `contains` hold describes no value."""
    yield from _values(schema, ValueSchema(pointer=(), name="", node=schema))


def _values(root: Mapping[str, Any], value: ValueSchema) -> Iterator[ValueSchema]:
    yield value
    node = value.node
    if not isinstance(node, Mapping):
        return
    for keyword in _SHELVES:
        members = node.get(keyword)
        for name, member in members.items() if isinstance(members, Mapping) else ():
            yield from _values(
                root,
                ValueSchema(
                    pointer=(*value.pointer, keyword, name),
                    name=name,
                    node=member,
                    siblings=frozenset(members) if isinstance(members, Mapping) else frozenset(),
                ),
            )
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), Mapping):
            yield from _values(root, _inside(value, keyword, node[keyword]))
    parts = node.get("prefixItems")
    for index, member in enumerate(parts if isinstance(parts, list) else ()):
        yield from _values(root, _inside(value, "prefixItems", member, str(index)))
    if "type" not in node:
        # Beside a type, alternatives only narrow it.
        for keyword, index, option in options_of(root, node):
            yield from _values(root, _inside(value, keyword, option, str(index)))


def _inside(value: ValueSchema, keyword: str, node: Any, *steps: str) -> ValueSchema:
    return ValueSchema(pointer=(*value.pointer, keyword, *steps), name=value.name, node=node)


def options_of(root: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """(keyword, index, schema) of the alternatives of a union, without null."""
    for keyword in _UNIONS:
        options = node.get(keyword)
        for index, option in enumerate(options if isinstance(options, list) else ()):
            if not is_null(root, option):
                yield keyword, index, option
