"""Guards: a tool runs only as the service decided, once, and the service is told how it ended.

    guard = Guard(client, subject={"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"})

    @guard.tool("mail", "send")
    def send(to: list[str], subject: str, body: str) -> str: ...

Whatever keeps the call from running is a `CallRefused`, and `CallRefused.for_model` says why. Tools of a
`Guard` are plain functions; those of an `AsyncGuard` are coroutine functions.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack

from authz_client._driver import Finished
from authz_client._guard_flow import GuardedCall, guarded
from authz_client._guarding import (
    DEFAULT_APPROVAL_SECONDS,
    CallOptions,
    Guarding,
    Signature,
    call_options,
    ended_by,
)
from authz_client.outcomes import Outcome
from authz_client.permitted import Ended, Permitted, Unsettled
from authz_client.refusals import (
    AlreadyDone,
    ApprovalPending,
    ApprovalRefused,
    CallDenied,
    CallInProgress,
    CallRefused,
    IdentityRefused,
    NoDecision,
    ObligationUnmet,
    OutcomeUnknown,
    StartRefused,
)

if TYPE_CHECKING:
    from types import TracebackType

    from authz_client._flow import Flow
    from authz_client.client import AsyncClient, Client

__all__ = [
    "AlreadyDone",
    "ApprovalPending",
    "ApprovalRefused",
    "AsyncGuard",
    "CallDenied",
    "CallInProgress",
    "CallOptions",
    "CallRefused",
    "Guard",
    "IdentityRefused",
    "NoDecision",
    "ObligationUnmet",
    "Outcome",
    "OutcomeUnknown",
    "Pending",
    "Permitted",
    "StartRefused",
    "Unsettled",
    "call_options",
]

P = ParamSpec("P")
R = TypeVar("R")
Failures = Mapping[type[BaseException], Outcome]


class Guard:
    """Guards plain functions. Threads may share it.

    `subject`, `context`: of every call (`cwd`, `sandbox_root`, `versions`, …). `provenance`: labels of the
    arguments, or what makes them. `on_pending`: where a person has to agree, `wait` for at most
    `approval_seconds`, or `raise` at once. `present`: called with each request, gives the `capability` and
    the `proof` for it. `on_unsettled`: is told of outcomes that could not be told to the service.

    `fail_open_for` names tools (`server/name`) that run without a decision where the transport failed before
    any answer began. It holds only for calls with `effect="read"`, never after any answer, and no longer for
    a tool that a decision showed to be above A0, or to connect. Each such run is logged as a warning.
    """

    def __init__(
        self,
        client: Client,
        *,
        subject: Mapping[str, Any],
        context: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
        provenance: Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        on_pending: Literal["wait", "raise"] = "wait",
        approval_seconds: float = DEFAULT_APPROVAL_SECONDS,
        fail_open_for: Collection[str] = (),
        present: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        on_unsettled: Callable[[Unsettled], None] | None = None,
    ) -> None:
        self._client = client
        self._shared = Guarding(
            subject=subject,
            context=context,
            trace_id=trace_id,
            provenance=provenance,
            on_pending=on_pending,
            approval_seconds=approval_seconds,
            fail_open_for=fail_open_for,
            present=present,
            on_unsettled=on_unsettled,
        )

    def tool(
        self, server: str, name: str, *, receives: str | None = None, **options: Unpack[CallOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a function: it runs with the arguments of the decision, or raises `CallRefused`.

        `receives` names a parameter that is given the `Permitted` (key for the endpoint, outcome to tell),
        and is no argument of the tool.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            if _is_no_plain_function(function):
                raise TypeError("a tool of a `Guard` is a plain function; see `AsyncGuard`")
            signature = Signature(function, receives=receives)

            @functools.wraps(function)
            def run(*args: P.args, **kwargs: P.kwargs) -> R:
                arguments = signature.arguments(*args, **kwargs)
                with self.call(server, name, arguments, **options) as permitted:
                    return function(**signature.call(permitted))  # type: ignore[call-arg] # by name

            return run

        return decorate

    def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> AbstractContextManager[Permitted]:
        """`with guard.call(…) as permitted:` the block is the tool: it runs once, or `CallRefused` is raised.

        What it raises is told as `failures` says. Where that means that nobody knows what came of it, the
        exception is the cause of an `OutcomeUnknown`.
        """
        return _Block(self, server, tool, arguments, options)

    def begin(
        self, server: str, tool: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> Pending:
        """The same without a block: run the tool with `arguments` of what is `permitted`, then `end` it."""
        call = self._shared.call(server, tool, arguments, options)
        flow = guarded(call, self._client.terms)
        try:
            step = self._client.driver.advance(flow)
        except Exception:
            self._shared.not_begun(call)
            raise
        return Pending(call, flow, self._shared.handed_over(step), options.get("failures", {}))

    def end(self, pending: Pending, error: BaseException | None = None) -> None:
        """Tell how it ended: as `permitted` was told, or else by what it raised, or that it succeeded."""
        ended = pending.ended(error)
        finished = self._client.driver.advance(pending.flow, ended)
        self._shared.unsettled(finished.result if isinstance(finished, Finished) else None)
        pending.raise_unknown(error, ended)


class AsyncGuard:
    """`Guard` for coroutine functions, over an `AsyncClient`."""

    def __init__(
        self,
        client: AsyncClient,
        *,
        subject: Mapping[str, Any],
        context: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
        provenance: Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        on_pending: Literal["wait", "raise"] = "wait",
        approval_seconds: float = DEFAULT_APPROVAL_SECONDS,
        fail_open_for: Collection[str] = (),
        present: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        on_unsettled: Callable[[Unsettled], None] | None = None,
    ) -> None:
        self._client = client
        self._settling: set[asyncio.Future[Any]] = set()
        self._shared = Guarding(
            subject=subject,
            context=context,
            trace_id=trace_id,
            provenance=provenance,
            on_pending=on_pending,
            approval_seconds=approval_seconds,
            fail_open_for=fail_open_for,
            present=present,
            on_unsettled=on_unsettled,
        )

    def tool(
        self, server: str, name: str, *, receives: str | None = None, **options: Unpack[CallOptions]
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
        """See `Guard.tool`."""

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
            if not inspect.iscoroutinefunction(function):
                raise TypeError("a tool of an `AsyncGuard` is a coroutine function")
            signature = Signature(function, receives=receives)

            @functools.wraps(function)
            async def run(*args: P.args, **kwargs: P.kwargs) -> R:
                arguments = signature.arguments(*args, **kwargs)
                async with self.call(server, name, arguments, **options) as permitted:
                    return await function(**signature.call(permitted))  # type: ignore[call-arg] # by name

            return run

        return decorate

    def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[Permitted]:
        """See `Guard.call`."""
        return _AsyncBlock(self, server, tool, arguments, options)

    async def begin(
        self, server: str, tool: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> Pending:
        """See `Guard.begin`."""
        call = self._shared.call(server, tool, arguments, options)
        flow = guarded(call, self._client.terms)
        try:
            step = await self._client.driver.advance(flow)
        except BaseException:
            # Also of a task that is cancelled meanwhile: its tool did not begin.
            self._shared.not_begun(call)
            raise
        return Pending(call, flow, self._shared.handed_over(step), options.get("failures", {}))

    async def end(self, pending: Pending, error: BaseException | None = None) -> None:
        """See `Guard.end`. It is told to the end, also where the task is cancelled meanwhile."""
        ended = pending.ended(error)
        telling = asyncio.ensure_future(self._client.driver.advance(pending.flow, ended))
        self._settling.add(telling)
        telling.add_done_callback(self._settling.discard)
        finished = await asyncio.shield(telling)
        self._shared.unsettled(finished.result if isinstance(finished, Finished) else None)
        pending.raise_unknown(error, ended)


class Pending:
    """A call between its begin and its end."""

    def __init__(
        self, call: GuardedCall, flow: Flow[Unsettled | None], permitted: Permitted, failures: Failures
    ) -> None:
        self.permitted = permitted
        self.flow = flow
        self._name = call.name
        self._failures = failures
        self._is_over = False

    def ended(self, error: BaseException | None) -> Ended:
        """How it ended. Raises `RuntimeError` the second time."""
        if self._is_over:
            raise RuntimeError("the call has ended already")
        self._is_over = True
        return ended_by(self.permitted, error, self._failures)

    def raise_unknown(self, error: BaseException | None, ended: Ended) -> None:
        """In place of an exception after which nobody knows what came of the call."""
        if isinstance(error, Exception) and ended.outcome is Outcome.UNKNOWN and self.permitted.is_settled:
            raise OutcomeUnknown(
                f"it failed (`{type(error).__name__}`), and may have taken effect all the same: do not "
                "repeat it before that is known",
                tool=self._name,
                code="operation.unknown",
                next=("query_status", "escalate", "stop"),
                decision=self.permitted.decision,
            ) from error


class _Block(AbstractContextManager[Permitted]):
    def __init__(
        self, guard: Guard, server: str, tool: str, arguments: Mapping[str, Any], options: CallOptions
    ) -> None:
        self._guard = guard
        self._begin = functools.partial(guard.begin, server, tool, arguments, **options)

    def __enter__(self) -> Permitted:
        self._pending = self._begin()
        return self._pending.permitted

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.end(self._pending, error)


class _AsyncBlock(AbstractAsyncContextManager[Permitted]):
    def __init__(
        self, guard: AsyncGuard, server: str, tool: str, arguments: Mapping[str, Any], options: CallOptions
    ) -> None:
        self._guard = guard
        self._begin = functools.partial(guard.begin, server, tool, arguments, **options)

    async def __aenter__(self) -> Permitted:
        self._pending = await self._begin()
        return self._pending.permitted

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._guard.end(self._pending, error)


def _is_no_plain_function(function: Callable[..., Any]) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
        or inspect.isgeneratorfunction(function)
    )
