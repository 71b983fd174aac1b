"""Reviewed tool descriptors (spec section 3). Files in the bundle, because they are security policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from authz.model.resource import Authority, Scope, Verb


class Role(StrEnum):
    """What an argument is for, so that one rule serves every tool."""

    TARGET = "target"
    DESTINATION = "destination"
    PAYLOAD = "payload"
    COMMAND = "command"
    CREDENTIAL = "credential"
    AMOUNT = "amount"
    OPTION = "option"


class SideEffect(StrEnum):
    """Whether a call may run twice. It never lowers authority."""

    NONE = "none"
    IDEMPOTENT = "idempotent"
    CUMULATIVE = "cumulative"


class Trust(StrEnum):
    """Whether a value may steer what happens. Ordered by `Trust.minimum`, not by text."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What an alias stands for: the identity of a tool server, and who may use it."""

    alias: str
    identity: str
    """A URL, a command, or `local:NAME` for tools inside the runtime."""
    local: bool
    """Only a local server's tools may be called without an advertised digest."""
    profiles: frozenset[str]
    """Credential profiles that may use the server. Empty means nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSpec:
    """One access that a tool makes, and where its resource stands in the arguments."""

    verb: Verb
    kind: str
    object_type: str | None = None
    """The declared type of `id` objects: `account`."""
    at: tuple[str, ...] | None = None
    """Reference tokens of a JSON Pointer into the arguments; `*` stands for every item."""
    fixed: str | None = None
    """The resource itself, for tools whose object is not an argument."""
    when_absent: str | None = None
    """The resource when the argument at `at` is not there; without it there is then no access."""
    scope: Scope = Scope.OBJECT
    """A tool that lists a tree reads the tree: its names are what the folders in it hold."""
    tree_if: tuple[str, ...] | None = None
    """Pointer to an argument that makes the scope a tree when it is anything but false or absent."""
    ref_at: tuple[str, ...] | None = None
    """Of kind `repo`: where the branch stands; without it the value may name one after `#`."""
    database: str | None = None
    """Of kind `sql`: what rules call the database behind the connection."""
    dialect: str | None = None
    """Of kind `sql`: how its statements are to be read."""
    default_schema: str | None = None
    """Of kind `sql`: where names without a schema are."""
    raised_authority: Authority = Authority.A0
    """What a reviewer raised this access to. Raising only: the derived authority is the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """A reviewer's word that a change is safe to retry and can be taken back."""

    reviewed_by: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A read-only tool that tells whether an interrupted call took effect."""

    tool: str
    when: str
    """`before` (compare the state before and after) or `after`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What the endpoint offers for settling a call that was interrupted."""

    idempotency_key_at: tuple[str, ...] | None = None
    retention_seconds: int | None = None
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnSpec:
    """How far what a tool returns is to be believed, and what it is about."""

    trust: Trust = Trust.UNTRUSTED
    labels: frozenset[str] = frozenset()
    fields: Mapping[str, "ReturnSpec"] = field(default_factory=dict)
    """By JSON Pointer into the result; `*` stands for every item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The estimated cost of one call."""

    amount: Decimal
    currency: str
    """ISO 4217 code, or a unit that the bundle's limits use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """One reviewed tool."""

    server: Server
    name: str
    description: str
    advertised_digest: str | None
    """Pins the server's whole `tools/list` entry. `None` only for local servers."""
    input_schema: Mapping[str, Any]
    roles: Mapping[tuple[str, ...], Role]
    """By pointer pattern; a leaf has the role of the longest pattern that is a prefix of it."""
    accesses: tuple[AccessSpec, ...]
    side_effect: SideEffect
    leaves_sandbox: bool
    undo: Undo | None
    compensator: str | None
    settlement: Settlement
    returns: ReturnSpec
    cost: Cost | None
    digest: str
    """The descriptor digest: `sha256:…` of the RFC 8785 form of the reviewed descriptor."""
    reviewed: bool = True
    """False for a draft: every access of it is at A3, and nothing that it says of itself is believed."""
    may_start_with_dash: tuple[tuple[str, ...], ...] = ()
    """Pointer patterns of arguments that no program can take for an option, whatever they begin with."""

    @property
    def is_undoable(self) -> bool:
        """True when a reviewer found a way back: an undo, or a compensator."""
        return self.undo is not None or self.compensator is not None

    @property
    def qualified_name(self) -> str:
        """`server/name`: how rules, logs and capabilities name the tool."""
        return f"{self.server.alias}/{self.name}"
