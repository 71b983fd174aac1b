"""Notices that the files of a bundle are no longer what they were when it was loaded.

Events of the operating system say *when* to look, and a scan of the folder says *whether* something
changed. So an event that is lost, a folder that is deleted and made again, a link that is swapped
(`..data` of Kubernetes), a file system without events: all are seen at the next scan at the latest.
"""

import asyncio
import contextlib
import logging
import os
import stat
import time
from itertools import islice
from pathlib import Path
from typing import Any, Final

import watchfiles

from authz.bundle.sources import MAX_ENTRIES, is_folder
from authz.errors import BundleProblem
from authz.service.bundles import Attempt, BundlesInForce, ReloadOutcome, Trigger, TriggerKind
from authz.service.reloads import Reloads

logger = logging.getLogger("authz.bundle")

SCAN_SECONDS: Final = 1.0
"""Between two scans without an event."""
SCAN_SHARE: Final = 50
"""A scan may take this part of the time at most: big folders are scanned less often."""
SCANS_IN_BOUND: Final = 4
"""But so often within the bound on staleness, whatever it takes: else what did not change grew stale."""
SETTLE_SECONDS: Final = 0.1
"""Files count as written when nothing has changed for so long."""
YOUNG_SECONDS: Final = 2.0
YOUNG_SETTLE_SECONDS: Final = 1.0
"""And for so long when one of them was written within the last `YOUNG_SECONDS`: more may be to come."""
MAX_SETTLE_SECONDS: Final = 10.0
"""After which it is said that the files keep changing."""
LISTEN_TIMEOUT_MS: Final = 1000
"""After which a watch without events says that it works."""
RELISTEN_SECONDS: Final = 5.0
"""Before events are asked for again after they failed."""
RETRY_SECONDS: Final = 30.0
"""Before files that did not change are tried again, where the fault may pass."""

Signature = tuple[tuple[Any, ...], ...]


def scan(folder: Path) -> Signature:
    """What tells two states of a folder apart without reading its files. Never raises.

    Everything that a writer cannot help changing: inode, size, and the times of content and status. Of
    links, both the link and what it leads to. A folder or file that cannot be looked at has its error.
    """
    found: list[tuple[object, ...]] = [_look("", folder)]
    pending = [(folder, "", 0)]
    # What holds more is no bundle and does not load, so nobody need see all of it change.
    while pending and len(found) <= MAX_ENTRIES:
        place, prefix, depth = pending.pop()
        try:
            with os.scandir(place) as listed:
                # Not what is hidden: editors' drafts, and what a swapped link leads through.
                visible = (entry for entry in listed if not entry.name.startswith("."))
                entries = sorted(islice(visible, MAX_ENTRIES + 1), key=lambda entry: entry.name)
        except OSError as error:
            found.append((prefix, "unreadable", error.errno))
            continue
        for entry in entries:
            name = prefix + entry.name
            found.append(_look(name, Path(entry.path)))
            # Links are followed at the top only, where a bundle may have them; deeper they could loop.
            if is_folder(entry, follow=depth == 0):
                pending.append((Path(entry.path), f"{name}/", depth + 1))
    return tuple(found[: MAX_ENTRIES + 1])


def _look(name: str, path: Path) -> tuple[object, ...]:
    told: list[object] = [name]
    for follow in (False, True):
        try:
            status = os.stat(path, follow_symlinks=follow)
        except OSError as error:
            told.append(error.errno)
            continue
        told += [status.st_dev, status.st_ino, status.st_mode, status.st_uid]
        if not stat.S_ISDIR(status.st_mode):
            told.append((status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(told)


def _still_seconds(seen: Signature) -> float:
    """For how long these files must not have changed to count as written."""
    written = [entry[-1][2] for entry in seen if isinstance(entry[-1], tuple)]
    age_s = (time.time_ns() - max(written, default=0)) / 1e9
    # Also what is from the future, by another machine's clock.
    return YOUNG_SETTLE_SECONDS if age_s < YOUNG_SECONDS else SETTLE_SECONDS


def warn_of_slow_scan(tenant: str, took_seconds: float, max_staleness_seconds: float | None) -> None:
    """Say so where a folder is too large, or its file system too slow, for the bound on staleness."""
    if max_staleness_seconds is not None and took_seconds * SCANS_IN_BOUND > max_staleness_seconds:
        logger.warning(
            "the bound on staleness is shorter than looking at the bundle's files allows; "
            "set a longer one, or decisions are refused though nothing changed",
            extra={
                "tenant": tenant,
                "scan_seconds": round(took_seconds, 3),
                "max_staleness_seconds": max_staleness_seconds,
            },
        )


class FolderWatch:
    """Watches one tenant's folder for as long as `run` runs."""

    def __init__(
        self,
        *,
        tenant: str,
        folder: Path,
        bundles: BundlesInForce,
        reloads: Reloads,
        loaded: Signature,
        scan_seconds: float = SCAN_SECONDS,
    ) -> None:
        """`loaded` is a scan, the same before and after the bundle in force was read; empty for none such."""
        self._tenant = tenant
        self._folder = folder
        self._bundles = bundles
        self._reloads = reloads
        self._scan_seconds = scan_seconds
        self._in_force = loaded
        """What the folder looked like, before and after, when `_version` was read from it."""
        self._tried = loaded
        self._version = bundles.status(tenant).ruleset.version
        """What was in force after the last attempt of this watch."""
        self._retry_s: float | None = None
        self._scan_took_s = 0.0
        self._fault = ""
        self._wake = asyncio.Event()
        self._rearm = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        self._say("events")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._scan_forever())

    async def _listen(self) -> None:
        while True:
            self._rearm.clear()
            fault = ""
            try:
                async for changes in watchfiles.awatch(
                    self._folder,
                    watch_filter=None,
                    debounce=400,
                    step=100,
                    stop_event=self._rearm,
                    rust_timeout=LISTEN_TIMEOUT_MS,
                    yield_on_timeout=True,
                ):
                    # Also without changes: only now is it known that the watch works.
                    self._say("events")
                    if changes:
                        self._wake.set()
            except Exception as error:  # noqa: BLE001 - whatever ends it, the scans go on without events
                fault = f"{type(error).__name__}: {error}"
            if not self._rearm.is_set():
                # No events from here on: the scans go on without them.
                self._say("polling", fault or "the watch ended by itself")
                await asyncio.sleep(max(self._scan_seconds, RELISTEN_SECONDS))

    def _say(self, how: str, fault: str = "") -> None:
        before = self._bundles.status(self._tenant)
        if fault and fault != before.watch_fault:
            logger.warning(
                "a bundle cannot be watched by events, so it is polled",
                extra={"tenant": self._tenant, "why": fault},
            )
        if (how, fault) != (before.watching, before.watch_fault):
            self._bundles.watched(self._tenant, how, fault)

    async def _scan_forever(self) -> None:
        while True:
            try:
                if await self._look():
                    continue
            except Exception as error:
                # The watch must outlive any fault. What nobody looks at grows stale, and says so.
                logger.exception("a bundle could not be scanned", extra={"tenant": self._tenant})
                self._not_seen(f"the files cannot be looked at: {type(error).__name__}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_seconds()):
                    await self._wake.wait()
            self._wake.clear()

    def _pause_seconds(self) -> float:
        pause = self._scan_took_s * SCAN_SHARE
        if self._bundles.max_staleness_seconds is not None:
            pause = min(pause, self._bundles.max_staleness_seconds / SCANS_IN_BOUND)
        return max(self._scan_seconds, pause)

    def _not_seen(self, fault: str) -> None:
        """The bundle is degraded until a look, which then tries the files again, finds them well."""
        self._retry_s = self._bundles.monotonic()
        if fault != self._fault:
            self._fault = fault
            problem = BundleProblem(fault, file="bundle.yaml", code="bundle.trial")
            self._reloads.not_tried(self._tenant, Trigger(kind=TriggerKind.WATCH), problem)

    async def _scan(self) -> Signature:
        """A scan, timed where it runs: neither what waits for it nor a reload counts."""

        def timed() -> Signature:
            began_s = time.monotonic()
            try:
                return scan(self._folder)
            finally:
                self._scan_took_s = time.monotonic() - began_s

        return await asyncio.to_thread(timed)

    async def _look(self) -> bool:
        """Look once. True when a reload was asked for, after which there may be more to see."""
        seen_s = self._bundles.monotonic()
        seen = await self._scan()
        due = self._retry_s is not None and seen_s >= self._retry_s
        # A reload that somebody else asked for may have read other files, though these look as they did.
        same = self._bundles.status(self._tenant).ruleset.version == self._version
        if seen == self._tried and same and not due:
            if seen == self._in_force:
                self._bundles.confirm(self._tenant, seen_s, self._version)
            return False
        if seen[:1] != self._tried[:1]:
            # Another folder under the same name: the system watches the one that is gone.
            self._rearm.set()
        settled = await self._settled(seen)
        if settled is None:
            self._not_seen("the files keep changing; finish writing them, or exchange a link to their folder")
            return False
        self._tried, self._in_force, self._fault = settled, (), ""
        attempt = await self._reloads.reload(self._tenant, Trigger(kind=TriggerKind.WATCH))
        self._version = attempt.version
        self._retry_s = self._bundles.monotonic() + RETRY_SECONDS if _may_pass(attempt) else None
        if attempt.outcome in (ReloadOutcome.LOADED, ReloadOutcome.UNCHANGED):
            if await self._scan() == settled:
                self._in_force = settled
            else:
                # The files were exchanged meanwhile, and nobody knows which of them were read: try again,
                # also if they are exchanged back before the next look.
                self._tried = ()
        return True

    async def _settled(self, seen: Signature) -> Signature | None:
        """The scan once the files have held still for long enough; `None` when they do not.

        Of files that are written in place, half may look like a whole bundle: without the rule that
        forbids, say. Nothing tells, but that somebody goes on writing.
        """
        still_s, spent_s = 0.0, 0.0
        while still_s < _still_seconds(seen):
            if spent_s >= MAX_SETTLE_SECONDS:
                return None
            await asyncio.sleep(SETTLE_SECONDS)
            again = await self._scan()
            still_s = still_s + SETTLE_SECONDS if again == seen else 0.0
            spent_s += SETTLE_SECONDS
            seen = again
        return seen


def _may_pass(attempt: Attempt) -> bool:
    """Whether the same files could load later: the store was away, or the files could not be read whole."""
    if attempt.outcome is ReloadOutcome.NOT_RECORDED:
        return True
    return any(problem.code in ("bundle.trial", "file.unreadable") for problem in attempt.problems)
