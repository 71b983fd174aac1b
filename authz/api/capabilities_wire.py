"""Bodies of `/capabilities`: what may be sent, and what is answered."""

from typing import Annotated, Any, Literal

from authz_client.capabilities.claims import MAX_DELEGATIONS
from pydantic import BaseModel, Field, StringConstraints

from authz.core.requests import Id, Wire

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:jwt"
Token = Annotated[str, StringConstraints(min_length=1, max_length=16_384)]
Chain = Annotated[list[Token], Field(min_length=1, max_length=MAX_DELEGATIONS + 1)]
Hash = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")]
"""32 bytes in unpadded base64url: a link hash or a thumbprint."""
Details = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=16)]
Seconds = Annotated[int, Field(ge=1, le=2**31)]
Depth = Annotated[int, Field(ge=0, le=MAX_DELEGATIONS)]


class HolderKey(Wire):
    """The public Ed25519 key of the holder, as a JWK (RFC 8037)."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: Annotated[str, StringConstraints(min_length=43, max_length=43)]


class IssueCapability(Wire):
    """A capability that is asked for: with `authorization_details` (RFC 9396), or for a `task`."""

    agent: Id
    on_behalf_of: Id | None = None
    holder: HolderKey
    authorization_details: Details | None = None
    task: dict[str, Any] | None = None
    expires_in: Seconds | None = Field(
        default=None, description="Seconds; an hour unless it is said. A task ends at its own deadline."
    )
    max_depth: Depth = Field(default=0, description="How often it may be handed on.")


class NarrowCapability(Wire):
    """Token exchange (RFC 8693): less of what the chain gives, for another key."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"]
    subject_token: Annotated[str, StringConstraints(min_length=1, max_length=200_000)] | Chain = Field(
        description="The chain: its links root first, as a list, or as one text with a blank between them."
    )
    subject_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"]
    requested_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"] | None = None
    audience: Annotated[str, StringConstraints(min_length=1, max_length=2048)] | None = None
    agent: Id
    holder: HolderKey
    authorization_details: Details | None = Field(
        default=None, description="What the leaf gives, where it is left out."
    )
    task: dict[str, Any] | None = None
    expires_in: Seconds | None = None
    max_depth: Depth | None = None
    proof: Token = Field(
        description="By the key of the leaf (`cap-pop+jwt`), over the SHA-256 of the RFC 8785 form of the "
        "parameters as they are sent less `proof` and `subject_token`; in a form every value is a text."
    )


class IntrospectCapability(Wire):
    """A chain, or the hash of a link on record."""

    capability: Chain | None = None
    link: Hash | None = None


class RevokeCapability(Wire):
    """Exactly one handle, and why."""

    link: Hash | None = None
    jti: Id | None = None
    holder: Hash | None = Field(default=None, description="Thumbprint (RFC 7638) of the holder's key.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class RuleOut(BaseModel):
    """A rule that decided."""

    rule: str
    kind: Literal["permit", "forbid", "ask"]
    file: str | None
    line: int | None
    reason: str


class CapabilityOut(BaseModel):
    """A capability that was given. `capability` goes into `POST /decide` as it is."""

    capability: list[str]
    link: str
    jti: str
    root: str
    holder: str
    issuer: str
    audience: str
    subject: str
    agent: str
    issued_at: str
    expires_at: str
    expires_in: int
    max_depth: int
    authorization_details: list[dict[str, Any]]
    matched: list[RuleOut]
    policy_version: str


class NarrowedOut(CapabilityOut):
    """The same, with the members of RFC 8693, section 2.2.1."""

    access_token: str
    issued_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"]
    token_type: Literal["N_A"]


class RevokedByOut(BaseModel):
    """What stops a link: its own handle, or one of a link above it."""

    kind: Literal["link", "jti", "holder"]
    value: str
    link: str


class LinkOut(BaseModel):
    """One link on record."""

    link: str
    parent: str | None
    root: str
    origin: Literal["issued", "narrowed", "seen"]
    jti: str
    holder: str
    agent: str
    subject: str
    depth: int
    issued_at: str
    expires_at: str
    authorization_details: list[dict[str, Any]] = Field(
        description="With keyed digests for what `equals` and `one_of` name: the values are kept nowhere."
    )
    tools: dict[str, str] = Field(description="Descriptor digests of the tools that its rights name.")
    child_trace_id: str | None
    task: dict[str, Any] | None
    issued_by: str
    revoked_by: RevokedByOut | None


class BudgetOut(BaseModel):
    """A budget of a link, and what is taken of each of its counters."""

    budget: dict[str, Any]
    used: dict[str, int | str]


class HopOut(LinkOut):
    """One link of a chain."""

    gave_up: dict[str, Any] | None = Field(description="Null for the first link.")
    budgets: list[BudgetOut]


class IntrospectionOut(BaseModel):
    """RFC 7662, with every link. Where it is not active, `reason` says why, and `link` which one."""

    active: bool
    reason: str | None
    link: int | None = None
    component: Literal["R", "O", "P", "E"] | None = None
    iss: str | None = None
    aud: str | None = None
    sub: str | None = None
    act: dict[str, str] | None = None
    jti: str | None = None
    iat: int | None = None
    exp: int | None = None
    cnf: dict[str, str] | None = None
    authorization_details: list[dict[str, Any]] | None = None
    depth: int | None = None
    hand_offs_left: int | None = None
    links: list[HopOut] | None = None


class RevokedOut(BaseModel):
    """One revocation that is in force now."""

    kind: Literal["link", "jti", "holder"]
    value: str
    until: str


class RevocationOut(BaseModel):
    """What a revocation came to. Links that were made offline and never seen are stopped, and not counted."""

    revoked: list[RevokedOut]
    already: bool
    links: list[str] = Field(description="The newest of those on record that the handle names.")
    live: int = Field(description="How many of `links` had not ended.")
    live_beneath: int = Field(description="How many links on record beneath them had not ended.")
    complete: bool = Field(description="False: there are more than were counted.")


class CapabilitiesOut(BaseModel):
    """A page of links."""

    capabilities: list[LinkOut]
    next: str | None = Field(description="Send as `after` for what follows; null at the end.")


class LinkNode(LinkOut):
    """A link with what lies beneath it."""

    children: list["LinkNode"]


class TreeOut(BaseModel):
    """Everything on record of one root."""

    complete: bool
    roots: list[LinkNode]


class RevocationsOut(BaseModel):
    """What verifiers of tickets refuse: by link hash, by `jti`, by thumbprint of the holder's key."""

    links: list[str]
    jtis: list[str]
    holders: list[str]
