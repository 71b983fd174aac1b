"""What a rule that asks demands of an approval, and what one may permit (spec sections 6 and 8)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from authz.model.resource import Authority, Verb

DENIED_MARK: Final = "authz:denied"
"""In the exposure of a session in which a person said no: what is decided there is held against that."""


class Factor(StrEnum):
    """How strongly the approver must prove to be there. Ordered: passkey is the strongest."""

    SESSION = "session"
    PASSKEY = "passkey"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTerms:
    """The terms of one asking rule: its `@approvers`, `@quorum`, `@ttl` and `@factor`."""

    approvers: tuple[str, ...] = ()
    """Cedar entities, `Group::"finance"`. Empty: whoever policy lets approve."""
    quorum: int = 1
    ttl_seconds: int | None = None
    factor: Factor = Factor.SESSION


class ApprovalState(StrEnum):
    """Where an approval stands. A request ends in one of the first four that are not `pending`, for ever;
    what an approved one permits ends as `consumed` or `void`.
    """

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    """A person said no."""
    EXPIRED = "expired"
    """Nobody answered in time: no human denial."""
    CANCELLED = "cancelled"
    """Its requester took it back."""
    CONSUMED = "consumed"
    """Every use that was granted is spent."""
    VOID = "void"
    """It was revoked, or its time ran out."""


class ScopeKind(StrEnum):
    """How far a yes reaches, narrowest first."""

    ONCE = "once"
    TIMES = "times"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a session's yes covers: a resource that was shown, and what lies beneath it by component."""

    verb: Verb
    uri: str
    """Canonical."""
    authority: Authority
    """The highest that was shown for it."""
    tree: bool
    """Whether all that lies beneath was shown to be touched at once: else one object at a time may be."""
    confirmed: bool
    """Whether the executor's file system said where it really lies: then it has to say so again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantScope:
    """How far a yes reaches: as it was offered, or as it was chosen."""

    kind: ScopeKind
    uses: int | None
    """Most uses; `None` (of `session`) for any number."""
    reach: tuple[Reach, ...] = ()
    """Of `session` alone: every access of a later call lies in one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedBy:
    """Who said yes, and how strongly that was proved."""

    person: str
    factor: Factor


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTold:
    """The approval that a decision waits for, rests on, or is refused by."""

    id: str
    state: ApprovalState
    """After the decision: `consumed` where it took the last use."""
    shown_digest: str = ""
    """Of what approvers are shown, or were; empty of a denial."""
    is_guessable: bool = False
    """Whether that digest is over a secret, which somebody could try out values for."""
    expires_at_ms: int | None = None
    """When the request, or the yes, is over."""
    joined: bool = False
    """The request waited already: people are asked once."""
    scope: ScopeKind | None = None
    """Of a yes."""
    uses_left: int | None = None
    """Of a yes, after this decision; `None` where they are not counted."""
    approvers: tuple[ApprovedBy, ...] = ()
    """Of a yes. Recorded, never on the wire."""
    denied_by: str = ""
    """Of a no, the person. Recorded, never on the wire."""
    url: str = ""
    """Where people answer, or see it."""
