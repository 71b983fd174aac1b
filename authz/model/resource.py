"""What an access touches: canonical resources and the words around them (spec sections 1 and 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Verb(StrEnum):
    """What an access does to its resource."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    EXECUTE = "execute"
    CONNECT = "connect"
    SEND = "send"
    TRANSACT = "transact"
    ADMINISTER = "administer"


class Authority(IntEnum):
    """How much an access can change, and whether that can be undone. Ordered: A3 is the most."""

    A0 = 0
    A1 = 1
    A2 = 2
    A3 = 3


class Scope(StrEnum):
    """Whether an access touches one object or everything beneath it."""

    OBJECT = "object"
    TREE = "tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """Which names beneath a folder an access to its tree is to: no others of it are reached.

    In a part `*` is any run of characters and `?` one character, neither of them a dot at the front. A part
    `**` is any number of any names in a row, none among them: `*.md` is those names, `old*/**` also all that
    lies in them. Letter case makes no difference, and what was not understood exactly is wider than it is.
    """

    parts: tuple[str, ...]
    """One or more, relative to the folder."""

    @property
    def text(self) -> str:
        """How answers and records show it."""
        return "/".join(self.parts)


AttributeValue = str | int | bool | tuple[str, ...]
"""Cedar's String, Long, Bool and Set<String>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One Cedar entity: its type, its id, and its attributes."""

    type: str
    id: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)

    @property
    def cedar(self) -> str:
        """The entity as Cedar writes it: `File::"/workspace/app.py"`.

        JSON string escapes are not Cedar's, so the few characters that need one are escaped here.
        """
        return f'{self.type}::"{escape_cedar(self.id)}"'


def escape_cedar(text: str) -> str:
    """`text` as the inside of a Cedar string literal."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(
        {'"': '\\"', "\\": "\\\\"}.get(char) or (char if char.isprintable() else f"\\u{{{ord(char):x}}}")
        for char in text
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The canonical object of an access: typed, spelled in exactly one way.

    `chain[0]` is the resource itself, and every `chain[i + 1]` is the only parent of `chain[i]`:
    `File::"/w/a"`, `Directory::"/w/a"`, `Directory::"/w"`, `Directory::"/"`.
    """

    kind: str
    """`path` `url` `host` `email` `id`, or `opaque`."""
    uri: str
    """The one spelling used in capabilities, tests and logs: `file:///w/a`."""
    value: str
    """What goes back into the arguments in place of what the model wrote."""
    chain: tuple[Entity, ...]

    @property
    def entity(self) -> Entity:
        """The resource as an entity."""
        return self.chain[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCanonical:
    """Why a value has no canonical form. A refusal is a value, not an exception.

    `understood` tells the two kinds apart: a value that is understood and refused (a NUL in a
    path, userinfo in a url) denies the call; one that could not be understood (a relative path
    with no known directory) becomes an access to an `Opaque` resource, which policy judges.
    """

    code: str
    """Stable: `path.control_character`, `url.userinfo`, …"""
    message: str
    """For people and models: lower case, no final period, without echoing the value."""
    understood: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """How the file system at the executor spells names; declared by the bundle."""

    case_sensitive: bool = True
    normalization: str = "none"
    """`none` (names are bytes, as on Linux) or `nfc`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What relative spellings are relative to. `None` is unknown, which is not the same as `/`."""

    cwd: str | None = None
    root: str | None = None
    """The declared root (`sandbox_root`)."""
    home: str | None = None
    """What `~` stands for; without it `~` is refused."""
    volume: Volume = field(default_factory=Volume)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """What the executor's own file system says a path argument is: the `resolved` claim."""

    path: str
    device: int | None = None
    inode: int | None = None
