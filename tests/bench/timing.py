"""How in-process pieces are timed: CPU time of the process, warm, the median of several runs."""

import gc
import statistics
import time
from collections.abc import Callable
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
