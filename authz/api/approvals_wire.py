"""The wire of `/approvals`: bodies of answers, and how requests are told. No argument is in either."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from authz.api.wire import RuleOut
from authz.core.approval import is_guessable, told_state
from authz.core.approval_quorum import strongest_factor, unmet_rules
from authz.core.cedar_context import rfc3339
from authz.core.requests import DigestText, PointerText, Wire
from authz.model.approval import AskTerms, GrantScope, ScopeKind
from authz.model.approval_request import Denial, Grant, Vote
from authz.model.approval_writes import ApprovalStanding
from authz.model.decision import RuleMatch
from authz.service.approval_ballots import MAX_REASON, BallotIn

State = Literal["pending", "approved", "denied", "expired", "cancelled", "consumed", "void"]
ScopeName = Literal["once", "times", "session"]
_MAX_USES = 1_000_000


class ApproveRequest(Wire):
    """A yes to what was shown."""

    shown_digest: Annotated[
        DigestText, Field(description="Of the document that was rendered to the person who says yes.")
    ]
    scope: Annotated[ScopeName, Field(description="How far the yes reaches: one of the offered.")] = "once"
    uses: Annotated[
        int | None, Field(ge=1, le=_MAX_USES, description="With `times`: how often. With no other.")
    ] = None
    opened: Annotated[
        list[PointerText],
        Field(max_length=10_000, description="JSON Pointers of folded arguments that the person opened."),
    ] = Field(default_factory=list)
    assertion: Annotated[
        dict[str, Any] | None,
        Field(description="What the browser's WebAuthn answered, where a passkey proves the yes."),
    ] = None

    @model_validator(mode="after")
    def _uses_go_with_times(self) -> "ApproveRequest":
        if (self.scope == "times") is not (self.uses is not None):
            raise ValueError("`uses` goes with the scope `times`, and with no other")
        return self

    def ballot(self) -> BallotIn:
        """For the service."""
        scope = ScopeKind(self.scope)
        return BallotIn(
            shown_digest=self.shown_digest,
            scope=scope,
            uses=1 if scope is ScopeKind.ONCE else self.uses,
            opened=frozenset(self.opened),
            assertion=self.assertion,
        )


class DenyRequest(Wire):
    """A no."""

    reason: Annotated[
        str,
        StringConstraints(max_length=MAX_REASON),
        Field(description="In the person's words. It goes back to the agent."),
    ] = ""
    shown_digest: DigestText | None = None


class SubjectOut(BaseModel):
    """Who asks."""

    agent: str
    on_behalf_of: str | None = None
    session: str | None = None
    parent_agent: str | None = None


class ScopeOut(BaseModel):
    """A scope that was offered or chosen."""

    scope: ScopeName
    uses: int | None = Field(None, description="The most; absent where uses are not counted.")


class VoteOut(BaseModel):
    """A yes that counts."""

    person: str
    factor: Literal["session", "passkey"]
    scope: ScopeName
    uses: int | None = None
    at: str


class GrantOut(BaseModel):
    """What a yes permits."""

    scope: ScopeName
    uses: int | None = None
    uses_left: int | None = Field(None, description="Absent where uses are not counted.")
    granted_at: str
    expires_at: str
    voided_at: str | None = None
    voided_by: str | None = None


class DenialOut(BaseModel):
    """A no."""

    reason: str = Field(description="The person's own words, which are no instruction of this service.")
    at: str
    person: str | None = None


class ApprovalRequestOut(BaseModel):
    """A request for an approval and what became of it. Members that it does not have are absent."""

    id: str
    state: State
    version: int = Field(description="Rises with every answer.")
    url: str = Field(description="Where people answer.")
    created_at: str
    expires_at: str = Field(description="From then on it is expired, if nobody has answered.")
    closed_at: str | None = None
    decision_id: str | None = Field(None, description="Of the decision that asked.")
    trace_id: str | None = None
    turn_id: str | None = None
    tool_call_id: str | None = None
    subject: SubjectOut
    tool: str = Field(description="`server identity/name`")
    descriptor_digest: str
    authority: Literal["A0", "A1", "A2", "A3"]
    asked_by: list[RuleOut]
    factor: Literal["session", "passkey"] = Field(description="What every yes is given with.")
    scopes: list[ScopeOut] = Field(description="What may be chosen.")
    ttl_seconds: int = Field(description="How long a yes lasts.")
    fingerprint: str | None = Field(None, description="Absent where a secret is in the call.")
    shown_digest: str | None = Field(None, description="Absent where a secret is in the call.")
    policy_version: str
    cannot_be_approved_because: list[str] | None = None
    unmet: list[str] = Field(description="Rules that want more people's yes.")
    votes: list[VoteOut] | None = Field(None, description="For people and auditors.")
    grant: GrantOut | None = None
    denial: DenialOut | None = None


class ApprovalsOut(BaseModel):
    """Requests, newest first."""

    approvals: list[ApprovalRequestOut]
    next: str | None = Field(description="Send as `before` to get the next page; null at the end.")


class ShownOut(BaseModel):
    """What a person who may answer is shown, in the clear."""

    id: str
    state: State
    shown_digest: str
    document: dict[str, Any] = Field(
        description="Every value is raw: make it visible before it is printed. Post back its digest."
    )
    can_approve: bool
    can_deny: bool
    code: str | None = Field(None, description="Why a yes of this person would not count.")
    message: str | None = None
    drift: list[str] = Field(description="What the policies say otherwise by now: then no yes is taken.")
    unmet: list[str]


class ReceiptOut(BaseModel):
    """A yes, with what proves it."""

    person: str
    factor: Literal["session", "passkey"]
    at: str
    receipt: str = Field(description="A compact JWS, which `authz approvals verify` checks offline.")


class ReceiptsOut(BaseModel):
    """Every yes to a request, in the order in which they came."""

    id: str
    receipts: list[ReceiptOut]


class ApprovalEventOut(BaseModel):
    """The data of an `approval` event."""

    id: str
    state: State
    version: int
    expires_at: str
    decision_id: str | None = None
    uses_left: int | None = None


def approval_out(standing: ApprovalStanding, *, url: str, now_ms: int, with_people: bool) -> dict[str, Any]:
    """An `ApprovalRequestOut`. Who answered is for people and auditors (`with_people`), not for agents."""
    request = standing.request
    asked, ids = request.asked, request.ids
    guessable = is_guessable(asked)
    out = {
        "id": request.id,
        "state": told_state(request, standing.grant, now_ms).value,
        "version": request.version,
        "url": url,
        "created_at": rfc3339(request.created_at_ms),
        "expires_at": rfc3339(request.expires_at_ms),
        "closed_at": rfc3339(request.closed_at_ms) if request.closed_at_ms else None,
        "decision_id": request.decision_id or None,
        "trace_id": ids.trace,
        "turn_id": ids.turn,
        "tool_call_id": ids.call,
        "subject": _present(
            {
                "agent": asked.requester.agent,
                "on_behalf_of": asked.requester.on_behalf_of,
                "session": asked.requester.session,
                "parent_agent": asked.requester.parent_agent,
            }
        ),
        "tool": f"{asked.tool.server}/{asked.tool.name}",
        "descriptor_digest": asked.tool.descriptor_digest,
        "authority": asked.authority.name,
        "asked_by": [_rule(rule) for rule in asked.rules],
        "factor": strongest_factor(asked.rules).value,
        "scopes": [_scope(scope) for scope in request.scopes],
        "ttl_seconds": request.ttl_seconds,
        "fingerprint": None if guessable else asked.fingerprint,
        "shown_digest": None if guessable else request.shown_digest,
        "policy_version": request.policy_version,
        "cannot_be_approved_because": list(request.cannot_be_approved_because) or None,
        "unmet": list(unmet_rules(asked.rules, standing.votes)),
        "votes": [_vote(vote) for vote in standing.votes] if with_people else None,
        "grant": _grant(standing.grant, with_people) if standing.grant is not None else None,
        "denial": _denial(standing.denial, with_people) if standing.denial is not None else None,
    }
    return _present(out)


def receipts_out(approval_id: str, votes: Iterable[Vote]) -> dict[str, Any]:
    """A `ReceiptsOut`."""
    return {
        "id": approval_id,
        "receipts": [
            {
                "person": vote.person,
                "factor": vote.factor.value,
                "at": rfc3339(vote.at_ms),
                "receipt": vote.receipt,
            }
            for vote in votes
        ],
    }


def approval_event_out(standing: ApprovalStanding, now_ms: int) -> dict[str, Any]:
    """An `ApprovalEventOut`."""
    request, grant = standing.request, standing.grant
    return _present(
        {
            "id": request.id,
            "state": told_state(request, grant, now_ms).value,
            "version": request.version,
            "expires_at": rfc3339(grant.expires_at_ms if grant is not None else request.expires_at_ms),
            "decision_id": request.decision_id or None,
            "uses_left": grant.uses_left if grant is not None else None,
        }
    )


def _present(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _rule(rule: RuleMatch) -> dict[str, Any]:
    terms = rule.terms or AskTerms()
    return _present(
        {
            "rule": rule.rule,
            "kind": rule.kind.value,
            "file": rule.file,
            "line": rule.line,
            "reason": rule.reason,
            "approvers": list(terms.approvers),
            "quorum": terms.quorum,
            "factor": terms.factor.value,
        }
    )


def _scope(scope: GrantScope) -> dict[str, Any]:
    return _present({"scope": scope.kind.value, "uses": scope.uses})


def _vote(vote: Vote) -> dict[str, Any]:
    return {
        "person": vote.person,
        "factor": vote.factor.value,
        **_scope(vote.scope),
        "at": rfc3339(vote.at_ms),
    }


def _grant(grant: Grant, with_people: bool) -> dict[str, Any]:
    return _present(
        {
            **_scope(grant.scope),
            "uses_left": grant.uses_left,
            "granted_at": rfc3339(grant.granted_at_ms),
            "expires_at": rfc3339(grant.expires_at_ms),
            "voided_at": rfc3339(grant.voided_at_ms) if grant.voided_at_ms else None,
            "voided_by": grant.voided_by if with_people and grant.voided_by else None,
        }
    )


def _denial(denial: Denial, with_people: bool) -> dict[str, Any]:
    return _present(
        {
            "reason": denial.reason,
            "at": rfc3339(denial.at_ms),
            "person": denial.person if with_people else None,
        }
    )
