"""The ends of leases, written down once each: by whoever meets one first, and by a sweep for the others.

That a lease has ended is told from the time alone (`authz.core.settlement.state_at`); writing it down gives
back what was reserved, and leaves the record. Of several who find the same end, on whichever replica, the
commit's compare-and-set lets one write it.
"""

import asyncio
import logging
from typing import Final

from authz.core.log_chain import MalformedRecord
from authz.core.operation_event import DecisionTold, MoveTold, operation_event, read_decision, read_moves
from authz.core.redact import Redactor
from authz.core.settlement import lapse
from authz.errors import AuthzError, StoreUnavailable
from authz.model.operation import OperationRecord
from authz.model.record import Committed, Conflict
from authz.ports import Clock, CommitUnit, Ledger

logger = logging.getLogger("authz.service")

SWEEP_SECONDS: Final = 5.0
SWEPT_AT_ONCE: Final = 64


class Lapses:
    """Writes down ends of leases."""

    def __init__(self, *, ledger: Ledger, clock: Clock, redactor: Redactor) -> None:
        self._ledger = ledger
        self._clock = clock
        self._redactor = redactor

    async def told(self, tenant: str, decision_id: str) -> DecisionTold | None:
        """What the record of a decision says; `None` when there is none. Raises `StoreUnavailable`."""
        found = await self._ledger.find_event(tenant, decision_id)
        if found is None:
            return None
        try:
            return read_decision(found.text)
        except (MalformedRecord, ValueError) as fault:
            raise StoreUnavailable("the record of the decision cannot be read") from fault

    async def moves(self, tenant: str, decision_id: str, current: OperationRecord) -> list[MoveTold]:
        """What the records say became of a decision's operation, in order. Raises `StoreUnavailable`."""
        found = await self._ledger.find_moves(tenant, decision_id)
        try:
            return read_moves([record.text for record in found], current)
        except (MalformedRecord, ValueError) as fault:
            raise StoreUnavailable("what became of the decision cannot be read") from fault

    async def write_down(self, tenant: str, operation: OperationRecord) -> bool:
        """Write down the end of this operation's lease; whether there was one. Raises `StoreUnavailable`.

        Whoever comes second writes nothing, and finds it written.
        """
        now_ms = self._clock.now_ms()
        move = lapse(operation, now_ms)
        if move is None:
            return False
        event = operation_event(
            move,
            tenant=tenant,
            told=await self.told(tenant, operation.decision_id),
            caller=None,
            redactor=self._redactor,
            now_ms=now_ms,
        )
        unit = CommitUnit(
            event=event,
            operation=move.write(tenant),
            releases=operation.decision_id if move.refunds else "",
        )
        outcome = await self._ledger.commit(unit)
        if isinstance(outcome, Committed | Conflict):
            return True
        raise StoreUnavailable("the end of a lease could not be written; send the call again")

    async def sweep(self) -> int:
        """See that a bounded number of ends is written down; how many were. Raises `StoreUnavailable`."""
        due = await self._ledger.due_operations(self._clock.now_ms(), SWEPT_AT_ONCE)
        if not due:
            return 0
        written = await asyncio.gather(*(self._sweep_one(tenant, key) for tenant, key in due))
        return sum(written)

    async def _sweep_one(self, tenant: str, key: str) -> bool:
        try:
            operation = await self._ledger.find_operation(key)
            return operation is not None and await self.write_down(tenant, operation)
        except AuthzError as error:
            # One that cannot be written must not keep the others, or a call that only asked for room.
            logger.error("the end of a lease could not be written", extra={"why": error.message})
            return False

    async def run(self) -> None:
        """Sweep again and again, until cancelled. A sweep that fails is logged; the next one tries anew."""
        failing = False
        while True:
            try:
                written = await self.sweep()
                failing = False
                if written == SWEPT_AT_ONCE:
                    continue  # there may be more than one sweep takes
            except AuthzError as error:
                if not failing:
                    logger.error("ends of leases could not be written", extra={"why": error.message})
                failing = True
            except Exception:
                logger.exception("ends of leases could not be written")
            await asyncio.sleep(SWEEP_SECONDS)
