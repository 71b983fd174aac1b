"""Operations after their decision: status, start, settlement, resolution and cancelling (spec section 9).

Each report is one move of `authz.core.settlement`, written with its record and with what it gives back in one
transaction. Of reports that race, one is written; the same report again is answered as the first was.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from authz.core.claims import check_subject_of
from authz.core.operation_event import DecisionTold, operation_event
from authz.core.redact import Redactor
from authz.core.settlement import (
    NEVER_ALLOWED,
    Change,
    Move,
    NotPossible,
    Outcome,
    ReportCode,
    check_cancel,
    check_resolve,
    check_settle,
    check_start,
    is_lease_token,
    state_at,
)
from authz.errors import Forbidden, NotFound, OperationConflict, StoreUnavailable
from authz.model.caller import Caller
from authz.model.capability import TokenRules
from authz.model.operation import OperationRecord, OperationState
from authz.model.record import Committed
from authz.ports import CapabilitySource, Clock, CommitUnit, Ledger
from authz.service.lapses import Lapses

MAX_ATTEMPTS: Final = 8
"""How often a report is judged again because its operation moved under it, before a 503."""
SEE_ALL_ROLES: Final = frozenset({"audit", "policy", "approve"})
"""Who sees every operation of the tenant; others see those of the subjects that they may assert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """An operation as it stands at a moment."""

    told: DecisionTold
    operation: OperationRecord
    state: OperationState
    """At that moment: the end of a lease counts, written down or not."""

    @property
    def superseded_by(self) -> str | None:
        """The decision that holds the operation now, where it was decided anew since."""
        current = self.operation.decision_id
        return current if current != self.told.decision_id else None


class OperationService:
    """Answers reports about operations, each with its durable record."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        redactor: Redactor,
        operation_secret: bytes,
        capabilities: CapabilitySource | None = None,
    ) -> None:
        self._ledger = ledger
        self._capabilities = capabilities
        self._clock = clock
        self._redactor = redactor
        self._secret = operation_secret
        self.lapses: Final = Lapses(ledger=ledger, clock=clock, redactor=redactor)

    async def status(self, caller: Caller, decision_id: str) -> OperationView:
        """Where the operation of a decision stands.

        Raises `NotFound` for what is not the caller's to see, as for what there is not.
        """
        return await self._find(caller, decision_id)

    async def start(
        self, caller: Caller, decision_id: str, token: str, attempt: str, lasts_ms: int | None
    ) -> OperationView:
        """The act begins now, by this attempt and no other, if what allowed it is still in force.

        Raises `RevocationsStale` when nobody can say whether it is.
        """

        def judge(found: OperationRecord, now_ms: int) -> Change:
            rules = self._rules_for(caller, found)
            return check_start(found, now_ms, attempt, lasts_ms, rules)

        begun = await self._report(caller, decision_id, judge, token, begins=True)
        # Once more, now that it is on disk: what was revoked while that took its time begins nothing either.
        ended = judge(begun.operation, self._clock.now_ms())
        if isinstance(ended, NotPossible):
            raise _conflict(ended, begun.state)
        return begun

    def _rules_for(self, caller: Caller, operation: OperationRecord) -> TokenRules | None:
        """By what the capability is checked that an operation rests on."""
        if operation.basis is None or self._capabilities is None:
            return None
        return self._capabilities.rules(caller.tenant)

    async def settle(
        self, caller: Caller, decision_id: str, token: str, outcome: Outcome, detail: str
    ) -> OperationView:
        """The holder of the lease says how the act ended."""
        return await self._report(
            caller,
            decision_id,
            lambda found, now_ms: check_settle(found, now_ms, outcome),
            token,
            detail,
        )

    async def resolve(self, caller: Caller, decision_id: str, outcome: Outcome, reason: str) -> OperationView:
        """A person or a probe says what became of an operation that nobody settled.

        What gives a budget back is never the word of whoever spends it, by whichever of its credentials.
        """
        found = await self._find(caller, decision_id)
        if found.told.key_id == caller.key_id or _may_ask(caller, found.told):
            raise Forbidden(
                "a credential that asked for the decision, or may ask for such, does not resolve it; use one "
                "that cannot decide for this subject",
                code="operation.own_word",
            )
        return await self._report(
            caller, decision_id, lambda found, now_ms: check_resolve(found, now_ms, outcome), detail=reason
        )

    async def cancel(self, caller: Caller, decision_id: str, reason: str) -> OperationView:
        """Somebody wants it not to run: what has not begun must not begin."""
        return await self._report(caller, decision_id, check_cancel, detail=reason)

    async def _report(
        self,
        caller: Caller,
        decision_id: str,
        judge: Callable[[OperationRecord, int], Change],
        token: str | None = None,
        detail: str = "",
        *,
        begins: bool = False,
    ) -> OperationView:
        for _ in range(MAX_ATTEMPTS):
            found = await self._find(caller, decision_id)
            # Before anything is told of its state: whoever reports must hold the lease.
            if token is not None and not is_lease_token(token, self._secret, caller.tenant, decision_id):
                raise Forbidden("that is not the lease token of this decision", code="operation.lease")
            if found.superseded_by is not None:
                raise _conflict(
                    NotPossible(
                        code=ReportCode.SUPERSEDED, message="the call was decided anew since; see its status"
                    ),
                    found.state,
                )
            if begins and found.operation.basis is not None and self._capabilities is not None:
                await self._capabilities.confirm()
            now_ms = self._clock.now_ms()
            if await self.lapses.write_down(caller.tenant, found.operation):
                continue
            change = judge(found.operation, now_ms)
            if isinstance(change, NotPossible):
                raise _conflict(change, state_at(found.operation, now_ms))
            if not isinstance(change, Move):
                return found
            if await self._commit(caller, found.told, change, now_ms, detail):
                written = replace(change.after, version=change.after.version + 1)
                return OperationView(told=found.told, operation=written, state=state_at(written, now_ms))
        raise StoreUnavailable(
            "the operation kept changing while this was written; send it again", code="store.contended"
        )

    async def _commit(self, caller: Caller, told: DecisionTold, move: Move, now_ms: int, detail: str) -> bool:
        """Write a move with its record; whether the operation had not moved since."""
        event = operation_event(
            move,
            tenant=caller.tenant,
            told=told,
            caller=caller,
            redactor=self._redactor,
            now_ms=now_ms,
            detail=detail,
        )
        unit = CommitUnit(
            event=event,
            operation=move.write(caller.tenant),
            releases=told.decision_id if move.refunds else "",
        )
        return isinstance(await self._ledger.commit(unit), Committed)

    async def _find(self, caller: Caller, decision_id: str) -> OperationView:
        """The operation of a decision of this tenant that the caller may see. Raises `NotFound`."""
        told = await self.lapses.told(caller.tenant, decision_id)
        if told is None or not _may_see(caller, told):
            raise NotFound("there is no such decision", code="decision.unknown")
        operation = None
        if told.has_operation:
            operation = await self._ledger.find_operation(told.operation_key(caller.tenant))
        # What refused holds an operation only as its last word: one that was allowed was never its.
        refused = told.denied or (operation is not None and operation.state in NEVER_ALLOWED)
        if operation is None or (refused and operation.decision_id != told.decision_id):
            raise NotFound(
                "this decision has no operation: it was a dry run, or made without ids, or not the last word",
                code="operation.none",
            )
        return OperationView(told=told, operation=operation, state=state_at(operation, self._clock.now_ms()))


def _may_see(caller: Caller, told: DecisionTold) -> bool:
    if not caller.roles.isdisjoint(SEE_ALL_ROLES):
        return True
    return check_subject_of(told.subject, caller.profile) is None


def _may_ask(caller: Caller, told: DecisionTold) -> bool:
    """Whether the caller might have sent this call, or a repeat of it."""
    return "decide" in caller.roles and check_subject_of(told.subject, caller.profile) is None


def _conflict(refused: NotPossible, state: OperationState) -> OperationConflict:
    return OperationConflict(refused.message, code=refused.code.value, state=state.value)
