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
from pathlib import Path
from typing import Final

import watchfiles

from authz.service.bundles import Attempt, BundlesInForce, ReloadOutcome, Trigger, TriggerKind
from authz.service.reloads import Reloads

logger = logging.getLogger("authz.bundle")

SCAN_SECONDS: Final = 1.0
"""Between two scans without an event."""
SCAN_SHARE: Final = 50
"""A scan may take this part of the time at most: big folders are scanned less often."""
SETTLE_SECONDS: Final = 0.1
"""Files count as written when two scans this far apart agree."""
MAX_SETTLE_SCANS: Final = 20
MAX_SCANNED: Final = 10_000
LISTEN_TIMEOUT_MS: Final = 1000
"""After which a watch without events says that it works."""
RELISTEN_SECONDS: Final = 5.0
"""Before events are asked for again after they failed."""
RETRY_SECONDS: Final = 30.0
"""Before files that did not change are tried again, where the fault may pass."""

Signature = tuple[tuple[object, ...], ...]


def scan(folder: Path) -> Signature:
    """What tells two states of a folder apart without reading its files. Never raises.

    Everything that a writer cannot help changing: inode, size, and the times of content and status. Of
    links, both the link and what it leads to. A folder or file that cannot be looked at has its error.
    """
    found: list[tuple[object, ...]] = [_look("", folder)]
    pending = [(folder, "", 0)]
    while pending and len(found) < MAX_SCANNED:
        place, prefix, depth = pending.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            found.append((prefix, "unreadable", error.errno))
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue  # no part of a bundle: editors' drafts, and what a swapped link leads through
            name = prefix + entry.name
            found.append(_look(name, Path(entry.path)))
            # Links are followed at the top only, where a bundle may have them; deeper they could loop.
            if entry.is_dir(follow_symlinks=depth == 0):
                pending.append((Path(entry.path), f"{name}/", depth + 1))
    return tuple(found[:MAX_SCANNED])


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
            told += [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    return tuple(told)


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
        """`loaded` is a scan made before the bundle in force was read."""
        self._tenant = tenant
        self._folder = folder
        self._bundles = bundles
        self._reloads = reloads
        self._scan_seconds = scan_seconds
        self._in_force = loaded
        self._tried = loaded
        self._retry_s: float | None = None
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
            began_s = self._bundles.monotonic()
            try:
                if await self._look():
                    continue
            except Exception:
                # The watch must outlive any fault. What nobody looks at grows stale, and says so.
                logger.exception("a bundle could not be scanned", extra={"tenant": self._tenant})
            took = self._bundles.monotonic() - began_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(self._scan_seconds, took * SCAN_SHARE)):
                    await self._wake.wait()
            self._wake.clear()

    async def _look(self) -> bool:
        """Look once. True when a reload was asked for, after which there may be more to see."""
        seen_s = self._bundles.monotonic()
        seen = await asyncio.to_thread(scan, self._folder)
        due = self._retry_s is not None and seen_s >= self._retry_s
        if seen == self._tried and not due:
            if seen == self._in_force:
                self._bundles.confirm(self._tenant, seen_s)
            return False
        if seen[0] != self._tried[0]:
            # Another folder under the same name: the system watches the one that is gone.
            self._rearm.set()
        self._tried = await self._settled(seen)
        attempt = await self._reloads.reload(self._tenant, Trigger(kind=TriggerKind.WATCH))
        if attempt.outcome in (ReloadOutcome.LOADED, ReloadOutcome.UNCHANGED):
            self._in_force = self._tried
        self._retry_s = self._bundles.monotonic() + RETRY_SECONDS if _may_pass(attempt) else None
        return True

    async def _settled(self, seen: Signature) -> Signature:
        """The scan once the files hold still, or after a while in any case."""
        for _ in range(MAX_SETTLE_SCANS):
            await asyncio.sleep(SETTLE_SECONDS)
            again = await asyncio.to_thread(scan, self._folder)
            if again == seen:
                break
            seen = again
        return seen


def _may_pass(attempt: Attempt) -> bool:
    """Whether the same files could load later: the store was away, or the files could not be read whole."""
    if attempt.outcome is ReloadOutcome.NOT_RECORDED:
        return True
    return any(problem.code in ("bundle.trial", "file.unreadable") for problem in attempt.problems)
