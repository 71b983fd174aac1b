"""What has been revoked, in memory: read from the ledger at the start, and then several times a second.

The node that takes a revocation knows it as soon as it is durable, and every other one when it next looks.
How old the last look may be is bounded: beyond that nothing is decided by a capability, since nobody could
say whether it is still one (spec section 7).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from authz_client.capabilities import NOTHING_REVOKED, Revocations

from authz.errors import AuthzError, RevocationsStale, StoreUnavailable
from authz.model.capability import RevocationKind, RevocationRecord
from authz.ports import Clock, Ledger

logger = logging.getLogger("authz.service")

POLL_SECONDS: Final = 0.5
"""How often the ledger is asked; a quarter of the bound, where that is shorter."""
KEPT_MS: Final = 300_000
"""How long a revocation is kept after it has ended: clocks differ, and are set back."""

TIDY_SECONDS: Final = 60.0
"""How often what has ended is dropped."""


class RevocationsInForce:
    """The revocations of every tenant, as immutable values. For one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        max_staleness_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_staleness_seconds = max_staleness_seconds
        self.poll_seconds = min(POLL_SECONDS, max_staleness_seconds / 4)
        self._ledger = ledger
        self._clock = clock
        self._monotonic = monotonic
        self._sequence = 0
        self._confirmed_s: float | None = None
        """When the last look that succeeded began, by the monotonic clock."""
        self._tidied_s = monotonic()
        self._refreshing: asyncio.Task[None] | None = None
        self._entries: dict[str, dict[tuple[RevocationKind, str], int]] = {}
        """By tenant: until when (ms) each is kept."""
        self._snapshots: dict[str, Revocations] = {}

    def in_force(self, tenant: str) -> Revocations:
        """What is revoked now. Raises `RevocationsStale` when the last look is too long ago to tell."""
        if self.age_seconds() > self.max_staleness_seconds:
            raise RevocationsStale(
                "what was revoked lately is not known, so no capability is taken; try again"
            )
        found = self._snapshots.get(tenant)
        if found is None:
            found = self._snapshots[tenant] = self._snapshot(tenant)
        return found

    async def confirm(self) -> None:
        """Look now, unless somebody has a moment ago: so that what is decided goes by a recent look.

        Raises `RevocationsStale` when the look fails, or takes long, and the one before is too old.
        """
        if self.age_seconds() <= 2 * self.poll_seconds:
            return
        # Of all who wait only the first asks. One that goes away does not take the look with it.
        task = self._refreshing
        if task is None or task.done():
            task = self._refreshing = asyncio.create_task(self._refresh_quietly())
        await asyncio.wait([task], timeout=self.max_staleness_seconds)
        if self.age_seconds() > self.max_staleness_seconds:
            raise RevocationsStale(
                "the store did not say what was revoked, so no capability is taken; try again"
            )

    async def refresh(self) -> None:
        """Take in what the ledger has taken since the last time. Raises `StoreUnavailable`."""
        began_s = self._monotonic()
        while found := await self._ledger.revocations_since(self._sequence):
            self.apply(found)
            self._sequence = max(self._sequence, *(record.sequence for record in found))
        self._confirmed_s = max(began_s, self._confirmed_s or began_s)
        if began_s - self._tidied_s > TIDY_SECONDS:
            self._tidied_s = began_s
            self._forget_ended()

    async def run(self) -> None:
        """Look again and again, until cancelled. A look that fails is logged, and the next one tries anew."""
        failing = False
        while True:
            try:
                await self.refresh()
                failing = False
            except AuthzError as error:
                if not failing:
                    logger.error("revocations could not be read", extra={"why": error.message})
                failing = True
            except Exception:
                logger.exception("revocations could not be read")
            await asyncio.sleep(self.poll_seconds)

    def apply(self, records: Iterable[RevocationRecord]) -> None:
        """These are durable: from now on they stop what they name."""
        for record in records:
            entries = self._entries.setdefault(record.tenant, {})
            key = (record.kind, record.value)
            entries[key] = max(record.until_ms, entries.get(key, 0))
            self._snapshots.pop(record.tenant, None)

    def holds(self, tenant: str, kind: RevocationKind, value: str) -> bool:
        """Whether this is known to be revoked, however old what is known may be."""
        return (kind, value) in self._entries.get(tenant, {})

    def age_seconds(self) -> float:
        """How old the last look is; infinite before the first."""
        return float("inf") if self._confirmed_s is None else self._monotonic() - self._confirmed_s

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except StoreUnavailable as error:
            logger.warning("revocations could not be read", extra={"why": error.message})

    def _snapshot(self, tenant: str) -> Revocations:
        named: dict[RevocationKind, set[str]] = {kind: set() for kind in RevocationKind}
        for kind, value in self._entries.get(tenant, ()):
            named[kind].add(value)
        found = Revocations(
            links=frozenset(named[RevocationKind.LINK]),
            jtis=frozenset(named[RevocationKind.JTI]),
            holders=frozenset(named[RevocationKind.HOLDER]),
        )
        return NOTHING_REVOKED if found.is_empty else found

    def _forget_ended(self) -> None:
        """What nothing valid can be named by any more need not be told."""
        before_ms = self._clock.now_ms() - KEPT_MS
        for tenant, entries in self._entries.items():
            ended = [key for key, until_ms in entries.items() if until_ms < before_ms]
            for key in ended:
                del entries[key]
            if ended:
                self._snapshots.pop(tenant, None)
