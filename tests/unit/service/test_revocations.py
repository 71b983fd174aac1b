"""What is known of revocations, and for how long that is good enough to decide by."""

import asyncio
from dataclasses import dataclass

import pytest
from authz_client.capabilities import NOTHING_REVOKED

from authz.errors import RevocationsStale, StoreUnavailable
from authz.model.capability import RevocationKind, RevocationRecord
from authz.model.record import Event, EventType
from authz.ports import CommitUnit
from authz.service.revocations import KEPT_MS, TIDY_SECONDS, RevocationsInForce
from authz.store.memory import MemoryLedger
from tests.support.waiting import until

NOW_MS = 1_796_032_800_000
LINK = "l" * 42 + "A"


@dataclass
class Clocks:
    """The machine's clock and the monotonic one, moved by the test."""

    at_ms: int = NOW_MS
    seconds: float = 100.0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.seconds


def revocation(
    value: str = LINK, *, tenant: str = "default", until_ms: int = NOW_MS + 1000
) -> RevocationRecord:
    return RevocationRecord(tenant=tenant, kind=RevocationKind.LINK, value=value, until_ms=until_ms)


async def take(ledger: MemoryLedger, *revocations: RevocationRecord) -> None:
    """Have another node take them."""
    event = Event(
        type=EventType.CAPABILITY_REVOKED, tenant=revocations[0].tenant, occurred_at_ms=NOW_MS, body=b"{}"
    )
    await ledger.commit(CommitUnit(event=event, revocations=revocations))


def known(ledger: MemoryLedger, clocks: Clocks, *, bound: float = 2.0) -> RevocationsInForce:
    return RevocationsInForce(ledger, clocks, max_staleness_seconds=bound, monotonic=clocks.monotonic)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def ledger(clocks: Clocks) -> MemoryLedger:
    return MemoryLedger(clock=clocks)


async def test_nothing_is_told_before_the_first_look(ledger: MemoryLedger, clocks: Clocks) -> None:
    found = known(ledger, clocks)
    with pytest.raises(RevocationsStale) as caught:
        found.in_force("default")
    assert caught.value.code == "revocations.stale"


async def test_everything_is_read_however_much_it_is(ledger: MemoryLedger, clocks: Clocks) -> None:
    await take(ledger, *(revocation(f"{number}") for number in range(1203)))
    found = known(ledger, clocks)
    await found.refresh()
    assert len(found.in_force("default").links) == 1203


async def test_tenants_are_apart(ledger: MemoryLedger, clocks: Clocks) -> None:
    await take(ledger, revocation(tenant="acme"))
    found = known(ledger, clocks)
    await found.refresh()
    assert found.in_force("acme").links == {LINK}
    assert found.in_force("default") is NOTHING_REVOKED


async def test_a_snapshot_is_one_value_until_something_changes(ledger: MemoryLedger, clocks: Clocks) -> None:
    await take(ledger, revocation())
    found = known(ledger, clocks)
    await found.refresh()
    before = found.in_force("default")
    await found.refresh()
    assert found.in_force("default") is before
    found.apply([revocation("other")])
    assert found.in_force("default").links == {LINK, "other"}
    assert before.links == {LINK}


async def test_beyond_the_bound_nothing_is_told(ledger: MemoryLedger, clocks: Clocks) -> None:
    found = known(ledger, clocks)
    await found.refresh()
    clocks.seconds += 2.0
    assert found.in_force("default") is NOTHING_REVOKED
    clocks.seconds += 0.01
    with pytest.raises(RevocationsStale):
        found.in_force("default")


async def test_who_needs_to_know_asks_by_itself(ledger: MemoryLedger, clocks: Clocks) -> None:
    found = known(ledger, clocks)
    await found.refresh()
    clocks.seconds += 60
    await take(ledger, revocation())
    await found.confirm()
    assert found.in_force("default").links == {LINK}


async def test_a_store_that_does_not_answer_makes_it_stale(ledger: MemoryLedger, clocks: Clocks) -> None:
    found = known(ledger, clocks)
    await found.refresh()
    ledger.unavailable = "the disk is gone"
    clocks.seconds += 1.9
    await found.confirm()  # the last look still counts
    clocks.seconds += 0.2
    with pytest.raises(RevocationsStale):
        await found.confirm()
    ledger.unavailable = None
    await found.confirm()
    assert found.in_force("default") is NOTHING_REVOKED


async def test_a_look_counts_from_when_it_began(clocks: Clocks) -> None:
    class Slow(MemoryLedger):
        async def revocations_since(self, sequence: int) -> list[RevocationRecord]:
            clocks.seconds += 3
            return []

    found = known(Slow(clock=clocks), clocks)
    await found.refresh()
    with pytest.raises(RevocationsStale):
        found.in_force("default")


async def test_of_all_who_wait_one_asks(clocks: Clocks) -> None:
    asked = 0

    class Counting(MemoryLedger):
        async def revocations_since(self, sequence: int) -> list[RevocationRecord]:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0)
            return []

    found = known(Counting(clock=clocks), clocks)
    await asyncio.gather(*(found.confirm() for _ in range(20)))
    assert asked == 1


async def test_what_has_ended_is_dropped_late(ledger: MemoryLedger, clocks: Clocks) -> None:
    await take(ledger, revocation("short"), revocation("long", until_ms=NOW_MS + 10 * KEPT_MS))
    found = known(ledger, clocks)
    await found.refresh()
    clocks.at_ms += 2000  # over, but another clock may be behind
    clocks.seconds += TIDY_SECONDS + 1
    await found.refresh()
    assert found.in_force("default").links == {"short", "long"}
    clocks.at_ms += KEPT_MS
    clocks.seconds += TIDY_SECONDS + 1
    await found.refresh()
    assert found.in_force("default").links == {"long"}


async def test_the_later_end_counts(ledger: MemoryLedger, clocks: Clocks) -> None:
    found = known(ledger, clocks)
    found.apply([revocation(until_ms=NOW_MS + 10 * KEPT_MS), revocation(until_ms=NOW_MS)])
    clocks.at_ms += 2 * KEPT_MS
    clocks.seconds += TIDY_SECONDS + 1
    await found.refresh()
    assert found.in_force("default").links == {LINK}


async def test_the_loop_goes_on_after_a_fault(ledger: MemoryLedger, clocks: Clocks) -> None:
    found = known(ledger, clocks, bound=1.0)
    ledger.unavailable = "for a moment"
    loop = asyncio.create_task(found.run())
    await asyncio.sleep(0)
    ledger.unavailable = None
    await take(ledger, revocation())

    async def looked() -> bool:
        return found.age_seconds() <= 1

    await until(looked)
    assert found.in_force("default").links == {LINK}
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop


async def test_a_refresh_that_fails_says_so(ledger: MemoryLedger, clocks: Clocks) -> None:
    ledger.unavailable = "the disk is gone"
    with pytest.raises(StoreUnavailable):
        await known(ledger, clocks).refresh()
