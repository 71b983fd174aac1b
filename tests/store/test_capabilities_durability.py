"""Proofs, links, revocations and budgets in a database: with many writers, restarts, faults and sweeps."""

import asyncio
import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from authz.errors import StoreUnavailable
from authz.model.record import Committed, Replayed
from authz.ports import CommitUnit, Ledger
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.postgres_url import PostgresUrl
from tests.store.capability_child import (
    CAP,
    GIVES_BACK,
    PROOFS,
    REVOKED_AT_ONCE,
    TAKES,
    TASKS,
    TURNS,
    work,
)
from tests.store.capability_world import (
    DAY_MS,
    HOLD_MS,
    calling,
    delegated,
    link,
    proof,
    releasing,
    revoked,
    spending,
)
from tests.store.durable import DurableStore
from tests.store.sigkill_child import open_ledger
from tests.store.test_capabilities_contract import EVERYTHING, nothing_is_written
from tests.store.test_limits_durability import commit_together
from tests.store.world import QUIET, START_MS, Clock, event, operation

ROOT = Path(__file__).parents[2]
WORKERS = 2


def clock_of(ledger: DurableLedger) -> Clock:
    """The ledger's clock, which stands until it is moved."""
    clock = ledger._clock
    assert isinstance(clock, Clock)
    clock.step_ms = 0
    return clock


async def test_a_restart_forgets_nothing(store: DurableStore) -> None:
    keys = ServiceKeys.generate()
    for _ in range(2):
        ledger, _ = store.open(signer=keys)
        async with ledger:
            await ledger.commit(EVERYTHING)
            assert await ledger.commit(calling(2, used=proof("p"))) == Replayed(key="p")
            assert await ledger.find_link("default", "a") == link("a")
            assert [each.value for each in await ledger.revocations_since(0)] == ["a"]
            assert await ledger.session_exposure("trace") == {"authz:delegated:sub"}
            assert await ledger.counters_used(["budget"]) == {"budget": 1}
    ledger, _ = store.open(signer=keys)
    async with ledger:
        await ledger.commit(CommitUnit(event=event(3), revocations=(revoked("b"),)))
        await ledger.commit(releasing(4, 1))
        assert [each.sequence for each in await ledger.revocations_since(0)] == [1, 2]
        assert await ledger.counters_used(["budget"]) == {"budget": 0}
    store.assert_sound(keys, 3)


WRITES = ("operations", "proof_uses", "session_exposure", "events", "limit_reservations", "limit_counters")


@pytest.mark.parametrize(
    "statement", [f"INSERT INTO {table} " for table in (*WRITES, "capability_links", "revocations")]
)
async def test_a_fault_anywhere_leaves_nothing(store: DurableStore, statement: str) -> None:
    keys = ServiceKeys.generate()
    ledger, watched = store.open(signer=keys)
    async with ledger:
        watched.fail_at = statement
        with pytest.raises(StoreUnavailable):
            await ledger.commit(EVERYTHING)
        assert watched.fail_at == "", "it was asked for"

        await nothing_is_written(ledger)
        assert await ledger.counters_used(["budget"]) == {"budget": 0}
        assert isinstance(await ledger.commit(EVERYTHING), Committed), "and the proof is unused"
    store.assert_sound(keys, 1)


async def test_a_fault_leaves_what_was_to_be_given_back(store: DurableStore) -> None:
    ledger, watched = store.open()
    async with ledger:
        await ledger.commit(calling(1, spending()))
        for statement in ("DELETE FROM limit_reservations ", "UPDATE limit_counters "):
            watched.fail_at = statement
            with pytest.raises(StoreUnavailable):
                await ledger.commit(releasing(2, 1))
            assert await ledger.counters_used(["budget"]) == {"budget": 1}
        await ledger.commit(releasing(3, 1))
        assert await ledger.counters_used(["budget"]) == {"budget": 0}


async def test_a_commit_that_fails_leaves_nothing(store: DurableStore) -> None:
    ledger, watched = store.open()
    async with ledger:
        watched.fail_before_commit = 1
        with pytest.raises(StoreUnavailable):
            await ledger.commit(EVERYTHING)
        await nothing_is_written(ledger)


async def test_what_may_be_durable_counts_as_used(store: DurableStore) -> None:
    """The answer was withheld, but the record stands, and so does all that came with it."""
    ledger, watched = store.open()
    async with ledger:
        assert await ledger.session_exposure("trace") == frozenset()
        watched.fail_after_commit = 1
        with pytest.raises(StoreUnavailable):
            await ledger.commit(EVERYTHING)

        assert await ledger.commit(calling(2, used=proof("p"))) == Replayed(key="p")
        assert [each.value for each in await ledger.revocations_since(0)] == ["a"]


def whole(number: int) -> CommitUnit:
    """A call with everything, also what an earlier one gives back."""
    return CommitUnit(
        event=event(number),
        operation=operation(f"k-{number}"),
        reservations=(spending("root", cap=10**6), spending(f"leaf-{number % 3}", cap=10**6)),
        proof=proof(f"p-{number}"),
        links=(link(f"root-{number}"), link(f"leaf-{number}", parent_hash=f"root-{number}")),
        revocations=(revoked(f"l-{number}"),),
        delegated=delegated(f"s-{number}"),
        releases=f"d-{number - 100}",
    )


async def test_however_many_units_a_server_is_asked_a_few_times(store: DurableStore) -> None:
    ledger, watched = store.open()
    asked = []
    async with ledger:
        for begin, count in ((100, 4), (200, 4), (300, 40)):
            outcomes = await commit_together(ledger, watched, [whole(begin + each) for each in range(count)])
            assert all(isinstance(outcome, Committed) for outcome in outcomes)
            assert watched.order.count("begin") == 1
            asked.append(watched.asked)
        assert await ledger.counters_used(["root"]) == {"root": 40}, "all that came before was given back"
    if isinstance(store.database, PostgresUrl):
        assert asked[2] == asked[1] <= 20


async def test_who_has_no_capability_asks_no_more(store: DurableStore) -> None:
    ledger, watched = store.open()
    async with ledger:
        watched.asked = 0
        await ledger.commit(CommitUnit(event=event(1), operation=operation("k")))
        assert watched.asked == 3, "the operation, the record, the head of the log"


async def test_releases_make_a_batch_smaller(store: DurableStore) -> None:
    ledger, watched = store.open(limits=dataclasses.replace(QUIET, max_reservations=64))
    async with ledger:
        units = [releasing(number, number + 1000) for number in range(1, 13)]
        await commit_together(ledger, watched, units)
        assert watched.order.count("begin") == 3, "four of sixteen each time"


async def test_old_proofs_are_swept_and_live_ones_are_not(store: DurableStore) -> None:
    """A proof is kept for as long as a clock may go back and take it again."""
    ledger, _ = store.open()
    async with ledger:
        clock = clock_of(ledger)
        old = [calling(number, used=proof(f"old-{number}")) for number in range(1, 501)]
        await asyncio.gather(*map(ledger.commit, old))
        clock.at_ms = START_MS + 120_000 + HOLD_MS - 1
        late_ms = clock.at_ms + 120_000

        async def use(begin: int, count: int) -> None:
            units = [
                calling(number, used=proof(f"new-{number}", until_ms=late_ms))
                for number in range(begin, begin + count)
            ]
            await asyncio.gather(*map(ledger.commit, units))

        await use(1000, 500)
        assert store.rows_on_disk("proof_uses") == 1000, "not yet over by the clock's hold"
        assert isinstance(await ledger.commit(calling(9, used=proof("old-7"))), Replayed)
        clock.at_ms += 1
        await use(2000, 1000)

        rows = store.rows_on_disk("proof_uses")
        assert rows == 1500, "only those that nobody would take"
        assert isinstance(await ledger.commit(calling(9, used=proof("new-1007"))), Replayed)


async def test_old_revocations_are_swept_and_the_newest_is_not(store: DurableStore) -> None:
    """The next is numbered after the newest, and who has read up to it must not miss that."""
    keys = ServiceKeys.generate()
    ledger, _ = store.open(signer=keys)
    async with ledger:
        clock = clock_of(ledger)
        short = tuple(revoked(f"short-{number}", until_ms=START_MS + 1000) for number in range(200))
        await ledger.commit(CommitUnit(event=event(1), revocations=(*short, revoked("long"))))
        clock.at_ms = START_MS + 1000 + HOLD_MS - 1
        again = revoked("last", until_ms=START_MS + 1000)
        for number in range(20):
            await ledger.commit(CommitUnit(event=event(2 + number), revocations=(again,)))
        assert store.rows_on_disk("revocations") == 202
        clock.at_ms += 1
        for number in range(40):
            await ledger.commit(CommitUnit(event=event(50 + number), revocations=(again,)))

        left = await ledger.revocations_since(0)
        assert [(each.value, each.sequence) for each in left] == [("long", 201), ("last", 261)]
    ledger, _ = store.open(signer=keys)
    async with ledger:
        clock_of(ledger).at_ms = START_MS + 3 * DAY_MS
        await ledger.commit(CommitUnit(event=event(99), revocations=(revoked("next"),)))
        assert [each.value for each in await ledger.revocations_since(261)] == ["next"]


async def test_a_budget_is_swept_when_its_link_is_over(store: DurableStore) -> None:
    ledger, _ = store.open()
    async with ledger:
        clock = clock_of(ledger)
        ends_ms = START_MS + 3 * DAY_MS
        for number in range(1, 31):
            await ledger.commit(calling(number, spending(f"b-{number}", ends_ms=ends_ms)))
        await ledger.commit(calling(40, spending("kept", ends_ms=ends_ms + DAY_MS)))
        for at_ms, left in ((ends_ms - 1, 31), (ends_ms + HOLD_MS - 1, 31), (ends_ms + HOLD_MS, 1)):
            clock.at_ms = at_ms
            for number in range(3):
                later = spending("later", ends_ms=at_ms + 1, cap=10)
                await ledger.commit(calling(at_ms + number, later))
                await ledger.commit(releasing(at_ms + 10 + number, at_ms + number))
            assert store.rows_on_disk("limit_counters") == left + 1
            assert await ledger.counters_used(["kept"]) == {"kept": 1}


async def test_a_full_budget_of_many_calls_is_refused_at_once(store: DurableStore) -> None:
    """All that it holds ends with its link, so nobody adds up thousands to tell when that is."""
    ledger, watched = store.open()
    async with ledger:
        clock_of(ledger)
        cap = 3000
        wanted = [calling(number, spending(cap=cap)) for number in range(1, cap + 1)]
        await asyncio.gather(*map(ledger.commit, wanted))
        watched.asked = 0
        outcome = await ledger.commit(calling(cap + 1, spending(amount=2000, cap=cap)))
        assert watched.asked <= 8
        reached = getattr(outcome, "reached", ())
        assert [each.frees_at_ms for each in reached] == [START_MS + DAY_MS]


async def test_readers_see_every_revocation_in_order(postgres_url: str, tmp_path: Path) -> None:
    """Two processes revoke while this one reads: nothing ever comes with a smaller number than was seen."""
    keys = tmp_path / "keys.json"
    async with open_ledger(postgres_url, keys) as ledger:
        children = [await start_child(postgres_url, keys, index) for index in range(1, 1 + WORKERS)]
        ends = asyncio.gather(*(child.communicate(b"go\n") for child in children))
        seen: list[str] = []
        ended = False
        while True:
            page = await ledger.revocations_since(len(seen))
            assert [each.sequence for each in page] == list(range(len(seen) + 1, len(seen) + 1 + len(page)))
            seen += [each.value for each in page]
            if ended and not page:
                break
            ended = ends.done()
        results = [json.loads(output) for output, _ in await ends]
        assert len(seen) == len(set(seen)) == WORKERS * TASKS * TURNS * REVOKED_AT_ONCE
        store = DurableStore(database=PostgresUrl.parse(postgres_url), folder=tmp_path)
        await check_outcome(ledger, store, results)


async def test_threads_that_hammer_one_file(tmp_path: Path) -> None:
    store = DurableStore(database=tmp_path / "authz.db", folder=tmp_path)
    ledger = open_ledger(str(store.database), tmp_path / "keys.json")
    results: list[dict[str, Any]] = []

    def run(index: int) -> None:
        results.append(asyncio.run(work(ledger, index)))

    async with ledger:
        threads = [threading.Thread(target=run, args=(index,)) for index in range(1, 1 + WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert len(await ledger.revocations_since(0)) == 500, "a page"
        await check_outcome(ledger, store, results)


async def start_child(database: str, keys: Path, index: int) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "tests.store.capability_child", database, str(keys), str(index))
    pipe = subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)


async def check_outcome(ledger: Ledger, store: DurableStore, results: list[dict[str, Any]]) -> None:
    """Never over in the order of commits, never lost, given back once; each proof was taken from one."""
    assert len(results) == WORKERS
    # A transaction of PostgreSQL gets its number under the lock that it holds until its end.
    order = "xmin::text::bigint, sequence" if isinstance(store.database, PostgresUrl) else "sequence"
    held: set[str] = set()
    most = 0
    for trace_id, decision_id in store.fetch(f"SELECT trace_id, decision_id FROM events ORDER BY {order}"):
        if trace_id == TAKES:
            held.add(decision_id)
        elif trace_id.startswith(GIVES_BACK):
            held.discard(trace_id.removeprefix(GIVES_BACK))
        most = max(most, len(held))
    assert most == CAP, "it was full, and never more than that"
    assert len(held) == sum(result["held"] for result in results)
    assert await ledger.counters_used(["small", "large"]) == {"small": len(held), "large": len(held)}
    won = [key for result in results for key in result["won"]]
    assert sorted(won) == sorted(f"p-{number}" for number in range(PROOFS))
