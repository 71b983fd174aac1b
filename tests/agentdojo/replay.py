"""Asks a running service about every ground-truth call, and sums up what it said.

As a command it starts a service over the committed bundle and prints the summary; with `--write` it becomes
`expected.json`, which `test_ground_truth.py` compares with. Read the difference before it is committed: each
line that changed is a call that is now decided otherwise.

    python -m tests.agentdojo.replay --write
"""

import hashlib
import json
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
SUBJECT: Final = {"agent": "assistant", "on_behalf_of": "emma"}


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


def request_of(call: TrueCall, catalogue: Catalogue) -> dict[str, Any]:
    """The body of `POST /decide` for one call: a trace and a session for each task, a turn for each call."""
    return {
        "subject": {**SUBJECT, "session": call.trace},
        "tool": {
            "server": call.suite,
            "name": call.tool,
            "advertised_digest": catalogue.digest(call.suite, call.tool),
        },
        "arguments": call.arguments,
        "provenance": call.provenance,
        "context": {"trace_id": call.trace, "turn_id": str(call.index), "tool_call_id": call.id},
    }


def replay(client: httpx.Client, calls: list[TrueCall], catalogue: Catalogue) -> list[Answered]:
    """Ask about every call, in order. Raises `httpx.HTTPStatusError` where no decision was made."""
    answered = []
    for call in calls:
        response = client.post("/decide", json=request_of(call, catalogue))
        response.raise_for_status()
        answered.append(Answered(call=call, answer=response.json()))
    return answered


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
    order = ("allow", "require_approval", "deny")
    for found in answered:
        effect = found.answer["effect"]
        strictest[found.call.trace] = max(strictest.get(found.call.trace, effect), effect, key=order.index)
    tasks = {
        suite: Counter(effect for trace, effect in strictest.items() if trace.startswith(f"{suite}/"))
        for suite in SUITES
    }
    lines = to_lines([found.call for found in answered])
    return {
        "labelled_calls_sha256": hashlib.sha256(lines.encode()).hexdigest(),
        "effects": {suite: dict(sorted(counted.items())) for suite, counted in effects.items()},
        "tasks": {suite: dict(sorted(counted.items())) for suite, counted in tasks.items()},
        "rules": {suite: dict(sorted(counted.items())) for suite, counted in rules.items()},
        "calls": {
            f"{found.call.trace}/{found.call.index}": (
                f"{found.call.tool} {found.answer.get('authority', '-')} {found.answer['effect']}:"
                f" {' '.join(found.rules)}"
            )
            for found in answered
        },
    }


def format_summary(summary: dict[str, Any]) -> str:
    """The text of `expected.json`."""
    return json.dumps(summary, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    """Replay against a service of our own, and print or write the summary."""
    calls = true_calls()
    with (
        tempfile.TemporaryDirectory() as folder,
        RunningServer(bundle=BUNDLE, data_dir=Path(folder) / "data") as server,
        server.client() as client,
    ):
        summary = summarize(replay(client, calls, Catalogue()))
    if "--write" in arguments:
        EXPECTED.write_text(format_summary(summary), encoding="utf-8")
    else:
        print(format_summary(summary), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
