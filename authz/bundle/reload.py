"""Bundles from folders while the service runs: a trial in another process, then a quiet compile here."""

import asyncio
import gc
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from authz.bundle.files import KnownFiles, Tried
from authz.bundle.load import compile_tried_bundle
from authz.bundle.self_protection import Protected
from authz.bundle.sources import BundleSources
from authz.bundle.trial import request_for
from authz.bundle.trial_process import TrialLimits, TrialProcess, refused
from authz.core.policy import PreparedActions, ValidationCache
from authz.core.ruleset import Ruleset
from authz.core.steps import Step
from authz.errors import BundleError, BundleProblem
from authz.processes import program_digest
from authz.service.background import Pace, quietly, sweep

ATTEMPTS_WHILE_MOVING: Final = 5
SETTLE_SECONDS: Final = 0.25
"""Between two attempts on files that somebody is still writing."""
TRIALS_AT_ONCE: Final = 4
"""Of all tenants. Others wait for their turn."""
RETIRE_AFTER_SECONDS: Final = 15.0
"""Longer than a batch is decided for: hardly a request is left then that goes by the retired ruleset.

One that waits for the store still is safe: caches are dropped, and what it holds itself lives on.
"""
RETIRE_STEP: Final = 20
"""Objects that are freed in one go."""


Value = TypeVar("Value")


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
        self._known: dict[str, KnownFiles] = {}
        """By tenant: what the last load has read."""
        self._trials = ThreadPoolExecutor(max_workers=TRIALS_AT_ONCE, thread_name_prefix="authz-trial")

    async def load(self, tenant: str, in_force: Ruleset) -> Ruleset | None:
        """See `ports.BundleLoader`."""
        folder = self._folders[tenant]
        for attempt in range(ATTEMPTS_WHILE_MOVING):
            if attempt:
                await asyncio.sleep(SETTLE_SECONDS)
            output = await self._try(folder, in_force)
            known = self._known.get(tenant, KnownFiles())
            actions = in_force.engine.prepared_actions()
            # Off the loop: there may be megabytes of problems, or of files.
            outcome, ruleset = await self._aside(
                partial(_outcome, folder, output, self._protected, in_force, known, actions)
            )
            if isinstance(outcome, KnownFiles):
                self._known[tenant] = outcome
            if outcome != "moving":
                return ruleset
        raise refused(folder, "the files keep changing while they are read", "finish writing them")

    async def retire(self, ruleset: Ruleset) -> None:
        """See `ports.BundleLoader`."""
        # Requests that have read it finish on it.
        await asyncio.sleep(self._retire_after_seconds)
        ruleset.entities.forget()
        box = [ruleset]
        del ruleset
        await self._aside(partial(_free_slowly, box))
        # Now, when what went out of force is gone, and a reload is over that was asked for by people.
        await _in(self._executor, sweep)

    def close(self) -> None:
        """Wait for nothing: what compiles is thrown away with the process."""
        for executor in (self._executor, self._trials):
            executor.shutdown(wait=False, cancel_futures=True)

    async def _aside(self, work: Callable[[Pace], Value]) -> Value:
        """Do something long beside the requests."""

        def quiet_work() -> Value:
            with quietly() as step:
                return work(step)

        return await _in(self._executor, quiet_work)

    async def _try(self, folder: Path, in_force: Ruleset) -> bytes:
        """What the trial said. Raises `BundleError` where it did not end well."""
        limits = self._limits
        asked = await self._aside(
            lambda step: request_for(
                folder,
                self._protected,
                in_force,
                cpu_seconds=max(1, int(limits.seconds)),
                memory_bytes=limits.memory_bytes,
                step=step,
            )
        )
        trial = TrialProcess(folder, limits)
        try:
            return await _in(self._trials, partial(trial.run, asked))
        finally:
            trial.end()


async def _in(executor: Executor, work: Callable[[], Value]) -> Value:
    return await asyncio.get_running_loop().run_in_executor(executor, work)


def _outcome(
    folder: Path,
    output: bytes,
    protected: Protected,
    in_force: Ruleset,
    known: KnownFiles,
    actions: PreparedActions,
    step: Pace,
) -> tuple[str | KnownFiles, Ruleset | None]:
    """(`unchanged` or `moving`, nothing), or (what was read, the ruleset) where it is good.

    Raises `BundleError` for the other outcomes.
    """
    header_size = output.index(b"\n")
    header: dict[str, Any] = json.loads(output[:header_size])
    outcome: str = header["outcome"]
    if outcome == "rejected":
        raise BundleError(tuple(BundleProblem(**told) for told in header["problems"]))
    if outcome == "other_program":
        raise refused(
            folder,
            "the program on disk is no longer the one that runs, so what it tries is not what would decide",
            "restart the service",
        )
    if outcome != "good":
        return outcome, None
    content = memoryview(output)[header_size + 1 :]
    passed = ValidationCache.of(bytes(content[: header["passed"]]))
    sources = _sources(header, content[header["passed"] :])
    tried = Tried(passed=passed, before=in_force, known=known, step=step)
    ruleset = compile_tried_bundle(sources, protected, tried)
    # What is prepared per action is at hand for those that the last one was asked about.
    ruleset.engine.warm(actions, step)
    # Only here: every other outcome leaves nothing that stays.
    step.keeps = True
    return tried.read, ruleset


def _sources(header: Mapping[str, Any], content: memoryview) -> BundleSources:
    """The very bytes that passed, held to the digest that passed: nothing is read a second time."""
    files: dict[str, bytes] = {}
    at = 0
    for name, size in header["sizes"].items():
        files[name] = bytes(content[at : at + size])
        at += size
    sources = BundleSources(files=files)
    if at != len(content) or sources.version != header["version"]:
        raise BundleError((BundleProblem("the files came damaged from their trial", file="bundle.yaml"),))
    return sources


def _free_slowly(box: list[Ruleset], step: Step) -> None:
    """Drop the ruleset in `box` in small steps: freed in one, its many objects would stop every thread."""
    parts = _parts(box, step)
    # The outermost go first; what is in them is still held here, so each step frees little.
    parts.reverse()
    while parts:
        del parts[-RETIRE_STEP:]
        step()


def _parts(box: list[Ruleset], step: Step) -> list[object]:
    """The ruleset taken out of `box`, with our own values and the containers in it, outer ones first."""
    pending: list[object] = [box.pop()]
    found: dict[int, object] = {}
    while pending:
        part = pending.pop()
        step()
        if id(part) not in found:
            found[id(part)] = part
            pending += [inner for inner in gc.get_referents(part) if _is_ours(type(inner))]
    return list(found.values())


def _is_ours(kind: type) -> bool:
    return kind in (dict, list, tuple, set, frozenset) or kind.__module__.startswith("authz.")
