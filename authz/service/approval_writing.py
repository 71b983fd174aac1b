"""What an answer writes: the move with its record and notice, in one unit. Several use cases share it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from authz.core.approval_event import RecordOf, move_event, refused_event, revoked_event
from authz.core.approval_moves import Move, Refused
from authz.core.fingerprint import session_key_of
from authz.core.log_chain import MalformedRecord
from authz.core.notice import NoticeKind, approval_notice
from authz.core.operation_event import read_decision
from authz.core.redact import Redactor
from authz.model.account import SignedIn
from authz.model.approval import DENIED_MARK, ApprovalState
from authz.model.approval_request import ApprovalRequest, Grant
from authz.model.approval_writes import ApprovalMoved, GrantVoid, Notice
from authz.model.caller import Caller
from authz.model.record import Committed
from authz.ports import Bundles, CommitUnit, ExposureWrite, Ledger
from authz.ports.approvals import ApprovalObserver
from authz.service.approval_waits import ApprovalWaits

_NOTICES: Final = {
    ApprovalState.APPROVED: NoticeKind.APPROVED,
    ApprovalState.DENIED: NoticeKind.DENIED,
    ApprovalState.CANCELLED: NoticeKind.CANCELLED,
    ApprovalState.EXPIRED: NoticeKind.EXPIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalWriter:
    """Writes down what becomes of approvals, and wakes those who wait for it."""

    ledger: Ledger
    bundles: Bundles
    redactor: Redactor
    waits: ApprovalWaits
    observer: ApprovalObserver
    public_url: str

    async def move(
        self, move: Move, by: SignedIn | Caller | None, now_ms: int, *, saw_shown: bool | None = None
    ) -> bool:
        """Write a move; `False` where the request has moved since, so that nothing was written.

        `saw_shown`: see `move_event`. Raises `StoreUnavailable`.
        """
        record = await self._record(move.after, now_ms)
        event = move_event(move, record, by, saw_shown=saw_shown)
        unit = CommitUnit(
            event=event,
            moves=(move,),
            exposure=_mark_of(move),
            notices=tuple(self._notices(move, now_ms)),
        )
        return await self._commit(unit, event.type.value)

    async def revoke(
        self, request: ApprovalRequest, grant: Grant, voided: Grant, by: SignedIn, now_ms: int
    ) -> bool:
        """Write down that a grant is void; `False` where it is not as it was. Raises `StoreUnavailable`."""
        tenant = request.asked.requester.tenant
        event = revoked_event(grant, await self._record(request, now_ms), by)
        unit = CommitUnit(
            event=event,
            voids=GrantVoid(
                tenant=tenant,
                request_id=request.id,
                voided_at_ms=voided.voided_at_ms,
                voided_by=voided.voided_by,
            ),
            notices=(
                approval_notice(
                    NoticeKind.REVOKED, request, public_url=self.public_url, now_ms=now_ms, by=by.person
                ),
            ),
        )
        return await self._commit(unit, event.type.value)

    async def refused(
        self, refused: Refused, request: ApprovalRequest, by: SignedIn | Caller, wanted: str, now_ms: int
    ) -> None:
        """Write down an answer that changed nothing. Raises `StoreUnavailable`."""
        record = await self._record(request, now_ms)
        await self.ledger.commit(CommitUnit(event=refused_event(refused, record, by, wanted=wanted)))
        self.observer.approval(request.asked.requester.tenant, refused.code.value)

    async def _record(self, request: ApprovalRequest, now_ms: int) -> RecordOf:
        tenant = request.asked.requester.tenant
        ruleset = self.bundles.in_force(tenant)
        return RecordOf(
            request=request,
            server=await self._server_of(tenant, request.decision_id),
            redactor=self.redactor,
            now_ms=now_ms,
            policy_version=ruleset.version if ruleset is not None else "",
        )

    async def _server_of(self, tenant: str, decision_id: str) -> str:
        """What the call named the tool's server, so that a search by tool finds all of it."""
        found = await self.ledger.find_event(tenant, decision_id)
        try:
            return read_decision(found.text).server if found is not None else ""
        except (MalformedRecord, ValueError):
            return ""

    def _notices(self, move: Move, now_ms: int) -> Iterable[Notice]:
        kind = _NOTICES.get(move.after.state)
        if kind is not None:
            by = move.after.closed_by if kind in (NoticeKind.APPROVED, NoticeKind.DENIED) else ""
            yield approval_notice(kind, move.after, public_url=self.public_url, now_ms=now_ms, by=by)

    async def _commit(self, unit: CommitUnit, outcome: str) -> bool:
        committed = await self.ledger.commit(unit)
        if isinstance(committed, Committed):
            self.waits.wake(unit.event.tenant)
            self.observer.approval(unit.event.tenant, outcome)
            return True
        if isinstance(committed, ApprovalMoved):
            return False
        raise AssertionError(f"a unit about an approval was answered with {type(committed).__name__}")


def _mark_of(move: Move) -> ExposureWrite | None:
    """Of a denial: later decisions of that session look for it, whatever they are about."""
    denial = move.denial
    if denial is None or denial.session is None:
        return None
    return ExposureWrite(
        session_key=session_key_of(denial.tenant, denial.session), labels=frozenset({DENIED_MARK})
    )
