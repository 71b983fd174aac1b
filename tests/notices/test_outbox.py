"""The outbox, whatever is beneath it: committed with what it tells of, directed once, claimed by one."""

import asyncio
from dataclasses import replace

import pytest

from authz.core.notice import NoticeKind, message_id
from authz.errors import StoreUnavailable
from authz.model.approval_writes import Notice
from authz.model.record import Conflict
from authz.ports import CommitUnit
from authz.ports.notices import Delivery, DeliveryState, Load
from tests.notices.conftest import Opened
from tests.notices.world import TENANT, notice, tell
from tests.store.world import START_MS, event, operation

LEASE_MS = 60_000


def waiting(one: Notice, webhook: str = "ops") -> Delivery:
    return Delivery(
        message_id=message_id(one, webhook),
        webhook=webhook,
        notice=one,
        state=DeliveryState.WAITING,
        attempts=0,
        due_ms=0,
        fault="",
        version=1,
    )


async def claim(
    opened: Opened, now_ms: int = START_MS, *, webhook: str = "ops", most: int = 10
) -> list[Delivery]:
    return list(
        await opened.outbox.claim(tenant=TENANT, webhook=webhook, now_ms=now_ms, lease_ms=LEASE_MS, most=most)
    )


async def test_a_notice_is_committed_with_its_unit_and_once(opened: Opened) -> None:
    one, other = notice(1), notice(2, at_ms=START_MS + 1)
    await tell(opened.ledger, one, other, one)

    assert await opened.outbox.undirected(10) == [one, other]
    assert await opened.outbox.undirected(1) == [one]


async def test_a_unit_that_is_refused_tells_nothing(opened: Opened) -> None:
    write = operation("k", tenant=TENANT)
    await opened.ledger.commit(CommitUnit(event=event(1, tenant=TENANT), operation=write))
    outcome = await opened.ledger.commit(
        CommitUnit(event=event(2, tenant=TENANT), operation=write, notices=[notice()])
    )

    assert isinstance(outcome, Conflict)
    assert await opened.outbox.undirected(10) == []


@pytest.mark.parametrize(
    "bad",
    [{"tenant": "other"}, {"body": b"\xff"}, {"body": b"x" * 100_000}, {"at_ms": -1}, {"kind": "a\0b"}],
    ids=["tenant", "no text", "too large", "time", "nul"],
)
async def test_a_notice_that_no_store_takes_is_refused_before_others_suffer(
    opened: Opened, bad: dict[str, object]
) -> None:
    wrong = replace(notice(), **bad)  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        await opened.ledger.commit(CommitUnit(event=event(1, tenant=TENANT), notices=[wrong]))


async def test_directing_puts_one_delivery_for_each_webhook_and_only_once(opened: Opened) -> None:
    one = notice()
    await tell(opened.ledger, one)

    assert await opened.outbox.direct(one, [waiting(one), waiting(one, "slack")])
    assert not await opened.outbox.direct(one, [waiting(one, "third")])
    assert await opened.outbox.undirected(10) == []
    (claimed,) = await claim(opened)
    assert replace(claimed, due_ms=0, version=1) == waiting(one)
    assert [one.webhook for one in await claim(opened, webhook="slack")] == ["slack"]
    assert await claim(opened, webhook="third") == []


async def test_a_notice_that_is_written_again_later_is_not_delivered_again(opened: Opened) -> None:
    one = notice()
    await tell(opened.ledger, one)
    await opened.outbox.direct(one, [waiting(one)])
    (claimed,) = await claim(opened)
    await opened.outbox.settle(claimed, DeliveryState.DELIVERED, attempts=1, due_ms=0, fault="")
    await tell(opened.ledger, one)

    assert await opened.outbox.direct(one, [waiting(one)])
    assert await claim(opened, START_MS + 10 * LEASE_MS) == []


async def test_what_is_claimed_is_left_alone_until_its_lease_ends(opened: Opened) -> None:
    one = notice()
    await tell(opened.ledger, one)
    await opened.outbox.direct(one, [waiting(one)])

    (first,) = await claim(opened)
    assert await claim(opened, START_MS + LEASE_MS - 1) == []
    (second,) = await claim(opened, START_MS + LEASE_MS)
    assert second.message_id == first.message_id
    # Whoever was too slow changes nothing any more.
    assert not await opened.outbox.settle(first, DeliveryState.DEAD, attempts=1, due_ms=0, fault="x")
    assert await opened.outbox.settle(second, DeliveryState.DELIVERED, attempts=1, due_ms=0, fault="")
    assert not await opened.outbox.settle(second, DeliveryState.WAITING, attempts=2, due_ms=0, fault="x")


async def test_of_many_who_claim_at_once_each_delivery_is_given_to_one(opened: Opened) -> None:
    notices = [notice(number) for number in range(12)]
    await tell(opened.ledger, *notices)
    for one in notices:
        await opened.outbox.direct(one, [waiting(one)])

    taken = await asyncio.gather(*(claim(opened, most=5) for _ in range(6)))

    ids = [delivery.message_id for some in taken for delivery in some]
    assert len(ids) == len(set(ids)) == 12


async def test_a_failed_attempt_is_due_again_at_its_time(opened: Opened) -> None:
    one = notice()
    await tell(opened.ledger, one)
    await opened.outbox.direct(one, [waiting(one)])
    (claimed,) = await claim(opened)
    await opened.outbox.settle(
        claimed, DeliveryState.WAITING, attempts=3, due_ms=START_MS + 500, fault="it failed"
    )

    assert await claim(opened, START_MS + 499) == []
    (again,) = await claim(opened, START_MS + 500)
    assert (again.attempts, again.fault, again.notice) == (3, "it failed", one)


async def test_the_load_of_a_webhook_counts_what_waits_and_what_a_subject_had(opened: Opened) -> None:
    mine = [notice(number, at_ms=START_MS + number) for number in range(3)]
    others = notice(9, agent="coder-2")
    await tell(opened.ledger, *mine, others)
    for one in (*mine, others):
        await opened.outbox.direct(one, [waiting(one)])
    (claimed,) = await claim(opened, most=1)
    await opened.outbox.settle(claimed, DeliveryState.DELIVERED, attempts=1, due_ms=0, fault="")

    async def load(since_ms: int, tenant: str = TENANT, webhook: str = "ops") -> Load:
        return await opened.outbox.load(
            tenant=tenant, webhook=webhook, subject_key=mine[0].subject_key, since_ms=since_ms
        )

    assert await load(START_MS) == Load(waiting=3, of_subject=3)
    assert await load(START_MS + 1) == Load(waiting=3, of_subject=2)
    assert await load(START_MS, tenant="other") == Load(waiting=0, of_subject=0)
    assert await load(START_MS, webhook="slack") == Load(waiting=0, of_subject=0)


async def test_what_was_delivered_is_forgotten_in_time_and_nothing_else_is(opened: Opened) -> None:
    delivered, dead, left = (notice(number) for number in range(3))
    await tell(opened.ledger, delivered, dead, left)
    for one in (delivered, dead, left):
        await opened.outbox.direct(one, [waiting(one)])
    by_id = {one.message_id: one for one in await claim(opened)}
    for one, state in ((delivered, DeliveryState.DELIVERED), (dead, DeliveryState.DEAD)):
        found = by_id[message_id(one, "ops")]
        await opened.outbox.settle(found, state, attempts=1, due_ms=0, fault="")

    async def count() -> int:
        found = await opened.outbox.load(
            tenant=TENANT, webhook="ops", subject_key=delivered.subject_key, since_ms=0
        )
        return found.of_subject

    await opened.outbox.sweep(START_MS)
    assert await count() == 3
    await opened.outbox.sweep(START_MS + 1)
    assert await count() == 2


def test_every_kind_has_its_own_id_for_every_webhook() -> None:
    kinds = [kind for kind in NoticeKind if kind is not NoticeKind.HELD_BACK]
    ids = {message_id(notice(number, kind), name) for number in (1, 2) for kind in kinds for name in "ab"}

    assert len(ids) == 2 * len(kinds) * 2
