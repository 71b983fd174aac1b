"""Every decision that the shipped bundle's cases get over HTTP can be pasted as a case, and gets it again."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
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
from authz.store.api_keys import create_api_key
from authz.store.ledger import DATABASE_NAME
from tests.policies.deciding import POLICIES, sample_calls, sample_ruleset
from tests.support.server import RunningServer

CASES: Final = tuple(case for case in sample_calls() if case.expected.refused is None)


SERVERS: Final = 2
"""Of one agent only so many requests may come to nothing in an hour, and these cases ask more often."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningServer]]:
    with ExitStack() as stack:
        folders = [tmp_path_factory.mktemp("as-test") / "var" for _ in range(SERVERS)]
        yield [stack.enter_context(RunningServer(bundle=POLICIES, data_dir=data_dir)) for data_dir in folders]


@pytest.fixture(scope="module")
def records(servers: list[RunningServer]) -> dict[str, dict[str, Any]]:
    """The record of each case's decision, by the id of the case."""
    found: dict[str, dict[str, Any]] = {}
    for place, server in enumerate(servers):
        found |= _records(server, CASES[place::SERVERS])
    return found


def _records(server: RunningServer, cases: Sequence[Case]) -> dict[str, dict[str, Any]]:
    """Of each case's decision. What it asks people is taken back, so that the next case may ask them too."""
    found: dict[str, dict[str, Any]] = {}
    keys = {profile: _key_of(server, profile) for profile in sample_ruleset().profiles}
    with server.client() as client:
        for case in cases:
            headers = {"Authorization": f"Bearer {keys[case.given.profile]}"}
            answer = client.post("/decide", json=request_of(case, sample_ruleset()), headers=headers)
            assert answer.status_code == 200, (case.id, answer.text)
            decided = answer.json()
            found[case.id] = client.get(f"/decisions/{decided['decision_id']}").json()["record"]
            if decided["effect"] == "require_approval":
                asked = decided["approval"]["id"]
                taken_back = client.post(f"/approvals/{asked}/cancel", headers=headers)
                assert taken_back.status_code == 200, (case.id, taken_back.text)
    return found


def _key_of(server: RunningServer, profile: str) -> str:
    made = create_api_key(
        server.data_dir / DATABASE_NAME,
        name=profile,
        roles=["decide"],
        profile=profile,
        now_ms=time.time_ns() // 1_000_000,
    )
    return made.secret


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
