"""What every ledger does with reservations under the bundle's limits: exact, whatever is beneath it."""

import asyncio
from collections.abc import Sequence

import pytest

from authz.core.limits import MAX_RESERVATIONS
from authz.errors import StoreUnavailable
from authz.model.limit import LimitReached, Reached, Reservation
from authz.model.record import CommitOutcome, Committed, Conflict, EventQuery
from authz.ports import CommitUnit, ExposureWrite
from tests.store.test_ledger_contract import AnyLedger, ledger
from tests.store.world import START_MS, Clock, event, operation

__all__ = ["ledger"]

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@pytest.fixture
def clock(ledger: AnyLedger) -> Clock:
    """The ledger's clock, which stands until it is moved."""
    found = ledger._clock
    assert isinstance(found, Clock)
    found.step_ms = 0
    return found


def taking(
    key: str = "a", *, amount: int = 1, cap: int = 3, window_ms: int = MINUTE_MS, expires_ms: int = 0
) -> Reservation:
    return Reservation(
        tenant="default",
        limit="some-limit",
        key=key,
        partition=(("agent", key),),
        amount=amount,
        cap=cap,
        window_ms=window_ms,
        expires_at_ms=expires_ms,
    )


def slot(expires_ms: int, key: str = "slots", *, cap: int = 2) -> Reservation:
    return taking(key, cap=cap, window_ms=0, expires_ms=expires_ms)


def unit(number: int, *reservations: Reservation, only_checked: bool = False) -> CommitUnit:
    return CommitUnit(event=event(number), reservations=reservations, only_checked=only_checked)


async def take(ledger: AnyLedger, *reservations: Reservation, number: int = 0) -> CommitOutcome:
    count = len(await ledger.search(EventQuery(tenant="default", limit=1000)))
    return await ledger.commit(unit(number or 1000 + count, *reservations))


def fitted(outcomes: Sequence[CommitOutcome]) -> int:
    return sum(isinstance(outcome, Committed) for outcome in outcomes)


async def test_never_more_than_the_cap_in_any_window(ledger: AnyLedger, clock: Clock) -> None:
    """Sliding, not in buckets: two at the end of one minute leave room for one at the start of the next."""
    assert isinstance(await take(ledger, taking()), Committed)
    clock.at_ms += 59_000
    assert fitted([await take(ledger, taking()) for _ in range(2)]) == 2

    refused = await take(ledger, taking())
    assert refused == LimitReached(reached=(Reached(key="a", frees_at_ms=START_MS + MINUTE_MS),))

    clock.at_ms = START_MS + MINUTE_MS - 1
    assert isinstance(await take(ledger, taking()), LimitReached)
    clock.at_ms = START_MS + MINUTE_MS
    assert isinstance(await take(ledger, taking()), Committed), "exactly when it said"
    assert isinstance(await take(ledger, taking()), LimitReached)


async def test_a_slot_ends_with_its_decision(ledger: AnyLedger, clock: Clock) -> None:
    first, second = START_MS + 1000, START_MS + 5000
    assert isinstance(await take(ledger, slot(second)), Committed)
    assert isinstance(await take(ledger, slot(first)), Committed)
    assert await take(ledger, slot(second)) == LimitReached(
        reached=(Reached(key="slots", frees_at_ms=first),)
    )

    clock.at_ms = first
    assert isinstance(await take(ledger, slot(second)), Committed)
    assert isinstance(await take(ledger, slot(second)), LimitReached), "one slot, freed once"


async def test_costs_are_summed(ledger: AnyLedger, clock: Clock) -> None:
    def cost(amount: int) -> Reservation:
        return taking("cost", amount=amount, cap=10)

    for amount in (5, 1, 3):
        assert isinstance(await take(ledger, cost(amount)), Committed)
        clock.at_ms += 1000

    assert isinstance(await take(ledger, cost(2)), LimitReached)
    # 9 are used: for 7 more the 5 and the 1 must both be gone.
    outcome = await take(ledger, cost(7))
    assert outcome == LimitReached(reached=(Reached(key="cost", frees_at_ms=START_MS + 1000 + MINUTE_MS),))
    assert isinstance(await take(ledger, cost(1)), Committed), "what fits exactly fits"
    assert await take(ledger, cost(11)) == LimitReached(reached=(Reached(key="cost", frees_at_ms=None),))


async def test_all_or_none(ledger: AnyLedger, clock: Clock) -> None:
    assert isinstance(await take(ledger, taking("full", cap=1)), Committed)
    both = (taking("free", cap=1), taking("full", cap=1))
    labels = ExposureWrite(session_key="s", labels=frozenset({"secret"}))

    outcome = await ledger.commit(
        CommitUnit(event=event(2), operation=operation("k"), exposure=labels, reservations=both)
    )

    assert isinstance(outcome, LimitReached)
    assert [reached.key for reached in outcome.reached] == ["full"]
    assert await ledger.find_operation("k") is None
    assert await ledger.session_exposure("s") == frozenset()
    assert await ledger.find_event("default", "d-2") is None
    assert isinstance(await take(ledger, taking("free", cap=1)), Committed)


async def test_a_conflict_takes_nothing(ledger: AnyLedger, clock: Clock) -> None:
    await ledger.commit(CommitUnit(event=event(1), operation=operation("k")))

    outcome = await ledger.commit(
        CommitUnit(event=event(2), operation=operation("k"), reservations=(taking(cap=1),))
    )

    assert outcome == Conflict(key="k")
    assert isinstance(await take(ledger, taking(cap=1)), Committed)


async def test_a_check_takes_nothing(ledger: AnyLedger, clock: Clock) -> None:
    for number in range(1, 4):
        checked = await ledger.commit(unit(number, taking(cap=1), only_checked=True))
        assert isinstance(checked, Committed)
    assert isinstance(await take(ledger, taking(cap=1)), Committed)

    assert isinstance(await ledger.commit(unit(9, taking(cap=1), only_checked=True)), LimitReached)
    assert await ledger.find_event("default", "d-9") is None


async def test_one_that_does_not_fit_does_not_harm_its_batch(ledger: AnyLedger, clock: Clock) -> None:
    keys = ["a", "b", "a", "c", "a", "d"]

    outcomes = await asyncio.gather(
        *(ledger.commit(unit(number, taking(key, cap=1))) for number, key in enumerate(keys, start=1))
    )

    assert [isinstance(outcome, Committed) for outcome in outcomes] == [True, True, False, True, False, True]
    sequences = [outcome.sequence for outcome in outcomes if isinstance(outcome, Committed)]
    assert sequences == [1, 2, 3, 4], "and leaves no gap in the log"


async def test_exactly_the_cap_of_many_at_once(ledger: AnyLedger, clock: Clock) -> None:
    """BU1: the reservation comes before the act, in every interleaving, and in whatever order of the keys."""

    async def worker(number: int) -> list[CommitOutcome]:
        outcomes = []
        for turn in range(10):
            wanted = (taking("x", cap=30), taking("y", cap=40))
            reservations = wanted if number % 2 else tuple(reversed(wanted))
            write = operation(f"op-{number}-{turn}")
            decision = CommitUnit(
                event=event(number * 100 + turn), operation=write, reservations=reservations
            )
            outcomes.append(await ledger.commit(decision))
        return outcomes

    outcomes = [one for of_worker in await asyncio.gather(*map(worker, range(12))) for one in of_worker]

    assert fitted(outcomes) == 30
    assert len(await ledger.search(EventQuery(tenant="default", limit=500))) == 30
    left = [await take(ledger, taking("y", cap=40)) for _ in range(12)]
    assert fitted(left) == 10, "what did not fit into one counter took nothing of the other"


async def test_another_cap_keeps_the_count(ledger: AnyLedger, clock: Clock) -> None:
    assert fitted([await take(ledger, taking(cap=5)) for _ in range(6)]) == 5
    clock.at_ms += 1000

    assert fitted([await take(ledger, taking(cap=7)) for _ in range(4)]) == 2
    outcome = await take(ledger, taking(cap=2))
    assert outcome == LimitReached(reached=(Reached(key="a", frees_at_ms=START_MS + 1000 + MINUTE_MS),))


async def test_a_clock_that_goes_back_a_little_widens_nothing(ledger: AnyLedger, clock: Clock) -> None:
    assert isinstance(await take(ledger, taking()), Committed)
    clock.at_ms = START_MS - 30_000
    assert isinstance(await take(ledger, taking()), Committed)
    clock.at_ms = START_MS + MINUTE_MS - 1
    assert fitted([await take(ledger, taking()) for _ in range(3)]) == 1, "none of the three has ended"


async def test_a_clock_that_was_far_ahead_does_not_block_for_ever(ledger: AnyLedger, clock: Clock) -> None:
    clock.at_ms = START_MS + 100 * HOUR_MS
    assert fitted([await take(ledger, taking()) for _ in range(4)]) == 3
    clock.at_ms = START_MS

    outcome = await take(ledger, taking())
    assert outcome == LimitReached(reached=(Reached(key="a", frees_at_ms=START_MS + MINUTE_MS),))
    clock.at_ms = START_MS + MINUTE_MS
    assert fitted([await take(ledger, taking()) for _ in range(4)]) == 3


@pytest.mark.parametrize("back_ms", [1000, 120_000, 300_000])
async def test_slots_are_held_when_the_clock_goes_back(ledger: AnyLedger, clock: Clock, back_ms: int) -> None:
    """A slot lasts as long as its decision, also by a counter's time that is ahead of the clock."""
    lasts_ms = 60_000
    clock.at_ms = START_MS + back_ms
    assert isinstance(await take(ledger, slot(clock.at_ms + 1000)), Committed)
    clock.at_ms += 2000  # the only slot has ended, and the counter knows this time
    assert isinstance(await take(ledger, slot(clock.at_ms + lasts_ms)), Committed)
    clock.at_ms -= back_ms

    outcomes = []
    for _ in range(12):
        outcomes.append(await take(ledger, slot(clock.at_ms + lasts_ms)))
        clock.at_ms += 1000

    assert fitted(outcomes) == 1, "beside the one that is held, in twelve seconds of sixty"


async def test_slots_of_a_clock_that_is_behind_share_the_cap(ledger: AnyLedger, clock: Clock) -> None:
    """As of two replicas, one 90 s behind the other."""
    clock.at_ms = START_MS + 90_000
    assert isinstance(await take(ledger, slot(clock.at_ms + 60_000)), Committed)
    clock.at_ms = START_MS
    assert fitted([await take(ledger, slot(clock.at_ms + 60_000)) for _ in range(10)]) == 1


async def test_a_clock_that_was_far_ahead_does_not_hold_slots_for_ever(
    ledger: AnyLedger, clock: Clock
) -> None:
    """What each had left it has at least, and no longer than what is asked for now would have."""
    clock.at_ms = START_MS + 100 * HOUR_MS
    assert fitted([await take(ledger, slot(clock.at_ms + ends_ms)) for ends_ms in (4000, 90_000, 1)]) == 2
    clock.at_ms = START_MS

    refused = await take(ledger, slot(clock.at_ms + 60_000))
    assert refused == LimitReached(reached=(Reached(key="slots", frees_at_ms=START_MS + 60_000),))
    clock.at_ms = START_MS + 60_000
    outcomes = [await take(ledger, slot(clock.at_ms + 60_000)) for _ in range(2)]
    assert fitted(outcomes) == 1, "the other had more left"
    clock.at_ms = START_MS + 90_000
    outcomes = [await take(ledger, slot(clock.at_ms + 60_000)) for _ in range(2)]
    assert fitted(outcomes) == 1


async def test_what_ends_with_a_capability_ends_then_though_the_clock_was_ahead(
    ledger: AnyLedger, clock: Clock
) -> None:
    """A budget that came back before its link ends could be spent twice."""
    ends_ms = START_MS + 48 * HOUR_MS
    for ahead_ms in (10 * HOUR_MS, 299_000, 20 * HOUR_MS):
        clock.at_ms = START_MS + ahead_ms
        assert isinstance(await take(ledger, slot(ends_ms, cap=3)), Committed)
        clock.at_ms = START_MS
        await take(ledger, slot(ends_ms, cap=0))
    for at_ms in (START_MS, START_MS + HOUR_MS, ends_ms - 21 * HOUR_MS, ends_ms - 300_000, ends_ms - 1):
        clock.at_ms = at_ms
        assert isinstance(await take(ledger, slot(ends_ms, cap=3)), LimitReached)


async def test_a_decision_that_ended_before_its_commit_takes_no_slot(ledger: AnyLedger, clock: Clock) -> None:
    assert fitted([await take(ledger, slot(clock.at_ms, cap=1)) for _ in range(3)]) == 3
    assert fitted([await take(ledger, slot(clock.at_ms + 1, cap=1)) for _ in range(2)]) == 1


async def test_full_counters_of_a_batch_are_told_apart(ledger: AnyLedger, clock: Clock) -> None:
    """Each refusal says when its own would fit, also beyond what a batch has itself taken before it."""
    for number in range(20):
        clock.at_ms = START_MS + number
        assert isinstance(await take(ledger, taking("old", cap=20)), Committed)
    clock.at_ms = START_MS + 1000
    wanted = [
        taking("old", cap=20),
        taking("new", cap=2),
        taking("old", amount=15, cap=20),
        taking("new", cap=2),
        taking("new", cap=2),
        taking("old", amount=20, cap=20),
        taking("old", cap=21),
        taking("old", cap=21),
        taking("old", amount=21, cap=21),
    ]

    outcomes = await asyncio.gather(
        *(ledger.commit(unit(number, each)) for number, each in enumerate(wanted, start=1))
    )

    frees_ms = [
        outcome.reached[0].frees_at_ms - START_MS - MINUTE_MS
        if isinstance(outcome, LimitReached) and outcome.reached[0].frees_at_ms is not None
        else None
        for outcome in outcomes
    ]
    assert frees_ms == [0, None, 14, None, 1000, 19, None, 0, 1000]


async def test_one_call_takes_of_a_bounded_number_of_counters(ledger: AnyLedger, clock: Clock) -> None:
    def many(count: int) -> tuple[Reservation, ...]:
        return tuple(taking(f"key-{number}", cap=1) for number in range(count))

    with pytest.raises(StoreUnavailable) as refused:
        await ledger.commit(unit(1, *many(MAX_RESERVATIONS + 1)))
    assert refused.value.code == "store.unwritable"
    assert isinstance(await ledger.commit(unit(2, *many(MAX_RESERVATIONS))), Committed)
    full = await ledger.commit(unit(3, *many(MAX_RESERVATIONS)))
    assert isinstance(full, LimitReached)
    assert len(full.reached) == MAX_RESERVATIONS


async def test_counters_are_apart(ledger: AnyLedger, clock: Clock) -> None:
    for key in ("a", "b"):
        assert fitted([await take(ledger, taking(key)) for _ in range(4)]) == 3


async def test_many_that_end_at_once_are_all_free(ledger: AnyLedger, clock: Clock) -> None:
    """More than are taken away at one look: what is full otherwise is looked at until it is right."""
    count = 700
    outcomes = await asyncio.gather(
        *(ledger.commit(unit(number, taking(cap=count))) for number in range(1, count + 2))
    )
    assert fitted(outcomes) == count
    clock.at_ms += MINUTE_MS

    assert isinstance(await ledger.commit(unit(5000, taking(amount=count, cap=count))), Committed)
    assert isinstance(await ledger.commit(unit(5001, taking(cap=count))), LimitReached)


@pytest.mark.parametrize(
    "wrong",
    [taking(amount=-1), taking(amount=2**63), taking(key="\ud800"), taking(key="a\0"), taking(cap=-1)],
)
async def test_a_reservation_that_cannot_be_written_is_refused_alone(
    ledger: AnyLedger, wrong: Reservation
) -> None:
    outcomes = await asyncio.gather(
        ledger.commit(unit(1, taking())), ledger.commit(unit(2, wrong)), return_exceptions=True
    )

    assert isinstance(outcomes[0], Committed)
    assert isinstance(outcomes[1], StoreUnavailable)
