"""Runs a trial load in its process, from a thread: it waits there, and requests do not."""

import logging
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authz.bundle.sources import shown
from authz.bundle.trial import OUT_OF_MEMORY
from authz.errors import BundleError, BundleProblem
from authz.processes import Courtesy, command, environment

logger = logging.getLogger("authz.bundle")

TRIAL_SECONDS: Final = 120
"""After which the trial is killed: a hundred times what a thousand rules take."""
TRIAL_MEMORY_BYTES: Final = 4 * 1024**3
IDLE_SECONDS: Final = 10
"""After which it no longer waits until nobody else wants a processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """What one trial may take."""

    seconds: float = TRIAL_SECONDS
    memory_bytes: int = TRIAL_MEMORY_BYTES
    idle_seconds: float = IDLE_SECONDS


class TrialProcess:
    """One trial: at first on what processor time nobody else wants, and if that does not do, once more."""

    def __init__(self, folder: Path, limits: TrialLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def run(self, asked: bytes) -> bytes:
        """What the trial said. Raises `BundleError` where it did not end well. Waits, so not on a loop."""
        limits = self._limits
        if limits.idle_seconds < limits.seconds:
            said = self._attempt(asked, Courtesy.IDLE, limits.idle_seconds)
            if said is not None:
                return said
            # Others have kept the processors busy: rules must come into force all the same.
        said = self._attempt(asked, Courtesy.NICE, limits.seconds)
        if said is None:
            raise self._refused(
                f"the trial load did not end within {limits.seconds:g} seconds",
                "look for a file that is no ordinary file, or for rules beyond number",
            )
        return said

    def end(self) -> None:
        """End it, whatever it does. `run` then raises. From any thread."""
        with self._lock:
            self._is_over = True
            if self._process is not None and self._process.returncode is None:
                self._process.kill()

    def _attempt(self, asked: bytes, courtesy: Courtesy, seconds: float) -> bytes | None:
        """`None` if it did not end within so many seconds."""
        process = self._start(courtesy)
        try:
            output, complaint = process.communicate(asked, timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:
                process.kill()
                process.communicate()
        if self._is_over:
            raise self._abandoned()
        if process.returncode != 0 or not output:
            # A crash, or an end by one of the limits: of what it says nothing is for callers.
            logger.error(
                "a trial load of a bundle broke off",
                extra={
                    "exit_code": process.returncode,
                    "said": complaint[-2000:].decode("utf-8", "replace"),
                },
            )
            raise self._refused(*why_it_broke_off(process.returncode))
        return output

    def _start(self, courtesy: Courtesy) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._is_over:
                raise self._abandoned()
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
            return self._process

    def _abandoned(self) -> BundleError:
        return self._refused("the trial load was abandoned", "reload again")

    def _refused(self, message: str, hint: str) -> BundleError:
        return refused(self._folder, message, hint)


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
