"""Waiting for answers: woken by this process, found by polling for others, bounded, over with the service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from authz.core.approval import told_state
from authz.errors import NotFound, StoreUnavailable, TooManyRequests
from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalStanding
from authz.model.call import Call
from authz.service import approval_waits
from tests.support.answering import TENANT, Answering, asking, signed_in
from tests.support.waiting import until
from tests.support.world import call

LONG = 60.0


@asynccontextmanager
async def waiting(world: Answering, approval_id: str) -> AsyncIterator[asyncio.Task[ApprovalStanding]]:
    """Somebody who waits, once it does."""
    service = world.approvals
    task = asyncio.create_task(service.wait(TENANT, approval_id, LONG))

    async def polls() -> bool:
        return service.waits.polling == 1

    await until(polls)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def reading(name: str) -> Call:
    return call("fs/file_read", path=f"/workspace/{name}")


def state_of(standing: ApprovalStanding, world: Answering) -> ApprovalState:
    return told_state(standing.request, standing.grant, world.clock.at_ms)


async def test_who_waits_is_told_once_a_person_answers_and_the_store_is_asked_no_longer() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    async with waiting(world, approval_id) as first, waiting(world, approval_id) as second:
        assert world.approvals.waits.polling == 1, "one poller, however many wait"
        await world.approve(signed_in("grace"), approval_id)
        for told in await asyncio.gather(first, second):
            assert state_of(told, world) is ApprovalState.APPROVED
    assert world.approvals.waits.polling == 0


async def test_a_yes_short_of_the_quorum_ends_no_wait() -> None:
    world = await Answering.of(asking('@quorum("2")'))
    approval_id = await world.ask()
    async with waiting(world, approval_id) as task:
        await world.approve(signed_in("grace"), approval_id)
        await world.approve(signed_in("linus"), approval_id)
        assert len((await task).votes) == 2


async def test_an_answer_that_another_replica_wrote_is_found_by_polling() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    async with waiting(world, approval_id) as task:
        # Nobody wakes this process.
        world.approvals.waits.wake = lambda tenant: None  # type: ignore[method-assign]
        await world.deny(signed_in("grace"), approval_id)
        assert state_of(await task, world) is ApprovalState.DENIED


async def test_who_waits_is_told_of_the_end_by_time_whether_or_not_it_is_written_down() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    request = (await world.approvals.find(TENANT, approval_id)).request
    world.clock.at_ms = request.expires_at_ms - 20
    async with waiting(world, approval_id) as task:
        world.clock.at_ms = request.expires_at_ms
        told = await task
        assert state_of(told, world) is ApprovalState.EXPIRED
        assert told.request.state is ApprovalState.PENDING
    assert await world.approvals.lapses.sweep() == 1


async def test_a_wait_that_is_over_tells_where_it_stands() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    assert state_of(await world.approvals.wait(TENANT, approval_id, 0.01), world) is ApprovalState.PENDING
    with pytest.raises(NotFound):
        await world.approvals.wait(TENANT, "nothing", LONG)
    assert world.approvals.waits.polling == 0


async def test_with_the_service_all_waiting_ends_and_none_begins() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    async with waiting(world, approval_id) as task:
        world.approvals.waits.close()
        assert state_of(await task, world) is ApprovalState.PENDING
    later = await world.approvals.wait(TENANT, approval_id, LONG)
    assert state_of(later, world) is ApprovalState.PENDING
    assert [one async for one in world.approvals.changes(TENANT)] == []


async def test_a_store_that_fails_for_a_moment_loses_nobody_an_answer() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    async with waiting(world, approval_id) as task:
        world.ledger.unavailable = "the disk is gone"
        world.approvals.waits.wake(TENANT)
        await asyncio.sleep(0)
        world.ledger.unavailable = None
        await world.approve(signed_in("grace"), approval_id)
        assert state_of(await task, world) is ApprovalState.APPROVED


async def test_nobody_begins_to_wait_while_the_store_cannot_say_where_its_changes_stand() -> None:
    world = await Answering.of(asking())
    world.ledger.unavailable = "the disk is gone"
    with pytest.raises(StoreUnavailable):
        async with world.approvals.waits.listen(TENANT):
            pass
    world.ledger.unavailable = None
    assert world.approvals.waits.polling == 0


async def test_changes_are_told_in_order_and_only_of_the_own_tenant() -> None:
    world = await Answering.of(asking('@quorum("2")'))
    first, second = await world.ask(), await world.ask(reading("b"))
    heard: list[str] = []

    async def listen(tenant: str) -> None:
        async for approval_id in world.approvals.changes(tenant):
            heard.append(approval_id)

    tasks = [asyncio.create_task(listen(tenant)) for tenant in (TENANT, "other")]

    async def polls() -> bool:
        return world.approvals.waits.polling == 2

    await until(polls)
    await asyncio.sleep(0)
    await world.approve(signed_in("grace"), second)
    await world.deny(signed_in("grace"), first)

    async def has_heard() -> bool:
        return len(heard) >= 2

    await until(has_heard)
    world.approvals.waits.close()
    await asyncio.gather(*tasks)
    assert heard == [second, first]


async def test_a_listener_that_does_not_read_is_cut_off_and_the_others_hear_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval_waits, "MOST_UNREAD", 2)
    world = await Answering.of(asking('@quorum("2")'))
    waits = world.approvals.waits
    async with waits.listen(TENANT) as slow, waits.listen(TENANT) as quick:
        for name in "abcd":
            await world.ask(reading(name))
            waits.wake(TENANT)
            assert await quick.next(LONG) is not None
        assert slow.is_over
        assert await slow.next(LONG) is None, "what it has not read has a gap behind it"
        assert not quick.is_over


async def test_a_caller_has_so_many_places_and_gets_them_back() -> None:
    world = await Answering.of(asking(), waiters=2)
    waits = world.approvals.waits
    with waits.place("key:1"), waits.place("key:1"):
        with pytest.raises(TooManyRequests) as caught, waits.place("key:1"):
            pass
        assert caught.value.code == "approval.too_many_waiting"
        with waits.place("key:2"):
            assert waits.count == 3
    assert waits.count == 0
    with waits.place("key:1"):
        assert waits.count == 1


async def test_who_resumes_gets_what_was_written_since() -> None:
    world = await Answering.of(asking('@quorum("2")'))
    waits = world.approvals.waits
    first = await world.ask()
    async with waits.listen(TENANT) as listener:
        seen = listener.number
    second = await world.ask(reading("b"))
    await world.approve(signed_in("grace"), first)
    missed = await waits.since(TENANT, seen)
    assert missed is not None
    assert missed.approval_ids == (second, first)
    assert await waits.since(TENANT, missed.number) is None
