"""The client's other routes against the real service: batches, operations, approvals."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from authz_client import AsyncClient, Client, Decision, Outcome, RequestNotEncodable, RequestRefused

from tests.clients.python.guarding import CONTEXT, EDIT, PAY, SUBJECT, serve
from tests.support.server import RunningServer

NUMBERS = itertools.count(1)


class Blocking:
    """`AsyncClient` with the face of `Client`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*args, **more)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **more: self._runner.run(getattr(self._client, name)(*args, **more))

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(params=[Client, Blocking], ids=["sync", "async"])
def client(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[Any]:
    made = request.param(server.url, api_key=server.key, deadline_seconds=30)
    yield made
    made.close()


def body(call: Any, **context: Any) -> dict[str, Any]:
    server, name, arguments = call
    ids = {"trace_id": "t-1", "turn_id": "1", "tool_call_id": f"c-{next(NUMBERS)}"}
    return {
        "subject": SUBJECT,
        "tool": {"server": server, "name": name},
        "arguments": arguments,
        "context": {**CONTEXT, **ids, **context},
    }


def test_a_batch_has_an_answer_for_each_call_in_order(client: Any) -> None:
    secret = ("fs", "file_edit", {"path": "/workspace/.secrets/k", "text": "x"})
    found = client.decide_batch([body(EDIT), body(secret), body(EDIT)])
    assert all(isinstance(one, Decision) for one in found)
    assert [one.effect for one in found] == ["allow", "deny", "allow"]
    assert [one.shares_written_resource_with for one in found] == [(2,), (), (0,)]
    assert found[0].authority == "A1"
    assert found[0].side_effect == "idempotent"


def test_an_operation_from_its_start_to_its_end(client: Any) -> None:
    decision = client.decide(body(EDIT, settles=True))
    assert (decision.operation.state, decision.operation.settles) == ("reserved", True)
    known = {"lease_token": decision.lease.token}
    assert client.operation(decision.decision_id).state == "reserved"
    begun = client.start(decision.decision_id, **known, attempt="a", timeout_seconds=600)
    assert begun.state == "executing"
    assert begun.lease_expires_at > decision.lease.expires_at
    assert client.start(decision.decision_id, **known, attempt="a", timeout_seconds=600) == begun
    with pytest.raises(RequestRefused) as caught:
        client.start(decision.decision_id, **known, attempt="b")
    assert (caught.value.status, caught.value.code) == (409, "operation.in_progress")
    assert caught.value.state == "executing"
    told: dict[str, Any] = {**known, "outcome": Outcome.SUCCEEDED, "external_id": "x-1"}
    done = client.settle(decision.decision_id, **told)
    assert (done.state, done.external_id) == ("succeeded", "x-1")
    assert client.settle(decision.decision_id, **told) == done
    assert known["lease_token"] not in repr(decision)


def test_what_is_unknown_is_resolved_by_somebody_else(client: Any) -> None:
    decision = client.decide(body(EDIT, settles=True))
    client.settle(decision.decision_id, lease_token=decision.lease.token, outcome=Outcome.UNKNOWN)
    with pytest.raises(RequestRefused) as caught:
        client.resolve(decision.decision_id, outcome=Outcome.SUCCEEDED, reason="it is there")
    assert caught.value.status == 403


def test_a_call_is_cancelled(client: Any) -> None:
    decision = client.decide(body(EDIT, settles=True))
    cancelled = client.cancel_operation(decision.decision_id, reason="not wanted")
    assert cancelled.cancel_requested
    assert client.cancel_operation(decision.decision_id) == cancelled


def test_an_approval_is_shown_waited_for_and_taken_back(client: Any) -> None:
    decision = client.decide(body(PAY))
    assert decision.effect == "require_approval"
    asked = client.approval(decision.approval.id)
    assert (asked.state, asked.decision_id) == ("pending", decision.decision_id)
    assert asked.rules == (("money-asks", "Money moves only with a person's yes."),)
    assert client.wait_for_approval(asked.id, deadline_seconds=0.2).state == "pending"
    assert client.cancel_approval(asked.id).state == "cancelled"
    assert client.wait_for_approval(asked.id, deadline_seconds=60).state == "cancelled"


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800"])
def test_an_id_is_one_segment_of_a_path(client: Any, name: str) -> None:
    with pytest.raises(RequestNotEncodable):
        client.operation(name)
    with pytest.raises(RequestRefused) as caught:
        client.operation("../decisions?x=1")
    assert caught.value.status == 404


def test_a_client_connects_one_way() -> None:
    with pytest.raises(ValueError, match="not both"):
        Client("http://x", api_key="k", uds="/tmp/s", transport=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`attempts`"):
        Client("http://x", api_key="k", attempts=0)
