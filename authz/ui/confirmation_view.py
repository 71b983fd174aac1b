"""What the confirmation page says of one request to one person: state, rights, and what was chosen so far."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from markupsafe import Markup

from authz.core.approval_moves import AnswerCode
from authz.core.rendering_words import counted, people_words
from authz.core.shown_types import ShownDocument
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState, AskTerms, Factor, ScopeKind
from authz.model.approval_request import ApprovalRequest
from authz.model.approval_writes import ApprovalStanding
from authz.service.approvals_view import ConfirmationPage
from authz.ui.render import moment, name, prose

_S: Final = ApprovalState
STATES: Final = {
    _S.PENDING: ("Waiting for an answer", "Nothing has run yet, and nothing will without a yes."),
    _S.APPROVED: ("Approved", "What was approved may run now, as far as the yes reaches."),
    _S.DENIED: ("Denied", "A person said no. The call does not run."),
    _S.EXPIRED: ("Expired", "Nobody answered in time. The call does not run; that is no person's no."),
    _S.CANCELLED: ("Cancelled", "Whoever asked took it back. The call does not run."),
    _S.CONSUMED: ("Used up", "It was approved, and every use of that yes is spent."),
    _S.VOID: ("No longer valid", "It was approved; the yes was revoked or its time is over."),
}
"""Of each state its name and what it means."""
_STRANGER: Final = frozenset(
    {AnswerCode.NOT_AN_APPROVER, AnswerCode.NOT_PERMITTED, AnswerCode.NOT_A_PERSON, AnswerCode.NOT_FOUND}
)
"""Whoever is refused so is no approver of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person has chosen, opened and written so far; carried from page to page by the form."""

    opened: frozenset[int] = frozenset()
    """Numbers of arguments, from 0."""
    revealed: frozenset[int] = frozenset()
    scope: str = ScopeKind.ONCE.value
    uses: str = "2"
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfirmationView:
    """All that the template asks for."""

    person: SignedIn
    page: ConfirmationPage
    now_ms: int
    choices: Choices = field(default_factory=Choices)
    alert: str = ""
    """Why the answer before this page changed nothing."""

    @property
    def request(self) -> ApprovalRequest:
        """What is asked."""
        return self.page.standing.request

    @cached_property
    def document(self) -> ShownDocument | None:
        """What this person is shown of the call."""
        return None if self.page.shown is None else self.page.shown.document

    @property
    def state(self) -> ApprovalState:
        """As told now."""
        return self.page.state

    @property
    def is_open(self) -> bool:
        """Whether an answer still counts."""
        return self.state is _S.PENDING

    @property
    def state_title(self) -> str:
        """The name of the state."""
        return STATES[self.state][0]

    @property
    def state_words(self) -> str:
        """What the state means."""
        return STATES[self.state][1]

    @property
    def title(self) -> str:
        """Of the window. It names the tool only to whoever may see the call."""
        if self.document is None:
            return "A request for an approval"
        return f"{self.state_title}: {self.document['tool']['name']}"

    @property
    def why_nothing_is_shown(self) -> str:
        """Said in place of the call."""
        if not self.is_open:
            return "What it was about is kept for a limited time, and for those alone who may answer it."
        refused = self.page.refused
        if refused is not None and refused.code in _STRANGER:
            said = f" ({self.page.because})" if refused.code is AnswerCode.NOT_PERMITTED else ""
            return f"You cannot answer it: {refused.message}{said}."
        return "What it would do cannot be shown any more, so it must be asked for anew."

    @property
    def has_voted(self) -> bool:
        """Whether this person has said yes."""
        return any(vote.person == self.person.person for vote in self.page.votes)

    @property
    def may_approve(self) -> bool:
        """Whether the page offers a yes."""
        return self.is_open and self.document is not None and self.page.refused is None

    @property
    def may_deny(self) -> bool:
        """Whether the page offers a no: to an approver, and to the user on whose behalf it is asked."""
        return self.is_open and self.page.deny_refused is None

    @property
    def may_revoke(self) -> bool:
        """Whether something is left to revoke, for an approver and for whoever answers for policy."""
        refused = self.page.refused
        barred = refused is not None and refused.code in {*_STRANGER, AnswerCode.OWN_REQUEST}
        return self.state is _S.APPROVED and ("policy" in self.person.account.roles or not barred)

    @property
    def why_no_approval(self) -> str:
        """Why the page offers no yes, where nothing else on it says so."""
        refused = self.page.refused
        if refused is None or self.page.drift or self.request.cannot_be_approved_because:
            return ""
        if self.has_voted:
            return "You said yes already. It waits for others."
        return f"You cannot approve it: {refused.message}."

    @property
    def missing(self) -> list[str]:
        """What is still missing besides one yes of this person."""
        if not self.page.votes and self.document and self.document["terms"]["quorum"] == 1:
            return []
        quorums = {rule.rule: (rule.terms or AskTerms()).quorum for rule in self.request.asked.rules}
        return [f"for the rule `{rule}`: it takes {people_words(quorums[rule])}" for rule in self.page.unmet]

    @property
    def reach_words(self) -> str:
        """How far what was granted reaches."""
        grant = self.page.standing.grant
        return scope_words(grant.scope.kind, grant.uses_left) if grant is not None else ""

    @cached_property
    def untrusted(self) -> list[int]:
        """Numbers of the arguments from untrusted sources."""
        arguments = self.document["arguments"] if self.document else []
        return [index for index, argument in enumerate(arguments) if argument["untrusted"]]

    @property
    def needs_passkey(self) -> bool:
        """Whether a rule asks for one."""
        return self.page.factor is Factor.PASSKEY

    @property
    def revealed(self) -> list[int]:
        """Which secrets are on the page: none of whoever may not approve."""
        return sorted(self.choices.revealed) if self.may_approve else []

    @property
    def outcome(self) -> list[tuple[str, Markup | str]]:
        """(label, told) of what became of it."""
        return list(_outcome(self.page.standing, self.state))


def _outcome(standing: ApprovalStanding, state: ApprovalState) -> Iterator[tuple[str, Markup | str]]:
    request, grant, denial = standing.request, standing.grant, standing.denial
    yield "Asked", moment(request.created_at_ms)
    if denial is not None:
        yield "Denied by", name(denial.person)
        yield "At", moment(denial.at_ms)
        yield "Reason for the agent", prose(denial.reason) if denial.reason else "None was given."
    elif state is _S.CANCELLED:
        yield "Cancelled by", name(request.closed_by)
        yield "At", moment(request.closed_at_ms)
    elif state is _S.EXPIRED:
        yield "Ended", moment(request.expires_at_ms)
    if grant is not None:
        yield "Granted", moment(grant.granted_at_ms)
        yield "Permits", scope_words(grant.scope.kind, grant.uses_left)
        yield "Ends", moment(grant.expires_at_ms)
        if grant.voided_at_ms:
            yield "Revoked by", name(grant.voided_by)
            yield "Revoked", moment(grant.voided_at_ms)


def scope_words(kind: ScopeKind, uses_left: int | None) -> str:
    """How far a yes reaches, and what is left of it."""
    reach = {
        ScopeKind.ONCE: "This call, once",
        ScopeKind.TIMES: "This very call, several times",
        ScopeKind.SESSION: "This tool on what was shown, in this session",
    }[kind]
    return reach if uses_left is None else f"{reach}; {counted(uses_left, 'use')} left"
