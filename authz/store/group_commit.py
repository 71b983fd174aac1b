"""Group commit: one thread writes, and whatever waits meanwhile shares its next transaction.

Nothing is answered before the COMMIT that covers it has returned. The queue is bounded, so an overload
refuses instead of growing; a thread that died refuses everything.
"""

import asyncio
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from authz.core.log_checkpoint import Signer
from authz.errors import StoreUnavailable
from authz.model.record import CommitOutcome
from authz.ports import CommitUnit
from authz.store.commit_engine import CommitEngine, WrittenCheckpoint
from authz.store.unit_check import check_unit

Outcome = CommitOutcome | StoreUnavailable

_log = logging.getLogger("authz.log")
_PROBE_BYTES = 64 * 1024
"""More pages than a usual record and the indexes over it need."""
_MAX_PROBE_BYTES = 4 * 1024 * 1024
_MAX_KEPT_BYTES = 16 * 1024 * 1024
"""What one transaction seals and writes of things that are kept: other commits wait for it."""
_RELEASED = 16
"""What a decision whose reservations are given back is taken to have of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLimits:
    """How much may wait, how much one transaction takes, and when a checkpoint is due."""

    max_waiting: int = 4096
    """Units that may wait for a transaction; one more is refused as `store.overloaded`."""
    max_batch: int = 256
    max_reservations: int = 1024
    """Reservations under limits and budgets, and links, of one transaction: other processes wait for it."""
    answer_seconds: float = 10.0
    """How long a unit's answer is waited for; then it is refused, though it may be written yet."""
    close_seconds: float | None = None
    """How long closing waits for a transaction that does not end. `None`: as long as it takes."""
    checkpoint_records: int = 1000
    checkpoint_seconds: float = 5.0


@dataclass(slots=True)
class _Waiting:
    unit: CommitUnit
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[CommitOutcome]


class GroupCommitter:
    """Queues units from any number of event loops to one writer thread."""

    def __init__(
        self,
        engine: CommitEngine,
        signer: Signer,
        limits: CommitLimits,
        *,
        after_batch: Callable[[int], None] = lambda records: None,
        after_checkpoint: Callable[[WrittenCheckpoint], None] = lambda written: None,
    ) -> None:
        """`engine` must be loaded. `after_batch` is told how many units each transaction took.

        `after_checkpoint` is told of each checkpoint once it is durable, and must not raise.
        """
        self._engine = engine
        self._signer = signer
        self._limits = limits
        self._after_batch = after_batch
        self._after_checkpoint = after_checkpoint
        self._failed_bytes: int | None = None
        self._waiting: deque[_Waiting] = deque()
        self._probes: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[bool]]] = []
        self._condition = threading.Condition()
        self._closed: StoreUnavailable | None = None
        self._last_checkpoint = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="authz-log-writer", daemon=True)
        self._thread.start()

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        """Durably write `unit`; see `authz.ports.Ledger.commit`."""
        check_unit(unit)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CommitOutcome] = loop.create_future()
        with self._condition:
            if self._closed is not None:
                raise self._closed.again()
            if len(self._waiting) >= self._limits.max_waiting:
                raise StoreUnavailable("too many decisions wait for the store", code="store.overloaded")
            self._waiting.append(_Waiting(unit, loop, future))
        # Not at once: whatever else this turn of the loop decides then shares the transaction.
        loop.call_soon(self._wake)
        try:
            async with asyncio.timeout(self._limits.answer_seconds):
                return await future
        except TimeoutError:
            # It may still be written, and what it took stays taken: only the answer is withheld.
            raise StoreUnavailable(
                "the store did not answer in time, so whether this is on record is not known; "
                "send the same call again",
                code="store.timeout",
            ) from None

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify()

    async def is_ready(self) -> bool:
        """Whether a record could be committed now, found out by committing as much and removing it.

        After a failed batch this must succeed with the size of that batch, or a real batch must.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        with self._condition:
            if self._closed is not None or len(self._waiting) >= self._limits.max_waiting:
                return False
            self._probes.append((loop, future))
            self._condition.notify()
        return await future

    @property
    def is_failing(self) -> bool:
        """Whether the last batch failed, and nothing has shown since that the store takes records."""
        return self._failed_bytes is not None

    @property
    def is_closed(self) -> bool:
        """Whether every later commit is refused."""
        return self._closed is not None

    def close(self) -> None:
        """Write what waits and a last checkpoint, then stop. Blocks; call it off the event loop.

        After `close_seconds` what waits is refused, and the thread is left to end with the process.
        """
        with self._condition:
            if self._closed is None:
                self._closed = StoreUnavailable("the store is closed", code="store.closed")
            self._condition.notify()
        self._thread.join(self._limits.close_seconds)
        if self._thread.is_alive():
            _log.critical("the log writer does not end, so what waits is not recorded")
            self._refuse_waiting([])

    def _run(self) -> None:
        batch: list[_Waiting] = []
        try:
            # What a killed process left uncovered is covered before anything new is recorded, so that
            # old records without a checkpoint mean that a checkpoint was taken away.
            self._checkpoint()
            while True:
                batch = self._take()
                if batch:
                    self._commit(batch)
                    batch = []
                elif self._closed is not None:
                    break
                self._answer_probes()
                if self._is_checkpoint_due():
                    self._checkpoint()
            self._checkpoint()
        except BaseException:
            _log.critical("the log writer stopped; every later commit is refused", exc_info=True)
            raise
        finally:
            self._stop(batch)

    def _stop(self, batch: list[_Waiting]) -> None:
        """Refuse whatever still waits, also when the thread died of a fault."""
        self._refuse_waiting(batch)
        self._engine.close()

    def _refuse_waiting(self, batch: list[_Waiting]) -> None:
        stopped = StoreUnavailable("the log writer has stopped", code="store.closed")
        with self._condition:
            self._closed = self._closed or stopped
            left = batch + list(self._waiting)
            self._waiting.clear()
            probes, self._probes = self._probes, []
        _resolve(left, [stopped] * len(left))
        _resolve_probes(probes, is_ready=False)

    def _take(self) -> list[_Waiting]:
        """The next batch; empty when only a checkpoint or a probe is due, or all is drained at the end."""
        with self._condition:
            while not self._waiting and not self._probes and self._closed is None:
                remaining = self._seconds_to_checkpoint()
                if remaining is not None and remaining <= 0:
                    break
                self._condition.wait(remaining)
            return [self._waiting.popleft() for _ in range(self._count_next())]

    def _count_next(self) -> int:
        """How many of those that wait make the next batch; one at least."""
        count = reservations = kept_bytes = 0
        for waiting in itertools.islice(self._waiting, self._limits.max_batch):
            unit = waiting.unit
            reservations += len(unit.reservations) + len(unit.links)
            if unit.releases:
                reservations += _RELEASED
            kept_bytes += sum(len(kept.content) for kept in unit.kept)
            is_large = reservations > self._limits.max_reservations or kept_bytes > _MAX_KEPT_BYTES
            if count > 0 and is_large:
                break
            count += 1
        return count

    def _commit(self, batch: list[_Waiting]) -> None:
        outcomes: Sequence[Outcome]
        try:
            outcomes = self._engine.commit_batch([waiting.unit for waiting in batch])
        except StoreUnavailable as fault:
            fields = {"units": len(batch), "why": fault.internal}
            _log.error("the store did not take a batch", exc_info=fault, extra=fields)
            outcomes = [fault.again() for _ in batch]
            self._failed_bytes = sum(len(waiting.unit.event.body) for waiting in batch)
        else:
            self._failed_bytes = None
        _resolve(batch, outcomes)
        self._after_batch(len(batch))

    def _answer_probes(self) -> None:
        with self._condition:
            probes, self._probes = self._probes, []
        if not probes:
            return
        size_bytes = min(_PROBE_BYTES + (self._failed_bytes or 0), _MAX_PROBE_BYTES)
        try:
            self._engine.probe(size_bytes)
        except StoreUnavailable as fault:
            _log.warning("the store does not take records", exc_info=fault)
            _resolve_probes(probes, is_ready=False)
        else:
            self._failed_bytes = None
            _resolve_probes(probes, is_ready=True)

    def _seconds_to_checkpoint(self) -> float | None:
        if self._engine.records_since_checkpoint == 0:
            return None
        return self._last_checkpoint + self._limits.checkpoint_seconds - time.monotonic()

    def _is_checkpoint_due(self) -> bool:
        remaining = self._seconds_to_checkpoint()
        if remaining is None:
            return False
        return remaining <= 0 or self._engine.records_since_checkpoint >= self._limits.checkpoint_records

    def _checkpoint(self) -> None:
        # A checkpoint that fails is tried again at the next occasion: the records that it would have
        # covered are durable, and `authz log verify` sees how far the checkpoints reach.
        self._last_checkpoint = time.monotonic()
        try:
            written = self._engine.write_checkpoint(self._signer)
        except StoreUnavailable:
            _log.error("a log checkpoint could not be written", exc_info=True)
            return
        if written is not None:
            self._after_checkpoint(written)
            fields = {"head": written.head, "checkpoint": written.number, "checkpoint_hash": written.hash}
            _log.info("log checkpoint %d, HEAD %s", written.number, written.head, extra=fields)


def _resolve(batch: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
    """Answer each waiter in its own event loop, with one wake-up per loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting, Outcome]]] = {}
    for waiting, outcome in zip(batch, outcomes, strict=True):
        by_loop.setdefault(waiting.loop, []).append((waiting, outcome))
    for loop, answers in by_loop.items():
        _call_soon(loop, _answer, answers)


def _resolve_probes(
    probes: Sequence[tuple[asyncio.AbstractEventLoop, asyncio.Future[bool]]], *, is_ready: bool
) -> None:
    for loop, future in probes:
        _call_soon(loop, _answer_probe, future, is_ready)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object) -> None:
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        # The loop is closed: nobody waits for these answers, and what was written stands.
        _log.warning("an event loop ended before it was answered")


def _answer_probe(future: asyncio.Future[bool], is_ready: bool) -> None:
    if not future.done():
        future.set_result(is_ready)


def _answer(answers: Sequence[tuple[_Waiting, Outcome]]) -> None:
    for waiting, outcome in answers:
        if waiting.future.done():
            continue  # the caller went away; the record stands
        if isinstance(outcome, StoreUnavailable):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)
