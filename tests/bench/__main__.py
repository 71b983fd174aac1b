"""`make bench`: prints a table and, as the last line, one JSON document with everything measured."""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.bench.bundle import write_bundle
from tests.bench.canonical import measure_canonical
from tests.bench.capabilities import measure_capabilities
from tests.bench.capabilities_decided import measure_added, measure_held
from tests.bench.check import measure_check
from tests.bench.core import measure_core
from tests.bench.http import CONNECTIONS, Plan, measure_http
from tests.bench.ledger import measure_commits
from tests.bench.loading import measure_loading
from tests.bench.machine import machine_facts
from tests.bench.reload import measure_reload
from tests.bench.report import table
from tests.bench.server import Cores
from tests.bench.stores import measure_stores

RULES: Final = (10, 100, 1000, 10_000)
COMPARED: Final = 100
"""The number of rules that the cost at all others is a multiple of."""
FULL: Final = Plan(runs=5, requests=4000, warm_up=1000)
QUICK: Final = Plan(runs=3, requests=1000, warm_up=500)


def main() -> None:
    """Measure everything in one run."""
    args = _arguments()
    plan = QUICK if args.quick else FULL
    if args.runs is not None:
        plan = Plan(runs=args.runs, requests=plan.requests, warm_up=plan.warm_up)
    cores = Cores.choose()
    machine = machine_facts(cores)
    os.sched_setaffinity(0, {cores.load})
    with tempfile.TemporaryDirectory(prefix="authz-bench-") as name:
        results = {
            "machine": machine,
            "settings": {"runs": plan.runs, "requests": plan.requests, "warm_up": plan.warm_up},
            **_measure(Path(name), cores, plan),
        }
    machine["load_average_after"] = [round(load, 2) for load in os.getloadavg()]
    document = json.dumps(results, ensure_ascii=False)
    print(table(results))
    print()
    print(document)
    if args.json is not None:
        args.json.write_text(document + "\n", encoding="utf-8")


def _measure(folder: Path, cores: Cores, plan: Plan) -> dict[str, Any]:
    bundles = {rules: folder / f"bundle-{rules}" for rules in RULES}
    for rules, bundle in bundles.items():
        write_bundle(bundle, rules)
    http = measure_http(bundles, folder, cores, plan)
    core = {
        str(rules): _rounded(measure_core(bundle, runs=plan.runs, calls=plan.requests // 2))
        for rules, bundle in bundles.items()
    }
    base = core[str(COMPARED)]["decide.spread"]
    growth = {rules: round(found["decide.spread"] / base, 2) for rules, found in core.items()}
    index = {str(rules): measure_loading(bundle) for rules, bundle in bundles.items()}
    commit = {
        str(tasks): _rounded(
            measure_commits(bundles[COMPARED], folder, tasks=tasks, runs=plan.runs, rows=plan.requests)
        )
        for tasks in CONNECTIONS
    }
    calls = plan.requests // 4
    capabilities = {
        "format": measure_capabilities(runs=plan.runs, calls=calls // 2),
        "decision": measure_added(bundles[COMPARED], runs=plan.runs, calls=calls // 2),
        "http": measure_held(folder, cores, runs=plan.runs, requests=calls),
    }
    check = measure_check(folder / "check", runs=plan.runs)
    return {
        "http": http,
        "core": core,
        "growth": growth,
        "index": index,
        "commit": commit,
        "capabilities": capabilities,
        "reload": measure_reload(folder, cores),
        "stores": measure_stores(folder, cores),
        "check": check,
        "canonical": measure_canonical(runs=plan.runs, calls=plan.requests // 2),
    }


def _rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in found.items()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs and requests, for a first look")
    parser.add_argument("--runs", type=int, help=f"runs to take the median of (default {FULL.runs})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the JSON document there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
