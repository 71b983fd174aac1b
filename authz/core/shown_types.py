"""The shown document: what an approver is shown of a call, as JSON (spec section 8). Version 1.

Values in it are raw; whoever prints them makes them visible (`visible`, `rendering_*`). So its digest depends
on the call alone, never on a font, a terminal or the Unicode version of a server.
"""

from typing import Any, Final, Literal, NotRequired, TypedDict

SCHEMA: Final = 1


class Part(TypedDict):
    """A part of a sentence: this service's own words, or a value that stands between them."""

    words: NotRequired[str]
    value: NotRequired[str]


class ShownAccess(TypedDict):
    """One access: verb, canonical resource, and how much it can change."""

    verb: str
    uri: str
    type: str
    value: str
    """The resource as the executor gets it; of an `Opaque` one the text that was not understood."""
    scope: str
    pattern: str | None
    authority: str
    authority_because: str
    argument: str
    role: str
    untrusted: bool
    """Whether the argument that names it came from an untrusted source."""
    confirmed: bool
    """Whether the executor's file system said where it really lies."""
    asked: bool
    """Whether a rule asks because of this access."""
    beneath: list[str]
    """Of a tree: the places beneath it because of which a rule asks."""


class Fold(TypedDict):
    """Where a long value is folded, in characters; all of it is in the document."""

    head: int
    tail: int
    hidden_characters: int
    length: int
    lines: int
    digest: str


class ShownArgument(TypedDict):
    """One leaf of the canonical arguments, whole."""

    pointer: str
    role: str
    type: str
    value: Any
    length: int | None
    """Of a string, in characters."""
    sent: NotRequired[Any]
    """What the caller wrote, where the canonical form differs."""
    default: bool
    """Filled in by the tool's schema; the caller did not send it."""
    source: str
    uri: str | None
    call: str | None
    tool: str | None
    declared_source: NotRequired[str]
    """A source that was declared and is not believed."""
    untrusted: bool
    untrusted_because: str
    labels: list[str]
    secret: bool
    fold: Fold | None


class DataFlow(TypedDict):
    """Whose data goes where."""

    to: list[str]
    """Canonical URIs of what is sent, connected or paid to, or written as a destination."""
    arguments: list[str]
    """Pointers of the arguments whose values go there."""
    read: list[str]
    """Canonical URIs of what the call reads, and may take along."""
    session_has_read: list[str]
    """Labels of what the session had read before."""


class Undo(TypedDict):
    """Whether there is a way back."""

    kind: Literal["nothing_changes", "sandbox", "undo", "compensator", "cannot_be_undone"]
    how: str
    reviewed_by: str


class ShownTool(TypedDict):
    """Which tool. `says_of_itself` comes from the tool's server, and nobody answers for its truth."""

    name: str
    server: str
    identity: str
    reviewed: bool
    descriptor_digest: str
    advertised_digest: str | None
    says_of_itself: str


class ShownRule(TypedDict):
    """One rule that asks, and its terms."""

    rule: str
    reason: str
    file: str | None
    line: int | None
    approvers: list[str]
    quorum: int
    factor: str
    ttl_seconds: int | None


class Terms(TypedDict):
    """What all asking rules together demand: each quorum is met, the strongest factor, the shortest time."""

    quorum: int
    factor: str
    ttl_seconds: int


class Requester(TypedDict):
    """Who asks. `parent_agent` is the caller's own word."""

    agent: str
    on_behalf_of: str | None
    session: str | None
    parent_agent: str | None
    wants_a_look: bool
    """The caller itself asked for a person to look."""


class ChainLink(TypedDict):
    """One agent of the delegation chain, root first, and the handle of its capability."""

    agent: str
    link: str | None


class Reach(TypedDict):
    """A resource that a wider yes would cover, and everything beneath it."""

    verb: str
    uri: str
    """The resource and what lies beneath it; nothing beside it."""


class OfferedScope(TypedDict):
    """One choice of the approver, spelled out."""

    scope: Literal["once", "times", "session"]
    most_uses: int | None
    reach: list[Reach]
    """Of `session`: a later call is covered when each of its accesses lies here."""
    remembers: list[Part]


class ShownDocument(TypedDict):
    """Everything that an approver is shown."""

    schema: int
    headline: list[Part]
    requester: Requester
    chain: list[ChainLink]
    tool: ShownTool
    accesses: list[ShownAccess]
    data: DataFlow
    arguments: list[ShownArgument]
    authority: str
    side_effect: str
    undo: Undo
    asked_by: list[ShownRule]
    terms: Terms
    scopes: list[OfferedScope]
    only_once_because: list[str]
    must_open: list[str]
    """Pointers of the arguments that a person has to open before a yes."""
    cwd: str | None
    sandbox_root: str | None
    fingerprint: str
    policy_version: str
