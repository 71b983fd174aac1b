"""Operations after their decision: status, start, settlement, resolution and cancelling (spec section 9).

Each report is one move of `authz.core.settlement`, written with its record and with what it gives back in one
transaction. Of reports that race, one is written; the same report again is answered as the first was.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from authz.core.claims import check_subject_of
from authz.core.contradiction import Contradiction, check_contradiction
from authz.core.operation_event import DecisionTold, contradiction_event, operation_event
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
    key_end,
    state_at,
    write_of,
)
from authz.errors import Forbidden, NotFound, OperationConflict, StoreUnavailable
from authz.model.caller import Caller
from authz.model.capability import TokenRules
from authz.model.operation import OperationRecord, OperationState
from authz.model.record import Committed
from authz.ports import Bundles, CapabilitySource, Clock, CommitUnit, Ledger
from authz.service.lapses import Lapses

MAX_ATTEMPTS: Final = 8
"""How often a report is judged again because its operation moved under it, before a 503."""
SEE_ALL_ROLES: Final = frozenset({"audit", "policy", "approve"})
"""Who sees every operation of the tenant; others see those of the subjects that they may assert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """An operation as it stands at a moment for one of its decisions."""

    told: DecisionTold
    operation: OperationRecord
    """As that decision left it, where the call was decided anew since."""
    state: OperationState
    """At that moment: the end of a lease counts, written down or not."""
    superseded_by: str | None = None
    """The decision that holds the operation now, where that is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A decision, how it left its operation, and how that stands now: the same, unless decided anew."""

    told: DecisionTold
    own: OperationRecord
    current: OperationRecord

    @property
    def superseded_by(self) -> str | None:
        current = self.current.decision_id
        return current if current != self.told.decision_id else None

    @property
    def over(self) -> NotPossible | None:
        """Why nothing begins by that decision any more, nor is cancelled."""
        if self.superseded_by is None:
            return None
        return NotPossible(
            code=ReportCode.SUPERSEDED, message="the call was decided anew since; see its status"
        )

    def view(self, now_ms: int) -> OperationView:
        return OperationView(
            told=self.told,
            operation=self.own,
            state=state_at(self.own, now_ms),
            superseded_by=self.superseded_by,
        )


Judge = Callable[[_Found, int], Change]


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
        bundles: Bundles | None = None,
    ) -> None:
        self._ledger = ledger
        self._bundles = bundles
        self._capabilities = capabilities
        self._clock = clock
        self._redactor = redactor
        self._secret = operation_secret
        self.lapses: Final = Lapses(ledger=ledger, clock=clock, redactor=redactor)

    async def status(self, caller: Caller, decision_id: str) -> OperationView:
        """Where the operation of a decision stands.

        Raises `NotFound` for what is not the caller's to see, as for what there is not.
        """
        found = await self._find(caller, decision_id)
        return found.view(self._clock.now_ms())

    async def start(
        self, caller: Caller, decision_id: str, token: str, attempt: str, lasts_ms: int | None
    ) -> OperationView:
        """The act begins now, by this attempt and no other, if what allowed it is still in force.

        Raises `RevocationsStale` when nobody can say whether it is.
        """

        def judge(operation: OperationRecord, told: DecisionTold, now_ms: int) -> Change:
            rules = self._rules_for(caller, operation)
            key_ends_ms = self._key_end(caller, told, operation, now_ms)
            return check_start(operation, now_ms, attempt, lasts_ms, rules, key_ends_ms=key_ends_ms)

        begun = await self._report(
            caller,
            decision_id,
            lambda found, now_ms: found.over or judge(found.own, found.told, now_ms),
            token,
            begins=True,
        )
        # Once more, now that it is on disk: what was revoked while that took its time begins nothing either.
        ended = judge(begun.operation, begun.told, self._clock.now_ms())
        if isinstance(ended, NotPossible):
            raise _conflict(ended, begun.state)
        return begun

    def _rules_for(self, caller: Caller, operation: OperationRecord) -> TokenRules | None:
        """By what the capability is checked that an operation rests on."""
        if operation.basis is None or self._capabilities is None:
            return None
        return self._capabilities.rules(caller.tenant)

    def _key_end(
        self, caller: Caller, told: DecisionTold, operation: OperationRecord, now_ms: int
    ) -> int | None:
        """When the endpoint may forget the key of the call; `None` for a read, which needs none."""
        if told.is_read:
            return None
        ruleset = self._bundles.in_force(caller.tenant) if self._bundles is not None else None
        tool = ruleset.tools.get((told.server, told.tool)) if ruleset is not None else None
        retention_seconds = tool.descriptor.settlement.retention_seconds if tool is not None else None
        return key_end(operation, now_ms, retention_seconds)

    async def settle(
        self, caller: Caller, decision_id: str, token: str, outcome: Outcome, detail: str
    ) -> OperationView:
        """The holder of the lease says how the act ended.

        What comes too late, or otherwise than before, is refused and yet kept: see
        `authz.core.contradiction`.
        """
        return await self._report(
            caller,
            decision_id,
            lambda found, now_ms: check_settle(found.own, now_ms, outcome),
            token,
            detail,
            outcome=outcome,
        )

    async def resolve(self, caller: Caller, decision_id: str, outcome: Outcome, reason: str) -> OperationView:
        """A person or a probe says what became of an operation that nobody settled.

        Also of an earlier decision whose call was decided anew since: what that had reserved is given back
        by the same proof. What gives a budget back is never the word of whoever spends it, by whichever of
        its credentials.
        """
        found = await self._find(caller, decision_id)
        if found.told.key_id == caller.key_id or _may_ask(caller, found.told):
            raise Forbidden(
                "a credential that asked for the decision, or may ask for such, does not resolve it; use one "
                "that cannot decide for this subject",
                code="operation.own_word",
            )
        return await self._report(
            caller,
            decision_id,
            lambda found, now_ms: check_resolve(found.own, now_ms, outcome),
            detail=reason,
        )

    async def cancel(self, caller: Caller, decision_id: str, reason: str) -> OperationView:
        """Somebody wants it not to run: what has not begun must not begin."""
        return await self._report(
            caller,
            decision_id,
            lambda found, now_ms: found.over or check_cancel(found.own, now_ms),
            detail=reason,
        )

    async def _report(
        self,
        caller: Caller,
        decision_id: str,
        judge: Judge,
        token: str | None = None,
        detail: str = "",
        *,
        begins: bool = False,
        outcome: Outcome | None = None,
    ) -> OperationView:
        """One report, judged again as often as its operation moves under it.

        `outcome` is what the holder of a lease told: if it is not taken, it is kept all the same.
        """
        for _ in range(MAX_ATTEMPTS):
            found = await self._find(caller, decision_id)
            # Before anything is told of its state: whoever reports must hold the lease.
            if token is not None and not is_lease_token(token, self._secret, caller.tenant, decision_id):
                raise Forbidden("that is not the lease token of this decision", code="operation.lease")
            if begins and found.own.basis is not None and self._capabilities is not None:
                await self._capabilities.confirm()
            now_ms = self._clock.now_ms()
            if await self.lapses.write_down(caller.tenant, found.current):
                continue
            change = judge(found, now_ms)
            if isinstance(change, NotPossible):
                state = state_at(found.current, now_ms)
                if outcome is not None:
                    kept = check_contradiction(
                        found.own, found.current, now_ms, outcome, is_read=found.told.is_read
                    )
                    if kept is not None and not await self._keep(caller, found, kept, now_ms, detail):
                        continue
                    if kept is not None:
                        change, state = _told(change, kept), state_at(kept.after, now_ms)
                raise _conflict(change, state)
            if not isinstance(change, Move):
                return found.view(now_ms)
            written = await self._commit(caller, found, change, now_ms, detail)
            if written is not None:
                return written.view(now_ms)
        raise StoreUnavailable(
            "the operation kept changing while this was written; send it again", code="store.contended"
        )

    async def _commit(
        self, caller: Caller, found: _Found, move: Move, now_ms: int, detail: str
    ) -> _Found | None:
        """Write a move with its record; `None` when the operation had moved since."""
        if move.refunds and found.own.is_contradicted and await self._was_refunded(caller, found):
            move = replace(move, refunds=False)
        # One that was decided anew stays as it is, but for its version: of those who report at once of the
        # earlier decision, one is first.
        after = move.after if found.superseded_by is None else found.current
        event = operation_event(
            move,
            tenant=caller.tenant,
            told=found.told,
            caller=caller,
            redactor=self._redactor,
            now_ms=now_ms,
            detail=detail,
            version=(version := found.current.version + 1),
        )
        unit = CommitUnit(
            event=event,
            operation=write_of(caller.tenant, after),
            releases=found.told.decision_id if move.refunds else "",
        )
        if not isinstance(await self._ledger.commit(unit), Committed):
            return None
        return replace(
            found, own=replace(move.after, version=version), current=replace(after, version=version)
        )

    async def _keep(
        self, caller: Caller, found: _Found, kept: Contradiction, now_ms: int, detail: str
    ) -> bool:
        """Put an outcome on record that was not taken; whether the operation had not moved since."""
        event = contradiction_event(
            kept,
            tenant=caller.tenant,
            told=found.told,
            caller=caller,
            redactor=self._redactor,
            now_ms=now_ms,
            refunded=await self._was_refunded(caller, found),
            detail=detail,
        )
        # Where nothing is stopped nothing moves, so of many who report at once none waits for another.
        operation = write_of(caller.tenant, kept.after) if kept.stops else None
        unit = CommitUnit(event=event, operation=operation)
        return isinstance(await self._ledger.commit(unit), Committed)

    async def _was_refunded(self, caller: Caller, found: _Found) -> bool:
        """Whether what the decision reserved had been given back, whatever was told since."""
        moves = await self.lapses.moves(caller.tenant, found.told.decision_id, found.current)
        return any(move.released for move in moves)

    async def _find(self, caller: Caller, decision_id: str) -> _Found:
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
        own = operation
        if operation.decision_id != told.decision_id:
            own = await self._left_by(caller.tenant, told, operation)
        return _Found(told=told, own=own, current=operation)

    async def _left_by(self, tenant: str, told: DecisionTold, current: OperationRecord) -> OperationRecord:
        """How a decision left its operation before the call was decided anew: as its records say."""
        moves = await self.lapses.moves(tenant, told.decision_id, current)
        if moves:
            return moves[-1].operation
        # Nobody promised to say anything, and nobody did: its lease ended.
        return OperationRecord(
            key=current.key,
            fingerprint=current.fingerprint,
            state=OperationState.UNKNOWN,
            decision_id=told.decision_id,
            expires_at_ms=told.expires_at_ms,
            version=current.version,
            ticketed=True,
        )


def _may_see(caller: Caller, told: DecisionTold) -> bool:
    if not caller.roles.isdisjoint(SEE_ALL_ROLES):
        return True
    return check_subject_of(told.subject, caller.profile) is None


def _may_ask(caller: Caller, told: DecisionTold) -> bool:
    """Whether the caller might have sent this call, or a repeat of it."""
    return "decide" in caller.roles and check_subject_of(told.subject, caller.profile) is None


def _conflict(refused: NotPossible, state: OperationState) -> OperationConflict:
    return OperationConflict(refused.message, code=refused.code.value, state=state.value)


def _told(refused: NotPossible, kept: Contradiction) -> NotPossible:
    """The refusal of an outcome that is on record now."""
    code, why = refused.code, refused.message
    if kept.after.is_contradicted:
        code, why = ReportCode.CONTRADICTED, "that does not follow from where the operation stood"
    elif kept.superseded:
        code, why = ReportCode.SUPERSEDED, "the call was decided anew since"
    message = f"{why}; what you told is on record"
    if kept.after.is_contradicted:
        message += ", a person or a probe must find out what is true, and until then the call does not run"
    return NotPossible(code=code, message=message)
