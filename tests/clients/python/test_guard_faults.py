"""Lost, doubled and broken messages between a guard and the service: no effect is doubled, none is made up.

Each fault meets each step of a call by itself. What the service holds afterwards is asked past the proxy.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from authz_client import Client, DecisionUnavailable, MalformedAnswer, RequestRefused
from authz_client.guard import AlreadyDone, CallDenied, CallInProgress, NoDecision, Unsettled

from tests.clients.python.guarding import (
    EDIT,
    MAIL,
    PAY,
    READ,
    AsyncRuntime,
    Effect,
    Grace,
    MakeRuntime,
    SyncRuntime,
    records,
    serve,
)
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.server import RunningServer
from tests.support.waiting import wait_until

CALLS = itertools.count(1)
SECONDS = 3
"""Deadline: what hangs takes half of it before it is sent again."""
LOST = [
    Fault.DROP_REQUEST,
    Fault.HANG_REQUEST,
    Fault.DROP_REPLY,
    Fault.HANG_REPLY,
    Fault.CUT,
    Fault.STATUS_503,
    Fault.DUPLICATE,
]
"""After which the same words again get an answer."""
BROKEN = [Fault.STATUS_500, Fault.HTML, Fault.EMPTY, Fault.TRUNCATED_JSON]
"""An answer came, and it is none."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def grace(server: RunningServer) -> Iterator[Grace]:
    """Signed in before the service has printed so much that her link is out of sight."""
    person = Grace(server)
    yield person
    person.close()


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.fixture(params=[SyncRuntime, AsyncRuntime], ids=["sync", "async"])
def make(request: pytest.FixtureRequest, server: RunningServer, proxy: FaultProxy) -> Iterator[MakeRuntime]:
    made: list[Any] = []

    def one(**more: Any) -> Any:
        client = {"deadline_seconds": SECONDS, **more.pop("client", {})}
        options = {"trace_id": f"t-{next(CALLS)}", "client": client, **more}
        made.append(request.param(proxy.url, server.key, **options))
        return made[-1]

    yield one
    for runtime in made:
        runtime.close()


def moves(runtime: Any, server: RunningServer) -> list[str]:
    return [
        one["type"]
        for one in records(server, trace_id=runtime.guard._shared._trace_id)
        if one["type"] != "decision.repeated"
    ]


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize("step", ["/decide", "/settle"])
def test_what_is_lost_is_said_again_and_has_one_effect(
    make: MakeRuntime, server: RunningServer, proxy: FaultProxy, step: str, fault: Fault
) -> None:
    runtime, effect = make(), Effect()
    proxy.plan(step, fault)
    assert runtime.call(MAIL, effect, tool_call_id="c") == "done 1"
    assert proxy.planned == 0
    assert moves(runtime, server) == ["decision.made", "operation.settled"]
    with pytest.raises(AlreadyDone):
        runtime.call(MAIL, effect, tool_call_id="c")
    assert len(effect.had) == 1


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_beginning_is_said_again(
    make: MakeRuntime, server: RunningServer, proxy: FaultProxy, fault: Fault
) -> None:
    runtime, effect = make(), Effect()
    proxy.plan("/start", fault)
    assert runtime.call(MAIL, effect, resolve=lambda _: {}, tool_call_id="c") == "done 1"
    assert moves(runtime, server) == ["decision.made", "operation.started", "operation.settled"]


@pytest.mark.parametrize("fault", [*BROKEN, Fault.WRONG_ID])
def test_a_beginning_without_an_answer_is_none(make: MakeRuntime, proxy: FaultProxy, fault: Fault) -> None:
    runtime, effect = make(), Effect()
    proxy.plan("/start", fault)
    with pytest.raises(NoDecision):
        runtime.call(MAIL, effect, resolve=lambda _: {}, tool_call_id="c")
    assert effect.had == []
    # It was told that nothing ran, so the call may be sent again, and then runs once.
    assert runtime.call(MAIL, effect, resolve=lambda _: {}, tool_call_id="c") == "done 1"


@pytest.mark.parametrize("fault", BROKEN)
def test_a_decision_without_an_answer_is_none_and_the_same_call_may_be_sent_again(
    make: MakeRuntime, server: RunningServer, proxy: FaultProxy, fault: Fault
) -> None:
    runtime, effect = make(fail_open_for={"bank/mail_send", "fs/file_read"}), Effect()
    proxy.plan("/decide", fault)
    with pytest.raises(NoDecision) as caught:
        runtime.call(MAIL, effect, tool_call_id="c")
    assert isinstance(caught.value.__cause__, DecisionUnavailable)
    assert effect.had == []
    # The service had begun it: this guard knows that its own try did not, and another one does not.
    with pytest.raises(CallInProgress):
        make(trace_id=runtime.guard._shared._trace_id).call(MAIL, effect, tool_call_id="c")
    assert runtime.call(MAIL, effect, tool_call_id="c") == "done 1"
    assert moves(runtime, server) == ["decision.made", "decision.made", "operation.settled"]


def test_an_answer_to_another_request_is_none(
    make: MakeRuntime, proxy: FaultProxy, server: RunningServer
) -> None:
    """A decision under another id settles nothing: the effect stays one, and what it was is told later."""
    lost: list[Unsettled] = []
    runtime, effect = make(on_unsettled=lost.append), Effect()
    proxy.plan("/decide", Fault.WRONG_ID)
    assert runtime.call(MAIL, effect, tool_call_id="c") == "done 1"
    (unsettled,) = lost
    assert isinstance(unsettled.failure, RequestRefused)
    (made,) = records(server, trace_id=runtime.guard._shared._trace_id)
    with Client(server.url, api_key=server.key) as client:
        told = client.settle(
            made["decision_id"],
            lease_token=unsettled.permitted.lease.token,
            outcome=unsettled.ended.outcome,
        )
    assert told.state == "succeeded"
    with pytest.raises(AlreadyDone):
        runtime.call(MAIL, effect, tool_call_id="c")
    assert len(effect.had) == 1


@pytest.mark.parametrize("fault", [*BROKEN, Fault.WRONG_ID])
def test_where_a_report_may_have_arrived_its_status_is_asked_for_first(
    make: MakeRuntime, server: RunningServer, proxy: FaultProxy, fault: Fault
) -> None:
    lost: list[Unsettled] = []
    runtime, effect = make(on_unsettled=lost.append), Effect()
    proxy.plan("/settle", fault)
    assert runtime.call(MAIL, effect, tool_call_id="c") == "done 1"
    assert lost == []
    assert [method for method, _ in proxy.seen] == ["POST", "POST", "GET"]
    assert moves(runtime, server) == ["decision.made", "operation.settled"]


def test_a_report_that_never_arrives_leaves_the_result_and_may_be_told_later(
    make: MakeRuntime, server: RunningServer, proxy: FaultProxy
) -> None:
    lost: list[Unsettled] = []
    runtime, effect = make(on_unsettled=lost.append), Effect()
    proxy.plan("/settle", *[Fault.DROP_REQUEST] * 3)
    proxy.plan("/operations/", *[Fault.DROP_REQUEST] * 3)
    assert runtime.call(MAIL, effect, tool_call_id="c") == "done 1"
    (unsettled,) = lost
    assert unsettled.ended.outcome == "succeeded"
    with pytest.raises(CallInProgress):
        runtime.call(MAIL, effect, tool_call_id="c")
    assert len(effect.had) == 1


def test_an_exception_of_the_tool_is_not_hidden_by_a_report_that_fails(
    make: MakeRuntime, proxy: FaultProxy
) -> None:
    lost: list[Unsettled] = []
    runtime = make(on_unsettled=lost.append)
    proxy.plan("/operations/", *[Fault.STATUS_500] * 2)
    with pytest.raises(ZeroDivisionError):
        runtime.call(EDIT, Effect(error=ZeroDivisionError()), tool_call_id="c")
    assert [one.ended.outcome for one in lost] == ["failed_retryable"]


@pytest.mark.parametrize("fault", [*BROKEN, Fault.STATUS_503, Fault.CUT, Fault.DROP_REPLY, Fault.WRONG_ID])
def test_nothing_fails_open_after_any_answer_began(
    make: MakeRuntime, proxy: FaultProxy, fault: Fault
) -> None:
    """AV: an answer, then a dead network: what was answered outlasts what was not."""
    runtime, effect = make(fail_open_for={"fs/file_read"}), Effect()
    proxy.plan("/decide", fault, *[Fault.DROP_REQUEST] * 2)
    if fault is Fault.WRONG_ID:
        # Whole, and about this request: only its name is another's. A read settles nothing.
        assert runtime.call(READ, effect, effect="read", tool_call_id="c") == "done 1"
        return
    with pytest.raises(NoDecision):
        runtime.call(READ, effect, effect="read", tool_call_id="c")
    assert effect.had == []


@pytest.mark.parametrize("fault", [Fault.DROP_REQUEST, Fault.HANG_REQUEST])
def test_a_named_read_fails_open_where_no_try_was_answered(
    make: MakeRuntime, proxy: FaultProxy, fault: Fault
) -> None:
    runtime, effect = make(fail_open_for={"fs/file_read"}), Effect()
    proxy.plan("/decide", *[fault] * 6)
    assert runtime.call(READ, effect, effect="read", tool_call_id="c") == "done 1"
    with pytest.raises(NoDecision):
        runtime.call(("fs", "file_list", {}), effect, effect="read", tool_call_id="d")


def test_an_approval_is_asked_for_once_however_its_answers_are_lost(
    make: MakeRuntime, server: RunningServer, proxy: FaultProxy, grace: Grace
) -> None:
    runtime, effect = make(), Effect()
    call_id = f"c-{next(CALLS)}"
    proxy.plan("/decide", Fault.DROP_REPLY)
    proxy.plan("/approvals/", Fault.DROP_REPLY, Fault.STATUS_500, Fault.HTML, Fault.CUT)
    answered: list[str] = []

    def lose_the_next_decision(method: str, path: str) -> None:
        if "/approvals/" in path and not answered:
            answered.append(path)
            proxy.plan("/decide", Fault.DROP_REPLY)

    def approve() -> str:
        wait_until(lambda: any("/approvals/" in path for _, path in proxy.seen))
        return grace.approve(call_id)

    proxy.after = lose_the_next_decision
    with ThreadPoolExecutor(1) as thread:
        yes = thread.submit(approve)
        assert runtime.call(PAY, effect, tool_call_id=call_id) == "done 1"
    assert proxy.planned == 0
    made = records(server, trace_id=runtime.guard._shared._trace_id)
    assert {one["approval"]["id"] for one in made if one.get("approval")} == {yes.result()}
    assert len(effect.had) == 1


def test_a_try_that_began_unseen_and_was_cancelled_since_is_given_back(
    make: MakeRuntime, server: RunningServer, proxy: FaultProxy
) -> None:
    runtime, effect = make(), Effect()
    proxy.plan("/decide", Fault.HTML)
    with pytest.raises(NoDecision):
        runtime.call(MAIL, effect, tool_call_id="c")
    (made,) = records(server, trace_id=runtime.guard._shared._trace_id)
    with Client(server.url, api_key=server.key, deadline_seconds=30) as client:
        assert client.cancel_operation(made["decision_id"]).state == "executing"
        with pytest.raises(CallDenied) as caught:
            runtime.call(MAIL, effect, tool_call_id="c")
        assert caught.value.code == "operation.cancel_requested"
        assert client.operation(made["decision_id"]).state == "failed_retryable"
    assert effect.had == []


def test_connections_are_kept(make: MakeRuntime, proxy: FaultProxy) -> None:
    runtime = make()
    for number in range(5):
        runtime.call(EDIT, Effect(), tool_call_id=f"c-{number}")
    assert len(proxy.seen) == 10
    assert proxy.connections == 1


@pytest.mark.parametrize("runtime_class", [SyncRuntime, AsyncRuntime])
def test_over_a_unix_socket(server: RunningServer, tmp_path: Path, runtime_class: Any) -> None:
    path = tmp_path / "s"
    with FaultProxy("127.0.0.1", server.port, uds=path) as proxy:
        runtime = runtime_class(
            "http://authz", server.key, client={"uds": str(path)}, trace_id=f"t-{next(CALLS)}"
        )
        assert runtime.call(EDIT, Effect(), tool_call_id="c") == "done 1"
        runtime.close()
        assert proxy.seen[0] == ("POST", "/decide")


def test_a_request_that_is_not_safe_to_repeat_is_sent_once(server: RunningServer, proxy: FaultProxy) -> None:
    body = {"subject": {"agent": "coder-1"}, "tool": {"server": "fs", "name": "file_read"}}
    with Client(proxy.url, api_key=server.key) as client:
        for more in (
            {"arguments": READ[2]},
            {
                "arguments": READ[2],
                "proof": "eyJ",
                "context": {"trace_id": "t", "turn_id": "1", "tool_call_id": "c"},
            },
        ):
            proxy.plan("/decide", Fault.DROP_REPLY)
            with pytest.raises(MalformedAnswer):
                client.decide({**body, **more})
    assert len(proxy.seen) == 2
