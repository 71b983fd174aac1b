"""A tool call that a model proposed, as it arrived (spec section 1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from authz.model.resource import ResolvedPath
from authz.model.tool import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who acts. Asserted by the caller, and bound to its credential at stage 0."""

    agent: str
    on_behalf_of: str | None = None
    session: str | None = None
    parent_agent: str | None = None
    """The agent that delegated, where the runtime knows one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceClaim:
    """Where the value of one argument leaf came from, as the runtime says."""

    source: str
    uri: str | None = None
    call: str | None = None
    """The id of the call whose result the value came from."""
    tool: str | None = None
    """`server/name` of the tool whose result the value came from."""
    field: tuple[str, ...] | None = None
    """Where in that result it stood whole, as reference tokens of a JSON Pointer."""
    trust: Trust | None = None
    """May only lower what the source is worth."""
    labels: frozenset[str] = frozenset()
    allowed_use: frozenset[str] = frozenset()

    @property
    def is_secret(self) -> bool:
        """Whether the value is said to be a secret, by its source or by a label."""
        return self.source == "secret" or "secret" in self.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What the caller says about itself. Believed only within what the bundle allows."""

    cwd: str | None = None
    sandbox_root: str | None = None
    resolved: Mapping[str, ResolvedPath] = field(default_factory=dict)
    """By JSON Pointer into the arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIds:
    """Where the call stands in its trace. All three identify the operation."""

    trace: str | None = None
    turn: str | None = None
    call: str | None = None
    parent_trace: str | None = None
    parent_turn: str | None = None

    @property
    def complete(self) -> bool:
        """True when trace, turn and call id are all there: mandatory above A0."""
        return self.trace is not None and self.turn is not None and self.call is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """With an allow the act begins: the decision reserves and starts in one."""

    attempt: str
    """The runtime's own name for this attempt: whoever sends it again is the one that began."""
    timeout_ms: int | None = None
    """How long the act may take: its lease lasts longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One proposed call. Nothing in it is believed until a stage has checked it."""

    subject: Subject
    server: str
    tool: str
    advertised_digest: str | None
    arguments: Mapping[str, Any]
    provenance: Mapping[tuple[str, ...], ProvenanceClaim]
    """By the reference tokens of a JSON Pointer into the arguments."""
    ids: CallIds
    claims: Claims
    ask: bool = False
    """The requester wants a human to look: raises an allow, lowers nothing."""
    dry_run: bool = False
    capability: tuple[str, ...] = ()
    proof: str | None = None
    ticket: bool = False
    """With an allow, a ticket for the tool server is wanted."""
    settles: bool = False
    """The runtime says when the act begins and how it ended: without that word it does not act."""
    start: Start | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of model, client, prompt and project, as given; only recorded."""
    occurred_at: str | None = None
    request_digest: str = ""

    @property
    def delegated(self) -> bool:
        """True when a parent is known: such a session acts only with its capability."""
        return self.subject.parent_agent is not None or self.ids.parent_trace is not None

    @property
    def tool_name(self) -> str:
        """`server/name`, as it was asked for."""
        return f"{self.server}/{self.tool}"
