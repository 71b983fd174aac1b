"""Asks a running service about every ground-truth call, and sums up what it said.

Under three bundles with the same reviewed descriptors: `sample` has the rules of `policies/` as they are,
which know nothing of these tools; `sample-with-reads` one rule more, that of `sample_rules/`; `tuned` has the
rules of `bundle/` instead. What was written for these tools was written for workspace and banking alone.

As a command it starts a service over each and prints the summary; with `--write` it becomes `expected.json`,
which `test_ground_truth.py` compares with. Read the difference before it is committed: each line that changed
is a call that is now decided otherwise. On standard error it prints the tasks that do not run unasked.

    python -m tests.agentdojo.replay --write
"""

import hashlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.agentdojo.catalogue import SUITES, advertised_digests
from tests.agentdojo.ground_truth import BUNDLE, TrueCall, to_lines, true_calls
from tests.support.server import RunningServer

EXPECTED: Final = Path(__file__).parent / "expected.json"
SAMPLE: Final = Path(__file__).parents[2] / "policies"
SAMPLE_RULE: Final = Path(__file__).parent / "sample_rules" / "imported_reads.cedar"
RULES: Final = ("sample", "sample-with-reads", "tuned")
SUBJECT: Final = {"agent": "assistant", "on_behalf_of": "emma"}
STAFF: Final = {"agent": "assistant", "on_behalf_of": "ada"}
"""In the sample bundle a user has to be known, or it is on nobody's staff."""
ORDER: Final = ("allow", "require_approval", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One call with the answer to it."""

    call: TrueCall
    answer: dict[str, Any]

    @property
    def rules(self) -> list[str]:
        return [rule["rule"] for rule in self.answer["matched"]]


class Catalogue:
    """The advertised digests that a client would have seen, by suite and tool."""

    def __init__(self) -> None:
        self._digests = {suite: advertised_digests(suite) for suite in SUITES}

    def digest(self, suite: str, tool: str) -> str:
        """The advertised digest of one tool."""
        return self._digests[suite][tool]


def bundle_of(rules: str, folder: Path) -> Path:
    """The bundle with those rules; that of the sample rules is put together in `folder`."""
    if rules == "tuned":
        return BUNDLE
    made = folder / "sample"
    # Its cases are about its own tools, and its schema is generated.
    shutil.copytree(SAMPLE, made, ignore=shutil.ignore_patterns("tests", "schema.cedarschema"))
    for file in (BUNDLE / "tools").glob("*.yaml"):
        shutil.copy(file, made / "tools" / f"agentdojo-{file.name}")
    if rules == "sample-with-reads":
        shutil.copy(SAMPLE_RULE, made / "rules")
    return made


def request_of(call: TrueCall, catalogue: Catalogue, subject: dict[str, str] = SUBJECT) -> dict[str, Any]:
    """The body of `POST /decide` for one call: a trace and a session for each task, a turn for each call."""
    return {
        "subject": {**subject, "session": call.trace},
        "tool": {
            "server": call.suite,
            "name": call.tool,
            "advertised_digest": catalogue.digest(call.suite, call.tool),
        },
        "arguments": call.arguments,
        "provenance": call.provenance,
        "context": {"trace_id": call.trace, "turn_id": str(call.index), "tool_call_id": call.id},
    }


def replay(
    client: httpx.Client, calls: list[TrueCall], catalogue: Catalogue, rules: str = "tuned"
) -> list[Answered]:
    """Ask about every call, in order. Raises `httpx.HTTPStatusError` where no decision was made."""
    answered = []
    for call in calls:
        subject = SUBJECT if rules == "tuned" else _staff(call)
        response = client.post("/decide", json=request_of(call, catalogue, subject))
        response.raise_for_status()
        answered.append(Answered(call=call, answer=response.json()))
    return answered


def _staff(call: TrueCall) -> dict[str, str]:
    """An agent for each task: the sample rules ask often, and of one agent not many requests may wait."""
    return {**STAFF, "agent": f"{STAFF['agent']}-{call.suite}-{call.task}"}


def summarize(answered: list[Answered]) -> dict[str, Any]:
    """How many of each effect and by which rules, and one line for each call. The same bytes every time."""
    effects = {
        suite: Counter(found.answer["effect"] for found in answered if found.call.suite == suite)
        for suite in SUITES
    }
    rules = {
        suite: Counter(
            f"{found.answer['effect']}: {rule}"
            for found in answered
            if found.call.suite == suite
            for rule in found.rules
        )
        for suite in SUITES
    }
    strictest: dict[str, str] = {}
    for found in answered:
        effect = found.answer["effect"]
        strictest[found.call.trace] = max(strictest.get(found.call.trace, effect), effect, key=ORDER.index)
    tasks = {
        suite: Counter(effect for trace, effect in strictest.items() if trace.startswith(f"{suite}/"))
        for suite in SUITES
    }
    failing = {
        effect: [trace for trace, found in strictest.items() if found == effect] for effect in ORDER[1:]
    }
    return {
        "effects": {suite: dict(sorted(counted.items())) for suite, counted in effects.items()},
        "tasks": {suite: dict(sorted(counted.items())) for suite, counted in tasks.items()},
        "tasks_that_do_not_run_unasked": failing,
        "rules": {suite: dict(sorted(counted.items())) for suite, counted in rules.items()},
        "calls": {
            f"{found.call.trace}/{found.call.index}": (
                f"{found.call.tool} {found.answer.get('authority', '-')} {found.answer['effect']}:"
                f" {' '.join(found.rules) or found.answer['code']}"
            )
            for found in answered
        },
    }


def format_summary(summary: dict[str, Any]) -> str:
    """The text of `expected.json`."""
    return json.dumps(summary, indent=2, ensure_ascii=False) + "\n"


def digest_of_calls(calls: list[TrueCall]) -> str:
    """The digest of all calls with their labels: what was asked, whatever was answered."""
    return hashlib.sha256(to_lines(calls).encode()).hexdigest()


def main(arguments: list[str]) -> None:
    """Replay against services of our own, and print or write the summary."""
    calls = true_calls()
    summary: dict[str, Any] = {"labelled_calls_sha256": digest_of_calls(calls)}
    for rules in RULES:
        with (
            tempfile.TemporaryDirectory() as folder,
            RunningServer(bundle=bundle_of(rules, Path(folder)), data_dir=Path(folder) / "data") as server,
            server.client() as client,
        ):
            summary[rules] = summarize(replay(client, calls, Catalogue(), rules))
        print(f"{rules}: {summary[rules]['tasks']}", file=sys.stderr)
        for effect, traces in summary[rules]["tasks_that_do_not_run_unasked"].items():
            print(f"{rules}, {effect}: {' '.join(traces) or '-'}", file=sys.stderr)
    if "--write" in arguments:
        EXPECTED.write_text(format_summary(summary), encoding="utf-8")
    else:
        print(format_summary(summary), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
