"""The results as a table for people."""

from collections.abc import Iterable
from typing import Any


def table(results: dict[str, Any]) -> str:
    """What was measured, one line each; all costs are CPU µs, medians of the runs."""
    machine, settings = results["machine"], results["settings"]
    processor = machine["processor"] or machine["system"]
    load, runs, requests = machine["load_average_before"][0], settings["runs"], settings["requests"]
    lines = [
        f"Python {machine['python']}, {processor}, {machine['cores']} core(s), load average {load}",
        f"server on core {machine['server_core']}, load generator on core {machine['load_core']}",
        f"medians of {runs} runs; up to {requests} requests in each, at each number of connections",
    ]
    if machine["server_core"] == machine["load_core"]:
        lines.append("ONE CORE ONLY: server and load take turns, so rates and latencies say little")
    lines += ["", *_http(results["http"]), "", *_core(results["core"]), _growth(results["growth"])]
    lines += ["", *_index(results["index"]), "", *_commit(results["commit"])]
    lines += ["", *_capabilities(results["capabilities"]), "", *_reload(results["reload"])]
    lines += ["", *_stores(results["stores"])]
    check = results["check"]
    lines += ["", f"authz check, {check['rules']} rules, {check['tools']} tools: {check['check_seconds']} s"]
    lines += ["", f"{'Canonical form, CPU µs':<34}{'new':>12}{'seen':>12}"]
    for kind, found in results["canonical"].items():
        lines.append(f"{kind:<34}{found['new']:>12.1f}{found['seen']:>12.1f}")
    return "\n".join(lines)


def _http(http: dict[str, Any]) -> list[str]:
    columns = f"{'conns':>6}{'CPU µs':>9}{'min–max':>16}{'× empty':>9}{'req/s':>9}"
    lines = [f"{'HTTP':<18}{columns}{'p50 ms':>9}{'p99 ms':>9}{'RSS MB':>9}"]
    for name, server in http.items():
        for connections, found in server["connections"].items():
            spread = f"{found['cpu_us_min']:.0f}–{found['cpu_us_max']:.0f}"
            lines.append(
                f"{name:<18}{connections:>6}{found['cpu_us']:>9.1f}{spread:>16}{found['times_empty']:>9.2f}"
                f"{found['per_second']:>9,}{found['p50_us'] / 1000:>9.2f}{found['p99_us'] / 1000:>9.2f}"
                f"{server['rss_mb_end']:>9.1f}"
            )
    return lines


def _core(core: dict[str, Any]) -> list[str]:
    header = "".join(f"{f'{rules} rules':>12}" for rules in core)
    lines = [f"{'In process, CPU µs a call':<34}{header}"]
    for name in next(iter(core.values())):
        lines.append(f"{name:<34}" + "".join(f"{found[name]:>12.1f}" for found in core.values()))
    return lines


def _growth(growth: dict[str, float]) -> str:
    return f"{'decide.spread, × that of 100 rules':<34}" + "".join(
        f"{found:>12.2f}" for found in growth.values()
    )


def _index(index: dict[str, Any]) -> list[str]:
    header = "".join(f"{f'{rules} rules':>12}" for rules in index)
    lines = [f"{'A process of its own':<34}{header}"]
    rows = {
        "load, CPU s": "load_s",
        "load again, rules validated, CPU s": "reload_s",
        "warm its successor, CPU s": "warm_s",
        "RSS MB before loading": "rss_mb_empty",
        "RSS MB loaded": "rss_mb_loaded",
        "RSS MB after 1,024 calls": "rss_mb_warm",
        "RSS MB after 2,000 strangers": "rss_mb_strangers",
        "a stranger's call, CPU µs p50": "stranger_us_p50",
        "a stranger's call, CPU µs p99": "stranger_us_p99",
    }
    for label, name in rows.items():
        lines.append(f"{label:<34}" + "".join(f"{found[name]:>12,.4g}" for found in index.values()))
    for label, name in (("known callers", "cache_warm"), ("and strangers", "cache_strangers")):
        for kind in ("slice", "entity"):
            shares = [_share(found[name], kind) for found in index.values()]
            lines.append(f"{f'{kind} hits, {label}':<34}" + "".join(f"{share:>12}" for share in shares))
        held = [found[name]["policies_held"] for found in index.values()]
        lines.append(f"{f'policies in sets, {label}':<34}" + "".join(f"{count:>12,}" for count in held))
    return lines


def _share(stats: dict[str, int], kind: str) -> str:
    hits, misses = stats[f"{kind}_hits"], stats[f"{kind}_misses"]
    return f"{100 * hits / (hits + misses):.1f} %"


def _commit(commit: dict[str, Any]) -> list[str]:
    lines = [f"{'Durable commit, a row':<34}{'CPU µs':>12}{'wall µs':>12}"]
    for tasks, found in commit.items():
        lines.append(f"{f'{tasks} task(s)':<34}{found['cpu_us']:>12.1f}{found['wall_us']:>12.1f}")
    return lines


def _capabilities(found: dict[str, Any]) -> list[str]:
    lines = [f"{'Capabilities':<34}{'CPU µs':>12}"]
    lines += [f"{name:<34}{cost:>12.1f}" for name, cost in found["format"].items()]
    links = found["decision"]
    lines.append(
        f"{'Decision, chain remembered, CPU µs':<34}" + _cells(f"{count} link(s)" for count in links)
    )
    for label, name in (
        ("without a capability", "without"),
        ("with chain and proof", "with"),
        ("added, median of the runs", "added"),
        ("stage 6 alone", "stage_6"),
        ("of which the proof", "proof"),
    ):
        lines.append(f"{label:<34}" + _cells(f"{one[name]:.1f}" for one in links.values()))
    lines.append(f"{'Over HTTP, on SQLite, 1 connection':<34}{'CPU µs':>12}")
    return lines + [f"{name:<34}{cost:>12.1f}" for name, cost in found["http"].items()]


def _reload(reload: dict[str, Any]) -> list[str]:
    """Latencies of requests at a steady rate, without and during a reload."""
    lines = [f"{'Reload, ms':<34}" + _cells(("p50", "p99", "max", "took s"))]
    for rules, places in reload.items():
        for place, found in places.items():
            if place == "lag":
                continue
            for what in ("alone", "reload", "more"):
                cells = [f"{found[what][name]:.2f}" for name in ("p50", "p99", "max")]
                cells += [f"{found['seconds']:.1f}"] if what == "reload" else []
                lines.append(f"{f'{rules}, {place[6:]}, {what}':<34}" + _cells(cells))
        for stage, lags in places["lag"]["stages"].items():
            lines.append(f"{rules}, the loop during {stage}: {lags}")
    return lines


def _cells(texts: Iterable[str]) -> str:
    return "".join(f"{text:>12}" for text in texts)


def _stores(stores: dict[str, Any]) -> list[str]:
    lines = [f"{'Store':<20}{'batch':>8}{'p50 ms':>10}{'CPU µs a row':>14}"]
    for name, batches in stores["commit"].items():
        for size, found in batches.items():
            lines.append(f"{name:<20}{size:>8}{found['p50_ms']:>10.2f}{found['cpu_us']:>14.1f}")
    lines.append(f"{'Decide over HTTP':<20}{'conns':>8}{'p50 ms':>10}{'CPU µs':>14}{'req/s':>9}")
    for name, connections in stores["http"].items():
        for count, found in connections.items():
            lines.append(
                f"{name:<20}{count:>8}{found['p50_us'] / 1000:>10.2f}{found['cpu_us']:>14.1f}"
                f"{found['per_second']:>9,}"
            )
    return lines
