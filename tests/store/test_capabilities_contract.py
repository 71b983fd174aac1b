"""What every ledger does with proofs, links, revocations and delegated sessions, whatever is beneath it."""

import asyncio
import dataclasses
from collections.abc import Sequence

import pytest

from authz.errors import StoreUnavailable
from authz.model.capability import DELEGATED, LinkOrigin, LinkQuery, LinkRecord, RevocationKind
from authz.model.limit import LimitReached, Reservation
from authz.model.operation import OperationState
from authz.model.record import CommitOutcome, Committed, Conflict, EventQuery, Replayed
from authz.ports import CommitUnit, ExposureWrite
from tests.store.capability_world import (
    calling,
    delegated,
    link,
    narrowed_root,
    proof,
    releasing,
    revoked,
    spending,
)
from tests.store.test_ledger_contract import AnyLedger, ledger
from tests.store.world import START_MS, Clock, event, operation

__all__ = ["ledger"]

EVERYTHING = CommitUnit(
    event=event(1),
    operation=operation("k"),
    exposure=ExposureWrite(session_key="s", labels=frozenset({"secret"})),
    reservations=(spending(cap=1),),
    proof=proof("p"),
    links=(link("a"),),
    revocations=(revoked("a"),),
    delegated=delegated("trace"),
)


@pytest.fixture
def clock(ledger: AnyLedger) -> Clock:
    """The ledger's clock, which stands until it is moved."""
    found = ledger._clock
    assert isinstance(found, Clock)
    found.step_ms = 0
    return found


async def together(ledger: AnyLedger, *units: CommitUnit) -> list[CommitOutcome]:
    return await asyncio.gather(*(ledger.commit(unit) for unit in units))


async def nothing_is_written(ledger: AnyLedger, *, but_revoked: Sequence[str] = ()) -> None:
    """Nothing of `EVERYTHING`, whatever else there is."""
    assert await ledger.find_operation("k") is None
    assert await ledger.session_exposure("s", "trace") == frozenset()
    assert await ledger.find_link("default", "a") is None
    assert [each.value for each in await ledger.revocations_since(0)] == list(but_revoked)
    assert await ledger.find_event("default", "d-1") is None


async def test_a_unit_is_written_whole(ledger: AnyLedger) -> None:
    assert isinstance(await ledger.commit(EVERYTHING), Committed)

    assert await ledger.find_operation("k") is not None
    assert await ledger.session_exposure("s") == {"secret"}
    assert await ledger.session_exposure("trace") == {f"{DELEGATED}:sub"}
    assert await ledger.session_exposure("s", "other", "trace") == {"secret", f"{DELEGATED}:sub"}
    assert await ledger.session_exposure() == frozenset()
    assert await ledger.find_link("default", "a") == link("a")
    assert [each.value for each in await ledger.revocations_since(0)] == ["a"]
    assert await ledger.counters_used(["budget", "none"]) == {"budget": 1, "none": 0}
    assert await ledger.counters_used([]) == {}


async def test_a_proof_is_used_once(ledger: AnyLedger) -> None:
    assert isinstance(await ledger.commit(calling(1, used=proof("p"))), Committed)

    assert await ledger.commit(calling(2, used=proof("p"))) == Replayed(key="p")
    assert isinstance(await ledger.commit(calling(3, used=proof("q"))), Committed)
    assert await ledger.find_event("default", "d-2") is None


async def test_a_replay_is_told_before_all_else_and_leaves_nothing(ledger: AnyLedger, clock: Clock) -> None:
    """Also before a full budget and an operation that moved."""
    await together(ledger, calling(8, used=proof("p")), calling(9, spending(cap=1)))

    assert await ledger.commit(EVERYTHING) == Replayed(key="p")

    await nothing_is_written(ledger)
    assert await ledger.counters_used(["budget"]) == {"budget": 1}


async def test_a_proof_of_a_unit_that_does_not_go_through_stays_unused(
    ledger: AnyLedger, clock: Clock
) -> None:
    await ledger.commit(calling(8, spending(cap=1)))
    assert isinstance(await ledger.commit(EVERYTHING), LimitReached)
    await nothing_is_written(ledger)

    conflicting = dataclasses.replace(
        EVERYTHING, reservations=(), operation=operation("k", expected_version=3)
    )
    assert await ledger.commit(conflicting) == Conflict(key="k")
    await nothing_is_written(ledger)

    assert isinstance(await ledger.commit(calling(9, used=proof("p"))), Committed)


async def test_a_deny_and_a_dry_run_use_the_proof_up(ledger: AnyLedger) -> None:
    dry = dataclasses.replace(calling(1, spending(), used=proof("p")), only_checked=True)
    assert isinstance(await ledger.commit(dry), Committed)
    assert await ledger.counters_used(["budget"]) == {"budget": 0}
    deny = CommitUnit(event=event(2, effect="deny"), proof=proof("q"))
    assert isinstance(await ledger.commit(deny), Committed)

    assert await ledger.commit(calling(3, used=proof("p"))) == Replayed(key="p")
    assert await ledger.commit(calling(4, used=proof("q"))) == Replayed(key="q")


@pytest.mark.parametrize("with_budget", [False, True])
async def test_of_many_at_once_one_uses_the_proof(ledger: AnyLedger, clock: Clock, with_budget: bool) -> None:
    """Each for an operation of its own, so that nothing but the proof is in the way."""
    reservations = (spending(cap=500),) if with_budget else ()
    units = [
        dataclasses.replace(calling(number, *reservations, used=proof()), operation=operation(f"k-{number}"))
        for number in range(1, 201)
    ]

    outcomes = await together(ledger, *units)

    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert sum(outcome == Replayed(key="p") for outcome in outcomes) == 199
    assert len(await ledger.search(EventQuery(tenant="default", limit=500))) == 1
    found = [await ledger.find_operation(f"k-{number}") for number in range(1, 201)]
    assert sum(each is not None for each in found) == 1
    assert await ledger.counters_used(["budget"]) == {"budget": int(with_budget)}


async def test_a_later_unit_of_a_batch_may_use_what_an_earlier_one_could_not(
    ledger: AnyLedger, clock: Clock
) -> None:
    await ledger.commit(CommitUnit(event=event(1), operation=operation("taken")))
    await ledger.commit(calling(2, spending("full", cap=1)))

    outcomes = await together(
        ledger,
        CommitUnit(event=event(3), operation=operation("taken"), proof=proof()),
        calling(4, spending("full", cap=1), used=proof()),
        CommitUnit(event=event(5), operation=operation("free"), proof=proof()),
        CommitUnit(event=event(6), operation=operation("never"), proof=proof()),
    )

    assert [type(outcome) for outcome in outcomes] == [Conflict, LimitReached, Committed, Replayed]
    assert await ledger.find_operation("free") is not None
    assert await ledger.find_operation("never") is None


async def test_operations_of_a_batch_move_one_after_the_other(ledger: AnyLedger, clock: Clock) -> None:
    """However the operations of a batch are written: each sees what those before it did."""

    def moving(number: int, expected: int | None, key: str = "k") -> CommitUnit:
        write = operation(key, expected_version=expected, decision_id=f"d-{number}")
        return dataclasses.replace(calling(number, spending(cap=100)), operation=write)

    outcomes = await together(
        ledger,
        moving(1, None),
        moving(2, None),
        moving(3, 1),
        moving(4, 1),
        moving(5, 2),
        moving(6, 7, "absent"),
        moving(7, None, "other"),
        CommitUnit(event=event(8), operation=operation("k", expected_version=3, tenant="other")),
        CommitUnit(event=event(9), operation=operation("k", expected_version=3, decision_id="d-9")),
    )

    went = [isinstance(outcome, Committed) for outcome in outcomes]
    assert went == [True, False, True, False, True, False, True, False, True]
    found = await ledger.find_operation("k")
    assert found is not None
    assert (found.version, found.decision_id, found.state) == (4, "d-9", OperationState.RESERVED)
    assert await ledger.counters_used(["budget"]) == {"budget": 4}


async def test_a_link_is_found_as_it_was_put(ledger: AnyLedger) -> None:
    whole = narrowed_root()
    await ledger.commit(CommitUnit(event=event(1), links=(whole, link("b"))))

    assert await ledger.find_link("default", "whole") == whole
    assert await ledger.find_link("default", "b") == link("b")
    assert await ledger.find_link("other", "b") is None
    assert await ledger.find_link("default", "none") is None
    assert await ledger.find_link("default", "a\0") is None


async def test_a_link_on_record_stays_as_it_is(ledger: AnyLedger) -> None:
    """Two tenants never share one, though a hash were the same."""
    await ledger.commit(CommitUnit(event=event(1), links=(link("a"),)))
    other = link("a", tenant="other", agent="theirs")
    await ledger.commit(CommitUnit(event=event(2, tenant="other"), links=(other,)))
    changed = link("a", agent="somebody-else", holder="another")
    await together(
        ledger,
        CommitUnit(event=event(3), links=(changed, link("b"))),
        CommitUnit(event=event(4), links=(link("b", agent="second"),)),
    )

    assert await ledger.find_link("default", "a") == link("a")
    assert await ledger.find_link("other", "a") == other
    assert await ledger.find_link("default", "b") == link("b")


async def test_links_are_searched(ledger: AnyLedger) -> None:
    links = [
        link(f"l-{number}", issued_at_ms=START_MS + number // 2, root_hash=f"root-{number % 2}", agent=agent)
        for number, agent in enumerate(("a", "a/b", "a", "a/b", "c", "c"))
    ]
    links[5] = dataclasses.replace(
        links[5], jti="same", holder="h", subject="bob", expires_at_ms=START_MS + 10
    )
    links[4] = dataclasses.replace(links[4], jti="same")
    await ledger.commit(CommitUnit(event=event(1), links=links))
    theirs = link("l-9", tenant="other", jti="same")
    await ledger.commit(CommitUnit(event=event(2, tenant="other"), links=(theirs,)))

    async def search(**wanted: str | int | tuple[int, str]) -> list[str]:
        found = await ledger.find_links(LinkQuery(tenant="default", **wanted))  # type: ignore[arg-type]
        return [each.link_hash for each in found]

    assert await search() == ["l-5", "l-4", "l-3", "l-2", "l-1", "l-0"], "newest first, then by hash"
    assert await search(root_hash="root-1") == ["l-5", "l-3", "l-1"]
    assert await search(jti="same") == ["l-5", "l-4"], "one `jti`, two links"
    assert await search(holder="h") == ["l-5"]
    assert await search(agent="a/b") == ["l-3", "l-1"]
    assert await search(subject="bob") == ["l-5"]
    assert await search(link_hash="l-2") == ["l-2"]
    assert await search(live_at_ms=START_MS + 10) == ["l-4", "l-3", "l-2", "l-1", "l-0"]
    assert await search(agent="c", root_hash="root-0") == ["l-4"]
    assert await search(agent="c\0") == []
    found: list[LinkRecord] = []
    after: tuple[int, str] | None = None
    while page := await ledger.find_links(LinkQuery(tenant="default", after=after, limit=4)):
        found += page
        after = (page[-1].issued_at_ms, page[-1].link_hash)
    assert [each.link_hash for each in found] == await search()


async def test_roots_are_found_among_any_number_of_others(ledger: AnyLedger) -> None:
    roots = [
        link("issued", jti="same", origin=LinkOrigin.ISSUED),
        link("narrowed", jti="same", origin=LinkOrigin.NARROWED, issued_at_ms=START_MS + 1),
        link("elsewhere", tenant="other", jti="same", origin=LinkOrigin.ISSUED),
        link("different", jti="other", origin=LinkOrigin.ISSUED),
    ]
    others = [link(f"seen-{number}", jti="same", issued_at_ms=START_MS + 2) for number in range(20)]
    for number, one in enumerate(roots + others):
        unit = CommitUnit(event=event(number, tenant=one.tenant), links=[one])
        assert isinstance(await ledger.commit(unit), Committed)
    query = LinkQuery(tenant="default", jti="same", only_roots=True)
    assert [found.link_hash for found in await ledger.find_links(query)] == ["narrowed", "issued"]
    (first,) = await ledger.find_links(dataclasses.replace(query, limit=1))
    assert first.link_hash == "narrowed"
    assert len(await ledger.find_links(dataclasses.replace(query, only_roots=False))) == 22


async def test_revocations_come_in_the_order_in_which_they_were_taken(ledger: AnyLedger) -> None:
    assert await ledger.revocations_since(0) == []
    first = revoked("j", kind=RevocationKind.JTI, until_ms=START_MS + 5)
    await ledger.commit(CommitUnit(event=event(1), revocations=(first, revoked("l"))))
    theirs = revoked("j", tenant="other", kind=RevocationKind.HOLDER)
    await ledger.commit(CommitUnit(event=event(2, tenant="other"), revocations=(theirs,)))

    found = await ledger.revocations_since(0)

    assert [each.sequence for each in found] == [1, 2, 3]
    assert [dataclasses.replace(each, sequence=0) for each in found] == [first, revoked("l"), theirs]
    assert await ledger.revocations_since(2) == found[2:]
    assert await ledger.revocations_since(3) == []


async def test_what_is_revoked_again_keeps_the_later_end_and_counts_as_new(ledger: AnyLedger) -> None:
    early, late = revoked("a", until_ms=START_MS + 10), revoked("a", until_ms=START_MS + 99, reason="again")
    await ledger.commit(CommitUnit(event=event(1), revocations=(early, revoked("b"))))
    await ledger.commit(CommitUnit(event=event(2), revocations=(late,)))
    await ledger.commit(CommitUnit(event=event(3), revocations=(early,)))

    found = await ledger.revocations_since(0)

    assert [(each.value, each.sequence, each.until_ms - START_MS) for each in found[1:]] == [("a", 4, 99)]
    assert found[1].reason == "lost", "who revoked it first, and why, stays"
    assert await ledger.revocations_since(3) == found[1:]


async def test_a_page_of_revocations_is_bounded(ledger: AnyLedger) -> None:
    many = tuple(revoked(f"l-{number:04}") for number in range(1300))
    await ledger.commit(CommitUnit(event=event(1), revocations=many))

    found: list[str] = []
    last, pages = 0, 0
    while page := await ledger.revocations_since(last):
        assert len(page) <= 500
        found += [each.value for each in page]
        last, pages = page[-1].sequence, pages + 1

    assert found == [each.value for each in many]
    assert pages == 3


async def test_sessions_that_are_delegated_stay_so(ledger: AnyLedger) -> None:
    """Also where their exposure was read, and is known, before."""
    assert await ledger.session_exposure("s", "t") == frozenset()
    await ledger.commit(CommitUnit(event=event(1), delegated=delegated("s", "t")))

    assert await ledger.session_exposure("s") == {f"{DELEGATED}:sub"}
    assert await ledger.session_exposure("t") == {f"{DELEGATED}:sub"}
    exposure = ExposureWrite(session_key="s", labels=frozenset({"secret"}))
    await ledger.commit(CommitUnit(event=event(2), exposure=exposure, delegated=delegated("s", "u")))
    assert await ledger.session_exposure("s") == {f"{DELEGATED}:sub", "secret"}
    assert await ledger.session_exposure("u") == {f"{DELEGATED}:sub"}


@pytest.mark.parametrize(
    "wrong",
    [
        CommitUnit(event=event(2), proof=proof("a\0")),
        CommitUnit(event=event(2), proof=proof("\ud800")),
        CommitUnit(event=event(2), proof=proof(until_ms=2**63)),
        CommitUnit(event=event(2), links=(link("a\0"),)),
        CommitUnit(event=event(2), links=(link("a", tenant="other"),)),
        CommitUnit(event=event(2), links=(link("a", issued_at_ms=2**62),)),
        CommitUnit(event=event(2), links=(dataclasses.replace(link("a"), task={"n": float("nan")}),)),
        CommitUnit(event=event(2), links=(dataclasses.replace(link("a"), task={"n": object()}),)),
        CommitUnit(event=event(2), revocations=(revoked("a", tenant="other"),)),
        CommitUnit(event=event(2), revocations=(revoked("a", reason="\0"),)),
        CommitUnit(event=event(2), revocations=(revoked("a", until_ms=-1),)),
        CommitUnit(event=event(2), delegated=delegated("\0")),
        CommitUnit(event=event(2), releases="\0"),
        calling(2, spending(cap=3), spending(cap=3)),
    ],
)
async def test_what_cannot_be_written_is_refused_alone(ledger: AnyLedger, wrong: CommitUnit) -> None:
    outcomes = await asyncio.gather(
        ledger.commit(calling(1, used=proof("q"))), ledger.commit(wrong), return_exceptions=True
    )

    assert isinstance(outcomes[0], Committed)
    assert isinstance(outcomes[1], StoreUnavailable)
    assert outcomes[1].code == "store.unwritable"


async def test_a_task_is_kept_word_for_word(ledger: AnyLedger) -> None:
    """Whatever a model wrote into it: also what no column of text would take."""
    task = {"objective": "a\0b \ud800 “ü” \u2028", "n": 2**70, "deep": [[[{"x": None}]]], "t": True, "f": 0.1}
    whole = dataclasses.replace(link("a"), task=task)
    await ledger.commit(CommitUnit(event=event(1), links=(whole,)))

    found = await ledger.find_link("default", "a")

    assert found is not None
    assert found.task == task


async def test_what_is_given_back_is_free_once(ledger: AnyLedger, clock: Clock) -> None:
    await together(
        ledger, *(calling(number, spending(cap=3), spending("other", cap=9)) for number in (1, 2, 3))
    )
    assert isinstance(await ledger.commit(calling(4, spending(cap=3))), LimitReached)

    outcomes = await together(ledger, *(releasing(10 + number, 2) for number in range(5)))

    assert all(isinstance(outcome, Committed) for outcome in outcomes), "each is on record"
    assert await ledger.counters_used(["budget", "other"]) == {"budget": 2, "other": 2}
    await ledger.commit(releasing(20, 2))
    await ledger.commit(releasing(21, 99))
    assert await ledger.counters_used(["budget", "other"]) == {"budget": 2, "other": 2}
    outcomes = await together(ledger, *(calling(number, spending(cap=3)) for number in (30, 31)))
    assert [type(outcome) for outcome in outcomes] == [Committed, LimitReached]


async def test_another_tenants_decision_gives_nothing_back(ledger: AnyLedger, clock: Clock) -> None:
    await ledger.commit(calling(1, spending()))

    await ledger.commit(CommitUnit(event=event(2, tenant="other"), releases="d-1"))

    assert await ledger.counters_used(["budget"]) == {"budget": 1}


async def test_a_batch_gives_back_and_takes_in_its_order(ledger: AnyLedger, clock: Clock) -> None:
    await ledger.commit(calling(1, spending(cap=1)))

    outcomes = await together(
        ledger,
        calling(2, spending(cap=1)),
        releasing(3, 1),
        calling(4, spending(cap=1)),
        releasing(5, 1),
        calling(6, spending(cap=1)),
        releasing(7, 4),
        calling(8, spending(cap=1)),
    )

    went = [isinstance(outcome, Committed) for outcome in outcomes]
    assert went == [False, True, True, True, False, True, True]
    assert await ledger.counters_used(["budget"]) == {"budget": 1}
    await ledger.commit(releasing(9, 8))
    assert await ledger.counters_used(["budget"]) == {"budget": 0}
    await together(ledger, *(releasing(10 + number, number) for number in (1, 4, 8)))
    assert await ledger.counters_used(["budget"]) == {"budget": 0}


async def test_a_release_that_does_not_go_through_gives_nothing_back(ledger: AnyLedger, clock: Clock) -> None:
    await ledger.commit(calling(1, spending()))
    conflicting = operation("k", expected_version=4)

    outcome = await ledger.commit(dataclasses.replace(releasing(2, 1), operation=conflicting))

    assert outcome == Conflict(key="k")
    assert await ledger.counters_used(["budget"]) == {"budget": 1}


async def test_giving_back_judges_no_counter(ledger: AnyLedger, clock: Clock) -> None:
    """As of two replicas, one two minutes behind: what it takes next must not end early for the other."""
    per_minute = dataclasses.replace(spending("rate", cap=2), window_ms=60_000)
    clock.at_ms = START_MS + 120_000
    await together(ledger, calling(1, per_minute), calling(2, per_minute))
    clock.at_ms = START_MS
    await ledger.commit(releasing(3, 1))
    assert isinstance(await ledger.commit(calling(4, per_minute)), Committed)

    clock.at_ms = START_MS + 121_000
    assert isinstance(await ledger.commit(calling(5, per_minute)), LimitReached)


async def test_what_a_batch_gave_back_frees_nothing_a_second_time(ledger: AnyLedger, clock: Clock) -> None:
    """Also where it lies beyond what is read of a full counter beforehand."""

    def per_minute(amount: int = 1) -> Reservation:
        return dataclasses.replace(spending("rate", amount=amount, cap=20), window_ms=60_000)

    for number in range(20):
        clock.at_ms = START_MS + number
        await ledger.commit(calling(number + 1, per_minute()))
    clock.at_ms = START_MS + 1000

    outcomes = await together(
        ledger,
        releasing(31, 13),
        calling(32, per_minute(15)),
        releasing(33, 2),
        calling(34, per_minute(15)),
    )

    told = [each.reached[0].frees_at_ms for each in outcomes if isinstance(each, LimitReached)]
    ends_ms = [None if each is None else each - START_MS - 60_000 for each in told]
    assert ends_ms == [14, 14]
