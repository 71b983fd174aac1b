"""Reloads bundles: check, record, swap. What cannot be loaded or recorded changes nothing."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field, fields
from typing import Any, Final

from authz.core.bundle_record import (
    BundleChanges,
    Changed,
    bundle_event,
    bundle_rejected_event,
    changes_between,
)
from authz.core.ruleset import Ruleset
from authz.errors import AuthzError, BundleError, BundleProblem
from authz.model.record import Committed
from authz.ports import BundleLoader, BundleObserver, Clock, CommitUnit, Ledger
from authz.service.background import quietly
from authz.service.bundles import Attempt, BundlesInForce, ReloadOutcome, Trigger

logger = logging.getLogger("authz.bundle")

MAX_LOGGED_PROBLEMS: Final = 50
"""How many problems one line of the log names. `GET /policies` has them all."""
MAX_LOGGED_NAMES: Final = 50
MAX_REJECTION_KEYS: Final = 1000
"""For how many keys the same rejection is recorded."""
SETTLE_SECONDS: Final = 1.0
"""Between attempts to put the log right after a commit of unknown outcome."""
UNCERTAIN: Final = "uncertain_commit"
"""The `trigger` of the record that does so: nobody asked for it."""
_OUR_FAULT: Final = BundleProblem(
    "loading failed; the service's log has the trace", file="bundle.yaml", code="bundle.trial"
)

_Ended = tuple[ReloadOutcome, tuple[BundleProblem, ...]]


@dataclass(slots=True, kw_only=True)
class _Rejection:
    """The last rejection of a tenant's files, and the keys for which it is on record."""

    problems: tuple[str, ...]
    keys: set[str | None] = field(default_factory=set)
    """`None` is no key: the watch, or a signal."""


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
        self._rejections: dict[str, _Rejection] = {}
        self._uncertain: dict[str, str] = {}
        """The version that may stand in a tenant's log as in force, though it never decided."""
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
        try:
            outcome, problems = await self._try(tenant, before, trigger)
        except Exception:
            # A fault of ours must not end the watch, nor look as if the files were in force: whatever it
            # is, the attempt has ended and is told.
            logger.exception("a bundle could not be loaded", extra={"tenant": tenant})
            outcome, problems = ReloadOutcome.REJECTED, (_OUR_FAULT,)
        if self._bundles.status(tenant).ruleset is not before:
            outcome, problems = ReloadOutcome.LOADED, ()
        if outcome in (ReloadOutcome.LOADED, ReloadOutcome.UNCHANGED):
            self._rejections.pop(tenant, None)
            # What the files were: `before` where they were unchanged, and else what came into force just now.
            read = before if outcome is ReloadOutcome.UNCHANGED else self._bundles.status(tenant).ruleset
            self._bundles.confirm(tenant, began_s, read.version)
        return self._end(tenant, trigger, outcome, problems, self._bundles.monotonic() - began_s)

    def not_tried(self, tenant: str, trigger: Trigger, problem: BundleProblem) -> Attempt:
        """Remember that the files could not even be looked at: the bundle in force is degraded."""
        return self._end(tenant, trigger, ReloadOutcome.REJECTED, (problem,), 0.0)

    def _end(
        self,
        tenant: str,
        trigger: Trigger,
        outcome: ReloadOutcome,
        problems: tuple[BundleProblem, ...],
        seconds: float,
    ) -> Attempt:
        attempt = Attempt(
            at_ms=self._clock.now_ms(),
            trigger=trigger,
            outcome=outcome,
            version=self._bundles.status(tenant).ruleset.version,
            problems=problems,
        )
        self._bundles.attempted(tenant, attempt)
        self._observer.reload_ended(tenant, trigger.kind.value, outcome.value, seconds)
        _log(tenant, attempt, seconds)
        return attempt

    async def _try(self, tenant: str, before: Ruleset, trigger: Trigger) -> _Ended:
        """Load, record, swap. What a rejection was for is recorded before it is told."""
        problems: tuple[BundleProblem, ...]
        try:
            ruleset = await self._loader.load(tenant, before)
        except BundleError as error:
            problems = error.problems
        except Exception:
            logger.exception("a bundle could not be loaded", extra={"tenant": tenant})
            problems = (_OUR_FAULT,)
        else:
            if ruleset is None:
                return ReloadOutcome.UNCHANGED, ()
            return await self._put_in_force(tenant, before, ruleset, trigger)
        await self._record_rejection(tenant, before, trigger, problems)
        return ReloadOutcome.REJECTED, problems

    async def _put_in_force(self, tenant: str, before: Ruleset, ruleset: Ruleset, trigger: Trigger) -> _Ended:
        now_ms = self._clock.now_ms()
        try:
            # Off the loop, since it reads every rule of both.
            changes = await asyncio.to_thread(_changes_quietly, before, ruleset)
            event = bundle_event(
                tenant=tenant,
                ruleset=ruleset,
                now_ms=now_ms,
                trigger=trigger.kind.value,
                key_id=trigger.key_id,
                before=before.version,
                changes=changes,
            )
            committed = await self._ledger.commit(CommitUnit(event=event))
            assert isinstance(committed, Committed)  # noqa: S101 - nothing that could move is part of it
        except Exception as error:
            _ = self._start(self._loader.retire(ruleset))
            self._doubt(tenant, ruleset.version)
            if not isinstance(error, AuthzError):
                logger.exception("a swap could not be recorded", extra={"tenant": tenant})
            why = error.message if isinstance(error, AuthzError) else "the service's log has the trace"
            problem = BundleProblem(f"the swap could not be recorded: {why}", file="bundle.yaml")
            return ReloadOutcome.NOT_RECORDED, (problem,)
        # Nothing waits between the record and this: no decision of the new version precedes its record.
        self._bundles.swap(tenant, ruleset, now_ms)
        self._uncertain.pop(tenant, None)
        _ = self._start(self._loader.retire(before))
        self._observer.bundle_in_force(tenant, ruleset, now_ms)
        _log_changes(tenant, changes)
        return ReloadOutcome.LOADED, ()

    def _doubt(self, tenant: str, version: str) -> None:
        """The commit failed, but its record may be durable, or become so: have the log say what decides."""
        settling = tenant in self._uncertain
        self._uncertain[tenant] = version
        if not settling:
            _ = self._start(self._settle(tenant))

    async def _settle(self, tenant: str) -> None:
        """Record what is in force as soon as the store answers, unless a swap was recorded before."""
        while tenant in self._uncertain:
            await asyncio.sleep(SETTLE_SECONDS)
            async with self._turns[tenant]:
                uncertain = self._uncertain.get(tenant)
                if uncertain is None:
                    return
                event = bundle_event(
                    tenant=tenant,
                    ruleset=self._bundles.status(tenant).ruleset,
                    now_ms=self._clock.now_ms(),
                    trigger=UNCERTAIN,
                    before=uncertain,
                )
                # Not looked up before: the other record may still be on its way, and then comes first.
                try:
                    await self._ledger.commit(CommitUnit(event=event))
                except AuthzError:
                    continue
                except Exception:
                    logger.exception("what is in force could not be recorded", extra={"tenant": tenant})
                    continue
                self._uncertain.pop(tenant, None)

    async def _record_rejection(
        self, tenant: str, before: Ruleset, trigger: Trigger, problems: tuple[BundleProblem, ...]
    ) -> None:
        """Record a rejection, once for each key that asked: who asks again adds nothing to the log.

        How often, the metrics count.
        """
        found = tuple(str(problem) for problem in problems)
        known = self._rejections.get(tenant)
        if known is None or known.problems != found:
            known = self._rejections[tenant] = _Rejection(problems=found)
        if trigger.key_id in known.keys or len(known.keys) >= MAX_REJECTION_KEYS:
            return
        try:
            event = bundle_rejected_event(
                tenant=tenant,
                version=before.version,
                trigger=trigger.kind.value,
                key_id=trigger.key_id,
                problems=problems,
                now_ms=self._clock.now_ms(),
            )
            await self._ledger.commit(CommitUnit(event=event))
        except Exception as error:
            # Nothing changed, so nothing rests on this record; the old bundle decides on.
            logger.error(
                "a rejected bundle could not be recorded",
                extra={"tenant": tenant, "why": str(error)},
                exc_info=None if isinstance(error, AuthzError) else error,
            )
        else:
            known.keys.add(trigger.key_id)


def _changes_quietly(before: Ruleset, ruleset: Ruleset) -> BundleChanges:
    with quietly() as step:
        return changes_between(before, ruleset, step)


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
    for what in fields(changes):
        changed: Changed = getattr(changes, what.name)
        for kind, names in (
            ("added", changed.added),
            ("removed", changed.removed),
            ("changed", changed.changed),
        ):
            if names:
                logger.info(
                    f"{what.name} were {kind}",  # noqa: G004 - one of few fixed sentences
                    extra={"tenant": tenant, "count": len(names), "names": names[:MAX_LOGGED_NAMES]},
                )
    if changes.profiles.removed:
        logger.warning(
            "credential profiles left the bundle: their API keys can decide nothing now",
            extra={"tenant": tenant, "profiles": changes.profiles.removed[:MAX_LOGGED_NAMES]},
        )
    if changes.limits.removed:
        logger.warning(
            "limits left the bundle: what they bounded is without bound now",
            extra={"tenant": tenant, "limits": changes.limits.removed[:MAX_LOGGED_NAMES]},
        )
