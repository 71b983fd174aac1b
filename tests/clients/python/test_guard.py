"""Guards against the real service: each way a call can go, for plain and for coroutine functions."""

import itertools
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from authz_client import MalformedAnswer, Timeout, Unreachable
from authz_client.guard import (
    AlreadyDone,
    ApprovalPending,
    ApprovalRefused,
    CallDenied,
    CallInProgress,
    CallRefused,
    IdentityRefused,
    NoDecision,
    Outcome,
    OutcomeUnknown,
    StartRefused,
    call_options,
)

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
    state_of,
)
from tests.support.server import RunningServer

IDS = (f"c-{number}" for number in itertools.count(1))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def grace(server: RunningServer) -> Iterator[Grace]:
    person = Grace(server)
    yield person
    person.close()


@pytest.fixture(params=[SyncRuntime, AsyncRuntime], ids=["sync", "async"])
def make(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[MakeRuntime]:
    """Makes runtimes over the service, which are closed in the end."""
    made: list[Any] = []

    def one(**more: Any) -> Any:
        made.append(request.param(more.pop("url", server.url), server.key, **more))
        return made[-1]

    yield one
    for runtime in made:
        runtime.close()


def trace(runtime: Any, server: RunningServer) -> list[str]:
    """Types of the records of the runtime's trace, oldest first."""
    return [one["type"] for one in records(server, trace_id=runtime.guard._shared._trace_id)]


def test_a_call_runs_once_with_the_canonical_arguments_and_is_settled(
    make: MakeRuntime, server: RunningServer
) -> None:
    runtime, effect, seen = make(), Effect(), []

    def tool(permitted: Any) -> str:
        seen.append(permitted)
        permitted.succeeded(external_id="m-1", result_digest="sha256:" + "a" * 64)
        return effect(permitted)

    assert runtime.call(MAIL, tool, tool_call_id="c") == "done 1"
    assert effect.had == [{"to": "ada@example.com", "body": "hello", "password": ""}]
    (permitted,) = seen
    told = state_of(server, permitted.decision.decision_id)
    assert (told["state"], told["external_id"]) == ("succeeded", "m-1")
    assert permitted.idempotency_key == permitted.decision.idempotency_key
    # One round trip reserved and started, one settled.
    assert trace(runtime, server) == ["decision.made", "operation.settled"]

    with pytest.raises(AlreadyDone) as caught:
        runtime.call(MAIL, effect, tool_call_id="c")
    outcome = caught.value.outcome
    assert (outcome.state, outcome.external_id) == ("succeeded", "m-1")
    assert outcome.result_digest == "sha256:" + "a" * 64
    assert "`m-1`" in caught.value.for_model()
    assert len(effect.had) == 1


def test_a_read_takes_one_round_trip_and_tells_nothing(make: MakeRuntime, server: RunningServer) -> None:
    runtime, effect = make(), Effect()
    assert runtime.call(READ, effect, effect="read", tool_call_id="c") == "done 1"
    assert trace(runtime, server) == ["decision.made"]
    assert runtime.call(READ, effect, effect="read", tool_call_id="c") == "done 2"


def test_what_was_declared_to_be_a_read_and_is_none_is_settled(
    make: MakeRuntime, server: RunningServer
) -> None:
    runtime, effect = make(), Effect()
    runtime.call(EDIT, effect, effect="read", tool_call_id="c")
    assert trace(runtime, server) == ["decision.made", "operation.started", "operation.settled"]
    with pytest.raises(AlreadyDone):
        runtime.call(EDIT, effect, effect="read", tool_call_id="c")


def test_a_deny_names_rule_reason_and_what_may_be_tried(make: MakeRuntime) -> None:
    runtime, effect = make(), Effect()
    with pytest.raises(CallDenied) as caught:
        runtime.call(("fs", "file_edit", {"path": "/workspace/.secrets/k", "text": "x"}), effect)
    refused = caught.value
    assert (refused.code, refused.rules) == (
        "policy.forbid",
        (("secrets", "Secrets stay where they are."),),
    )
    words = refused.for_model()
    assert words.startswith("`fs/file_edit` did not run: ")
    for part in ("`secrets`", "Secrets stay where they are.", "What you may do: "):
        assert part in words
    assert not refused.may_have_run
    assert effect.had == []


def test_faulty_arguments_are_told_place_by_place(make: MakeRuntime) -> None:
    with pytest.raises(CallDenied) as caught:
        make().call(("fs", "file_edit", {"path": 7}), Effect())
    assert caught.value.code.startswith("schema.")
    assert "/path" in caught.value.for_model()


@pytest.mark.parametrize(
    ("call", "failures", "state"),
    [
        (MAIL, {}, "unknown"),
        (EDIT, {}, "failed_retryable"),
        (MAIL, {OSError: Outcome.FAILED_RETRYABLE}, "failed_retryable"),
        (MAIL, {Exception: Outcome.UNKNOWN, ConnectionError: Outcome.FAILED_FINAL}, "failed_final"),
        (EDIT, {ConnectionError: Outcome.UNKNOWN}, "unknown"),
    ],
)
def test_an_exception_is_told_as_what_it_means(
    make: MakeRuntime, server: RunningServer, call: Any, failures: Any, state: str
) -> None:
    runtime, effect = make(), Effect(error=ConnectionResetError("gone"))
    expected = OutcomeUnknown if state == "unknown" else ConnectionResetError
    with pytest.raises(expected) as caught:
        runtime.call(call, effect, failures=failures, tool_call_id="c")
    settled = records(server, trace_id=runtime.guard._shared._trace_id)[-1]
    assert settled["operation"]["to"] == state
    assert settled["detail"] == "ConnectionResetError", "its type, never its words"
    if isinstance(caught.value, OutcomeUnknown):
        assert isinstance(caught.value.__cause__, ConnectionResetError)
        assert caught.value.may_have_run
        assert "do not repeat" in caught.value.for_model()
        with pytest.raises(OutcomeUnknown):
            runtime.call(call, effect, tool_call_id="c")
        assert len(effect.had) == 1, "never tried again by itself"


def test_what_failed_in_a_way_that_may_be_tried_again_runs_again_under_the_same_key(
    make: MakeRuntime,
) -> None:
    runtime, effect, keys = make(), Effect(error=TimeoutError()), []

    def tool(permitted: Any) -> Any:
        keys.append(permitted.idempotency_key)
        return effect(permitted)

    with pytest.raises(TimeoutError):
        runtime.call(EDIT, tool, tool_call_id="c")
    effect.error = None
    assert runtime.call(EDIT, tool, tool_call_id="c") == "done 2"
    assert keys[0] == keys[1]


def test_what_was_said_of_the_outcome_is_not_changed_by_what_is_raised_afterwards(
    make: MakeRuntime, server: RunningServer
) -> None:
    runtime = make()

    def tool(permitted: Any) -> None:
        permitted.succeeded(external_id="m-2")
        raise KeyError("printing it")

    with pytest.raises(KeyError):
        runtime.call(MAIL, tool, tool_call_id="c")
    with pytest.raises(AlreadyDone) as caught:
        runtime.call(MAIL, tool, tool_call_id="c")
    assert caught.value.outcome.external_id == "m-2"


def test_of_two_tries_at_once_one_runs(make: MakeRuntime) -> None:
    runtime, other, effect = make(trace_id="t-two"), make(trace_id="t-two"), Effect()
    call_id = next(IDS)

    def tool(permitted: Any) -> Any:
        with ThreadPoolExecutor(1) as thread, pytest.raises(CallInProgress) as caught:
            # In a thread, since the loop of this one is busy.
            thread.submit(other.call, MAIL, effect, tool_call_id=call_id).result()
        assert caught.value.may_have_run
        return effect(permitted)

    runtime.call(MAIL, tool, tool_call_id=call_id)
    assert len(effect.had) == 1


def test_a_cancelled_call_does_not_begin(make: MakeRuntime, server: RunningServer) -> None:
    runtime, effect = make(), Effect()
    resolved = iter(["before", "after"])

    def resolve(arguments: Any) -> dict[str, Any]:
        if next(resolved) == "after":
            (made,) = records(server, trace_id=runtime.guard._shared._trace_id)
            with server.client() as client:
                client.post(f"/operations/{made['decision_id']}/cancel", json={}).raise_for_status()
        return {}

    with pytest.raises(StartRefused) as caught:
        runtime.call(MAIL, effect, resolve=resolve)
    assert caught.value.code == "operation.cancel_requested"
    assert effect.had == []


def claim(inode: int) -> dict[str, Any]:
    return {"/path": {"path": "/workspace/a", "device": 1, "inode": inode}}


def test_identity_is_checked_again_between_the_decision_and_the_act(
    make: MakeRuntime, server: RunningServer
) -> None:
    runtime, effect = make(), Effect()
    asked: list[Any] = []

    def resolve(arguments: Any) -> dict[str, Any]:
        asked.append(dict(arguments))
        return claim(7)

    assert runtime.call(EDIT, effect, resolve=resolve, tool_call_id="c") == "done 1"
    assert [sorted(one) for one in asked] == [["path", "text"], ["append", "path", "text"]]
    assert trace(runtime, server) == ["decision.made", "operation.started", "operation.settled"]


def test_who_tells_nothing_has_looked_at_nothing(make: MakeRuntime, server: RunningServer) -> None:
    runtime, effect = make(), Effect()
    with pytest.raises(IdentityRefused) as caught:
        runtime.call(EDIT, effect, resolve=lambda arguments: None)
    assert caught.value.code == "identity.unresolved"
    assert effect.had == []
    assert trace(runtime, server) == []


@pytest.mark.parametrize("second", [claim(8), OSError("gone")])
def test_what_has_changed_since_does_not_run(make: MakeRuntime, server: RunningServer, second: Any) -> None:
    runtime, effect = make(), Effect()
    found = iter([claim(7), second])

    def resolve(arguments: Any) -> Any:
        value = next(found)
        if isinstance(value, Exception):
            raise value
        return value

    with pytest.raises(IdentityRefused) as caught:
        runtime.call(EDIT, effect, resolve=resolve)
    assert caught.value.code in ("identity.changed", "identity.unresolved")
    assert effect.had == []
    assert trace(runtime, server) == ["decision.made", "operation.settled"]


def test_an_approval_is_waited_for_and_the_same_call_then_runs(make: MakeRuntime, grace: Grace) -> None:
    runtime, effect, call_id = make(), Effect(), next(IDS)
    yes = threading.Thread(target=grace.approve, args=(call_id,))
    yes.start()
    assert runtime.call(PAY, effect, tool_call_id=call_id) == "done 1"
    yes.join()
    with pytest.raises(AlreadyDone):
        runtime.call(PAY, effect, tool_call_id=call_id)
    assert len(effect.had) == 1


def test_a_no_is_a_refusal_in_the_persons_words(make: MakeRuntime, grace: Grace) -> None:
    effect, call_id = Effect(), next(IDS)
    runtime = make(subject={"agent": "coder-1", "on_behalf_of": "ada", "session": f"s-{call_id}"})
    no = threading.Thread(target=grace.deny, args=(call_id, "not on a Friday"))
    no.start()
    for _ in range(2):
        with pytest.raises(ApprovalRefused) as caught:
            runtime.call(PAY, effect, tool_call_id=call_id)
        assert (caught.value.state, caught.value.code) == ("denied", "approval.denied")
        assert "not on a Friday" in caught.value.for_model()
        assert not caught.value.retry_unchanged
    no.join()
    assert effect.had == []


def test_an_approval_that_is_not_waited_for_is_pending_and_resumes_by_the_same_ids(
    make: MakeRuntime, grace: Grace
) -> None:
    effect, call_id = Effect(), next(IDS)
    runtime = make(on_pending="raise", trace_id=f"t-{call_id}")
    with pytest.raises(ApprovalPending) as caught:
        runtime.call(PAY, effect, tool_call_id=call_id)
    assert caught.value.rules == (("money-asks", "Money moves only with a person's yes."),)
    assert caught.value.next == ("wait",)
    assert grace.approve(call_id) == caught.value.approval.id, "asked once"
    # Another process, later: only the ids are the same.
    assert (
        make(on_pending="raise", trace_id=f"t-{call_id}").call(PAY, effect, tool_call_id=call_id) == "done 1"
    )


def test_nobody_answers_until_the_deadline(make: MakeRuntime) -> None:
    effect = Effect()
    with pytest.raises(ApprovalPending):
        make(approval_seconds=0.3).call(PAY, effect, tool_call_id=next(IDS))
    assert effect.had == []


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("effect_class", ["read", "change"])
def test_only_a_named_read_fails_open_and_only_without_a_transport(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture, named: bool, effect_class: str
) -> None:
    # A port that nobody listens on: bound and closed.
    runtime = make(
        url="http://127.0.0.1:9",
        fail_open_for={"fs/file_read"} if named else {"fs/file_list"},
        client={"deadline_seconds": 2},
    )
    effect = Effect()
    with caplog.at_level(logging.WARNING, "authz_client"):
        if named and effect_class == "read":
            assert runtime.call(READ, effect, effect="read") == "done 1"
            assert effect.had == [READ[2]]
            assert "`fs/file_read`" in caplog.text
        else:
            with pytest.raises(NoDecision) as caught:
                runtime.call(READ, effect, effect=effect_class)
            assert isinstance(caught.value.__cause__, Unreachable)
            assert effect.had == []
            assert "runs all the same" not in caplog.text


def test_a_tool_that_does_more_than_read_does_not_fail_open_any_more(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, effect = make(fail_open_for={"fs/file_edit"}), Effect()
    with caplog.at_level(logging.WARNING, "authz_client"):
        runtime.call(EDIT, effect, effect="read")
    assert "does not fail open any more" in caplog.text
    runtime.guard._client.driver.http.base_url = "http://127.0.0.1:9"
    with pytest.raises(NoDecision):
        runtime.call(EDIT, effect, effect="read")
    assert len(effect.had) == 1


def test_an_allow_that_has_run_out_is_no_permission(make: MakeRuntime) -> None:
    runtime = make(client={"clock": lambda: datetime.now(UTC) + timedelta(days=1)})
    effect = Effect()
    with pytest.raises(NoDecision) as caught:
        runtime.call(READ, effect, effect="read")
    assert isinstance(caught.value.__cause__, MalformedAnswer)
    assert effect.had == []


def test_arguments_that_are_not_json_are_refused(make: MakeRuntime) -> None:
    with pytest.raises(NoDecision):
        make().call(("fs", "file_read", {"path": b"/workspace/a"}), Effect())
    with pytest.raises(NoDecision):
        make().call(("fs", "file_read", {"path": float("nan")}), Effect())


def test_options_of_a_block_reach_its_calls(make: MakeRuntime, server: RunningServer) -> None:
    runtime = make()
    with call_options(trace_id="t-block", turn_id="9", provenance={"/path": {"source": "web"}}):
        runtime.call(READ, Effect(), effect="read", tool_call_id=(call_id := next(IDS)))
    found = [one for one in records(server, trace_id="t-block") if one["tool_call_id"] == call_id]
    assert [one["turn_id"] for one in found] == ["9"]
    with pytest.raises(TypeError, match="no option"), call_options(trace="t"):
        pass


def test_every_refusal_is_one_kind() -> None:
    kinds = [AlreadyDone, ApprovalPending, ApprovalRefused, CallDenied, CallInProgress, IdentityRefused]
    kinds += [NoDecision, OutcomeUnknown, StartRefused]
    assert all(kind.__bases__ == (CallRefused,) for kind in kinds)
    assert not issubclass(CallRefused, Timeout)
