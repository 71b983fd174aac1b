"""Prometheus metrics. Labels come from closed sets, so that no caller can grow them."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

from authz.core.ruleset import Ruleset
from authz.model.decision import Decision, Stage
from authz.service.bundles import BundlesInForce, BundleState

_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_RELOAD_BUCKETS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """All metrics of one process; implements `ports.Observer`, `RequestObserver` and `BundleObserver`."""

    def __init__(self, bundles: BundlesInForce) -> None:
        """The bundles that are in force at first, and whose state is told from then on."""
        self._bundles = bundles
        self._versions: dict[str, str] = {}
        self.registry = CollectorRegistry()
        self._decisions = Counter(
            "authz_decisions",
            "Decisions made and recorded.",
            ["tenant", "effect", "stage", "code"],
            registry=self.registry,
        )
        self._repeats = Counter(
            "authz_decisions_repeated",
            "Unchanged repeats of allowed calls.",
            ["tenant"],
            registry=self.registry,
        )
        self._limits = Counter(
            "authz_limits",
            "Reservations under the bundle's limits, checks of dry runs, and calls that a limit refused.",
            ["tenant", "limit", "outcome"],
            registry=self.registry,
        )
        self._refusals = Counter(
            "authz_requests_refused", "Requests refused before a decision.", ["code"], registry=self.registry
        )
        self._requests = Counter(
            "authz_http_requests", "HTTP requests answered.", ["path", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "authz_http_request_seconds",
            "From the first byte of a request to its answer.",
            ["path"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._capabilities = Counter(
            "authz_capabilities",
            "Capabilities issued, narrowed, revoked, and refused with the code of the refusal.",
            ["tenant", "event", "code"],
            registry=self.registry,
        )
        self._approvals = Counter(
            "authz_approval_answers",
            "Answers to requests for approvals by the type of their record, and refused ones by their code.",
            ["tenant", "outcome"],
            registry=self.registry,
        )
        self._approval_waits = Gauge(
            "authz_approval_waiters",
            "Long polls and streams that wait for approvals.",
            registry=self.registry,
        )
        self._notices = Counter(
            "authz_notices",
            "Attempts to deliver notices: delivered, failed, dead for good, or held back for their number.",
            ["tenant", "webhook", "outcome"],
            registry=self.registry,
        )
        self._revocations_age = Gauge(
            "authz_revocations_age_seconds",
            "How long ago the store was last asked what has been revoked.",
            registry=self.registry,
        )
        self._key_failures = Gauge(
            "authz_signing_key_look_failures",
            "How often the key file could not be read again; the keys in hand then stay in use.",
            registry=self.registry,
        )
        # A look-up by labels takes a lock and makes texts; the sets are closed, so each is made once.
        self._count_decision = cache(
            lambda *labels: self._decisions.labels(*(str(label) for label in labels))
        )
        self._count_request = cache(lambda path, status: self._requests.labels(path, str(status)))
        self._time_request = cache(self._seconds.labels)
        self._declare_bundle_metrics()
        for tenant in bundles.tenants:
            status = bundles.status(tenant)
            self.bundle_in_force(tenant, status.ruleset, status.since_ms)

    def decided(self, tenant: str, decision: Decision) -> None:
        """Count a decision."""
        self._count_decision(tenant, decision.effect, decision.stage, decision.code).inc()
        if decision.repeated:
            self._repeats.labels(tenant).inc()
        for taken in decision.reservations:
            outcome = "checked" if decision.lease is None else "reserved"
            self._limits.labels(tenant, taken.limit, outcome).inc()
        if decision.stage is Stage.RESERVATION:
            for limit in decision.matched:
                self._limits.labels(tenant, limit.rule, "reached").inc()

    def capability(self, tenant: str, event: str, code: str) -> None:
        """Count what became of a capability."""
        self._capabilities.labels(tenant, event, code).inc()

    def approval(self, tenant: str, outcome: str) -> None:
        """Count an answer to a request for an approval, or its end."""
        self._approvals.labels(tenant, outcome).inc()

    def watch_approval_waits(self, count: Callable[[], float]) -> None:
        """Tell from now on how many requests wait for an answer."""
        self._approval_waits.set_function(count)

    def notice(self, tenant: str, webhook: str, outcome: str) -> None:
        """Count how an attempt to deliver a notice ended."""
        self._notices.labels(tenant, webhook, outcome).inc()

    def watch_revocations(self, age_seconds: Callable[[], float]) -> None:
        """Tell from now on how old what is known of revocations is."""
        self._revocations_age.set_function(age_seconds)

    def watch_keys(self, failures: Callable[[], float]) -> None:
        """Tell from now on how often a look for new signing keys has failed."""
        self._key_failures.set_function(failures)

    def refused(self, code: str) -> None:
        """Count a refusal before a decision."""
        self._refusals.labels(code).inc()

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer and its time."""
        self._count_request(path, status).inc()
        self._time_request(path).observe(seconds)

    def _declare_bundle_metrics(self) -> None:
        def gauge(name: str, what: str, *labels: str) -> Gauge:
            return Gauge(f"authz_bundle_{name}", what, ["tenant", *labels], registry=self.registry)

        self._rules = gauge("rules", "Rules of the bundle in force.")
        self._tools = gauge("tools", "Tools of the bundle in force.")
        self._bundle = gauge("info", "The bundle in force.", "version")
        self._state = gauge("state", "1 for the state that the bundle is in.", "state")
        self._loaded_at = gauge("last_good_load_timestamp_seconds", "When the bundle in force was loaded.")
        self._unconfirmed = gauge(
            "unconfirmed_seconds", "How long ago its files were last seen to be the bundle in force."
        )
        self._reloads = Counter(
            "authz_bundle_reloads",
            "Attempts to load a bundle anew.",
            ["tenant", "trigger", "outcome"],
            registry=self.registry,
        )
        self._reload_seconds = Histogram(
            "authz_bundle_reload_seconds",
            "From the start of such an attempt to its end.",
            ["tenant"],
            buckets=_RELOAD_BUCKETS,
            registry=self.registry,
        )

    def bundle_in_force(self, tenant: str, ruleset: Ruleset, now_ms: int) -> None:
        """Say which bundle decides. Of earlier ones nothing is told any more."""
        version = self._versions.get(tenant)
        if version is not None:
            self._bundle.remove(tenant, version)
        self._versions[tenant] = ruleset.version
        self._bundle.labels(tenant, ruleset.version).set(1)
        self._rules.labels(tenant).set(len(ruleset.engine.policies))
        self._tools.labels(tenant).set(len(ruleset.tools))
        self._loaded_at.labels(tenant).set(now_ms / 1000)

    def reload_ended(self, tenant: str, trigger: str, outcome: str, seconds: float) -> None:
        """Count an attempt to load a bundle."""
        self._reloads.labels(tenant, trigger, outcome).inc()
        self._reload_seconds.labels(tenant).observe(seconds)

    def render(self, tenant: str) -> bytes:
        """The text exposition format, of one tenant and of what belongs to none: the process's requests."""
        state = self._bundles.state(tenant)
        for one in BundleState:
            self._state.labels(tenant, one.value).set(one is state)
        self._unconfirmed.labels(tenant).set(self._bundles.unconfirmed_seconds(tenant))
        return generate_latest(_OfTenant(self.registry, tenant))


class _OfTenant(CollectorRegistry):
    """A registry without what carries another tenant's label: how it fares is none of this one's business."""

    def __init__(self, registry: CollectorRegistry, tenant: str) -> None:
        super().__init__()
        self._all = registry
        self._tenant = tenant

    def collect(self) -> Iterator[Metric]:
        for metric in self._all.collect():
            own = [one for one in metric.samples if one.labels.get("tenant", self._tenant) == self._tenant]
            if own or not metric.samples:
                metric.samples = own
                yield metric
