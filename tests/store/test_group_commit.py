"""Answers come after their commit, commits are shared, and a failed one is nobody's: on every database."""

import asyncio
import logging

import pytest

from authz.errors import StoreUnavailable
from authz.model.record import Committed, Conflict, EventQuery
from authz.ports import ExposureWrite
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogSnapshot
from tests.store.durable import DurableStore
from tests.store.world import operation, unit


async def turn_the_loop() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_no_answer_before_the_commit_returned(store: DurableStore) -> None:
    ledger, connection = store.open()
    async with ledger:
        connection.hold()
        task = asyncio.create_task(ledger.commit(unit(1)))
        task.add_done_callback(lambda _: connection.order.append("answered"))
        await asyncio.to_thread(connection.at_commit.wait)
        await turn_the_loop()

        assert not task.done(), "the COMMIT has not returned"
        assert store.records_on_disk() == 0

        connection.release()
        outcome = await task
        await turn_the_loop()
        assert isinstance(outcome, Committed)
        assert store.records_on_disk() == 1
        assert connection.order == ["begin", "commit called", "commit returned", "answered"]


async def test_what_waits_shares_one_transaction(store: DurableStore) -> None:
    ledger, connection = store.open()
    async with ledger:
        connection.hold()
        first = asyncio.create_task(ledger.commit(unit(0)))
        await asyncio.to_thread(connection.at_commit.wait)
        others = [asyncio.create_task(ledger.commit(unit(number))) for number in range(1, 301)]
        await turn_the_loop()
        connection.release()
        outcomes = await asyncio.gather(first, *others)

        sequences = [outcome.sequence for outcome in outcomes if isinstance(outcome, Committed)]
        assert sequences == list(range(1, 302)), "in the order in which they came"
        assert connection.order.count("begin") == 3, "one alone, then 256 and 44"


async def test_an_overflow_is_refused_and_the_rest_is_written(store: DurableStore) -> None:
    limits = CommitLimits(max_waiting=2, checkpoint_records=10**9, checkpoint_seconds=1e9)
    ledger, connection = store.open(limits=limits)
    async with ledger:
        connection.hold()
        first = asyncio.create_task(ledger.commit(unit(0)))
        await asyncio.to_thread(connection.at_commit.wait)
        waiting = [asyncio.create_task(ledger.commit(unit(number))) for number in (1, 2)]
        await turn_the_loop()

        with pytest.raises(StoreUnavailable) as refused:
            await ledger.commit(unit(3))
        assert refused.value.code == "store.overloaded"

        connection.release()
        assert all(isinstance(outcome, Committed) for outcome in await asyncio.gather(first, *waiting))
        assert isinstance(await ledger.commit(unit(3)), Committed)


@pytest.mark.parametrize("is_durable", [False, True], ids=["nothing was written", "its answer was lost"])
async def test_a_failing_commit_fails_all_of_its_units(store: DurableStore, is_durable: bool) -> None:
    keys = ServiceKeys.generate()
    ledger, connection = store.open(signer=keys)
    async with ledger:
        assert isinstance(await ledger.commit(unit(0)), Committed)
        connection.hold()
        alone = asyncio.create_task(ledger.commit(unit(1)))
        await asyncio.to_thread(connection.at_commit.wait)
        exposure = ExposureWrite(session_key="s", labels=frozenset({"secret"}))
        tasks = [
            asyncio.create_task(ledger.commit(unit(number, operation(f"k-{number}"), exposure)))
            for number in range(2, 6)
        ]
        await turn_the_loop()
        if is_durable:
            connection.fail_after_commit = 2
        else:
            connection.fail_before_commit = 2
        connection.release()
        outcomes = await asyncio.gather(alone, *tasks, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 5
        assert len({id(outcome) for outcome in outcomes}) == 5, "each its own exception"
        assert store.records_on_disk() == (6 if is_durable else 1)
        assert (await ledger.find_operation("k-2") is not None) is is_durable
        assert (await ledger.session_exposure("s") == {"secret"}) is is_durable

        after = await ledger.commit(unit(9))
        assert isinstance(after, Committed)
        assert after.sequence == (7 if is_durable else 2), "the chain goes on from what is durable"
    store.assert_sound(keys, after.sequence)


async def test_conflicts_within_one_batch(store: DurableStore) -> None:
    ledger, connection = store.open()
    async with ledger:
        connection.hold()
        first = asyncio.create_task(ledger.commit(unit(0)))
        await asyncio.to_thread(connection.at_commit.wait)
        tasks = [
            asyncio.create_task(ledger.commit(unit(1, operation("k")))),
            asyncio.create_task(ledger.commit(unit(2, operation("k")))),
            asyncio.create_task(ledger.commit(unit(3, operation("k", expected_version=1)))),
        ]
        await turn_the_loop()
        connection.release()
        outcomes = await asyncio.gather(first, *tasks)

        assert [type(outcome) for outcome in outcomes] == [Committed, Committed, Conflict, Committed]
        assert connection.order.count("begin") == 2
        found = await ledger.find_operation("k")
        assert found is not None
        assert found.version == 2


async def test_a_caller_that_goes_away_leaves_its_record(store: DurableStore) -> None:
    ledger, connection = store.open()
    async with ledger:
        connection.hold()
        task = asyncio.create_task(ledger.commit(unit(1)))
        await asyncio.to_thread(connection.at_commit.wait)
        task.cancel()
        connection.release()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert isinstance(await ledger.commit(unit(2)), Committed)
        assert len(await ledger.search(EventQuery(tenant="default"))) == 2


async def test_closing_writes_what_waits_and_a_checkpoint(
    store: DurableStore, caplog: pytest.LogCaptureFixture
) -> None:
    keys = ServiceKeys.generate()
    ledger, connection = store.open(signer=keys)
    connection.hold()
    tasks = [asyncio.create_task(ledger.commit(unit(number))) for number in range(5)]
    await asyncio.to_thread(connection.at_commit.wait)
    await turn_the_loop()
    with caplog.at_level(logging.INFO, logger="authz.log"):
        closing = asyncio.create_task(ledger.close())
        connection.release()
        await closing
    outcomes = await asyncio.gather(*tasks)

    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    last = outcomes[-1]
    assert isinstance(last, Committed)
    (line,) = [record for record in caplog.records if record.name == "authz.log"]
    assert line.__dict__["head"] == f"{last.writer}:5:{last.hash}"
    assert line.__dict__["checkpoint"] == 1
    store.assert_sound(keys, 5)


async def test_checkpoints_come_with_the_records(store: DurableStore) -> None:
    keys = ServiceKeys.generate()
    limits = CommitLimits(checkpoint_records=3, checkpoint_seconds=1e9)
    ledger, _ = store.open(signer=keys, limits=limits)
    async with ledger:
        for number in range(7):
            await ledger.commit(unit(number))
    with LogSnapshot(store.database) as snapshot:
        assert [row.number for row in snapshot.checkpoints()] == [1, 2, 3]
    store.assert_sound(keys, 7)


async def test_a_signer_that_fails_stops_no_commit(
    store: DurableStore, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenSigner(ServiceKeys):
        def sign(self, header: object, payload: object) -> str:
            raise RuntimeError("the key is gone")

    limits = CommitLimits(checkpoint_records=1, checkpoint_seconds=1e9)
    ledger, _ = store.open(signer=BrokenSigner.generate(), limits=limits)
    async with ledger:
        for number in range(3):
            assert isinstance(await ledger.commit(unit(number)), Committed)
    assert "a log checkpoint could not be written" in caplog.text
    assert store.records_on_disk() == 3


def test_loops_of_several_threads_share_a_ledger(store: DurableStore) -> None:
    keys = ServiceKeys.generate()
    ledger, _ = store.open(signer=keys)

    async def write(start: int) -> list[int]:
        outcomes = await asyncio.gather(*(ledger.commit(unit(start + number)) for number in range(50)))
        return [outcome.sequence for outcome in outcomes if isinstance(outcome, Committed)]

    async def write_from_two_threads() -> list[int]:
        halves = await asyncio.gather(
            asyncio.to_thread(lambda: asyncio.run(write(0))),
            asyncio.to_thread(lambda: asyncio.run(write(50))),
        )
        await ledger.close()
        return sorted(halves[0] + halves[1])

    assert asyncio.run(write_from_two_threads()) == list(range(1, 101))
    store.assert_sound(keys, 100)
