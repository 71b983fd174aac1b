"""Delivery of notices: from the outbox to the webhooks, again until they are taken or dead (spec section 8).

Nothing waits for it: a notice stands in the outbox since the commit of what it tells of. Each process of the
service runs one worker; what one has claimed the others leave alone until its lease ends. A process that dies
between a delivery and its mark leaves a notice that is delivered twice, with the same `webhook-id`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from authz.core.notice import held_back_notice, message_id, undelivered_event
from authz.errors import AuthzError, StoreUnavailable
from authz.model.approval_writes import Notice
from authz.model.record import Committed
from authz.model.webhook import Webhook
from authz.ports import Clock, CommitUnit, Ledger
from authz.ports.notices import Delivery, DeliveryState, Load, NoticeObserver, Outbox
from authz.service.notice_post import Posted, Poster, PostOutcome

logger = logging.getLogger("authz.notices")

DIRECTED_AT_ONCE: Final = 64
SWEEP_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeLimits:
    """How often is tried, and how much a receiver is spared."""

    poll_seconds: float = 1.0
    most_attempts: int = 10
    first_delay_ms: int = 1000
    """Doubled with every attempt, up to the longest."""
    longest_delay_ms: int = 600_000
    lease_ms: int = 60_000
    """Longer than an attempt lasts: then another process takes the delivery for abandoned."""
    at_once: int = 4
    """Attempts at a time, for each webhook."""
    most_waiting: int = 1000
    """Deliveries that wait for a webhook; what is more is dead at once."""
    per_window: int = 20
    """Notices about one subject; after these one that says so, and no more until the window ends."""
    window_ms: int = 3_600_000
    keep_ms: int = 86_400_000
    """How long what was delivered is known."""


DEFAULT_LIMITS: Final = NoticeLimits()


class NoticeService:
    """Directs notices to webhooks and delivers them."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        ledger: Ledger,
        clock: Clock,
        webhooks: Sequence[Webhook],
        public_url: str,
        observer: NoticeObserver,
        poster: Poster | None = None,
        limits: NoticeLimits = DEFAULT_LIMITS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` gives numbers from 0 to 1: a delay is shortened by up to half of it."""
        self._outbox = outbox
        self._ledger = ledger
        self._clock = clock
        self._webhooks = tuple(webhooks)
        self._public_url = public_url
        self._observer = observer
        self._poster = poster or Poster(webhooks)
        self._limits = limits
        self._jitter = jitter

    async def run(self) -> None:
        """Direct and deliver until cancelled; what is under way then is given back at once."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._again(self.direct, self._limits.poll_seconds))
                group.create_task(self._again(self.sweep, SWEEP_SECONDS))
                for webhook in self._webhooks:
                    group.create_task(self._again(partial(self.deliver, webhook), self._limits.poll_seconds))
        finally:
            await self._poster.close()

    async def direct(self) -> int:
        """Choose the webhooks of some notices; how many there were. Raises `StoreUnavailable`."""
        found = await self._outbox.undirected(DIRECTED_AT_ONCE)
        for notice in found:
            deliveries = []
            for webhook in self._webhooks:
                if webhook.tenant == notice.tenant and notice.kind in webhook.events:
                    deliveries += await self._plan(notice, webhook)
            for dead in (one for one in deliveries if one.state is DeliveryState.DEAD):
                await self._record_undelivered(dead)
            await self._outbox.direct(notice, deliveries)
        return len(found)

    async def _plan(self, notice: Notice, webhook: Webhook) -> list[Delivery]:
        window = self._limits.window_ms
        since_ms = notice.at_ms // window * window
        load = await self._outbox.load(
            tenant=notice.tenant, webhook=webhook.name, subject_key=notice.subject_key, since_ms=since_ms
        )
        if load.of_subject > self._limits.per_window:
            self._observer.notice(webhook.tenant, webhook.name, "held_back")
            return []
        if load.of_subject == self._limits.per_window:
            self._observer.notice(webhook.tenant, webhook.name, "held_back")
            notice = held_back_notice(
                notice, public_url=self._public_url, until_ms=since_ms + window, now_ms=notice.at_ms
            )
        return [self._delivery(notice, webhook, load)]

    def _delivery(self, notice: Notice, webhook: Webhook, load: Load) -> Delivery:
        is_full = load.waiting >= self._limits.most_waiting
        return Delivery(
            message_id=message_id(notice, webhook.name),
            webhook=webhook.name,
            notice=notice,
            state=DeliveryState.DEAD if is_full else DeliveryState.WAITING,
            attempts=0,
            due_ms=0,
            fault="too many notices wait for this webhook" if is_full else "",
            version=1,
        )

    async def deliver(self, webhook: Webhook) -> int:
        """Try what is due for it, a few at a time; how many there were. Raises `StoreUnavailable`."""
        claimed = await self._outbox.claim(
            tenant=webhook.tenant,
            webhook=webhook.name,
            now_ms=self._clock.now_ms(),
            lease_ms=self._limits.lease_ms,
            most=self._limits.at_once,
        )
        ended = await asyncio.gather(
            *(self._try(webhook, delivery) for delivery in claimed), return_exceptions=True
        )
        # All have ended: a store that did not take the mark of one has had the chance to take the others'.
        for fault in ended:
            if isinstance(fault, BaseException):
                raise fault
        return len(claimed)

    async def _try(self, webhook: Webhook, claimed: Delivery) -> None:
        try:
            posted = await self._poster.post(webhook, claimed, now_ms=self._clock.now_ms())
        except asyncio.CancelledError:
            # Else it would wait for the end of a lease that nobody uses.
            await self._outbox.settle(
                claimed, DeliveryState.WAITING, attempts=claimed.attempts, due_ms=0, fault=claimed.fault
            )
            raise
        await self._settle(claimed, posted)

    async def _settle(self, claimed: Delivery, posted: Posted) -> None:
        attempts = claimed.attempts + 1
        state, outcome, due_ms = DeliveryState.WAITING, "failed", 0
        if posted.outcome is PostOutcome.DELIVERED:
            state, outcome = DeliveryState.DELIVERED, "delivered"
        elif posted.outcome is PostOutcome.GONE or attempts >= self._limits.most_attempts:
            state, outcome = DeliveryState.DEAD, "dead"
        else:
            due_ms = self._clock.now_ms() + self._delay_ms(attempts, posted)
        if state is DeliveryState.DEAD:
            # First: a dead letter without its record would be lost, a second record is only a second one.
            await self._record_undelivered(_tried(claimed, attempts, posted.fault))
        await self._outbox.settle(claimed, state, attempts=attempts, due_ms=due_ms, fault=posted.fault)
        self._observer.notice(claimed.notice.tenant, claimed.webhook, outcome)

    def _delay_ms(self, attempts: int, posted: Posted) -> int:
        # No power that could grow without bound, whatever `most_attempts` is.
        doubled = self._limits.first_delay_ms << min(attempts - 1, 30)
        delay_ms = min(doubled, self._limits.longest_delay_ms) * (1 - self._jitter() / 2)
        return max(int(delay_ms), posted.retry_after_seconds * 1000)

    async def _record_undelivered(self, dead: Delivery) -> None:
        event = undelivered_event(
            dead.notice,
            message_id=dead.message_id,
            webhook=dead.webhook,
            attempts=dead.attempts,
            fault=dead.fault,
            now_ms=self._clock.now_ms(),
        )
        if not isinstance(await self._ledger.commit(CommitUnit(event=event)), Committed):
            raise StoreUnavailable("that nobody took a notice could not be recorded")
        fields = {"webhook": dead.webhook, "notice": dead.message_id, "why": dead.fault}
        logger.error("nobody took a notice; `authz webhooks list` shows it", extra=fields)

    async def sweep(self) -> int:
        """Forget what was delivered long ago; 0. Raises `StoreUnavailable`."""
        await self._outbox.sweep(self._clock.now_ms() - self._limits.keep_ms)
        return 0

    async def _again(self, step: Callable[[], Awaitable[int]], seconds: float) -> None:
        """Do it again and again; at once where there may be more. A failure is logged once, and goes on."""
        failing = False
        while True:
            try:
                done = await step()
                failing = False
                if done:
                    continue
            except AuthzError as error:
                if not failing:
                    logger.error("notices could not be delivered", extra={"why": error.message})
                failing = True
            except Exception:
                logger.exception("notices could not be delivered")
            await asyncio.sleep(seconds)


def _tried(claimed: Delivery, attempts: int, fault: str) -> Delivery:
    return replace(claimed, attempts=attempts, fault=fault)
