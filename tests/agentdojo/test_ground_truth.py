"""Every true call of the AgentDojo suites goes through the real service, over HTTP, and is answered whole."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.agentdojo.catalogue import TUNED
from tests.agentdojo.ground_truth import BUNDLE, TrueCall
from tests.agentdojo.replay import (
    EXPECTED,
    RULES,
    Answered,
    Catalogue,
    bundle_of,
    digest_of_calls,
    format_summary,
    replay,
    summarize,
)
from tests.support.server import RunningServer

MAX_RECORDS: Final = 500
# What would mean that a true call was not understood: it must reach policy, and policy must answer.
UNDERSTOOD_CODES: Final = frozenset({"policy.permit", "approval.required", "policy.no_match"})
# A tool that no rule could ever allow is hidden, and then nothing of the call is looked at.
HIDDEN: Final = ("tool", "tool.unknown")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=RULES)
def rules(request: pytest.FixtureRequest) -> str:
    """Under which rules the calls are decided."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def client(rules: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service with those rules."""
    folder = tmp_path_factory.mktemp(rules)
    with (
        RunningServer(bundle=bundle_of(rules, folder), data_dir=folder / "data") as server,
        server.client() as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def answered(rules: str, client: httpx.Client, calls: list[TrueCall], catalogue: Catalogue) -> list[Answered]:
    """The answer to every call, from a service that has seen nothing else."""
    return replay(client, calls, catalogue, rules)


def test_all_suites_are_there_whole(calls: list[TrueCall]) -> None:
    tasks = Counter(suite for suite, _ in {(call.suite, call.task) for call in calls})
    assert tasks == {"workspace": 40, "banking": 16, "slack": 21, "travel": 20}
    assert len(calls) == 339


def test_every_call_is_understood_and_decided(rules: str, answered: list[Answered]) -> None:
    for found in answered:
        answer = found.answer
        where = f"{found.call.trace}/{found.call.index}: {answer}"
        if (answer["stage"], answer["code"]) == HIDDEN:
            assert answer["effect"] == "deny", where
            assert found.call.suite not in TUNED or rules != "tuned", where
            continue
        assert answer["stage"] in ("policy", "approval"), where
        assert answer["code"] in UNDERSTOOD_CODES, where
        assert (answer["code"] == "policy.no_match") == (not found.rules), where
        # Found, validated and canonicalized: the tool's digest, the arguments and the accesses are back.
        assert answer["descriptor_digest"].startswith("sha256:"), where
        assert answer["fingerprint"].startswith("sha256:"), where
        assert found.call.arguments.keys() <= answer["arguments"].keys(), where
        assert answer["accesses"], where
        assert all(not access["resource"].startswith("Opaque::") for access in answer["accesses"]), where


def test_the_suites_that_rules_were_written_for_are_not_denied(rules: str, answered: list[Answered]) -> None:
    if rules == "sample":
        # Its rules name other tools: what is new is asked for above A0, and denied at A0.
        assert {found.answer["effect"] for found in answered} == {"require_approval", "deny"}
        return
    effects = {found.answer["effect"] for found in answered if found.call.suite in TUNED}
    assert effects == {"allow", "require_approval"}


def test_without_a_rule_of_its_own_no_change_runs_unasked(rules: str, answered: list[Answered]) -> None:
    if rules != "tuned":
        for found in answered:
            assert found.answer["effect"] != "allow" or found.answer["authority"] == "A0", found


def test_every_call_leaves_exactly_one_record_that_agrees(
    client: httpx.Client, answered: list[Answered]
) -> None:
    by_trace: dict[str, list[Answered]] = {}
    for found in answered:
        by_trace.setdefault(found.call.trace, []).append(found)
    for trace, of_trace in by_trace.items():
        records = _records(client, trace)
        assert len(records) == len(of_trace), trace
        by_turn = {record["turn_id"]: record for record in records}
        for found in of_trace:
            record = by_turn[str(found.call.index)]
            assert record["type"] == "decision.made"
            assert record["decision_id"] == found.answer["decision_id"]
            assert record["effect"] == found.answer["effect"]
            assert [rule["rule"] for rule in record["matched"]] == found.rules
            # A password is in one of the calls: what is a digest over it is keyed in the record.
            if "fingerprint" in found.answer and not record["provenance"]["secret"]:
                assert record["fingerprint"] == found.answer["fingerprint"]
            assert record["tool_call_id"] == found.call.id


def test_a_password_is_in_no_record(client: httpx.Client, answered: list[Answered]) -> None:
    changing = next(found for found in answered if found.call.tool == "update_password")
    assert changing.call.arguments["password"] not in json.dumps(_records(client, changing.call.trace))


def test_effects_and_rules_are_the_expected_ones(
    rules: str, calls: list[TrueCall], answered: list[Answered]
) -> None:
    # A line that changed is a call that is now decided otherwise. If it should be:
    # python -m tests.agentdojo.replay --write
    summary = summarize(answered)
    print(format_summary({key: value for key, value in summary.items() if key != "calls"}))
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    assert digest_of_calls(calls) == expected["labelled_calls_sha256"]
    assert summary == expected[rules]


def test_the_log_is_accepted_afterwards(calls: list[TrueCall], catalogue: Catalogue, tmp_path: Path) -> None:
    # A service of its own, so that the log is complete: stopped in order, and verified offline.
    with RunningServer(bundle=BUNDLE, data_dir=tmp_path / "data") as server, server.client() as client:
        replay(client, calls, catalogue)
    verified = subprocess.run(
        [sys.executable, "-m", "authz", "log", "verify", "--data-dir", str(server.data_dir)],
        env={name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "whole and in order" in verified.stdout
    count = int(verified.stdout.split()[0])
    assert count >= len(calls)


def _records(client: httpx.Client, trace: str) -> list[dict[str, Any]]:
    response = client.get("/decisions", params={"trace_id": trace, "limit": MAX_RECORDS})
    response.raise_for_status()
    body = response.json()
    assert body["next"] is None
    return [found["record"] for found in body["records"]]
