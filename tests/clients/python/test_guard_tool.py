"""Guards as decorators and as plain calls, against the real service."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from authz_client import AsyncClient, Client
from authz_client.guard import (
    AlreadyDone,
    AsyncGuard,
    CallDenied,
    Guard,
    Outcome,
    OutcomeUnknown,
    Permitted,
    call_options,
)

from tests.clients.python.guarding import CONTEXT, MAIL, SUBJECT, serve
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def guard(server: RunningServer) -> Iterator[Guard]:
    with Client(server.url, api_key=server.key, deadline_seconds=30) as client:
        yield Guard(client, subject=SUBJECT, context=CONTEXT)


@pytest.fixture
async def async_guard(server: RunningServer) -> AsyncIterator[AsyncGuard]:
    async with AsyncClient(server.url, api_key=server.key, deadline_seconds=30) as client:
        yield AsyncGuard(client, subject=SUBJECT, context=CONTEXT)


def test_a_function_is_called_with_the_canonical_arguments(guard: Guard) -> None:
    @guard.tool("fs", "file_edit")
    def edit(path: str, text: str, append: bool = True) -> tuple[str, str, bool]:
        """Edits."""
        return path, text, append

    assert edit("/workspace/b/../a", text="x") == ("/workspace/a", "x", True), "its own default was judged"
    assert edit(path="/workspace/a", text="y", append=False)[2] is False
    assert (edit.__name__, edit.__doc__) == ("edit", "Edits.")
    with pytest.raises(TypeError):
        edit()  # type: ignore[call-arg]
    with pytest.raises(CallDenied):
        edit("/workspace/.secrets/k", "x")


async def test_a_coroutine_function_alike(async_guard: AsyncGuard) -> None:
    @async_guard.tool("fs", "file_edit")
    async def edit(path: str, text: str, append: bool = True) -> tuple[str, bool]:
        await asyncio.sleep(0)
        return path, append

    assert await edit("/workspace/b/../a", text="x") == ("/workspace/a", True)
    with pytest.raises(CallDenied):
        await edit("/workspace/.secrets/k", "x")


def test_what_is_permitted_is_received_and_the_outcome_told(guard: Guard) -> None:
    @guard.tool("bank", "mail_send", receives="permitted")
    def send(to: str, body: str, password: str = "", *, permitted: Permitted | None = None) -> str:
        assert permitted is not None
        assert permitted.idempotency_key
        permitted.succeeded(external_id="m-7")
        return f"{to}: {body}"

    with call_options(tool_call_id="once"):
        assert send("ada@example.com", "hello") == "ada@example.com: hello"
        with pytest.raises(AlreadyDone) as caught:
            send("ada@example.com", "hello")
    assert caught.value.outcome.external_id == "m-7"


def test_an_argument_that_the_function_does_not_take_is_a_clear_failure(guard: Guard) -> None:
    @guard.tool("fs", "file_edit")
    def edit(path: str, text: str) -> None:
        raise AssertionError

    with call_options(tool_call_id="narrow"):
        with pytest.raises(TypeError, match="append"):
            edit("/workspace/a", "x")
        with pytest.raises(AlreadyDone) as caught:
            edit("/workspace/a", "x")
    assert caught.value.outcome.state == "failed_final"


def test_a_default_of_none_says_that_there_is_none(guard: Guard) -> None:
    @guard.tool("fs", "file_read", effect="read")
    def read(path: str, encoding: str | None = None) -> str | None:
        return encoding

    assert read("/workspace/a") is None
    with pytest.raises(CallDenied) as caught:
        read("/workspace/a", None)
    assert caught.value.code.startswith("schema."), "given, it is asked about"


def test_what_cannot_be_guarded_is_refused_where_it_is_decorated(guard: Guard) -> None:
    async def coroutine() -> None: ...
    def generator() -> Iterator[int]:
        yield 1

    def positional(path: str, /) -> None: ...
    def several(*paths: str) -> None: ...
    def plain(path: str) -> None: ...

    for function in (coroutine, generator, positional, several):
        with pytest.raises(TypeError):
            guard.tool("fs", "file_read")(function)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no parameter"):
        guard.tool("fs", "file_read", receives="permitted")(plain)
    with pytest.raises(TypeError, match="coroutine"):
        AsyncGuard(None, subject={}).tool("fs", "file_read")(plain)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="names of tools"):
        Guard(None, subject={}, fail_open_for="fs/file_read")  # type: ignore[arg-type]


def test_begin_and_end_are_the_same_without_a_block(guard: Guard) -> None:
    pending = guard.begin(*MAIL, tool_call_id="plain")
    assert pending.permitted.arguments["body"] == "hello"
    pending.permitted.succeeded(external_id="m-9")
    guard.end(pending)
    with pytest.raises(RuntimeError, match="ended already"):
        guard.end(pending)
    with pytest.raises(AlreadyDone):
        guard.begin(*MAIL, tool_call_id="plain")
    failed = guard.begin(*MAIL, tool_call_id="plain-2", failures={OSError: Outcome.FAILED_FINAL})
    guard.end(failed, OSError())
    broke = guard.begin(*MAIL, tool_call_id="plain-3")
    with pytest.raises(OutcomeUnknown):
        guard.end(broke, OSError())
    with pytest.raises(ValueError, match="no failure"):
        guard.begin(*MAIL).permitted.failed(Outcome.SUCCEEDED)


async def test_a_task_that_is_cancelled_while_its_tool_runs_is_told_as_unknown(
    async_guard: AsyncGuard,
) -> None:
    begun = asyncio.Event()

    async def tool() -> None:
        async with async_guard.call(*MAIL, tool_call_id="cancelled"):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(tool())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(OutcomeUnknown):
        await async_guard.begin(*MAIL, tool_call_id="cancelled")


def test_labels_may_be_made_from_the_arguments(server: RunningServer) -> None:
    seen: list[Any] = []

    def label(arguments: Any) -> dict[str, Any]:
        seen.append(dict(arguments))
        return {"/path": {"source": "user"}}

    with Client(server.url, api_key=server.key, deadline_seconds=30) as client:
        guard = Guard(client, subject=SUBJECT, context=CONTEXT, provenance=label)
        with guard.call("fs", "file_read", {"path": "/workspace/a"}, effect="read"):
            pass
    assert seen == [{"path": "/workspace/a"}]


def test_members_are_presented_anew_with_each_request(server: RunningServer) -> None:
    asked: list[Any] = []

    def present(request: Any) -> dict[str, Any]:
        asked.append(dict(request))
        return {"capability": ["not.a.chain"]}

    with Client(server.url, api_key=server.key, deadline_seconds=30) as client:
        guard = Guard(client, subject=SUBJECT, context=CONTEXT, present=present)
        with pytest.raises(CallDenied) as caught:
            guard.begin("fs", "file_read", {"path": "/workspace/a"})
    assert caught.value.code.startswith("capability.")
    assert len(asked) == 1
    assert "capability" not in asked[0]
