"""Long computations beside requests: in a thread that keeps the interpreter for a moment at a time."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SLICE_SECONDS: Final = 0.0005
"""For how long a thread computes before it rests."""
REST_SECONDS: Final = 0.0005
SWEEP_EVERY: Final = 16
"""Computations that kept what they made, between two collections of everything."""
SWITCH_SECONDS: Final = 0.0001
"""How long it may keep the interpreter from a request that wants it meanwhile."""


class Pace:
    """A `Step` that rests after each slice of work. For one thread.

    The interpreter changes threads by itself, but where both want the same processor the system may let
    the one that computes go on for milliseconds before the one that woke up runs at all. One that sleeps
    leaves it at once.
    """

    def __init__(
        self,
        *,
        slice_seconds: float = SLICE_SECONDS,
        rest_seconds: float = REST_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slice_seconds = slice_seconds
        self._rest_seconds = rest_seconds
        self._monotonic = monotonic
        self._rest = rest
        self._began_s = monotonic()
        self.rests = 0
        self.keeps = False
        """Set by the work: what it made stays, see `quietly`."""

    def __call__(self) -> None:
        """Between two pieces of work: rest if it is time."""
        if self._monotonic() - self._began_s >= self._slice_seconds:
            self._rest(self._rest_seconds)
            self.rests += 1
            self._began_s = self._monotonic()


class _Settings:
    """The interpreter's settings, one for all threads, while any of them computes in the background."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._switch_seconds = 0.0
        self._collected = True
        self._frozen = 0

    def begin(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._switch_seconds = sys.getswitchinterval()
                self._collected = gc.isenabled()
                sys.setswitchinterval(SWITCH_SECONDS)
                gc.disable()

    def end(self, *, keep: bool) -> None:
        with self._lock:
            if keep:
                gc.freeze()
                self._frozen += 1
            self._count -= 1
            if self._count == 0:
                if self._collected:
                    gc.enable()
                sys.setswitchinterval(self._switch_seconds)

    def sweep(self) -> bool:
        with self._lock:
            if self._frozen < SWEEP_EVERY or self._count:
                return False
            self._frozen = 0
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            return True


_settings = _Settings()


@contextmanager
def quietly() -> Iterator[Pace]:
    """Makes a long computation in this thread hold up the others as little as it can.

    The interpreter changes threads often, and collects no garbage: a full collection walks everything
    there is, with all threads stopped. Where the computation sets `keeps`, no later collection walks what it
    made, nor frees it, nor what others made meanwhile: it has to end by reference counts, or by `sweep`.
    """
    _settings.begin()
    pace = Pace()
    try:
        yield pace
    finally:
        _settings.end(keep=pace.keeps)


def sweep() -> bool:
    """Free what was kept and is garbage by now, if enough was kept since the last time.

    Garbage in circles that requests leave while something is computed would else be kept for ever. It is one
    full collection, with all threads stopped for as long as that takes, so it comes once in `SWEEP_EVERY`
    reloads. Returns whether it was time.
    """
    return _settings.sweep()
