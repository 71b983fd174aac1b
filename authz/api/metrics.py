"""Prometheus metrics. Labels come from closed sets, so that no caller can grow them."""

from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from authz.model.decision import Decision

_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """All metrics of one process; implements `ports.Observer` and `ports.RequestObserver`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._decisions = Counter(
            "authz_decisions",
            "Decisions made and recorded.",
            ["effect", "stage", "code"],
            registry=self.registry,
        )
        self._repeats = Counter(
            "authz_decisions_repeated", "Unchanged repeats of allowed calls.", registry=self.registry
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
        # A look-up by labels takes a lock and makes texts; the sets are closed, so each is made once.
        self._count_decision = cache(
            lambda *labels: self._decisions.labels(*(str(label) for label in labels))
        )
        self._count_request = cache(lambda path, status: self._requests.labels(path, str(status)))
        self._time_request = cache(self._seconds.labels)
        self._rules = Gauge(
            "authz_bundle_rules", "Rules of the bundle in force.", ["tenant"], registry=self.registry
        )
        self._bundle = Gauge(
            "authz_bundle_info", "The bundle in force.", ["tenant", "version"], registry=self.registry
        )

    def decided(self, decision: Decision) -> None:
        """Count a decision."""
        self._count_decision(decision.effect, decision.stage, decision.code).inc()
        if decision.repeated:
            self._repeats.inc()

    def refused(self, code: str) -> None:
        """Count a refusal before a decision."""
        self._refusals.labels(code).inc()

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer and its time."""
        self._count_request(path, status).inc()
        self._time_request(path).observe(seconds)

    def bundle_in_force(self, tenant: str, version: str, rules: int) -> None:
        """Say which bundle decides."""
        self._bundle.labels(tenant, version).set(1)
        self._rules.labels(tenant).set(rules)

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)
