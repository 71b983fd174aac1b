"""How in-process pieces are timed: CPU time of the process, warm, the median of several runs."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Final

WARM_UP_CALLS: Final = 300


def cpu_us(function: Callable[[], object], *, runs: int, calls: int) -> float:
    """CPU µs of one call. CPU time and not the clock, since other processes may share the machine."""
    for _ in range(WARM_UP_CALLS):
        function()
    measured = []
    for _ in range(runs):
        # Garbage of the run before is not this run's cost; what this run makes is.
        gc.collect()
        started = time.process_time_ns()
        for _ in range(calls):
            function()
        measured.append((time.process_time_ns() - started) / calls / 1000)
    return statistics.median(measured)


def cpu_us_in_turn(
    functions: Mapping[str, Callable[[], object]], *, runs: int, calls: int
) -> dict[str, list[float]]:
    """CPU µs of one call of each function in each run. They take turns, so that differences can be told."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(WARM_UP_CALLS):
            function()
    for _ in range(runs):
        for name, function in functions.items():
            gc.collect()
            started = time.process_time_ns()
            for _ in range(calls):
                function()
            found[name].append((time.process_time_ns() - started) / calls / 1000)
    return found


def median_difference(more: list[float], less: list[float]) -> float:
    """The median over the runs of what one took more than the other in the same run."""
    return statistics.median(one - other for one, other in zip(more, less, strict=True))
