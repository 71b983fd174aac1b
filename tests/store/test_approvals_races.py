"""Many at once, over one ledger and over two that share a database: each use, answer and request once."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from authz.core.approval import told_state
from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalMoved, ApprovalStanding
from authz.model.record import CommitOutcome, Committed
from authz.ports import CommitUnit
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.store.approval_world import (
    NOW_MS,
    SESSION,
    TENANT,
    VAULT_KEY,
    approved,
    asking,
    denied,
    keeping,
    moving,
    of_call,
    read_request,
    revoking,
    still_clock,
    using,
    whole_unit,
)
from tests.store.durable import DurableStore
from tests.support.approvals import times

MANY = 200
SMALL_BATCHES = CommitLimits(max_batch=7, checkpoint_records=10**9, checkpoint_seconds=1e9)
"""So that they take turns, and a batch never holds all of them."""


@pytest.fixture
async def ledgers(store: DurableStore, tmp_path: Path) -> AsyncIterator[Sequence[DurableLedger]]:
    """One on SQLite, two on PostgreSQL: each with a session and a thread of its own, as two processes."""
    signer = ServiceKeys.generate()
    async with contextlib.AsyncExitStack() as stack:
        if not isinstance(store.database, PostgresUrl):
            one = SqliteLedger.open(
                store.database,
                clock=still_clock(),
                signer=signer,
                limits=SMALL_BATCHES,
                vault_key=VAULT_KEY,
            )
            yield [await stack.enter_async_context(one)]
            return
        opened: list[DurableLedger] = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            each = PostgresLedger.open(
                store.database,
                tmp_path / name,
                clock=still_clock(),
                signer=signer,
                limits=SMALL_BATCHES,
                vault_key=VAULT_KEY,
            )
            opened.append(await stack.enter_async_context(each))
        yield opened


async def race(ledgers: Sequence[DurableLedger], *units: CommitUnit) -> list[CommitOutcome]:
    """All at once, taking the ledgers in turn."""
    tasks = (ledgers[number % len(ledgers)].commit(unit) for number, unit in enumerate(units))
    return list(await asyncio.gather(*tasks))


def committed(outcomes: Sequence[CommitOutcome]) -> int:
    assert {type(outcome) for outcome in outcomes} <= {Committed, ApprovalMoved}
    return sum(isinstance(outcome, Committed) for outcome in outcomes)


async def standing(ledgers: Sequence[DurableLedger], request_id: str = "ap-1") -> ApprovalStanding:
    found = [await ledger.find_approval(TENANT, request_id) for ledger in ledgers]
    assert all(each == found[0] for each in found)
    assert found[0] is not None
    return found[0]


async def test_of_many_that_use_it_once_one_does(ledgers: Sequence[DurableLedger]) -> None:
    request = read_request()
    await race(ledgers[:1], asking(request))
    await race(ledgers[:1], moving(approved(request)))
    uses = [using(write=of_call("sha256:f", f"op-{number}")) for number in range(MANY)]
    assert committed(await race(ledgers, *uses)) == 1
    found = [await ledgers[0].find_operation(f"op-{number}") for number in range(MANY)]
    assert sum(each is not None for each in found) == 1
    whole = await standing(ledgers)
    assert told_state(whole.request, whole.grant, NOW_MS) is ApprovalState.CONSUMED


@pytest.mark.parametrize("uses", [3, 10])
async def test_of_many_that_use_it_so_many_times_so_many_do(
    ledgers: Sequence[DurableLedger], uses: int
) -> None:
    request = read_request()
    await race(ledgers[:1], asking(request))
    await race(ledgers[:1], moving(approved(request, times(uses))))

    async def decide(number: int) -> bool:
        """As the service does: read, decide, and again when it moved."""
        ledger = ledgers[number % len(ledgers)]
        while True:
            grant = (await standing([ledger])).grant
            assert grant is not None
            if not grant.uses_left:
                return False
            if isinstance(await ledger.commit(using(left=grant.uses_left)), Committed):
                return True

    assert sum(await asyncio.gather(*map(decide, range(60)))) == uses
    grant = (await standing(ledgers)).grant
    assert grant is not None
    assert grant.uses_left == 0


async def test_of_a_yes_and_a_no_at_once_one_counts(ledgers: Sequence[DurableLedger]) -> None:
    for number in range(20):
        request = read_request(f"ap-{number}", dedupe_key=f"key-{number}")
        await race(ledgers[:1], asking(request))
        yes, no = moving(approved(request)), moving(denied(request))
        answers = (yes, no, yes, no) if number % 2 else (no, yes, no, yes)
        assert committed(await race(ledgers, *answers)) == 1
        found = await standing(ledgers, request.id)
        assert found.request.version == 1
        is_approved = found.request.state is ApprovalState.APPROVED
        assert (found.grant is not None, len(found.votes)) == (is_approved, int(is_approved))
        assert (found.denial is not None) is not is_approved


async def test_a_use_and_a_revocation_at_once_are_one_after_the_other(
    ledgers: Sequence[DurableLedger],
) -> None:
    for number in range(20):
        name = f"ap-{number}"
        request = read_request(name, dedupe_key=f"key-{number}")
        await race(ledgers[:1], asking(request))
        await race(ledgers[:1], moving(approved(request)))
        units = [using(name), revoking(name)]
        used, revoked = await race(ledgers, *(units if number % 2 else reversed(units)))
        assert committed([used, revoked]) == 1
        grant = (await standing(ledgers, name)).grant
        assert grant is not None
        assert (grant.uses_left == 0) is not bool(grant.voided_at_ms)


async def test_after_a_revocation_nothing_is_used(ledgers: Sequence[DurableLedger]) -> None:
    request = read_request()
    await race(ledgers[:1], asking(request))
    await race(ledgers[:1], moving(approved(request, SESSION)))
    uses = [using(left=None) for _ in range(60)]
    outcomes = await race(ledgers, *uses[:30], revoking(), *uses[30:])
    places = [
        (outcome.recorded_at_ms, outcome.writer, outcome.sequence)
        for outcome in outcomes
        if isinstance(outcome, Committed)
    ]
    assert isinstance(outcomes[30], Committed)
    assert len(set(places)) == len(places)
    if len(ledgers) == 1:
        after = [outcome for outcome in outcomes[31:] if isinstance(outcome, Committed)]
        assert after == []
    assert isinstance(await ledgers[-1].commit(using(left=None)), ApprovalMoved)


async def test_what_many_ask_at_once_is_asked_once(ledgers: Sequence[DurableLedger]) -> None:
    units = [asking(read_request(f"ap-{number}")) for number in range(60)]
    outcomes = await race(ledgers, *units)
    assert committed(outcomes) == 1
    (found,) = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Committed)]
    moved = Counter(outcome for outcome in outcomes if isinstance(outcome, ApprovalMoved))
    assert moved == {ApprovalMoved(request_id=f"ap-{found}"): 59}


async def test_a_cap_holds_however_many_ask_at_once(ledgers: Sequence[DurableLedger]) -> None:
    units = [
        asking(read_request(f"ap-{number}", dedupe_key=f"key-{number}"), caps=(9, 99)) for number in range(60)
    ]
    assert committed(await race(ledgers, *units)) == 9


async def test_moves_in_opposite_orders_do_not_wait_for_each_other(
    ledgers: Sequence[DurableLedger],
) -> None:
    requests = [read_request(f"ap-{number}", dedupe_key=f"key-{number}") for number in range(30)]
    for request in requests:
        await race(ledgers[:1], asking(request, caps=(99, 99)))
    forward = moving(*map(denied, requests))
    back = moving(*map(denied, reversed(requests)))
    assert committed(await race(ledgers, forward, back, forward, back)) == 1
    latest, changed = await ledgers[0].approvals_since(TENANT, 0)
    assert latest == 60
    assert len(changed) == 30


async def test_whoever_follows_the_changes_misses_none(ledgers: Sequence[DurableLedger]) -> None:
    names = {f"ap-{number}" for number in range(60)}
    seen: set[str] = set()

    async def follow() -> None:
        at = 0
        while seen != names:
            at, changed = await ledgers[-1].approvals_since(TENANT, at)
            seen.update(changed)
            await asyncio.sleep(0)

    units = [asking(read_request(name, dedupe_key=name), caps=(99, 99)) for name in sorted(names)]
    async with asyncio.timeout(60):
        await asyncio.gather(follow(), race(ledgers, *units))


async def test_a_large_thing_that_is_kept_holds_up_no_batch_of_others(
    ledgers: Sequence[DurableLedger],
) -> None:
    large = bytes(4 * 1024 * 1024)
    units = [keeping(f"large-{number}", large) for number in range(6)]
    outcomes = await race(ledgers, *units, *(whole_unit(number) for number in range(20)))
    assert committed(outcomes) == 26
    assert await ledgers[-1].find_kept(TENANT, "large-5", NOW_MS) == large
