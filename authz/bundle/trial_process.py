"""Runs a trial load in its process, from a thread: it waits there, and requests do not."""

import contextlib
import logging
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from authz.bundle.sources import shown
from authz.bundle.trial import OUT_OF_MEMORY
from authz.errors import BundleError, BundleProblem
from authz.processes import Courtesy, command, environment, raised

logger = logging.getLogger("authz.bundle")

TRIAL_SECONDS: Final = 120
"""After which the trial is killed: a hundred times what a thousand rules take."""
TRIAL_MEMORY_BYTES: Final = 4 * 1024**3
IDLE_SECONDS: Final = 10
"""After which it no longer waits until nobody else wants a processor."""
IDLE_IN_BOUND: Final = 8
NICE_IN_BOUND: Final = 4
"""But after such a part of the bound on staleness, whichever is sooner: what is in force must not grow stale,
with every decision refused, because requests go first. After the other part it gets as much as they do."""


RAISE_SECONDS: Final = 0.5
"""How often it is seen to that one has the place in the queue that it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """What one trial may take."""

    seconds: float = TRIAL_SECONDS
    memory_bytes: int = TRIAL_MEMORY_BYTES
    idle_seconds: float = IDLE_SECONDS
    """For how long everybody else goes first."""
    nice_seconds: float = TRIAL_SECONDS
    """And for how long, from then on, others get more than it does."""

    @classmethod
    def within(cls, max_staleness_seconds: float | None) -> "TrialLimits":
        """Limits under which a change comes into force before the bundle that it replaces is stale."""
        if max_staleness_seconds is None:
            return cls()
        return cls(
            idle_seconds=min(IDLE_SECONDS, max_staleness_seconds / IDLE_IN_BOUND),
            nice_seconds=min(TRIAL_SECONDS, max_staleness_seconds / NICE_IN_BOUND),
        )


class TrialProcess:
    """One trial: at first on what processor time nobody else wants, and where that does not do, on more."""

    def __init__(self, folder: Path, limits: TrialLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self.started = 0
        """How many processes it took."""

    def run(self, asked: bytes) -> bytes:
        """What the trial said. Raises `BundleError` where it did not end well. Waits, so not on a loop."""
        limits = self._limits
        stages = (
            (Courtesy.IDLE, limits.idle_seconds),
            (Courtesy.NICE, limits.nice_seconds),
            (Courtesy.NONE, limits.seconds),
        )
        process = None
        left_s = limits.seconds
        try:
            for courtesy, seconds in stages:
                spent_s = min(seconds, left_s)
                left_s -= spent_s
                if spent_s <= 0:
                    continue
                if process is not None and not raised(process.pid, courtesy):
                    # The system does not let us, and so it has to begin anew.
                    _kill(process)
                    process = None
                if process is None:
                    process = self._start(courtesy, asked)
                said = _wait(process, courtesy, spent_s)
                if said is not None:
                    return self._said(process.returncode, *said)
                # Others have kept the processors busy: rules must come into force all the same.
        finally:
            if process is not None and process.returncode is None:
                _kill(process)
        raise self._refused(
            f"the trial load did not end within {limits.seconds:g} seconds",
            "look for a file that is no ordinary file, or for rules beyond number",
        )

    def end(self) -> None:
        """End it, whatever it does. `run` then raises. From any thread."""
        with self._lock:
            self._is_over = True
            if self._process is not None and self._process.returncode is None:
                self._process.kill()

    def _said(self, exit_code: int, output: bytes, complaint: bytes) -> bytes:
        if self._is_over:
            raise self._abandoned()
        if exit_code != 0 or not output:
            # A crash, or an end by one of the limits: of what it says nothing is for callers.
            logger.error(
                "a trial load of a bundle broke off",
                extra={"exit_code": exit_code, "said": complaint[-2000:].decode("utf-8", "replace")},
            )
            raise self._refused(*why_it_broke_off(exit_code))
        return output

    def _start(self, courtesy: Courtesy, asked: bytes) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._is_over:
                raise self._abandoned()
            self.started += 1
            # From a thread, and not by the event loop: that would fork, which copies the page tables of the
            # whole service while every request waits. This one borrows them until the other program runs.
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                command("authz.bundle.trial", courtesy),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(),
                # Away from the terminal, whose signals are for the service. Not in a session of its own:
                # Linux may share processors out by session first (sched(7), autogroups), and then as much
                # would go to this one process as to the whole service, however nice it is.
                process_group=0,
            )
            _feed(self._process, asked)
            return self._process

    def _abandoned(self) -> BundleError:
        return self._refused("the trial load was abandoned", "reload again")

    def _refused(self, message: str, hint: str) -> BundleError:
        return refused(self._folder, message, hint)


def _feed(process: "subprocess.Popen[bytes]", asked: bytes) -> None:
    """Write to a process what it is asked, beside whoever waits for it, and close the pipe.

    Not by `communicate`: one that timed out never writes the rest, and a slow process would wait for that.
    """
    stdin, process.stdin = process.stdin, None
    if stdin is None:
        return
    try:
        threading.Thread(target=_write, args=(stdin, asked), name="trial-input", daemon=True).start()
    except RuntimeError:
        # No thread is to be had: it would wait for its input, and nobody for it.
        stdin.close()
        _kill(process)
        raise


def _write(stdin: IO[bytes], asked: bytes) -> None:
    # A process that ended before it had read everything tells that itself: by what it said, and how it ended.
    with contextlib.suppress(OSError), contextlib.closing(stdin):
        stdin.write(asked)


def _wait(
    process: "subprocess.Popen[bytes]", courtesy: Courtesy, seconds: float
) -> tuple[bytes, bytes] | None:
    """What it wrote, to both outputs, or `None` if it did not end within so many seconds."""
    ends_s = time.monotonic() + seconds
    while (left_s := ends_s - time.monotonic()) > 0:
        try:
            return process.communicate(timeout=min(left_s, RAISE_SECONDS))
        except subprocess.TimeoutExpired:
            if courtesy is not Courtesy.IDLE:
                # One that was slow to start takes its first place only now.
                raised(process.pid, courtesy)
    return None


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def refused(folder: Path, message: str, hint: str) -> BundleError:
    """That nothing could be found out about the files of a bundle, and why."""
    return BundleError((BundleProblem(message, file=shown(str(folder)), hint=hint, code="bundle.trial"),))


def why_it_broke_off(exit_code: int) -> tuple[str, str]:
    """(message, hint): how a trial ended that told nothing."""
    if exit_code == OUT_OF_MEMORY:
        return "the trial load took more memory than it may", "make the bundle smaller"
    if exit_code == -signal.SIGXCPU:
        return "the trial load took more processor time than it may", "look for rules beyond number"
    if exit_code == -signal.SIGKILL:
        return (
            "the trial load was killed from outside",
            "look into the system's log: the machine may be short of memory",
        )
    by = f"crashed by {_signal(-exit_code)}" if exit_code < 0 else "broke off by a fault"
    return f"the trial load {by}", "the service's log has what it said"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
