"""The cost of a durable commit: CPU µs a row, the writer thread included and the disk's time not."""

import asyncio
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop

from authz.core.fingerprint import operation_key
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.model.operation import OperationState, OperationWrite
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from tests.bench.core import NOW_MS, SECRET, World

WARM_UP_ROWS: Final = 200


class _Clock:
    """`authz.ports.Clock` by the machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


def measure_commits(bundle: Path, data_dir: Path, *, tasks: int, runs: int, rows: int) -> dict[str, float]:
    """CPU µs and wall µs a row, with `tasks` tasks that each commit one row after the other."""
    world = World.load(bundle)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(world, data_dir, tasks, runs, rows))


async def _measure(world: World, data_dir: Path, tasks: int, runs: int, rows: int) -> dict[str, float]:
    cpu_us: list[float] = []
    wall_us: list[float] = []
    keys = ServiceKeys.generate()
    async with SqliteLedger.open(data_dir / f"commit-{tasks}.db", clock=_Clock(), signer=keys) as ledger:
        number = 0
        for run in range(runs + 1):
            count = rows if run else WARM_UP_ROWS
            # Made beforehand: only the commit is timed.
            units = [_unit(world, number + index) for index in range(count)]
            number += count
            pending = iter(units)
            cpu, wall = time.process_time_ns(), time.perf_counter_ns()
            await asyncio.gather(*(_commit_all(ledger, pending) for _ in range(tasks)))
            if run:
                cpu_us.append((time.process_time_ns() - cpu) / count / 1000)
                wall_us.append((time.perf_counter_ns() - wall) / count / 1000)
    return {"cpu_us": statistics.median(cpu_us), "wall_us": statistics.median(wall_us)}


async def _commit_all(ledger: SqliteLedger, pending: Iterator[CommitUnit]) -> None:
    for unit in pending:
        committed = await ledger.commit(unit)
        assert isinstance(committed, Committed), committed


def _unit(world: World, number: int) -> CommitUnit:
    """What the benchmark's decision writes, for a call that no other unit has."""
    call = replace(world.call, ids=replace(world.call.ids, call=f"call-{number:012d}"))
    decision = replace(world.outcome.decision, decision_id=f"00000000-0000-4000-8000-{number:012d}")
    outcome = replace(world.outcome, decision=decision)
    facts = world.facts
    key = operation_key(facts.caller.tenant, call)
    assert key is not None
    assert decision.fingerprint is not None
    return CommitUnit(
        event=decision_event(call, outcome, facts.caller, facts.ruleset, Redactor(SECRET), NOW_MS),
        operation=OperationWrite(
            tenant=facts.caller.tenant,
            key=key,
            fingerprint=decision.fingerprint,
            state=OperationState.RESERVED,
            decision_id=decision.decision_id,
            expires_at_ms=decision.expires_at_ms or 0,
            expected_version=None,
        ),
    )
