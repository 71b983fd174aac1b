"""Delivery to a receiver that runs: signed, again until it is taken, dead when nobody takes it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from authz.core.notice import NoticeKind
from authz.model.record import EventQuery
from authz.model.webhook import Webhook, WebhookFormat
from authz.ports.notices import DeliveryState
from authz.service.notice_post import Poster
from authz.service.notices import DEFAULT_LIMITS, NoticeLimits, NoticeService
from authz.store.memory import MemoryLedger
from tests.notices.receiver import OLD_SECRET, SECRET, Receiver, verifies
from tests.notices.world import PUBLIC_URL, TENANT, Counts, notice, tell, webhook
from tests.store.world import START_MS, Clock
from tests.support.waiting import until


class Delivering:
    """A worker over a ledger in memory, moved step by step."""

    def __init__(
        self, *webhooks: Webhook, limits: NoticeLimits = DEFAULT_LIMITS, poster: Poster | None = None
    ) -> None:
        self.clock = Clock(step_ms=0)
        self.ledger = MemoryLedger(clock=self.clock)
        self.counts = Counts()
        self.webhooks = webhooks
        self.poster = poster or Poster(webhooks)
        self.service = NoticeService(
            outbox=self.ledger.outbox,
            ledger=self.ledger,
            clock=self.clock,
            webhooks=webhooks,
            public_url=PUBLIC_URL,
            observer=self.counts,
            poster=self.poster,
            limits=limits,
            jitter=lambda: 0.5,
        )

    async def step(self, *, after_ms: int = 0) -> int:
        """Direct and deliver all that is due then; how many attempts were made."""
        self.clock.at_ms += after_ms
        while await self.service.direct():
            pass
        return sum([await self.service.deliver(webhook) for webhook in self.webhooks])

    async def drain(self) -> None:
        while await self.step():
            pass

    def states(self) -> list[DeliveryState]:
        return [one.state for one in self.ledger.outbox.deliveries.values()]

    async def undelivered(self) -> list[Any]:
        found = await self.ledger.search(EventQuery(tenant=TENANT, type="notice.undelivered"))
        return [json.loads(record.text)["notice"] for record in found]


@pytest.fixture
async def world(receiver: Receiver) -> AsyncIterator[Delivering]:
    made = Delivering(webhook(receiver.url))
    async with made.poster:
        yield made


async def test_a_notice_is_signed_as_the_specification_says(world: Delivering, receiver: Receiver) -> None:
    await tell(world.ledger, notice())
    assert await world.step() == 1

    (got,) = receiver.got
    assert verifies(got, SECRET)
    assert not verifies(got, OLD_SECRET)
    assert not verifies(replace(got, body=got.body.replace(b"pending", b"granted")), SECRET)
    assert not verifies(replace(got, headers=got.headers | {"webhook-timestamp": "1"}), SECRET)
    assert got.headers["webhook-timestamp"] == str(START_MS // 1000)
    assert got.headers["content-type"] == "application/json"
    assert got.message["type"] == "approval.requested"
    assert got.message["data"]["url"] == f"{PUBLIC_URL}/ui/approvals/ap-1"
    assert world.states() == [DeliveryState.DELIVERED]
    assert await world.step(after_ms=10**9) == 0


async def test_while_a_secret_is_changed_both_verify(receiver: Receiver) -> None:
    keys = tuple(base64.b64decode(secret.removeprefix("whsec_")) for secret in (SECRET, OLD_SECRET))
    world = Delivering(webhook(receiver.url, keys=keys))
    async with world.poster:
        await tell(world.ledger, notice())
        await world.step()

    (got,) = receiver.got
    assert verifies(got, SECRET)
    assert verifies(got, OLD_SECRET)


async def test_a_receiver_that_fails_is_asked_again_with_the_same_id_and_later_each_time(
    world: Delivering, receiver: Receiver
) -> None:
    receiver.will_answer(500, 503, 429)
    await tell(world.ledger, notice())

    assert await world.step() == 1
    # 1 s, 2 s, 4 s, each shortened by a quarter, as the jitter is here.
    for before_ms, delay_ms in ((749, 750), (1499, 1500), (2999, 3000)):
        assert await world.step(after_ms=before_ms) == 0
        assert await world.step(after_ms=delay_ms - before_ms) == 1
    assert len({got.id for got in receiver.got}) == 1
    assert all(verifies(got, SECRET) for got in receiver.got)
    assert world.states() == [DeliveryState.DELIVERED]
    assert world.counts.counts == {("ops", "failed"): 3, ("ops", "delivered"): 1}
    assert await world.undelivered() == []


async def test_a_receiver_may_ask_for_more_time(world: Delivering, receiver: Receiver) -> None:
    receiver.will_answer(429, **{"Retry-After": "30"})
    await tell(world.ledger, notice())
    await world.step()

    assert await world.step(after_ms=29_999) == 0
    assert await world.step(after_ms=1) == 1


@pytest.mark.parametrize("said", ["-5", "soon", "99999999999999999999", "Wed, 21 Oct 2026 07:28:00 GMT", "٣"])
async def test_a_receiver_cannot_put_delivery_off_for_good(said: str, receiver: Receiver) -> None:
    world = Delivering(webhook(receiver.url))
    receiver.answers.append((503, {"Retry-After": said if said.isascii() else "x"}))
    async with world.poster:
        await tell(world.ledger, notice())
        await world.step()
        assert await world.step(after_ms=3_600_000) == 1


async def test_nobody_takes_it_and_it_becomes_a_dead_letter_with_a_record(receiver: Receiver) -> None:
    world = Delivering(webhook(receiver.url), limits=replace(DEFAULT_LIMITS, most_attempts=3))
    receiver.will_answer(500, 404, 500)
    async with world.poster:
        await tell(world.ledger, notice())
        for _ in range(3):
            assert await world.step(after_ms=600_000) == 1
        assert await world.step(after_ms=10**9) == 0

    (dead,) = world.ledger.outbox.deliveries.values()
    assert (dead.state, dead.attempts, dead.fault) == (DeliveryState.DEAD, 3, "the receiver answered 500")
    assert dead.notice == notice()
    assert await world.undelivered() == [
        {
            "message_id": dead.message_id,
            "webhook": "ops",
            "kind": "approval.requested",
            "approval_id": "ap-1",
            "attempts": 3,
            "fault": "the receiver answered 500",
        }
    ]
    assert world.counts.counts["ops", "dead"] == 1


async def test_a_receiver_that_is_gone_is_asked_no_more(world: Delivering, receiver: Receiver) -> None:
    receiver.will_answer(410)
    await tell(world.ledger, notice())
    await world.step()

    assert world.states() == [DeliveryState.DEAD]
    assert len(await world.undelivered()) == 1
    assert await world.step(after_ms=10**9) == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int, world: Delivering, receiver: Receiver) -> None:
    with Receiver() as elsewhere:
        receiver.will_answer(status, Location=elsewhere.url)
        await tell(world.ledger, notice())
        await world.step()

        assert elsewhere.got == []
    (waiting,) = world.ledger.outbox.deliveries.values()
    assert waiting.state is DeliveryState.WAITING
    assert waiting.fault == "the receiver answered a redirect, which is not followed"


async def test_a_receiver_that_does_not_answer_is_left(receiver: Receiver) -> None:
    target = webhook(receiver.url)
    world = Delivering(target, poster=Poster([target], timeout_seconds=0.05))
    receiver.may_answer.clear()
    async with world.poster:
        await tell(world.ledger, notice())
        assert await world.step() == 1
        (waiting,) = world.ledger.outbox.deliveries.values()
        assert waiting.fault == "there was no answer within 0.05 seconds"
        receiver.may_answer.set()
        await world.step(after_ms=1000)
        # However slow this machine is: it is tried until it is taken.
        while world.states() != [DeliveryState.DELIVERED]:
            await world.step(after_ms=600_000)


async def test_a_receiver_that_nobody_runs_is_a_failure_like_any_other(receiver: Receiver) -> None:
    with Receiver() as gone:
        url = gone.url
    world = Delivering(webhook(url))
    async with world.poster:
        await tell(world.ledger, notice())
        await world.step()

    (waiting,) = world.ledger.outbox.deliveries.values()
    assert waiting.fault == "it could not be sent (ConnectError)"


async def test_each_webhook_gets_what_it_wants_and_one_does_not_hold_up_the_other(receiver: Receiver) -> None:
    with Receiver() as other:
        receiver.will_answer(*[500] * 3)
        world = Delivering(
            webhook(receiver.url),
            webhook(other.url, "quiet", events=frozenset({NoticeKind.DENIED})),
            webhook(other.url, "foreign", tenant="other"),
        )
        async with world.poster:
            await tell(world.ledger, notice(), notice(1, NoticeKind.DENIED), notice(2, NoticeKind.EXPIRED))
            await world.step()

        assert [got.message["type"] for got in other.got] == ["approval.denied"]
        assert sorted(got.message["type"] for got in receiver.got) == [
            "approval.denied",
            "approval.expired",
            "approval.requested",
        ]


async def test_of_a_subject_that_asks_too_much_one_more_notice_says_so(
    world: Delivering, receiver: Receiver
) -> None:
    many = [notice(number, at_ms=START_MS + number) for number in range(30)]
    await tell(world.ledger, *many, notice(99, agent="coder-2"))
    await world.drain()

    told = [got.message for got in receiver.got]
    assert len([one for one in told if one["data"]["agent"] == "coder-1"]) == 21
    (held,) = [one for one in told if one["type"] == "notices.held_back"]
    assert "coder-1" in held["data"]["headline"]
    assert held["data"]["url"] == f"{PUBLIC_URL}/ui/approvals"
    # Others are not held back with it.
    assert len([one for one in told if one["data"]["agent"] == "coder-2"]) == 1
    assert world.counts.counts["ops", "held_back"] == 10

    receiver.got.clear()
    await tell(world.ledger, notice(100, at_ms=START_MS + 3_600_000))
    await world.drain()
    assert [got.message["type"] for got in receiver.got] == ["approval.requested"]


async def test_a_webhook_with_too_long_a_queue_gets_no_more_and_the_record_says_so(
    receiver: Receiver,
) -> None:
    world = Delivering(webhook(receiver.url), limits=replace(DEFAULT_LIMITS, most_waiting=2))
    await tell(world.ledger, *(notice(number) for number in range(3)))
    while await world.service.direct():
        pass

    assert sorted(world.states()) == ["dead", "waiting", "waiting"]
    (record,) = await world.undelivered()
    assert record["fault"] == "too many notices wait for this webhook"
    await world.poster.close()


async def test_slack_gets_a_message_of_its_own_form(receiver: Receiver) -> None:
    world = Delivering(webhook(receiver.url, keys=(), format=WebhookFormat.SLACK))
    async with world.poster:
        await tell(world.ledger, notice(by="grace"))
        await world.step()

    (got,) = receiver.got
    assert "webhook-signature" not in got.headers
    assert set(got.message) == {"text", "mrkdwn", "link_names", "unfurl_links", "unfurl_media", "blocks"}
    assert got.message["blocks"][-1]["text"]["text"].startswith(f"<{PUBLIC_URL}/ui/approvals/ap-1|")


async def test_a_clean_stop_gives_back_what_is_under_way(receiver: Receiver) -> None:
    world = Delivering(webhook(receiver.url))
    receiver.may_answer.clear()
    await tell(world.ledger, notice())
    running = asyncio.create_task(world.service.run())

    async def is_under_way() -> bool:
        return bool(receiver.got)

    await until(is_under_way)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert running.cancelled()
    (waiting,) = world.ledger.outbox.deliveries.values()
    assert (waiting.state, waiting.attempts, waiting.due_ms) == (DeliveryState.WAITING, 0, 0)


async def test_a_store_that_fails_for_a_while_stops_nothing_for_good(receiver: Receiver) -> None:
    world = Delivering(webhook(receiver.url), limits=replace(DEFAULT_LIMITS, poll_seconds=0.01))
    receiver.will_answer(410, 410)
    await tell(world.ledger, notice(1))
    world.ledger.unavailable = "the disk is gone"
    running = asyncio.create_task(world.service.run())

    async def was_tried() -> bool:
        return bool(receiver.got)

    await until(was_tried)
    # Its record could not be written, so it is no dead letter: it is tried again when its lease has ended.
    assert world.states() == [DeliveryState.WAITING]
    world.ledger.unavailable = None
    world.clock.at_ms += DEFAULT_LIMITS.lease_ms

    async def is_dead() -> bool:
        return world.states() == [DeliveryState.DEAD]

    await until(is_dead)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(await world.undelivered()) == 1
