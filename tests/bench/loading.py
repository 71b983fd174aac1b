"""What a bundle costs to load and to hold, in a fresh process: `python -m tests.bench.loading BUNDLE`.

Prints one JSON document. CPU and not wall time, since other processes may share the machine.
"""

import dataclasses
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import psutil

from authz.bundle.load import compile_bundle, read_sources
from authz.core.decide import decide
from authz.core.policy import ValidationCache
from tests.bench.core import PROTECTED, World, calls_of_strangers, spread_calls

STRANGERS: Final = 2000


def measure_loading(bundle: Path) -> dict[str, Any]:
    """The numbers of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.loading", str(bundle)],
        check=True,
        capture_output=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Load a bundle, load it again, warm it, and answer known and unknown callers."""
    bundle = Path(sys.argv[1])
    found: dict[str, Any] = {"rss_mb_empty": _rss_mb()}
    validations = ValidationCache()
    sources = read_sources(bundle)
    started = time.process_time()
    ruleset = compile_bundle(sources, PROTECTED, validations)
    found["load_s"] = round(time.process_time() - started, 3)
    found["rss_mb_loaded"] = _rss_mb()
    world = World.of(ruleset)
    engine = ruleset.engine
    for call in itertools.chain.from_iterable([spread_calls()] * 2):
        decide(call, world.facts)
    found["rss_mb_warm"] = _rss_mb()
    found["cache_warm"] = dataclasses.asdict(engine.cache_stats())
    # Nobody of whom the bundle knows, each in another place: what an adversary can make each decision cost.
    costs = []
    for call in calls_of_strangers(STRANGERS):
        started_ns = time.process_time_ns()
        decide(call, world.facts)
        costs.append((time.process_time_ns() - started_ns) / 1000)
    costs.sort()
    found["stranger_us_p50"] = round(costs[len(costs) // 2], 1)
    found["stranger_us_p99"] = round(costs[len(costs) * 99 // 100], 1)
    found["rss_mb_strangers"] = _rss_mb()
    found["cache_strangers"] = dataclasses.asdict(engine.cache_stats())
    started = time.process_time()
    again = compile_bundle(sources, PROTECTED, validations)
    found["reload_s"] = round(time.process_time() - started, 3)
    started = time.process_time()
    again.engine.warm(engine.prepared_actions())
    found["warm_s"] = round(time.process_time() - started, 4)
    print(json.dumps(found))


def _rss_mb() -> float:
    return round(psutil.Process().memory_info().rss / 2**20, 1)


if __name__ == "__main__":
    main()
