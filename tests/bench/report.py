"""The results as a table for people."""

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
    lines += ["", *_http(results["http"]), "", *_core(results["core"]), "", *_commit(results["commit"])]
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


def _commit(commit: dict[str, Any]) -> list[str]:
    lines = [f"{'Durable commit, a row':<34}{'CPU µs':>12}{'wall µs':>12}"]
    for tasks, found in commit.items():
        lines.append(f"{f'{tasks} task(s)':<34}{found['cpu_us']:>12.1f}{found['wall_us']:>12.1f}")
    return lines
