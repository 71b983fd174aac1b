"""BU1 and ID1 over whole histories: what is charged is what was allowed and not proven not to have run.

Generated histories of one agent's runtime, a person and the clock, in steps of several requests at once.
The truth is read from the log: what its records say was reserved and given back is what the store counts.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.limits import counter_key
from authz.model.decision import Effect
from authz.model.operation import OperationState
from authz.service.operations import OperationView
from authz.store.keys import ServiceKeys
from authz.store.memory import MemoryLedger
from authz.store.sqlite import SqliteLedger
from tests.store.world import QUIET, START_MS, Clock
from tests.support.operations import CAP, TTL_MS, Runtime, spending_world

AGENTS = (f"agent-{number}" for number in itertools.count(1))
TURNS = ("1", "2", "3", "4", "5", "6")
ATTEMPTS = ("a", "b")
RULESET = spending_world()
HELD = [state for state in OperationState if state not in ("refused", "waiting", "reserved", "executing")]


@dataclass(frozen=True)
class Asked:
    """One request; `turn` names the call that it is about."""

    what: str
    turn: str
    settles: bool
    attempt: str | None
    outcome: OperationState
    ticket: bool
    late: bool = False
    """Of a report: about the first decision of the call, whatever was decided since."""


REQUESTS = st.builds(
    Asked,
    what=st.sampled_from(
        ["decide", "decide", "decide", "start", "start", "settle", "settle", "resolve", "cancel", "sweep"]
    ),
    turn=st.sampled_from(TURNS),
    settles=st.booleans(),
    attempt=st.sampled_from([None, *ATTEMPTS]),
    outcome=st.sampled_from(HELD),
    ticket=st.sampled_from([False, False, True]),
    late=st.booleans(),
)
HISTORIES = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, TTL_MS // 2, TTL_MS]), st.lists(REQUESTS, min_size=1, max_size=4)),
    max_size=12,
)


@dataclass
class Player:
    """The one who asks, and what was answered."""

    runtime: Runtime
    agent: str
    latest: dict[str, str] = field(default_factory=dict)
    """By turn, the decision that allowed it last."""
    first: dict[str, str] = field(default_factory=dict)
    acting: dict[str, set[str]] = field(default_factory=dict)
    """By decision, the attempts that were told that they may act."""

    async def ask(self, asked: Asked) -> None:
        if asked.what == "sweep":
            await self.runtime.lapses.sweep()
        elif asked.what == "decide":
            await self._decide(asked)
        elif (decision_id := (self.first if asked.late else self.latest).get(asked.turn)) is not None:
            await self._report(asked, decision_id)

    async def _decide(self, asked: Asked) -> None:
        decision = await self.runtime.decide(
            self.agent, asked.turn, settles=asked.settles, attempt=asked.attempt, ticket=asked.ticket
        )
        if decision.effect is Effect.ALLOW:
            self.latest[asked.turn] = decision.decision_id
            self.first.setdefault(asked.turn, decision.decision_id)
            if asked.attempt is not None:
                self.acting.setdefault(decision.decision_id, set()).add(asked.attempt)

    async def _report(self, asked: Asked, decision_id: str) -> None:
        if asked.what == "start":
            attempt = asked.attempt or "a"
            if isinstance(await self.runtime.start(decision_id, attempt), OperationView):
                self.acting.setdefault(decision_id, set()).add(attempt)
        elif asked.what == "settle":
            await self.runtime.settle(decision_id, asked.outcome)
        elif asked.what == "resolve":
            await self.runtime.resolve(decision_id, asked.outcome)
        else:
            await self.runtime.cancel(decision_id)


async def play(runtime: Runtime, clock: Clock, agent: str, history: list[tuple[int, list[Asked]]]) -> None:
    player = Player(runtime, agent)
    for elapsed_ms, together in history:
        clock.at_ms += elapsed_ms
        await asyncio.gather(*map(player.ask, together))
        await holds(runtime, agent)
    assert all(len(attempts) == 1 for attempts in player.acting.values()), "one attempt of each decision acts"
    clock.at_ms += TTL_MS
    while await runtime.lapses.sweep():
        pass
    await holds(runtime, agent, over=True)


async def holds(runtime: Runtime, agent: str, *, over: bool = False) -> None:
    """What the records say is what the store counts, and never more than the cap.

    `over` says that all leases have ended: then what never began has been given back.
    """
    (limit,) = RULESET.limits
    records = await runtime.records(agent)
    made = {
        record["decision_id"]: record
        for record in records
        if record["type"] == "decision.made" and record["effect"] == "allow"
    }
    allowed = list(made)
    moves = [record for record in records if record["type"].startswith("operation.")]
    released = [record["decision_id"] for record in moves if record["operation"]["released"]]
    assert len(set(released)) == len(released), "given back once"
    assert set(released) <= set(allowed)
    key = counter_key("acme", limit, (("agent", agent),))
    used = (await runtime.ledger.counters_used([key]))[key]
    assert used == len(allowed) - len(released)
    assert used <= CAP
    started = [record for record in moves if record["type"] == "operation.started"]
    for record in started:
        assert record["occurred_at"] < made[record["decision_id"]]["expires_at"], (
            "nothing begins after its lease"
        )
    begun = {record["decision_id"] for record in started} | {
        record["decision_id"] for record in records if record.get("operation", {}).get("starts")
    }
    ticketed = {
        record["decision_id"]
        for record in records
        if record["type"].startswith("decision.") and record["effect"] == "allow" and record.get("ticket")
    }
    silent = {
        decision_id
        for decision_id, record in made.items()
        if record.get("operation", {}).get("settles") and decision_id not in begun | ticketed
    } - {record["decision_id"] for record in moves if record["operation"]["by"] in ("holder", "examiner")}
    if over:
        assert silent <= set(released), "what never began was given back"
    by_person = {record["decision_id"] for record in moves if record["operation"]["by"] == "examiner"}
    assert not (begun & set(released)) - by_person, "what began is given back by a person's word alone"
    assert not (ticketed & set(released)) - by_person, "what a tool server may run is, too"
    for record in moves:
        if record["operation"]["released"] and record["decision_id"] in ticketed:
            assert record["occurred_at"] >= record["operation"]["lease_expires_at"], "when no ticket is left"
    for decision_id in allowed:
        states = [
            (record["operation"]["from"], record["operation"]["to"])
            for record in moves
            if record["decision_id"] == decision_id
            and record["operation"]["from"] != record["operation"]["to"]
        ]
        # Each begins where the last one ended; an undeclared lease ends by the time, with no record of it,
        # and what an earlier decision's late word stops is on that one's record.
        stopped = [
            record for record in moves if record.get("contradicts", {}).get("superseded_by") == decision_id
        ]
        for (_, before), (after, _) in itertools.pairwise(states):
            assert before == after or (stopped and after == "unknown")
    nothing_told_runs_again(records)


def nothing_told_runs_again(records: list[dict[str, Any]]) -> None:
    """Once it is on record that a call may have taken effect, it runs no more but by a person's word."""
    barred: set[str] = set()
    for record in records:
        turn = str(record.get("turn_id"))
        operation = record.get("operation") or {}
        if record["type"] == "decision.made" and record["effect"] == "allow":
            assert turn not in barred
        elif operation.get("by") == "examiner" and operation["to"] == "not_executed":
            barred.discard(turn)
        elif record["type"] == "operation.started":
            assert turn not in barred
        elif operation.get("by") in ("holder", "contradiction"):
            told = record.get("contradicts", {}).get("outcome", operation["to"])
            if told in ("succeeded", "failed_final", "unknown"):
                barred.add(turn)


@pytest.fixture(scope="module")
def durable() -> Iterator[tuple[asyncio.Runner, SqliteLedger, Clock]]:
    clock = Clock(step_ms=0)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        ledger = SqliteLedger.open(
            Path(folder) / "authz.db", clock=clock, signer=ServiceKeys.generate(), limits=QUIET
        )
        yield runner, ledger, clock
        runner.run(ledger.close())


@settings(max_examples=150)
@given(history=HISTORIES)
def test_in_memory(history: list[tuple[int, list[Asked]]]) -> None:
    clock = Clock(step_ms=0)
    clock.at_ms = START_MS
    runtime = Runtime.over(MemoryLedger(clock=clock), clock, RULESET)
    asyncio.run(play(runtime, clock, "agent-0", history))


@settings(max_examples=50)
@given(history=HISTORIES)
def test_on_disk(
    durable: tuple[asyncio.Runner, SqliteLedger, Clock], history: list[tuple[int, list[Asked]]]
) -> None:
    runner, ledger, clock = durable
    runner.run(play(Runtime.over(ledger, clock, RULESET), clock, next(AGENTS), history))
