"""Every decision that the shipped bundle's cases get over HTTP can be pasted as a case, and gets it again."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from authz.bundle.cases import parse_cases
from authz.bundle.yaml_source import load_yaml
from authz.cli.decisions_show import as_test
from authz.core.cases.case import Case
from authz.core.cases.deciding import Answered, answer, request_of
from authz.core.cases.judging import judge
from authz.core.cases.redaction import redacted_places
from authz.core.pointer import Tokens
from authz.errors import BundleError
from tests.policies.deciding import POLICIES, sample_calls, sample_ruleset
from tests.support.server import RunningServer

CASES: Final = tuple(case for case in sample_calls() if case.expected.refused is None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(bundle=POLICIES, data_dir=tmp_path_factory.mktemp("as-test") / "var") as running:
        yield running


@pytest.fixture(scope="module")
def records(server: RunningServer) -> dict[str, dict[str, Any]]:
    """The record of each case's decision, by the id of the case."""
    found: dict[str, dict[str, Any]] = {}
    keys = {profile: _key_of(server, profile) for profile in sample_ruleset().profiles}
    with server.client() as client:
        for case in CASES:
            headers = {"Authorization": f"Bearer {keys[case.given.profile]}"}
            answer = client.post("/decide", json=request_of(case, sample_ruleset()), headers=headers)
            assert answer.status_code == 200, (case.id, answer.text)
            shown = client.get(f"/decisions/{answer.json()['decision_id']}")
            found[case.id] = shown.json()["record"]
    return found


def _key_of(server: RunningServer, profile: str) -> str:
    command = [sys.executable, "-m", "authz", "keys", "create", "--data-dir", str(server.data_dir)]
    words = ["--name", profile, "--profile", profile, "--roles", "decide"]
    made = subprocess.run([*command, *words], capture_output=True, text=True, check=True, env=_environment())
    return made.stdout.strip().split()[-1]


def _environment() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}


def test_that_some_values_are_filled_in_is_no_rule(records: Mapping[str, dict[str, Any]]) -> None:
    """Most decisions are cases as they are: what the log redacts are payloads and what is secret."""
    whole = [record for record in records.values() if "fill them in" not in as_test(record)]

    assert len(records) / 2 < len(whole) < len(records)


def _pasted(record: Mapping[str, Any]) -> bytes:
    return f"cases:\n{as_test(record)}".encode()


def _read(text: bytes) -> Case:
    (case,) = parse_cases("tests/pasted.yaml", text)
    return case


def _filled(case: Case, entry: dict[str, Any]) -> dict[str, Any]:
    """The pasted case with the values that the log does not hold, taken from the case that was sent."""
    sent = request_of(case, sample_ruleset())
    answered = answer(case, sample_ruleset())
    if isinstance(answered, Answered) and answered.outcome.decision.arguments is not None:
        # A default can be secret too: by the word of whoever said that everything is.
        sent["arguments"] = answered.outcome.decision.arguments
    for tokens in list(redacted_places(entry["call"])):
        _put(entry["call"], tokens, _value_at(sent, tokens))
    return entry


def _value_at(sent: Any, tokens: Tokens) -> Any:
    for token in tokens:
        sent = sent[int(token)] if isinstance(sent, list) else sent[token]
    return sent


def _put(call: Any, tokens: Tokens, value: Any) -> None:
    *above, last = tokens
    holder = _value_at(call, tuple(above))
    holder[int(last) if isinstance(holder, list) else last] = value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_logged_decision_is_a_case_that_passes(case: Case, records: Mapping[str, dict[str, Any]]) -> None:
    text = _pasted(records[case.id])
    if "fill them in" in text.decode():
        # Only for what the log does not hold; every such place is named, with its line.
        with pytest.raises(BundleError) as refused:
            _read(text)
        assert all("was redacted in the log" in problem.message for problem in refused.value.problems)
        assert all(problem.line is not None for problem in refused.value.problems)
        (entry,) = load_yaml("tests/pasted.yaml", text).value["cases"]
        text = json.dumps({"cases": [_filled(case, entry)]}).encode()
    judged = judge(_read(text), sample_ruleset())

    assert judged.passed, judged.error or judged.differences
