"""Reloads bundles: check, record, swap. What cannot be loaded or recorded changes nothing."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from authz.core.bundle_record import (
    BundleChanges,
    bundle_event,
    bundle_rejected_event,
    changes_between,
)
from authz.core.ruleset import Ruleset
from authz.errors import AuthzError, BundleError, BundleProblem
from authz.model.record import Committed
from authz.ports import BundleLoader, BundleObserver, Clock, CommitUnit, Ledger
from authz.service.bundles import Attempt, BundlesInForce, ReloadOutcome, Trigger

logger = logging.getLogger("authz.bundle")

MAX_LOGGED_PROBLEMS: Final = 50
"""How many problems one line of the log names. `GET /policies` has them all."""
MAX_LOGGED_NAMES: Final = 50


class Reloads:
    """Loads the bundles of tenants anew, one attempt a tenant at a time.

    Who asks while an attempt runs waits for the next one, which starts after it and is shared by all
    who wait: so the state of the files at the moment of asking is never missed, and never read twice.
    """

    def __init__(
        self,
        *,
        bundles: BundlesInForce,
        loader: BundleLoader,
        ledger: Ledger,
        clock: Clock,
        observer: BundleObserver,
    ) -> None:
        self._bundles = bundles
        self._loader = loader
        self._ledger = ledger
        self._clock = clock
        self._observer = observer
        self._turns = {tenant: asyncio.Lock() for tenant in bundles.tenants}
        self._waiting: dict[str, asyncio.Task[Attempt]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def request(self, tenant: str, trigger: Trigger) -> "asyncio.Task[Attempt]":
        """Ask for an attempt that starts reading after this call."""
        task = self._waiting.get(tenant)
        if task is None:
            task = self._waiting[tenant] = self._start(self._take_turn(tenant, trigger))
        return task

    async def reload(self, tenant: str, trigger: Trigger) -> Attempt:
        """Ask and wait. Who stops waiting does not stop the attempt."""
        return await asyncio.shield(self.request(tenant, trigger))

    def request_all(self, trigger: Trigger) -> None:
        """Ask for an attempt for every tenant."""
        for tenant in self._bundles.tenants:
            # Nobody waits: what comes of it stands in log, record and status.
            _ = self.request(tenant, trigger)

    async def close(self) -> None:
        """Abandon what runs. Nothing is half done: before the swap the old bundle is in force."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._loader.close()

    def _start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _take_turn(self, tenant: str, trigger: Trigger) -> Attempt:
        async with self._turns[tenant]:
            # Before anything is read: who asks from here on gets an attempt of its own.
            self._waiting.pop(tenant, None)
            return await self._attempt(tenant, trigger)

    async def _attempt(self, tenant: str, trigger: Trigger) -> Attempt:
        began_s = self._bundles.monotonic()
        before = self._bundles.status(tenant).ruleset
        problems: tuple[BundleProblem, ...] = ()
        ruleset: Ruleset | None = None
        try:
            ruleset = await self._loader.load(tenant, before)
            outcome = ReloadOutcome.UNCHANGED if ruleset is None else ReloadOutcome.LOADED
        except BundleError as error:
            outcome, problems = ReloadOutcome.REJECTED, error.problems
        except Exception:
            # A fault of ours must not end the watch, nor look as if the files were in force.
            logger.exception("a bundle could not be loaded", extra={"tenant": tenant})
            outcome = ReloadOutcome.REJECTED
            problems = (
                BundleProblem(
                    "loading failed; the service's log has the trace",
                    file="bundle.yaml",
                    code="bundle.trial",
                ),
            )
        if ruleset is not None:
            outcome, problems = await self._put_in_force(tenant, before, ruleset, trigger)
        elif outcome is ReloadOutcome.REJECTED:
            await self._record_rejection(tenant, before, trigger, problems)
        if outcome in (ReloadOutcome.LOADED, ReloadOutcome.UNCHANGED):
            self._bundles.confirm(tenant, began_s)
        attempt = Attempt(
            at_ms=self._clock.now_ms(),
            trigger=trigger,
            outcome=outcome,
            version=self._bundles.status(tenant).ruleset.version,
            problems=problems,
        )
        self._bundles.attempted(tenant, attempt)
        seconds = self._bundles.monotonic() - began_s
        self._observer.reload_ended(tenant, trigger.kind.value, outcome.value, seconds)
        _log(tenant, attempt, seconds)
        return attempt

    async def _put_in_force(
        self, tenant: str, before: Ruleset, ruleset: Ruleset, trigger: Trigger
    ) -> tuple[ReloadOutcome, tuple[BundleProblem, ...]]:
        now_ms = self._clock.now_ms()
        # Off the loop, since it reads every rule of both.
        changes = await asyncio.to_thread(changes_between, before, ruleset)
        event = bundle_event(
            tenant=tenant,
            ruleset=ruleset,
            now_ms=now_ms,
            trigger=trigger.kind.value,
            key_id=trigger.key_id,
            before=before.version,
            changes=changes,
        )
        try:
            committed = await self._ledger.commit(CommitUnit(event=event))
        except AuthzError as error:
            _ = self._start(self._loader.retire(ruleset))
            problem = BundleProblem(f"the swap could not be recorded: {error.message}", file="bundle.yaml")
            return ReloadOutcome.NOT_RECORDED, (problem,)
        assert isinstance(committed, Committed)  # noqa: S101 - nothing that could move is part of it
        # Nothing waits between the record and this: no decision of the new version precedes its record.
        self._bundles.swap(tenant, ruleset, now_ms)
        self._observer.bundle_in_force(tenant, ruleset, now_ms)
        _log_changes(tenant, changes)
        _ = self._start(self._loader.retire(before))
        return ReloadOutcome.LOADED, ()

    async def _record_rejection(
        self, tenant: str, before: Ruleset, trigger: Trigger, problems: tuple[BundleProblem, ...]
    ) -> None:
        event = bundle_rejected_event(
            tenant=tenant,
            version=before.version,
            trigger=trigger.kind.value,
            key_id=trigger.key_id,
            problems=problems,
            now_ms=self._clock.now_ms(),
        )
        try:
            await self._ledger.commit(CommitUnit(event=event))
        except AuthzError as error:
            # Nothing changed, so nothing rests on this record; the old bundle decides on.
            logger.error(
                "a rejected bundle could not be recorded", extra={"tenant": tenant, "why": error.message}
            )


def _log(tenant: str, attempt: Attempt, seconds: float) -> None:
    fields: dict[str, Any] = {
        "tenant": tenant,
        "trigger": attempt.trigger.kind.value,
        "outcome": attempt.outcome.value,
        "policy_version": attempt.version,
        "seconds": round(seconds, 3),
    }
    if not attempt.problems:
        logger.info("a bundle was reloaded", extra=fields)
        return
    fields["problem_count"] = len(attempt.problems)
    fields["problems"] = [str(problem)[:500] for problem in attempt.problems[:MAX_LOGGED_PROBLEMS]]
    logger.error("a bundle was not reloaded; the last good one decides on", extra=fields)


def _log_changes(tenant: str, changes: BundleChanges) -> None:
    for what, changed in (("rules", changes.rules), ("tools", changes.tools)):
        for kind, names in (
            ("added", changed.added),
            ("removed", changed.removed),
            ("changed", changed.changed),
        ):
            if names:
                logger.info(
                    f"{what} were {kind}",  # noqa: G004 - one of six fixed sentences
                    extra={"tenant": tenant, "count": len(names), "names": names[:MAX_LOGGED_NAMES]},
                )
    if changes.profiles.removed:
        logger.warning(
            "credential profiles left the bundle: their API keys can decide nothing now",
            extra={"tenant": tenant, "profiles": changes.profiles.removed},
        )
