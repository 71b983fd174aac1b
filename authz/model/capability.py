"""What the service knows of capabilities (spec section 7): chains presented, links on record, revocations.

The format itself, and all that can be told of a token without the service, is `authz_client.capabilities`.
Link hashes and thumbprints are base64url SHA-256 without padding, as there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from authz_client.capabilities import Ancestor, Budget, PublicKey, Revocations, VerifiedChain
from authz_client.capabilities import Refusal as TokenRefusal


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShare:
    """One counter that calls are debited from: that of `budget` of one link (see `capabilities.budgets`)."""

    link_hash: str
    budget: Budget
    expires_at_ms: int
    """`exp` of the link: its counter is of no use after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFacts:
    """What a checked capability comes to: told to policies, to the record and to the reservations.

    `NO_CAPABILITY` is itself a fact that policies see: the shipped rules deny delegated agents
    that have none.
    """

    presented: bool
    agents: tuple[str, ...] = ()
    """Every agent of the delegation chain, root first. Policy is evaluated for each."""
    depth: int | None = None
    """Hand-offs between the first agent of the chain and the one that acts."""
    holder: str | None = None
    """Thumbprint of the key that proved to hold the leaf."""
    root: str | None = None
    """The first agent of the chain."""
    expires_at_ms: int | None = None
    handles: tuple[Ancestor, ...] = ()
    """Every link of the chain, root first, those above a narrowed root included: for record and tickets."""
    used: tuple[int, ...] = ()
    """For each access of the call the entry of the leaf that allows it."""
    shares: tuple[BudgetShare, ...] = ()
    """Every counter that the call is debited from, root first."""
    kid: str = ""
    """Of the key that signed the root."""


NO_CAPABILITY = CapabilityFacts(presented=False)

DELEGATED: Final = "authz:delegated"
"""How labels begin by which the exposure of a session or trace says who is delegated there.

A parent may share both with its child, so they name the agent (`authz.core.delegation`). Alone it stands for
whoever works there: that is how databases from before have it.
"""


class LinkOrigin(StrEnum):
    """How a link came to be known to the service."""

    ISSUED = "issued"
    """A root that was issued to an agent's key."""
    NARROWED = "narrowed"
    """A root that the service narrowed from a chain (`/capabilities/attenuate`)."""
    SEEN = "seen"
    """Made offline by its parent's holder, and presented since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """One link on record. No signature is kept: what is stored here cannot be presented."""

    tenant: str
    link_hash: str
    parent_hash: str | None
    """The link above, for a narrowed root the leaf that it came from; `None` for an issued root."""
    root_hash: str
    """The first link of all, also above a narrowed root."""
    origin: LinkOrigin
    jti: str
    holder: str
    """Thumbprint of the holder's key."""
    agent: str
    subject: str
    depth: int
    """Hand-offs from the first agent on, also across a narrowed root."""
    issued_at_ms: int
    expires_at_ms: int
    details: str
    """`authorization_details`, as RFC 8785 JSON, with digests for what `equals` and `one_of` name."""
    inherited: tuple[tuple[BudgetShare, ...], ...] = ()
    """Of a narrowed root: for each entry the counters of the links that it came from, root first."""
    tool_digests: Mapping[str, str] = field(default_factory=dict)
    """Of a root: the descriptor digest of each tool that its rights name. To another one it gives nothing."""
    child_trace: str = ""
    """The trace in which the child works, where its task packet names one."""
    task: Mapping[str, Any] | None = None
    """The task packet that it was made for, where there is one."""
    issued_by: str = ""
    """Id of the caller's key that asked for it; of the call's for a link that was seen."""
    kid: str = ""
    """Of a root: by which key of the service it is signed. Empty where that was not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """The capability that a call presents, as far as loading it went. `check_capability` proves the rest."""

    digest: str
    """`chain_digest` of the links that this is about."""
    verified: VerifiedChain | TokenRefusal
    """What `verify_structure` says, perhaps some time ago: `recheck` is due for every call."""
    root: LinkRecord | None = None
    """What is on record of the root. A root that is on no record was not issued here, or is forgotten."""
    recorded: bool = False
    """Whether every link of the chain is known to be on record."""
    replayed: bool = False
    """Whether a commit has just found the proof to be used already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """By what a tenant's tokens are verified now."""

    issuer: str
    audience: str
    keys: Mapping[str, PublicKey]
    """By `kid`."""
    revoked: Revocations
    max_lifetime_seconds: int
    skew_seconds: int
    max_depth: int


class RevocationKind(StrEnum):
    """By which handle something is revoked."""

    LINK = "link"
    JTI = "jti"
    HOLDER = "holder"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationRecord:
    """One revocation. It lives until nothing that it stops could be valid any more."""

    tenant: str
    kind: RevocationKind
    value: str
    until_ms: int
    reason: str = ""
    revoked_by: str = ""
    """Id of the caller's key."""
    revoked_at_ms: int = 0
    sequence: int = 0
    """Its place in the order in which a store took revocations; given by the store, 0 before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofUse:
    """A proof of possession that a commit uses up: inserted once, or the whole unit is refused."""

    key: str
    """Digest of tenant, thumbprint and `jti`."""
    until_ms: int
    """When nobody takes the proof any more, so that its use may be forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuery:
    """A search among the links on record of one tenant. Empty fields do not restrict."""

    tenant: str
    link_hash: str = ""
    root_hash: str = ""
    jti: str = ""
    holder: str = ""
    agent: str = ""
    subject: str = ""
    live_at_ms: int | None = None
    """Only those that expire after this."""
    after: tuple[int, str] | None = None
    """Continue after this link (issued_at_ms, link_hash), newest first."""
    limit: int = 100
    only_roots: bool = False
    """Only those that the service signed, and so gave their `jti`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityRefused:
    """Which link refused a call, by which rule and which of R, O, P, E, for the answer and the record."""

    reason: str
    """`authz_client.capabilities.Reason`, or a reason of the service's own."""
    link: int | None = None
    """0 for the root of the presented chain."""
    agent: str | None = None
    """Who holds that link."""
    component: str | None = None
