"""Requests that nobody answered in time, written down once each by a sweep.

That one is over is told from the time alone (`authz.core.approval.state_at`); writing it down leaves the
record, and tells those who wait. Of several replicas one writes it, by compare-and-set.
"""

import asyncio
import logging
from typing import Final

from authz.core.approval_answers import expire
from authz.errors import AuthzError
from authz.ports import Clock, Ledger
from authz.service.approval_writing import ApprovalWriter

logger = logging.getLogger("authz.service")

SWEEP_SECONDS: Final = 5.0
SWEPT_AT_ONCE: Final = 64


class ApprovalLapses:
    """Writes down that requests are over."""

    def __init__(self, *, ledger: Ledger, clock: Clock, writer: ApprovalWriter) -> None:
        self._ledger = ledger
        self._clock = clock
        self._writer = writer

    async def sweep(self) -> int:
        """Write down a bounded number of ends; how many there were. Raises `StoreUnavailable`."""
        due = await self._ledger.due_approvals(self._clock.now_ms(), SWEPT_AT_ONCE)
        written = await asyncio.gather(*(self.write_down(tenant, approval_id) for tenant, approval_id in due))
        return sum(written)

    async def write_down(self, tenant: str, approval_id: str) -> bool:
        """Write down the end of one request, if it is over. Never raises; what goes wrong is logged."""
        try:
            standing = await self._ledger.find_approval(tenant, approval_id)
            now_ms = self._clock.now_ms()
            move = expire(standing.request, now_ms) if standing is not None else None
            return move is not None and await self._writer.move(move, None, now_ms)
        except AuthzError as error:
            # One that cannot be written must not keep the others.
            logger.error("the end of an approval could not be written", extra={"why": error.message})
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
                    logger.error("ends of approvals could not be written", extra={"why": error.message})
                failing = True
            except Exception:
                logger.exception("ends of approvals could not be written")
            await asyncio.sleep(SWEEP_SECONDS)
