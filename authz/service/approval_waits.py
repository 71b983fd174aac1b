"""Waiting for what people answer: runtimes by long poll, browsers and runtimes by a stream of events.

Every write of an approval takes a number in the store. While somebody waits, one poller for each tenant asks
for the numbers since the last one, however many wait: at once after a write of this process, and twice a
second for those of other replicas. So whoever reconnects with the number that it saw last misses nothing, be
it after a restart or at another replica.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from authz.errors import AuthzError, TooManyRequests
from authz.ports import Ledger

logger = logging.getLogger("authz.service")

POLL_SECONDS: Final = 0.5
MOST_UNREAD: Final = 256
"""Batches of changes that a listener may leave unread: over it, it is cut off and has to resume."""
DEFAULT_WAITERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Approvals that were written, in one batch."""

    number: int
    """Of the last of them: whoever has seen this batch resumes after it."""
    approval_ids: tuple[str, ...]


class Listener:
    """The changes of one tenant, as one who waits hears of them."""

    def __init__(self) -> None:
        self._unread: deque[Changes] = deque()
        self._heard = asyncio.Event()
        self.number = 0
        """Of the last change before this began to listen."""
        self.is_over = False
        """Nothing more comes: the service stops, or this one was too slow."""

    async def next(self, seconds: float) -> Changes | None:
        """The next batch; `None` where none came in time, or none comes any more (`is_over`)."""
        if not self._unread and not self.is_over and seconds > 0:
            self._heard.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._heard.wait()
            except TimeoutError:
                return None
        # What a cut-off listener did not read has a gap behind it: it reads all of that when it resumes.
        return self._unread.popleft() if self._unread and not self.is_over else None

    def hear(self, changes: Changes) -> None:
        """Something was written."""
        if len(self._unread) >= MOST_UNREAD:
            self.is_over = True
        else:
            self._unread.append(changes)
        self._heard.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.is_over = True
        self._heard.set()


class ApprovalWaits:
    """Tells those who wait what was written. For one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        most_of_one: int = DEFAULT_WAITERS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most_of_one` is how many requests of one caller may wait at a time."""
        self.monotonic = monotonic
        self._ledger = ledger
        self._most_of_one = most_of_one
        self._waiting: Counter[str] = Counter()
        self._hubs: dict[str, _Hub] = {}
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many wait now."""
        return self._waiting.total()

    @property
    def polling(self) -> int:
        """For how many tenants the store is asked."""
        return len(self._hubs)

    @contextmanager
    def place(self, who: str) -> Iterator[None]:
        """A place among those who wait. Raises `TooManyRequests` when this caller has as many as it may."""
        if self._waiting[who] >= self._most_of_one:
            raise TooManyRequests(
                f"{self._most_of_one} requests of yours wait for approvals already; end some, or use one "
                "stream for all",
                code="approval.too_many_waiting",
            )
        self._waiting[who] += 1
        try:
            yield
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]

    @asynccontextmanager
    async def listen(self, tenant: str) -> AsyncIterator[Listener]:
        """Hear of every change from now on: whoever reads a state within this misses no later one.

        Raises `StoreUnavailable` when the store cannot say where its changes stand.
        """
        hub = self._hubs.get(tenant)
        if hub is None:
            hub = self._hubs[tenant] = _Hub(self._ledger, tenant)
        listener = Listener()
        hub.listeners.add(listener)
        try:
            listener.number = await hub.begin()
            if self._is_closed:
                listener.end()
            yield listener
        finally:
            hub.listeners.discard(listener)
            if not hub.listeners:
                self._hubs.pop(tenant, None)
                hub.stop()

    async def since(self, tenant: str, number: int) -> Changes | None:
        """A bounded batch of what was written after that number; `None` for nothing.

        Raises `StoreUnavailable`.
        """
        latest, ids = await self._ledger.approvals_since(tenant, number)
        return Changes(number=latest, approval_ids=tuple(ids)) if ids else None

    def wake(self, tenant: str) -> None:
        """Something was written by this process: look at once."""
        if (hub := self._hubs.get(tenant)) is not None:
            hub.wake()

    def close(self) -> None:
        """The service stops: nobody waits any longer, nor will."""
        self._is_closed = True
        for hub in self._hubs.values():
            hub.end()


class _Hub:
    """The one poller of a tenant, and those who listen to it. Used while somebody does."""

    def __init__(self, ledger: Ledger, tenant: str) -> None:
        self.listeners: set[Listener] = set()
        self._ledger = ledger
        self._tenant = tenant
        self._number: int | None = None
        self._beginning = asyncio.Lock()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> int:
        """Poll, if nobody does yet. The number up to which all that was written can be read already."""
        async with self._beginning:
            if self._number is None:
                self._number, _ = await self._ledger.approvals_since(self._tenant, -1)
                self._task = asyncio.create_task(self._poll())
            return self._number

    def wake(self) -> None:
        self._woken.set()

    def end(self) -> None:
        for listener in self.listeners:
            listener.end()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _poll(self) -> None:
        failing = False
        while True:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()
            try:
                await self._look()
                failing = False
            except AuthzError as error:
                if not failing:
                    logger.error("changes of approvals could not be read", extra={"why": error.message})
                failing = True
            except Exception:
                logger.exception("changes of approvals could not be read")

    async def _look(self) -> None:
        """Tell everybody of what was written since, batch by batch."""
        assert self._number is not None  # noqa: S101 - `begin` set it before this runs
        while True:
            number, ids = await self._ledger.approvals_since(self._tenant, self._number)
            if not ids:
                return
            self._number = number
            for listener in self.listeners:
                listener.hear(Changes(number=number, approval_ids=tuple(ids)))
