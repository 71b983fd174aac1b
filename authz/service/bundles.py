"""The bundle in force for each tenant: what decides, since when, and whether it is what its files say.

A ruleset is immutable, so a request that has read one finishes on it, whatever comes into force
meanwhile. Staleness is measured from the moment at which the files were last seen to be what is in
force: whoever stops looking makes the bundle stale as surely as a file that changed.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from authz.core.ruleset import Ruleset
from authz.errors import BundleProblem, BundleStale, NotFound
from authz.model.caller import Caller


class TriggerKind(StrEnum):
    """What made the service look at a bundle's files."""

    START = "start"
    WATCH = "watch"
    """The files changed."""
    SIGNAL = "signal"
    API = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What asked for a reload. `key_id` is the caller's, where it was one."""

    kind: TriggerKind
    key_id: str | None = None


class ReloadOutcome(StrEnum):
    """How an attempt to load a bundle ended."""

    LOADED = "loaded"
    """The files were good, the swap is on record, and they decide."""
    UNCHANGED = "unchanged"
    """The files are the bundle in force."""
    REJECTED = "rejected"
    """The files are no bundle. The one in force stays."""
    NOT_RECORDED = "not_recorded"
    """The files were good, but the record of the swap could not be written. The one in force stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt to load a bundle, ended."""

    at_ms: int
    """When it ended."""
    trigger: Trigger
    outcome: ReloadOutcome
    version: str
    """The version in force after it."""
    problems: tuple[BundleProblem, ...] = ()


class BundleState(StrEnum):
    """How what is in force relates to the files."""

    READY = "ready"
    DEGRADED = "degraded"
    """The last attempt to load the files failed: an older bundle decides."""
    STALE = "stale"
    """For longer than the bound, the files were not seen to be what is in force: nothing is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A ruleset, when it came into force, and what has been heard of its files since."""

    ruleset: Ruleset
    since_ms: int
    confirmed_s: float
    """When the files were last seen to be this ruleset, by the monotonic clock."""
    last_attempt: Attempt | None = None
    watching: str = "off"
    """How changes of the files are noticed: `events`, `polling`, or `off`."""
    watch_fault: str = ""
    """Why the files are polled only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """An authenticated caller, with the one ruleset that its request is answered by."""

    caller: Caller
    ruleset: Ruleset


class BundlesInForce:
    """`ports.Bundles`. Every change replaces one value, so a reader sees the old one or the new one."""

    def __init__(
        self,
        rulesets: Mapping[str, Ruleset],
        *,
        now_ms: int = 0,
        max_staleness_seconds: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`rulesets` by tenant were just read; without `max_staleness_seconds` age does not matter."""
        self.monotonic = monotonic
        self.max_staleness_seconds = max_staleness_seconds
        self._by_tenant = {
            tenant: InForce(ruleset=ruleset, since_ms=now_ms, confirmed_s=monotonic())
            for tenant, ruleset in rulesets.items()
        }

    @property
    def tenants(self) -> tuple[str, ...]:
        """Every tenant that has a bundle. The set does not change while the process runs."""
        return tuple(self._by_tenant)

    def in_force(self, tenant: str) -> Ruleset | None:
        """See `ports.Bundles`."""
        found = self._by_tenant.get(tenant)
        return found.ruleset if found is not None else None

    def check_fresh(self, tenant: str) -> None:
        """See `ports.Bundles`."""
        if self.max_staleness_seconds is not None and self._is_stale(self.status(tenant)):
            raise BundleStale(
                "the policy bundle in force may be out of date, so nothing is decided; "
                "its operators see why under `GET /policies`"
            )

    def status(self, tenant: str) -> InForce:
        """Everything that is known of a tenant's bundle. Raises `NotFound` for an unknown tenant."""
        found = self._by_tenant.get(tenant)
        if found is None:
            raise NotFound("this tenant has no policy bundle", code="bundle.absent")
        return found

    def state(self, tenant: str) -> BundleState:
        """How what is in force relates to the files."""
        status = self.status(tenant)
        if self._is_stale(status):
            return BundleState.STALE
        failed = (ReloadOutcome.REJECTED, ReloadOutcome.NOT_RECORDED)
        if status.last_attempt is not None and status.last_attempt.outcome in failed:
            return BundleState.DEGRADED
        return BundleState.READY

    def unconfirmed_seconds(self, tenant: str) -> float:
        """How long ago the files were last seen to be what is in force."""
        return max(0.0, self.monotonic() - self.status(tenant).confirmed_s)

    def swap(self, tenant: str, ruleset: Ruleset, now_ms: int) -> None:
        """Put another ruleset in force. Its record is durable already."""
        self._replace(tenant, ruleset=ruleset, since_ms=now_ms)

    def confirm(self, tenant: str, seen_s: float, version: str) -> bool:
        """At `seen_s`, by the monotonic clock, the files were the bundle of this version.

        That confirms what is in force only if it is that bundle; returns whether it is.
        """
        status = self.status(tenant)
        if status.ruleset.version != version:
            return False
        self._replace(tenant, confirmed_s=max(seen_s, status.confirmed_s))
        return True

    def attempted(self, tenant: str, attempt: Attempt) -> None:
        """Remember the last attempt to load."""
        self._replace(tenant, last_attempt=attempt)

    def watched(self, tenant: str, how: str, fault: str = "") -> None:
        """Remember how changes of the files are noticed."""
        self._replace(tenant, watching=how, watch_fault=fault)

    def _is_stale(self, status: InForce) -> bool:
        bound = self.max_staleness_seconds
        return bound is not None and self.monotonic() - status.confirmed_s > bound

    def _replace(self, tenant: str, **changes: object) -> None:
        self._by_tenant[tenant] = replace(self.status(tenant), **changes)  # type: ignore[arg-type]
