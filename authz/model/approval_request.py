"""A request for an approval, the answers to it, and what a yes permits (spec section 8).

Nothing here holds an argument: what approvers are shown in the clear is kept apart, under `shown_digest`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from authz.model.approval import ApprovalState, Factor, GrantScope
from authz.model.call import CallIds
from authz.model.decision import RuleMatch
from authz.model.resource import Authority


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks: the subject of the call as stages 0 and 6 bound it, and the credential that sent it."""

    tenant: str
    agent: str
    on_behalf_of: str | None
    session: str | None
    chain: tuple[str, ...]
    """Agents of the delegation chain, root first; the agent alone where it presents no capability."""
    parent_agent: str | None
    delegated: bool
    """Whether the call was made by somebody's child, by whatever sign (`context.session.delegated`)."""
    key_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafTrust:
    """How far the value of one argument leaf is to be believed, and what it is about."""

    untrusted: bool
    secret: bool
    labels: frozenset[str] = frozenset()

    def is_no_worse_than(self, shown: "LeafTrust") -> bool:
        """Whether whoever accepted `shown` accepted all of this."""
        return (
            (shown.untrusted or not self.untrusted)
            and (shown.secret or not self.secret)
            and self.labels <= shown.labels
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolIdentity:
    """Which reviewed tool. Another digest is another tool: what was given to the old one is void."""

    server: str
    """The identity of its server, never an alias."""
    name: str
    descriptor_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """What an approval is about: of the call that was shown, and of the call that wants to use one."""

    requester: Requester
    fingerprint: str
    tool: ToolIdentity
    authority: Authority
    """The highest of its accesses."""
    rules: tuple[RuleMatch, ...]
    """Every rule that asks, with its terms."""
    provenance: Mapping[str, LeafTrust]
    """By JSON Pointer of every leaf of the canonical arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that waits for people, or did."""

    id: str
    """Random, 128 bits: whoever knows it may still see nothing."""
    dedupe_key: str
    """Pending requests with the same one are the same request."""
    asked: AskedFor
    ids: CallIds
    """Of the call that asked first."""
    resources: frozenset[str]
    """Keys of what it is about, by which re-asking is counted."""
    shown_digest: str
    """Of the document that approvers are shown: a yes carries it."""
    scopes: tuple[GrantScope, ...]
    """What approvers may choose from, narrowest first; `uses` is the most."""
    ttl_seconds: int
    """How long a yes lasts."""
    cannot_be_approved_because: tuple[str, ...]
    """Why no yes is taken: of what cannot be seen there is none."""
    policy_version: str
    created_at_ms: int
    expires_at_ms: int
    """From then on it is expired, whether or not somebody has written that down."""
    state: ApprovalState = ApprovalState.PENDING
    """As written; `authz.core.approval.state_at` says what it is at a time."""
    version: int = 0
    """Rises by one with every write; the compare-and-set of the next write names it."""
    closed_at_ms: int = 0
    closed_by: str = ""
    """The person who denied, the last who approved, or the credential that cancelled."""
    decision_id: str = ""
    """Of the decision that asked first."""
    rule_digests: Mapping[str, str] = field(default_factory=dict)
    """Of the text of each asking rule, by its name: by these a rule is known to be the one that was shown."""


class CredentialKind(StrEnum):
    """By what somebody who answers is known. Only a person answers."""

    PERSON = "person"
    """The signed-in session of a human account."""
    KEY = "key"
    """An agent's or a runtime's, whatever its roles."""
    DEV_KEY = "dev_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """Who answers, as the service knows it. Nothing in it comes from the answer."""

    tenant: str
    person: str
    """Id of the `User` in the tenant's bundle: one for all accounts of a person."""
    credential: CredentialKind
    entities: frozenset[str]
    """The person and every group it is in, directly or not, as Cedar writes them: `Group::"finance"`."""
    permitted: bool
    """What policy says to `action in Action::"approve"`, asked now and for this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """A yes as it came in."""

    shown_digest: str
    """Of the document that was rendered to the person."""
    scope: GrantScope
    """What it chose. Of `reach` only the offered one counts, so none is needed."""
    factor: Factor
    """What was verified, not what was said."""
    receipt: str = ""
    """What proves the factor later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """The yes of one person, found to be good."""

    request_id: str
    person: str
    entities: frozenset[str]
    """Of the voter at that time: which rules' people it is."""
    factor: Factor
    shown_digest: str
    scope: GrantScope
    at_ms: int
    receipt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What an approved request permits."""

    request_id: str
    asked: AskedFor
    """What was shown, and so what it holds for."""
    scope: GrantScope
    votes: tuple[Vote, ...]
    granted_at_ms: int
    expires_at_ms: int
    uses_left: int | None
    """`None` where uses are not counted."""
    voided_at_ms: int = 0
    """When it was revoked; 0 for never."""
    voided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A person's no. It sticks for that fingerprint in that session, whatever else was granted."""

    request_id: str
    tenant: str
    session: str | None
    fingerprint: str
    person: str
    reason: str
    """In the person's words, for the agent. May be empty."""
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """One use of a grant, to be taken in the transaction of the decision that uses it.

    A compare-and-set: it holds where the grant still has as many uses as were read, is not revoked and is not
    over, and nobody denied the call since; otherwise nothing is written and the call is decided again. A
    grant whose uses are not counted has one too: it may have been revoked since.
    """

    request_id: str
    fingerprint: str
    """Of the call that uses it, which a grant of several calls does not tell: a no to it undoes the use."""
    expected_uses_left: int | None
    takes: bool = True
    """Not for an operation that took its use before and is tried again: then it holds unless the grant was
    revoked or the call was denied since, whatever is left of it."""
