"""What somebody sees who is to answer a request, and by what the answer is judged: read anew each time."""

from dataclasses import dataclass
from typing import Final

from authz.core.approval import told_state
from authz.core.approval_answers import check_approver, check_denial, check_vote
from authz.core.approval_drift import check_drift, drift_of
from authz.core.approval_moves import AnswerCode, Refused, refused
from authz.core.approval_quorum import strongest_factor, unmet_rules
from authz.core.approve import Permission, may_approve
from authz.core.claims import check_subject_of
from authz.core.ruleset import Ruleset
from authz.core.shown import Shown, shown_digest
from authz.errors import NotFound, StoreUnavailable
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState, Factor
from authz.model.approval_request import ApprovalRequest, Ballot, CredentialKind, Vote, Voter
from authz.model.approval_writes import ApprovalStanding
from authz.model.call import Subject
from authz.model.caller import Caller
from authz.ports import Bundles, Clock, Ledger

APPROVE: Final = "approve"
"""The role without which nobody says yes, whatever policy says."""
POLICY: Final = "policy"
AUDIT: Final = "audit"
_KEPT_NO_MORE = Permission(permitted=False, because="what was asked for is not kept any more")


def shown_ref(approval_id: str) -> str:
    """Under what the vault keeps the shown document of a request."""
    return f"shown:{approval_id}"


def approve_ref(approval_id: str) -> str:
    """Under what the vault keeps what policy is asked about approving it."""
    return f"approve:{approval_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Everything that counts when a person looks at a request or answers it, as of one moment."""

    standing: ApprovalStanding
    ruleset: Ruleset
    person: SignedIn
    voter: Voter
    because: str
    """What policy says of this person, in words."""
    shown: Shown | None
    """What approvers are shown; `None` where the vault has it no longer."""
    drift: tuple[str, ...]
    denied: bool
    """Whether a person denied the very call, when it was asked in another way: then a yes is for nothing."""

    @property
    def request(self) -> ApprovalRequest:
        """The request."""
        return self.standing.request


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationPage:
    """All that a person is shown of a request."""

    standing: ApprovalStanding
    state: ApprovalState
    """As told now."""
    shown: Shown | None
    """What would run, in the clear: for those alone who may answer, as long as the vault keeps it."""
    barred: Refused | None
    """Why this person may not answer, whatever the state, and so is shown nothing; `None` for who may."""
    refused: Refused | None
    """Why this person's yes would not count, whatever it is given with; `None` where it would."""
    deny_refused: Refused | None
    """Likewise its no."""
    drift: tuple[str, ...]
    """What the policies say otherwise than when it was asked: then no yes is taken."""
    because: str
    """What policy says to this person's approving, in words."""
    votes: tuple[Vote, ...]
    unmet: tuple[str, ...]
    """Rules that want more people."""
    factor: Factor
    """What every yes has to be given with."""


class ApprovalReader:
    """Reads what is needed to judge an answer."""

    def __init__(self, *, ledger: Ledger, bundles: Bundles, clock: Clock) -> None:
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock

    async def find(self, tenant: str, approval_id: str) -> ApprovalStanding:
        """One request of this tenant. Raises `NotFound`, also for another tenant's."""
        found = await self._ledger.find_approval(tenant, approval_id)
        if found is None:
            raise not_found()
        return found

    async def look(self, person: SignedIn, approval_id: str) -> Seen:
        """What counts for this person. Raises `NotFound`."""
        standing = await self.find(person.tenant, approval_id)
        request = standing.request
        now_ms = self._clock.now_ms()
        stored = await self._ledger.find_kept(person.tenant, approve_ref(request.id), now_ms)
        shown = await self._shown(request, now_ms)
        asked = request.asked
        known = await self._ledger.approval_facts(
            tenant=person.tenant,
            fingerprint=asked.fingerprint,
            session=asked.requester.session,
            server=asked.tool.server,
            tool=asked.tool.name,
        )
        # After everything that waits, so that who may answer is judged by what is in force now.
        ruleset = self._bundles.in_force(person.tenant)
        if ruleset is None:
            raise NotFound("this tenant has no policy bundle", code="bundle.absent")
        permission = _KEPT_NO_MORE
        if stored is not None:
            permission = may_approve(
                ruleset, stored, person.person, person.groups, now_ms=self._clock.now_ms()
            )
        has_role = APPROVE in person.account.roles
        return Seen(
            standing=standing,
            ruleset=ruleset,
            person=person,
            voter=Voter(
                tenant=person.tenant,
                person=person.person,
                credential=CredentialKind.PERSON,
                entities=permission.entities,
                permitted=permission.permitted and has_role,
            ),
            because=permission.because if has_role else f"the account does not have the role `{APPROVE}`",
            shown=shown,
            drift=drift_of(request, ruleset),
            denied=bool(known.denials),
        )

    async def _shown(self, request: ApprovalRequest, now_ms: int) -> Shown | None:
        tenant = request.asked.requester.tenant
        content = await self._ledger.find_kept(tenant, shown_ref(request.id), now_ms)
        if content is None:
            return None
        if shown_digest(content) != request.shown_digest:
            raise StoreUnavailable("what is kept of the approval is not what was shown")
        return Shown(content=content, digest=request.shown_digest)

    def page(self, seen: Seen) -> ConfirmationPage:
        """What this person is shown."""
        request, standing = seen.request, seen.standing
        now_ms = self._clock.now_ms()
        barred = None if is_asked_for(request, seen.person) else check_approver(request, seen.voter)
        return ConfirmationPage(
            standing=standing,
            state=told_state(request, standing.grant, now_ms),
            shown=seen.shown if barred is None else None,
            barred=barred,
            refused=_yes_refused(seen, now_ms),
            deny_refused=_no_refused(seen, now_ms),
            drift=seen.drift,
            because=seen.because,
            votes=standing.votes,
            unmet=unmet_rules(request.asked.rules, standing.votes),
            factor=strongest_factor(request.asked.rules),
        )


def sees_all(asker: Caller | SignedIn) -> bool:
    """Whether somebody sees every request of its tenant: auditors, and people with any role."""
    return bool(asker.account.roles) if isinstance(asker, SignedIn) else "audit" in asker.roles


def is_listed_to(asker: Caller | SignedIn, standing: ApprovalStanding) -> bool:
    """Whether lists and streams tell somebody of a request: of what they asked, or of what is their own."""
    requester = standing.request.asked.requester
    if requester.tenant != asker.tenant:
        return False
    if sees_all(asker):
        return True
    if isinstance(asker, SignedIn):
        return requester.on_behalf_of == asker.person
    return requester.key_id == asker.key_id


def may_see(asker: Caller | SignedIn, standing: ApprovalStanding) -> bool:
    """Whether somebody who knows the id of a request may see where it stands.

    That is also a credential that may assert its subject: it may have joined the request, or be the one that
    a restarted runtime has by now.
    """
    requester = standing.request.asked.requester
    if is_listed_to(asker, standing):
        return True
    if isinstance(asker, SignedIn) or requester.tenant != asker.tenant:
        return False
    subject = Subject(agent=requester.agent, on_behalf_of=requester.on_behalf_of, session=requester.session)
    return "decide" in asker.roles and check_subject_of(subject, asker.profile) is None


def check_sees(asker: Caller | SignedIn, standing: ApprovalStanding) -> None:
    """Raise `NotFound` for what is not this one's to see, as for what there is not."""
    if not may_see(asker, standing):
        raise not_found()


def not_found() -> NotFound:
    """What is told of a request that there is not, or that is somebody else's."""
    return NotFound("there is no such approval", code="approval.not_found")


def is_asked_for(request: ApprovalRequest, person: SignedIn) -> bool:
    """Whether the call is on this person's own behalf: then it may see it and say no, never yes."""
    return request.asked.requester.on_behalf_of == person.person


def check_revoker(seen: Seen) -> Refused | None:
    """Why a person may not revoke what was granted: who may approve it may, and who answers for policy."""
    if POLICY in seen.person.account.roles:
        return None
    return check_approver(seen.request, seen.voter)


def check_not_denied(seen: Seen) -> Refused | None:
    """Why a yes would permit nothing, so that nobody is told that it did; `None` where it would.

    A person's no to the same call stands, whatever it was shown with. It beats this yes at each use anyway.
    """
    if not seen.denied:
        return None
    return refused(
        AnswerCode.CANNOT_BE_APPROVED,
        "a person denied this very call in its session, when it was asked for in another way",
        ApprovalState.PENDING,
    )


def check_receipts(seen: Seen) -> Refused | None:
    """Why a person gets no receipts: they are for who may answer the request, and for who audits.

    In a receipt stands the fingerprint as it was signed: of a call with a secret, that secret could be
    guessed by it, so not everybody gets it who sees where the request stands.
    """
    if AUDIT in seen.person.account.roles or is_asked_for(seen.request, seen.person):
        return None
    return check_approver(seen.request, seen.voter)


def _yes_refused(seen: Seen, now_ms: int) -> Refused | None:
    request = seen.request
    offered = request.scopes[0] if request.scopes else None
    if offered is None:
        return None
    best = Ballot(shown_digest=request.shown_digest, scope=offered, factor=Factor.PASSKEY)
    found = check_vote(request, seen.standing.votes, seen.voter, best, now_ms)
    return found if isinstance(found, Refused) else check_drift(seen.drift) or check_not_denied(seen)


def _no_refused(seen: Seen, now_ms: int) -> Refused | None:
    found = check_denial(seen.request, seen.voter, "", now_ms)
    return found if isinstance(found, Refused) else None
