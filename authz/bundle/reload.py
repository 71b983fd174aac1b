"""Bundles from folders while the service runs: a trial in another process, then a quiet compile here."""

import asyncio
import gc
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from authz.bundle.load import compile_tried_bundle
from authz.bundle.self_protection import Protected
from authz.bundle.sources import BundleSources, shown
from authz.bundle.trial import OUT_OF_MEMORY, request_for
from authz.core.policy import ValidationCache
from authz.core.ruleset import Ruleset
from authz.errors import BundleError, BundleProblem
from authz.processes import command, environment, program_digest

logger = logging.getLogger("authz.bundle")

TRIAL_SECONDS: Final = 120
"""After which the trial is killed: a hundred times what a thousand rules take."""
TRIAL_MEMORY_BYTES: Final = 4 * 1024**3
ATTEMPTS_WHILE_MOVING: Final = 5
SETTLE_SECONDS: Final = 0.25
"""Between two attempts on files that somebody is still writing."""
SWITCH_SECONDS: Final = 0.0001
"""How long the compiling thread may keep the interpreter from a request that wants it."""
RETIRE_AFTER_SECONDS: Final = 15.0
"""Longer than a batch is decided for: hardly a request is left then that goes by the retired ruleset.

One that waits for the store still is safe: caches are dropped, and what it holds itself lives on.
"""
RETIRE_STEP: Final = 100
"""Objects that are freed in one go."""


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """What one trial may take."""

    seconds: float = TRIAL_SECONDS
    memory_bytes: int = TRIAL_MEMORY_BYTES


class FolderLoader:
    """Loads the bundle in each tenant's folder."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        protected: Protected,
        *,
        limits: TrialLimits | None = None,
        retire_after_seconds: float = RETIRE_AFTER_SECONDS,
    ) -> None:
        self._retire_after_seconds = retire_after_seconds
        self._folders = folders
        self._protected = protected
        self._limits = limits or TrialLimits()
        # Now, while what is on disk is what runs.
        program_digest()
        # One thread: two compiles at once would only hold up requests twice as often.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="authz-bundle")

    async def load(self, tenant: str, in_force: Ruleset) -> Ruleset | None:
        """See `ports.BundleLoader`."""
        folder = self._folders[tenant]
        for attempt in range(ATTEMPTS_WHILE_MOVING):
            if attempt:
                await asyncio.sleep(SETTLE_SECONDS)
            output = await self._try(folder, in_force)
            actions = in_force.engine.prepared_actions()
            # Off the loop: there may be megabytes of problems, or of files.
            outcome, ruleset = await self._aside(_outcome, folder, output, self._protected, actions)
            if outcome != "moving":
                return ruleset
        raise _refused(folder, "the files keep changing while they are read", "finish writing them")

    async def retire(self, ruleset: Ruleset) -> None:
        """See `ports.BundleLoader`."""
        # Requests that have read it finish on it.
        await asyncio.sleep(self._retire_after_seconds)
        ruleset.entities.forget()
        box = [ruleset]
        del ruleset
        await self._aside(_free_slowly, box)

    def close(self) -> None:
        """Wait for nothing: what compiles is thrown away with the process."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _aside(self, work: Callable[..., Value], *arguments: Any) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    async def _try(self, folder: Path, in_force: Ruleset) -> bytes:
        """What the trial said. Raises `BundleError` where it did not end well."""
        limits = self._limits
        asked = await self._aside(
            partial(
                request_for,
                cpu_seconds=max(1, int(limits.seconds)),
                memory_bytes=limits.memory_bytes,
            ),
            folder,
            self._protected,
            in_force,
        )
        process = await asyncio.create_subprocess_exec(
            *command("authz.bundle.trial"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
            # Away from the terminal, whose signals are for the service.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limits.seconds):
                output, complaint = await process.communicate(asked)
        except TimeoutError:
            raise _refused(
                folder,
                f"the trial load did not end within {limits.seconds:g} seconds",
                "look for a file that is no ordinary file, or for rules beyond number",
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0 or not output:
            # A crash, or an end by one of the limits: of what it says nothing is for callers.
            logger.error(
                "a trial load of a bundle broke off",
                extra={
                    "exit_code": process.returncode,
                    "said": complaint[-2000:].decode("utf-8", "replace"),
                },
            )
            raise _refused(folder, *_why(process.returncode))
        return output


def _refused(folder: Path, message: str, hint: str) -> BundleError:
    return BundleError((BundleProblem(message, file=shown(str(folder)), hint=hint, code="bundle.trial"),))


def _why(exit_code: int | None) -> tuple[str, str]:
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
    by = f"crashed by {_signal(-exit_code)}" if exit_code and exit_code < 0 else "broke off by a fault"
    return f"the trial load {by}", "the service's log has what it said"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _outcome(
    folder: Path, output: bytes, protected: Protected, actions: tuple[str, ...]
) -> tuple[str, Ruleset | None]:
    """(`unchanged`, `moving` or `good`, the ruleset if it is good). Raises `BundleError` for the others."""
    line, _, content = output.partition(b"\n")
    header: dict[str, Any] = json.loads(line)
    outcome: str = header["outcome"]
    if outcome == "rejected":
        raise BundleError(tuple(BundleProblem(**told) for told in header["problems"]))
    if outcome == "other_program":
        raise _refused(
            folder,
            "the program on disk is no longer the one that runs, so what it tries is not what would decide",
            "restart the service",
        )
    if outcome != "good":
        return outcome, None
    passed = ValidationCache.of(content[: header["passed"]])
    sources = _sources(header, content[header["passed"] :])
    return outcome, _compile_quietly(sources, protected, passed, actions)


def _sources(header: Mapping[str, Any], content: bytes) -> BundleSources:
    """The very bytes that passed, held to the digest that passed: nothing is read a second time."""
    files: dict[str, bytes] = {}
    at = 0
    for name, size in header["sizes"].items():
        files[name] = content[at : at + size]
        at += size
    sources = BundleSources(files=files)
    if at != len(content) or sources.version != header["version"]:
        raise BundleError((BundleProblem("the files came damaged from their trial", file="bundle.yaml"),))
    return sources


def _compile_quietly(
    sources: BundleSources, protected: Protected, passed: ValidationCache, actions: tuple[str, ...]
) -> Ruleset:
    """The ruleset, with what is prepared per action at hand for those that the last one was asked about."""
    with _quiet():
        ruleset = compile_tried_bundle(sources, protected, passed)
        ruleset.engine.warm(actions)
        return ruleset


@contextmanager
def _quiet() -> Iterator[None]:
    """Makes a long computation in this thread hold up the others as little as it can.

    The interpreter changes threads often, and collects no garbage: a full collection walks everything
    there is, with all threads stopped. What the computation made is then left out of later collections.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.disable()
    try:
        yield
    finally:
        # No later collection walks it, nor frees it: a retired ruleset ends by reference counts alone.
        gc.freeze()
        gc.enable()
        sys.setswitchinterval(before)


def _free_slowly(box: list[Ruleset]) -> None:
    """Drop the ruleset in `box` in small steps: freed in one, its many objects would stop every thread."""
    with _quiet():
        parts = _parts(box)
        # The outermost go first; what is in them is still held here, so each step frees little.
        parts.reverse()
        while parts:
            del parts[-RETIRE_STEP:]
            time.sleep(0)


def _parts(box: list[Ruleset]) -> list[object]:
    """The ruleset taken out of `box`, with our own values and the containers in it, outer ones first."""
    pending: list[object] = [box.pop()]
    found: dict[int, object] = {}
    while pending:
        part = pending.pop()
        if id(part) not in found:
            found[id(part)] = part
            pending += [inner for inner in gc.get_referents(part) if _is_ours(type(inner))]
    return list(found.values())


def _is_ours(kind: type) -> bool:
    return kind in (dict, list, tuple, set, frozenset) or kind.__module__.startswith("authz.")
