"""Who holds up the event loop while a bundle is reloaded: `python -m tests.bench.reload_lag BUNDLE`.

A tick of a millisecond runs on the loop beside a reload in the same process, without requests. What a tick
is late by has three parts: what this loop's own thread computed, what other threads of this process did
meanwhile (so they held the interpreter, or the processor), and the rest, which other processes took. The
first two are counted in CPU time, so they say what a reload costs whatever else the machine does.

Prints one JSON document.
"""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import uvloop

from authz.bundle.load import load_bundle
from authz.bundle.reload import FolderLoader
from authz.core.decide import decide
from authz.core.facts import Facts
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.service.bundles import BundlesInForce, ReloadOutcome, Trigger, TriggerKind
from authz.service.reloads import Reloads
from authz.store.memory import MemoryLedger
from tests.bench.bundle import change_one_rule
from tests.bench.core import NOW_MS, PROTECTED, World, spread_calls

TICK_SECONDS: Final = 0.001
LATE_SECONDS: Final = 0.001
RELOADS: Final = 5
IDLE_SECONDS: Final = 2.0


def measure_lag(bundle: Path) -> dict[str, Any]:
    """The numbers of a process of its own. Changes the bundle."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.reload_lag", str(bundle)],
        check=True,
        capture_output=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@dataclass(slots=True)
class _Lags:
    """What was seen in one stage."""

    late_ms: list[float] = field(default_factory=list)
    loop_ms: list[float] = field(default_factory=list)
    others_ms: list[float] = field(default_factory=list)
    """CPU time of other threads while a tick was late."""
    where: "Counter[str]" = field(default_factory=Counter)
    cpu_seconds: float = 0.0

    def told(self) -> dict[str, Any]:
        """Percentiles and the longest, in ms."""
        ordered = sorted(self.late_ms)
        return {
            "ticks": len(ordered),
            "late_p99": round(ordered[len(ordered) * 99 // 100], 2),
            "late_max": round(ordered[-1], 2),
            "held_by_loop_max": round(max(self.loop_ms, default=0.0), 2),
            "held_by_others_max": round(max(self.others_ms, default=0.0), 2),
            "held_by_others_over_2ms": sum(held > 2 for held in self.others_ms),
            "cpu_ms": round(self.cpu_seconds * 1000, 1),
            "most_often_in": self.where.most_common(3),
        }


class _Probe:
    """Ticks on this loop, and counts to one stage at a time."""

    def __init__(self) -> None:
        self.stages: dict[str, _Lags] = {}

    @asynccontextmanager
    async def stage(self, name: str) -> AsyncIterator[None]:
        """Count to a stage for as long as this is open."""
        lags = self.stages.setdefault(name, _Lags())
        began = time.process_time()
        ticking = asyncio.create_task(self._tick(lags))
        try:
            yield
            await asyncio.sleep(2 * TICK_SECONDS)
        finally:
            ticking.cancel()
            lags.cpu_seconds += time.process_time() - began

    async def _tick(self, lags: _Lags) -> None:
        while True:
            began, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
            await asyncio.sleep(TICK_SECONDS)
            late = time.perf_counter() - began - TICK_SECONDS
            lags.late_ms.append(late * 1000)
            if late > LATE_SECONDS:
                used, loop = time.process_time() - cpu, time.thread_time() - own
                lags.loop_ms.append(loop * 1000)
                lags.others_ms.append(min(used - loop, late + TICK_SECONDS) * 1000)
                lags.where.update(_what_others_do())


def _what_others_do() -> set[str]:
    """The functions of ours in which the other threads stand."""
    frames = sys._current_frames()
    frames.pop(threading.get_ident())
    found = set()
    for frame in frames.values():
        ours = [line.name for line in traceback.extract_stack(frame) if "/authz/" in line.filename]
        if ours:
            found.add(" > ".join(ours[-2:]))
    return found


class _Clock:
    def now_ms(self) -> int:
        return NOW_MS


class _Nobody:
    def reload_ended(self, tenant: str, trigger: str, outcome: str, seconds: float) -> None:
        pass

    def bundle_in_force(self, tenant: str, ruleset: Ruleset, now_ms: int) -> None:
        pass


class _Loader(FolderLoader):
    """Says when a ruleset has been freed."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.retired = asyncio.Event()

    async def retire(self, ruleset: Ruleset) -> None:
        retiring = super().retire(ruleset)
        del ruleset
        await retiring
        self.retired.set()


async def _measure(bundle: Path) -> dict[str, Any]:
    bundles = BundlesInForce({"default": load_bundle(bundle, PROTECTED)})
    gc.collect()
    gc.freeze()
    calls = spread_calls()
    loader = _Loader({"default": bundle}, PROTECTED, retire_after_seconds=0)
    reloads = Reloads(
        bundles=bundles,
        loader=loader,
        ledger=MemoryLedger(clock=_Clock()),
        clock=_Clock(),
        observer=_Nobody(),
    )
    probe = _Probe()
    first_ms: list[float] = []
    facts = World.of(bundles.status("default").ruleset).facts
    _decide_in(bundles, facts, calls, [])
    async with probe.stage("nothing"):
        await asyncio.sleep(IDLE_SECONDS)
    for number in range(RELOADS):
        change_one_rule(bundle, number)
        async with probe.stage("reload, with the old ruleset's end"):
            attempt = await reloads.reload("default", Trigger(kind=TriggerKind.API))
            assert attempt.outcome is ReloadOutcome.LOADED, attempt
            await loader.retired.wait()
        loader.retired.clear()
        _decide_in(bundles, facts, calls, first_ms)
    await reloads.close()
    return {
        "stages": {name: lags.told() for name, lags in probe.stages.items()},
        "first_decisions_cpu_ms": {
            "p50": round(sorted(first_ms)[len(first_ms) // 2], 2),
            "p99": round(sorted(first_ms)[len(first_ms) * 99 // 100], 2),
            "max": round(max(first_ms), 2),
        },
    }


def _decide_in(bundles: BundlesInForce, facts: Facts, calls: list[Call], took_ms: list[float]) -> None:
    """Decide by what is in force now; how long each took, in CPU ms."""
    ruleset = bundles.status("default").ruleset
    caller = replace(facts.caller, profile=ruleset.profiles["runtime"])
    facts = replace(facts, ruleset=ruleset, caller=caller)
    for call in calls:
        began = time.thread_time()
        decide(call, facts)
        took_ms.append((time.thread_time() - began) * 1000)


def main() -> None:
    """Measure, and print."""
    print(json.dumps(uvloop.run(_measure(Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
