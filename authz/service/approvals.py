"""Approvals after they were asked for: looked at, answered, taken back, revoked, waited for (spec section 8).

    asked by a decision → a person looks (`page`) → `approve` or `deny` → used by a later decision
                        → `cancel` by whoever asked, or nobody comes (`lapses`)

Each answer is one `Move` of the core, written by compare-and-set with its record, so that of answers that
race one counts. Where the request has moved meanwhile the answer is judged again. An answer that changes
nothing is a value, and on record like the others.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from authz.core.approval import told_state
from authz.core.approval_answers import accept_vote, check_cancel, check_denial, check_vote
from authz.core.approval_drift import check_drift, check_opened
from authz.core.approval_grants import check_revoke
from authz.core.approval_moves import AnswerCode, Move, Refused, refused
from authz.core.approval_receipt import receipt_of, sign_receipt
from authz.core.redact import Redactor
from authz.errors import AuthzError, Forbidden, MalformedInput, NotFound, StoreUnavailable, Unauthenticated
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState, Factor, GrantScope
from authz.model.approval_request import ApprovalRequest, Ballot, Vote
from authz.model.approval_writes import ApprovalQuery, ApprovalStanding
from authz.model.caller import Caller
from authz.ports import Bundles, CapabilityKeys, Clock, Ledger
from authz.ports.approvals import ApprovalObserver
from authz.service.approval_ballots import AssertionChecker, BallotIn, Proof, check_reason
from authz.service.approval_lapses import ApprovalLapses
from authz.service.approval_waits import ApprovalWaits
from authz.service.approval_writing import ApprovalWriter
from authz.service.approvals_view import (
    ApprovalReader,
    ConfirmationPage,
    Seen,
    check_not_denied,
    check_receipts,
    check_revoker,
    not_found,
)
from authz.service.people import AccountChanged

MAX_ATTEMPTS: Final = 8
"""How often an answer is judged again because the request moved under it, before a 503."""
Answered = ApprovalStanding | Refused
"""The request after an answer that counted, or why it did not count."""


class ApprovalService:
    """Answers and questions about requests for approvals. What it answers is on disk."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        bundles: Bundles,
        clock: Clock,
        redactor: Redactor,
        keys: CapabilityKeys,
        passkeys: AssertionChecker | None,
        public_url: str,
        observer: ApprovalObserver,
        waits: ApprovalWaits,
    ) -> None:
        """`passkeys` is `None` where nobody has any: then no rule that asks for one is ever satisfied."""
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock
        self._keys = keys
        self._passkeys = passkeys
        self.public_url = public_url
        self._reader = ApprovalReader(ledger=ledger, bundles=bundles, clock=clock)
        self._writer = ApprovalWriter(
            ledger=ledger,
            bundles=bundles,
            redactor=redactor,
            waits=waits,
            observer=observer,
            public_url=public_url,
        )
        self.waits: Final = waits
        self.lapses: Final = ApprovalLapses(ledger=ledger, clock=clock, writer=self._writer)

    def now_ms(self) -> int:
        """The time, in ms since the epoch."""
        return self._clock.now_ms()

    async def find(self, tenant: str, approval_id: str) -> ApprovalStanding:
        """One request of this tenant. Raises `NotFound`, also for another tenant's."""
        return await self._reader.find(tenant, approval_id)

    async def search(self, query: ApprovalQuery) -> Sequence[ApprovalStanding]:
        """Requests of one tenant, newest first."""
        return await self._ledger.find_approvals(query)

    async def page(self, person: SignedIn, approval_id: str) -> ConfirmationPage:
        """All that this person is shown of a request. Raises `NotFound`."""
        return self._reader.page(await self._reader.look(person, approval_id))

    async def approve(self, person: SignedIn, approval_id: str, ballot: BallotIn) -> Answered:
        """A person's yes. Raises `NotFound`, and `BundleStale` when nobody knows what policy says by now."""
        proof: Proof | None = None
        for _ in range(MAX_ATTEMPTS):
            seen = await self._reader.look(person, approval_id)
            self._bundles.check_fresh(person.tenant)
            claimed = Factor.SESSION if ballot.assertion is None else Factor.PASSKEY
            found = self._check_yes(seen, ballot, claimed)
            if not isinstance(found, Refused) and ballot.assertion is not None and proof is None:
                # Last of all, and once: it is used up by it.
                proven = await self._prove(person, seen.request, ballot.assertion)
                if not isinstance(proven, Refused):
                    proof = proven
                    # That took its time: once more, by what is true now.
                    continue
                found = proven
            if isinstance(found, Refused):
                return await self._refuse(found, seen.request, person, "approve")
            now_ms = self._clock.now_ms()
            vote = replace(found, receipt=self._receipt(seen, found, proof))
            move = accept_vote(seen.request, seen.standing.votes, vote, now_ms)
            if isinstance(move, Refused):
                return await self._refuse(move, seen.request, person, "approve")
            if await self._writer.move(move, person, now_ms):
                return _after(seen.standing, move)
        raise _contended()

    def _check_yes(self, seen: Seen, ballot: BallotIn, factor: Factor) -> Vote | Refused:
        """The vote that this yes is, if it was given with `factor`, or why it is none.

        First who it is: nobody else learns how the request stands.
        """
        request = seen.request
        cast = Ballot(
            shown_digest=ballot.shown_digest,
            scope=GrantScope(kind=ballot.scope, uses=ballot.uses),
            factor=factor,
        )
        vote = check_vote(request, seen.standing.votes, seen.voter, cast, self._clock.now_ms())
        if isinstance(vote, Refused):
            return vote
        if (changed := check_drift(seen.drift) or check_not_denied(seen)) is not None:
            return changed
        if seen.shown is None:
            return refused(
                AnswerCode.SHOWN_CHANGED, "what you were shown is not kept any more", ApprovalState.PENDING
            )
        return check_opened(seen.shown.document, ballot.opened) or vote

    async def _prove(
        self, person: SignedIn, request: ApprovalRequest, assertion: Mapping[str, Any]
    ) -> Proof | Refused:
        if self._passkeys is None:
            return refused(AnswerCode.FACTOR_NOT_PROVEN, "this service takes no passkeys")
        try:
            return await self._passkeys.check_approval(person, request, assertion)
        except (Forbidden, Unauthenticated, MalformedInput, NotFound, AccountChanged) as error:
            return refused(AnswerCode.FACTOR_NOT_PROVEN, error.message, ApprovalState.PENDING)

    def _receipt(self, seen: Seen, vote: Vote, proof: Proof | None) -> str:
        person, now_ms = seen.person, self._clock.now_ms()
        try:
            receipt = receipt_of(
                seen.request,
                issuer=self.public_url,
                person=vote.person,
                account_id=person.account.account_id,
                factor=vote.factor,
                method=person.method,
                scope=vote.scope,
                at_ms=vote.at_ms,
                assertion=proof.as_json() if proof is not None else None,
            )
            return sign_receipt(receipt, self._keys.signer(now_ms))
        except ValueError as error:
            raise StoreUnavailable(
                "no receipt could be signed for this approval, so it does not count; try again",
                code="approval.receipt_unavailable",
                internal=type(error).__name__,
            ) from None

    async def deny(
        self, person: SignedIn, approval_id: str, reason: str, shown_digest: str | None = None
    ) -> Answered:
        """A person's no, with words for the agent. Whatever it was shown, it counts.

        Raises `NotFound`, and `MalformedInput` for a reason that is too long or no text.
        """
        check_reason(reason)
        for _ in range(MAX_ATTEMPTS):
            seen = await self._reader.look(person, approval_id)
            now_ms = self._clock.now_ms()
            move = check_denial(seen.request, seen.voter, reason, now_ms)
            if isinstance(move, Refused):
                return await self._refuse(move, seen.request, person, "deny")
            saw = None if shown_digest is None else shown_digest == seen.request.shown_digest
            if await self._writer.move(move, person, now_ms, saw_shown=saw):
                return _after(seen.standing, move)
        raise _contended()

    async def cancel(self, caller: Caller, approval_id: str) -> Answered:
        """The credential that asked takes it back. Raises `NotFound` for what it did not ask for."""
        for _ in range(MAX_ATTEMPTS):
            standing = await self._reader.find(caller.tenant, approval_id)
            if standing.request.asked.requester.key_id != caller.key_id:
                raise not_found()
            now_ms = self._clock.now_ms()
            move = check_cancel(standing.request, caller.key_id, now_ms)
            if isinstance(move, Refused):
                return await self._refuse(move, standing.request, caller, "cancel")
            if await self._writer.move(move, caller, now_ms):
                return _after(standing, move)
        raise _contended()

    async def revoke(self, by: SignedIn, approval_id: str) -> Answered:
        """Make void what is left of a yes: an approver of it, or whoever is responsible for policy."""
        for _ in range(MAX_ATTEMPTS):
            seen = await self._reader.look(by, approval_id)
            barred = check_revoker(seen)
            if barred is not None:
                return await self._refuse(barred, seen.request, by, "revoke")
            now_ms = self._clock.now_ms()
            grant = seen.standing.grant
            if grant is None:
                state = told_state(seen.request, None, now_ms)
                none = refused(AnswerCode.CLOSED, f"nothing was granted: it is {state.value}", state)
                return await self._refuse(none, seen.request, by, "revoke")
            voided = check_revoke(grant, by.person, now_ms)
            if isinstance(voided, Refused):
                return await self._refuse(voided, seen.request, by, "revoke")
            if await self._writer.revoke(seen.request, grant, voided, by, now_ms):
                return replace(seen.standing, grant=voided)
        raise _contended()

    async def receipts(self, person: SignedIn, approval_id: str) -> Sequence[Vote] | Refused:
        """Every yes to the request, with the receipt that was signed for it. Raises `NotFound`."""
        seen = await self._reader.look(person, approval_id)
        return check_receipts(seen) or seen.standing.votes

    async def refuse_key(self, caller: Caller, approval_id: str, wanted: str) -> Refused:
        """What no key may do, whatever its roles: it is on record that one tried.

        Raises `Forbidden` with the same code where there is no such request: no key learns which there are.
        """
        standing = await self._ledger.find_approval(caller.tenant, approval_id)
        told = refused(AnswerCode.NOT_A_PERSON, f"only a person who is signed in may {wanted} it")
        if standing is None:
            raise Forbidden(told.message, code=told.code.value)
        return await self._refuse(told, standing.request, caller, wanted)

    async def wait(self, tenant: str, approval_id: str, seconds: float) -> ApprovalStanding:
        """The request once it is not pending any more, or as it is after `seconds`. Raises `NotFound`.

        Its end by time is told when it comes, whether or not somebody has written it down.
        """
        await self._reader.find(tenant, approval_id)
        ends_s = self.waits.monotonic() + seconds
        async with self.waits.listen(tenant) as listener:
            standing = await self._reader.find(tenant, approval_id)
            while told_state(standing.request, standing.grant, self._clock.now_ms()) is ApprovalState.PENDING:
                left_s = ends_s - self.waits.monotonic()
                until_end_s = (standing.request.expires_at_ms - self._clock.now_ms()) / 1000
                changes = await listener.next(min(left_s, until_end_s))
                over = listener.is_over or self.waits.monotonic() >= ends_s
                if over or changes is None or approval_id in changes.approval_ids:
                    standing = await self._reader.find(tenant, approval_id)
                if over:
                    break
            return standing

    async def changes(self, tenant: str) -> AsyncIterator[str]:
        """Ids of approvals as they are written, by whichever replica; it ends when the service stops.

        Whoever reads too slowly is cut off, and begins again with a look at everything.
        """
        async with self.waits.listen(tenant) as listener:
            while not listener.is_over:
                changes = await listener.next(60)
                for approval_id in changes.approval_ids if changes is not None else ():
                    yield approval_id

    async def _refuse(
        self, found: Refused, request: ApprovalRequest, by: SignedIn | Caller, wanted: str
    ) -> Refused:
        await self._writer.refused(found, request, by, wanted, self._clock.now_ms())
        return found


def _after(standing: ApprovalStanding, move: Move) -> ApprovalStanding:
    """What is on record now that a move is."""
    return ApprovalStanding(
        request=move.after,
        votes=standing.votes if move.vote is None else (*standing.votes, move.vote),
        grant=move.grant or standing.grant,
        denial=move.denial or standing.denial,
    )


def _contended() -> AuthzError:
    return StoreUnavailable(
        "the approval kept changing while you answered; try again", code="store.contended"
    )
