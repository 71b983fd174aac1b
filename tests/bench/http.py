"""Whole requests: what one costs the server, and what its client sees. All servers take turns."""

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.load import Load, send_all
from tests.bench.server import Cores, Server, serving_authz, serving_baseline

CONNECTIONS: Final = (1, 32)
EMPTY: Final = "empty"
SAMPLE_SECONDS: Final = 4.0
"""A server that is much slower than it should be gets fewer requests, so that the bench still ends."""
_SLICE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    runs: int
    requests: int
    """Of each run, at each number of connections, at most."""
    warm_up: int

    def __post_init__(self) -> None:
        if min(self.runs, self.requests, self.warm_up) < 1:
            raise ValueError("a plan measures at least one run of one request, after a warm-up")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    cpu_us: float
    load: Load


def measure_http(bundles: dict[int, Path], data_dir: Path, cores: Cores, plan: Plan) -> dict[str, Any]:
    """Every server at every number of connections: medians over the runs, and CPU as a multiple of `empty`.

    The servers run side by side and take turns within each run, so that whatever else the machine does
    falls on all of them alike.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(serving_baseline(name, cores)) for name in (EMPTY, "fastapi")]
        for rules, bundle in bundles.items():
            name = f"authz-{rules}-rules"
            servers.append(stack.enter_context(serving_authz(name, bundle, data_dir / name, cores)))
        samples: dict[tuple[str, int], list[_Sample]] = {}
        counts = {
            (server.name, connections): _warm_up(server, plan, connections)
            for connections in CONNECTIONS
            for server in servers
        }
        rss = {server.name: server.rss_bytes() for server in servers}
        for _ in range(plan.runs):
            for connections in CONNECTIONS:
                for server in servers:
                    sample = _send(server, counts[server.name, connections], connections)
                    samples.setdefault((server.name, connections), []).append(sample)
        return {
            server.name: {
                "rss_mb_warm": round(rss[server.name] / 2**20, 1),
                "rss_mb_end": round(server.rss_bytes() / 2**20, 1),
                "connections": {
                    str(connections): _summary(samples[server.name, connections], samples[EMPTY, connections])
                    for connections in CONNECTIONS
                },
            }
            for server in servers
        }


def _warm_up(server: Server, plan: Plan, connections: int) -> int:
    """Warm the server up; how many requests a sample of it then takes."""
    sent, seconds = 0, 0.0
    while sent < plan.warm_up and seconds < SAMPLE_SECONDS:
        load = _send(server, min(_SLICE, plan.warm_up), connections).load
        sent, seconds = sent + load.requests, seconds + load.seconds
    return min(plan.requests, max(_SLICE, int(sent / seconds * SAMPLE_SECONDS)))


def _send(server: Server, count: int, connections: int) -> _Sample:
    requests = server.requests.take(count)
    before = server.cpu_seconds()
    load = send_all(server.port, requests, connections=connections, expected=server.expected)
    cpu_us = (server.cpu_seconds() - before) / count * 1e6
    return _Sample(cpu_us=cpu_us, load=load)


def _summary(samples: Sequence[_Sample], empty: Sequence[_Sample]) -> dict[str, float]:
    ratios = [sample.cpu_us / base.cpu_us for sample, base in zip(samples, empty, strict=True)]
    cpu_us = [sample.cpu_us for sample in samples]
    return {
        "cpu_us": round(statistics.median(cpu_us), 1),
        "cpu_us_min": round(min(cpu_us), 1),
        "cpu_us_max": round(max(cpu_us), 1),
        "times_empty": round(statistics.median(ratios), 2),
        "requests": samples[0].load.requests,
        "per_second": round(statistics.median(sample.load.per_second for sample in samples)),
        "p50_us": round(statistics.median(sample.load.percentile_us(50) for sample in samples)),
        "p99_us": round(statistics.median(sample.load.percentile_us(99) for sample in samples)),
    }
