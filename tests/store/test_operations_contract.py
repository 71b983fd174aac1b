"""Operations on every ledger: what is kept of them, what is due, and one transition however many race."""

import asyncio
import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from authz_client.capabilities import Ancestor

from authz.core.ruleset import Ruleset
from authz.errors import OperationConflict, StoreUnavailable
from authz.model.decision import Decision, Effect
from authz.model.operation import Basis, OperationState
from authz.model.record import Committed
from authz.service.operations import OperationView
from authz.store.event_search import FIND_DUE
from authz.store.keys import ServiceKeys
from authz.store.memory import MemoryLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite_connection import DIALECT, open_database
from tests.store.test_ledger_contract import AnyLedger, ledger
from tests.store.world import QUIET, START_MS, Clock, operation, unit
from tests.support.operations import CAP, TTL_MS, Runtime, spending_world

__all__ = ["ledger"]

S = OperationState


@pytest.fixture
def clock(ledger: AnyLedger) -> Clock:
    """The ledger's clock, which stands until it is moved."""
    found = ledger._clock
    assert isinstance(found, Clock)
    found.step_ms = 0
    return found


@pytest.fixture(scope="module")
def ruleset() -> Ruleset:
    return spending_world()


@pytest.fixture
def runtime(ledger: AnyLedger, clock: Clock, ruleset: Ruleset) -> Runtime:
    return Runtime.over(ledger, clock, ruleset)


async def used(runtime: Runtime, decision: Decision) -> int:
    """What is taken of the limit that the decision took of."""
    (taken,) = decision.reservations
    return (await runtime.ledger.counters_used([taken.key]))[taken.key]


async def test_everything_of_an_operation_is_kept(ledger: AnyLedger) -> None:
    write = dataclasses.replace(
        operation("k", state=S.EXECUTING),
        settles=True,
        cancel_requested=True,
        attempt="a-ü",
        first_at_ms=START_MS - 5,
        settled_at_ms=START_MS + 7,
        external_id="tx-“1”",
        result_digest="sha256:r",
        ticketed=True,
        basis=Basis(
            handles=(
                Ancestor(link="A" * 43, jti="jti-ü", jkt="E" * 43, agent="coder “1”"),
                Ancestor(link="I" * 43, jti="j", jkt="M" * 43, agent="sub-1"),
            ),
            kid="key-1",
            expires_at_ms=START_MS + 9,
        ),
    )
    assert isinstance(await ledger.commit(unit(1, write)), Committed)
    moved = dataclasses.replace(
        write, state=S.SUCCEEDED, expected_version=1, cancel_requested=False, external_id="tx-2"
    )
    for version, expected in ((1, write), (2, moved)):
        found = await ledger.find_operation("k")
        assert found is not None
        assert found.version == version
        shared = {field.name for field in dataclasses.fields(found)} - {"version"}
        assert {name: getattr(found, name) for name in shared} == {
            name: getattr(expected, name) for name in shared
        }
        if version == 1:
            assert isinstance(await ledger.commit(unit(2, moved)), Committed)


async def test_due_is_what_settles_and_has_ended(ledger: AnyLedger) -> None:
    writes = {
        "declared": dataclasses.replace(operation("declared"), settles=True),
        "begun": operation("begun", state=S.EXECUTING),
        "silent": operation("silent"),
        "over": dataclasses.replace(operation("over", state=S.SUCCEEDED), settles=True),
        "later": dataclasses.replace(operation("later"), settles=True, expires_at_ms=START_MS + 2000),
        "first": dataclasses.replace(
            operation("first", tenant="other"), settles=True, expires_at_ms=START_MS + 10
        ),
    }
    for number, write in enumerate(writes.values()):
        assert isinstance(await ledger.commit(unit(number, write)), Committed)

    assert await ledger.due_operations(START_MS + 9, 10) == []
    assert await ledger.due_operations(START_MS + 10, 10) == [("other", "first")]
    found = await ledger.due_operations(START_MS + 1000, 10)
    assert found[0] == ("other", "first")
    assert set(found[1:]) == {("default", "declared"), ("default", "begun")}
    assert len(await ledger.due_operations(START_MS + 1000, 2)) == 2

    over = dataclasses.replace(writes["begun"], state=S.UNKNOWN, expected_version=1)
    await ledger.commit(unit(9, over))
    assert ("default", "begun") not in await ledger.due_operations(START_MS + 1000, 10)


@pytest.mark.parametrize(
    "change",
    [
        {"external_id": "a\0b"},
        {"attempt": "\ud800"},
        {"first_at_ms": -1},
        {"settled_at_ms": 2**63},
        # It could not be read back.
        {"basis": Basis(handles=(), kid="key-1", expires_at_ms=1)},
    ],
)
async def test_what_no_store_could_take_is_refused(ledger: AnyLedger, change: dict[str, Any]) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        await ledger.commit(unit(1, dataclasses.replace(operation("k"), **change)))
    assert refused.value.code == "store.unwritable"


async def test_of_many_reports_one_is_written(runtime: Runtime) -> None:
    """Different outcomes at once: one stands, and each of the others is told which."""
    decision = await runtime.decide("racer", "1", attempt="a")
    outcomes = [S.SUCCEEDED, S.FAILED_FINAL, S.FAILED_RETRYABLE, S.UNKNOWN]

    answers = await asyncio.gather(
        *(
            runtime.settle(decision.decision_id, outcomes[number % 4], f"x-{number % 4}")
            for number in range(24)
        )
    )

    view = await runtime.operations.status(runtime.runtime, decision.decision_id)
    records = [record for record in await runtime.records("racer") if record["type"] == "operation.settled"]
    # `unknown` may be followed by a late `succeeded`; nothing else follows anything.
    assert [record["operation"]["to"] for record in records] in (
        [view.state.value],
        ["unknown", view.state.value],
    )
    assert view.operation.version == 1 + len(records)
    for number, answer in enumerate(answers):
        if isinstance(answer, OperationView):
            assert answer.state in (outcomes[number % 4], S.SUCCEEDED)
        else:
            assert isinstance(answer, OperationConflict)
    assert await used(runtime, decision) == 1, "whatever it was, it ran"


async def test_of_many_attempts_one_begins(runtime: Runtime) -> None:
    decision = await runtime.decide("racer", "1")
    started = await asyncio.gather(*(runtime.start(decision.decision_id, f"a-{n}") for n in range(16)))
    begun = [answer for answer in started if isinstance(answer, OperationView)]
    assert len(begun) == 1
    assert {answer.code for answer in started if isinstance(answer, OperationConflict)} == {
        "operation.in_progress"
    }

    asked = await asyncio.gather(*(runtime.decide("racer", "2", attempt=f"a-{n}") for n in range(16)))
    allowed = [one for one in asked if one.effect is Effect.ALLOW]
    assert len(allowed) == 1
    assert {one.code.value for one in asked if one.effect is Effect.DENY} == {"operation.in_progress"}


async def test_the_end_of_a_lease_gives_back_once(runtime: Runtime, clock: Clock) -> None:
    """However many find it: sweeps, status, late reports and the next call itself."""
    decision = await runtime.decide("racer", "1")
    assert await used(runtime, decision) == 1
    clock.at_ms += TTL_MS
    assert (await runtime.operations.status(runtime.runtime, decision.decision_id)).state is S.NOT_EXECUTED

    await asyncio.gather(
        *(runtime.lapses.sweep() for _ in range(8)),
        *(runtime.start(decision.decision_id, f"a-{n}") for n in range(8)),
        *(runtime.settle(decision.decision_id, S.SUCCEEDED) for _ in range(8)),
        *(runtime.cancel(decision.decision_id) for _ in range(4)),
    )

    records = [record for record in await runtime.records("racer") if record["type"].startswith("operation.")]
    expired, *told = records
    assert expired["type"] == "operation.expired"
    assert [record["type"] for record in told] == ["operation.contradicted"] * 8, "each word is kept"
    assert [record["contradicts"]["stopped"] for record in told] == [True] + [False] * 7
    assert records[0]["operation"]["released"] is True
    assert records[0]["trace_id"]
    assert await used(runtime, decision) == 0
    assert await runtime.ledger.due_operations(clock.at_ms, 10) == []


async def test_a_late_word_and_the_call_decided_anew(runtime: Runtime, clock: Clock) -> None:
    """Whichever comes first: once it is on record that it may have run, nothing of it begins."""
    for number in range(4):
        agent = f"racer-{number}"
        first = await runtime.decide(agent, "1")
        clock.at_ms += TTL_MS
        late = (runtime.settle(first.decision_id, S.SUCCEEDED, "tx-1") for _ in range(4))
        anew = (runtime.decide(agent, "1") for _ in range(4))
        await asyncio.gather(*(one for pair in zip(late, anew, strict=True) for one in pair))
        records = await runtime.records(agent)
        told = [record for record in records if record.get("contradicts", {}).get("stopped")]
        assert [record["decision_id"] for record in told] == [first.decision_id]
        assert (await runtime.decide(agent, "1", attempt="a")).code.value == "operation.unknown"
        allowed = {record["decision_id"] for record in records} & runtime.tokens.keys()
        assert first.decision_id in allowed
        for decision_id in allowed:
            assert isinstance(await runtime.start(decision_id, "a"), OperationConflict)


async def test_of_many_who_resolve_one_gives_back(runtime: Runtime, clock: Clock) -> None:
    decision = await runtime.decide("racer", "1", attempt="a")
    clock.at_ms += TTL_MS
    answers = await asyncio.gather(
        *(runtime.resolve(decision.decision_id, state) for state in (S.NOT_EXECUTED, S.SUCCEEDED) * 8)
    )
    states = {answer.state for answer in answers if isinstance(answer, OperationView)}
    assert len(states) == 1
    records = [record for record in await runtime.records("racer") if record["type"] == "operation.resolved"]
    assert len(records) == 1
    assert await used(runtime, decision) == (0 if states == {S.NOT_EXECUTED} else 1)


async def test_room_is_made_by_what_never_began(runtime: Runtime, clock: Clock) -> None:
    """bug-180: a full limit lets the next call through as soon as the leases have ended, without a wait."""
    for number in range(CAP):
        assert (await runtime.decide("racer", f"{number}")).effect is Effect.ALLOW
    assert (await runtime.decide("racer", "over")).effect is Effect.DENY
    clock.at_ms += TTL_MS
    asked = await asyncio.gather(*(runtime.decide("racer", f"next-{n}", attempt="a") for n in range(2 * CAP)))
    assert sum(one.effect is Effect.ALLOW for one in asked) == CAP


async def test_what_began_stays_charged_until_it_is_proven_not_to_have_run(
    runtime: Runtime, clock: Clock
) -> None:
    first = await runtime.decide("racer", "0", attempt="a")
    for number in range(1, CAP):
        await runtime.decide("racer", f"{number}", attempt="a")
    clock.at_ms += TTL_MS
    assert (await runtime.decide("racer", "next", attempt="a")).effect is Effect.DENY
    assert (await runtime.decide("racer", "0", attempt="a")).code.value == "operation.unknown"
    await runtime.resolve(first.decision_id, S.NOT_EXECUTED)
    assert (await runtime.decide("racer", "next", attempt="a")).effect is Effect.ALLOW
    assert (await runtime.decide("racer", "0", attempt="b")).effect is Effect.DENY, "decided anew, and full"


async def test_replicas_settle_one_operation_once(
    postgres_url: str, ruleset: Ruleset, tmp_path: Path
) -> None:
    """Two replicas over one database, each finding the same ends at once."""
    clock, signer = Clock(step_ms=0), ServiceKeys.generate()
    async with contextlib.AsyncExitStack() as stack:
        replicas = []
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            url = PostgresUrl.parse(postgres_url)
            opened = PostgresLedger.open(url, folder, clock=clock, signer=signer, limits=QUIET)
            replicas.append(Runtime.over(await stack.enter_async_context(opened), clock, ruleset))
        replicas[1].tokens = replicas[0].tokens
        for round_ in range(5):
            turns = [f"{round_}-{number}" for number in range(8)]
            asked = await asyncio.gather(
                *(replica.decide("racer", turn) for turn in turns for replica in replicas)
            )
            allowed = {one.decision_id for one in asked if one.effect is Effect.ALLOW}
            assert len(allowed) == CAP
            (key,) = {taken.key for one in asked for taken in one.reservations}
            clock.at_ms += TTL_MS
            await asyncio.gather(
                *(replica.lapses.sweep() for replica in replicas for _ in range(3)),
                *(
                    replica.settle(decision_id, S.NOT_EXECUTED)
                    for replica in replicas
                    for decision_id in allowed
                ),
                *(replica.start(decision_id, "a") for replica in replicas for decision_id in allowed),
            )
            assert (await replicas[0].ledger.counters_used([key]))[key] == 0
        records = await replicas[0].records("racer")
        released = [
            record["decision_id"] for record in records if record.get("operation", {}).get("released")
        ]
        assert len(released) == len(set(released)) == 5 * CAP


async def test_a_store_that_is_gone_moves_nothing(ruleset: Ruleset) -> None:
    clock = Clock(step_ms=0)
    ledger = MemoryLedger(clock=clock)
    runtime = Runtime.over(ledger, clock, ruleset)
    decision = await runtime.decide("racer", "1")
    ledger.unavailable = "the disk is gone"
    with pytest.raises(StoreUnavailable):
        await runtime.start(decision.decision_id, "a")
    ledger.unavailable = None
    view = await runtime.operations.status(runtime.runtime, decision.decision_id)
    assert view.state is S.RESERVED


def test_what_is_due_is_found_by_an_index_of_its_own(tmp_path: Path) -> None:
    """However many operations there are: the sweep, and each call that a limit refuses, asks for it."""
    sql = str(FIND_DUE.compile(dialect=DIALECT))
    with contextlib.closing(open_database(tmp_path / "authz.db")) as connection:
        plan = " ".join(str(row[-1]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (1, 1)))
    assert "SEARCH operations USING INDEX operations_by_due (due_ms<?)" in plan
    assert "TEMP B-TREE" not in plan
