"""Every route under generated requests: no 5xx, and no answer that the OpenAPI document does not have.

The first half lets schemathesis make requests from the document, such as fit it and such as do not. Few of
those get past the tool's name, so the second half takes a call that is decided in full and puts generated
values into it, one place at a time.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.support.server import RunningServer

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = json.loads((ROOT / "openapi" / "openapi.json").read_text(encoding="utf-8"))
SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT)
ENDLESS: Final = frozenset({"GET /approvals/events"})
"""Streams, whose answer has no end that could be looked at."""
OPERATIONS: Final = {
    found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if found.ok().label not in ENDLESS
}
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    ignored_auth,
]
SERVED_TO_ANYONE: Final = frozenset({"GET /healthz", "GET /readyz", "GET /.well-known/jwks.json"})
GENERATED: Final = settings(
    max_examples=60,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

CALL: Final[dict[str, Any]] = {
    "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
    "tool": {"server": "fs", "name": "file_edit"},
    "arguments": {"path": "/workspace/app.py", "old_str": "a", "new_str": "b"},
    "provenance": {"/path": {"source": "user"}, "/new_str": {"source": "model"}},
    "context": {
        "trace_id": "t-1",
        "turn_id": "3",
        "tool_call_id": "call_7",
        "cwd": "/workspace",
        "sandbox_root": "/workspace",
    },
}
OTHER_CALLS: Final[list[dict[str, Any]]] = [
    {"tool": {"server": "web", "name": "fetch"}, "arguments": {"url": "https://example.com/a"}},
    {"tool": {"server": "shell", "name": "run"}, "arguments": {"command": "ls -la"}},
    {
        "tool": {"server": "payments", "name": "pay"},
        "arguments": {
            "recipient": "DE89 3704 0044 0532 0130 00",
            "amount": 25000,
            "currency": "EUR",
            "subject": "invoice 17",
        },
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The sample bundle behind a real server; it must still answer, and log, when all is over."""
    with RunningServer(bundle=ROOT / "policies", data_dir=tmp_path_factory.mktemp("fuzz") / "var") as running:
        yield running
        with running.client() as client:
            assert client.post("/decide", json=CALL).status_code == httpx.codes.OK


ANSWER_SECONDS: Final = 60
"""A reload tries the bundle in a process of its own, which a loaded machine is slow to begin."""


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for all requests; proxies of the environment are not used."""
    with requests.Session() as kept:
        kept.trust_env = False
        yield kept


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", OPERATIONS)
def test_generated_requests_get_documented_answers(
    label: str, mode: schemathesis.GenerationMode, server: RunningServer, session: requests.Session
) -> None:
    operation: APIOperation = OPERATIONS[label]
    if mode is schemathesis.GenerationMode.NEGATIVE and not _has_input(operation):
        return  # nothing can be wrong where nothing is asked for

    @seed(0)
    @GENERATED
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case) -> None:
        headers = {} if label in SERVED_TO_ANYONE else server.headers
        case.call_and_validate(
            base_url=server.url, session=session, headers=headers, checks=CHECKS, timeout=ANSWER_SECONDS
        )

    send()


def _has_input(operation: APIOperation) -> bool:
    return bool(operation.body) or any(operation.iter_parameters())


ODD_TEXT: Final = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            *("", " ", ".", "..", "/", "//", "~", "~root/x", "-rf", "\\\\host\\share", "C:\\x", "a\u0000b"),
            *("\u202egnp.exe", "e\u0301", "ﬀ", "%2e%2e", "http://[::1", "http://127.1", "1e400", "NaN"),
            *(
                "file:///etc/passwd",
                "\ud7ff",
                "\U0010ffff",
                "a" * 5000,
                "/" * 5000,
                "a/" * 2000,
                "../" * 2000,
            ),
        ]
    ),
)
ODD_NUMBER: Final = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([2**53, -(2**53), 10**40]),
)
ODD_VALUE: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), ODD_NUMBER, ODD_TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(ODD_TEXT, inner, max_size=4)),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, member in members:
        yield from _places(member, (*path, name))


def _put(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(body)
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return changed


@pytest.mark.slow
@settings(parent=GENERATED, max_examples=400)
@given(data=st.data())
def test_a_call_with_a_generated_value_anywhere_gets_a_documented_answer(
    data: DataObject, server: RunningServer, session: requests.Session
) -> None:
    body = CALL | data.draw(st.sampled_from([{}, *OTHER_CALLS]), label="call")
    for _ in range(data.draw(st.integers(1, 2), label="changes")):
        path = data.draw(st.sampled_from(list(_places(body))), label="place")
        value = data.draw(st.one_of(ODD_VALUE, st.sampled_from([body, CALL])), label="value")
        body = _put(body, path, value)
    answer = session.post(
        f"{server.url}/decide",
        data=json.dumps(body).encode(),
        headers={**server.headers, "Content-Type": "application/json"},
        timeout=30,
    )
    operation = OPERATIONS["POST /decide"]
    case = operation.Case(body=body, media_type="application/json")
    case.validate_response(
        answer, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
    )
    if answer.status_code == httpx.codes.OK:
        decided = answer.json()
        shown = session.get(
            f"{server.url}/decisions/{decided['decision_id']}", headers=server.headers, timeout=30
        )
        assert shown.status_code == httpx.codes.OK, "an answer without its record"
