"""Every true call of the AgentDojo suites goes through the real service, over HTTP, and is answered whole."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.agentdojo.ground_truth import BUNDLE, TrueCall
from tests.agentdojo.replay import EXPECTED, Answered, Catalogue, format_summary, replay, summarize
from tests.support.server import RunningServer

MAX_RECORDS: Final = 500
# What would mean that a true call was not understood: it must reach policy, and policy must answer.
BROKEN_CODES: Final = frozenset({"policy.error", "policy.no_match"})

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answered(client: httpx.Client, calls: list[TrueCall], catalogue: Catalogue) -> list[Answered]:
    """The answer to every call, from a service that has seen nothing else."""
    return replay(client, calls, catalogue)


def test_both_suites_are_there_whole(calls: list[TrueCall]) -> None:
    tasks = Counter(suite for suite, _ in {(call.suite, call.task) for call in calls})
    assert tasks == {"workspace": 40, "banking": 16}


def test_every_call_is_decided_by_rules(answered: list[Answered]) -> None:
    for found in answered:
        answer = found.answer
        where = f"{found.call.trace}/{found.call.index}: {answer}"
        assert answer["stage"] in ("policy", "approval"), where
        assert answer["code"] not in BROKEN_CODES, where
        assert answer["effect"] in ("allow", "require_approval"), where
        assert found.rules, where
        # Found, validated and canonicalized: the tool's digest, the arguments and the accesses are back.
        assert answer["descriptor_digest"].startswith("sha256:"), where
        assert answer["fingerprint"].startswith("sha256:"), where
        assert found.call.arguments.keys() <= answer["arguments"].keys(), where
        assert answer["accesses"], where
        assert all(not access["resource"].startswith("Opaque::") for access in answer["accesses"]), where


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
            if not record["provenance"]["secret"]:
                assert record["fingerprint"] == found.answer["fingerprint"]
            assert record["tool_call_id"] == found.call.id


def test_a_password_is_in_no_record(client: httpx.Client, answered: list[Answered]) -> None:
    changing = next(found for found in answered if found.call.tool == "update_password")
    assert changing.call.arguments["password"] not in json.dumps(_records(client, changing.call.trace))


def test_effects_and_rules_are_the_expected_ones(answered: list[Answered]) -> None:
    # A line that changed is a call that is now decided otherwise. If it should be:
    # python -m tests.agentdojo.replay --write
    summary = summarize(answered)
    print(format_summary({key: value for key, value in summary.items() if key != "calls"}))
    assert summary == json.loads(EXPECTED.read_text(encoding="utf-8"))


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
