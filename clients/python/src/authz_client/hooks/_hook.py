"""One event, from what the runtime says to what it is told: the only place where that procedure stands."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from authz_client import _requests
from authz_client._flow import HandOver, Terms
from authz_client._guard_flow import GuardedCall, guarded
from authz_client.errors import DecisionUnavailable, RequestRefused
from authz_client.hooks import _replies
from authz_client.hooks._connection import Connection
from authz_client.hooks._event import EventKind, ToolEvent
from authz_client.hooks._failed import HookFailed, NotMapped
from authz_client.hooks._leases import KeptLease, LeaseFolder
from authz_client.hooks._settings import OnAsk, Settings, read_key, state_folder
from authz_client.hooks._tools import DEFAULT_TOOLS, Mapped, ToolTable, same_input
from authz_client.outcomes import Outcome
from authz_client.permitted import Ended, Permitted
from authz_client.refusals import ApprovalPending, CallRefused, NoDecision

_ATTEMPTS: Final = 3
_NOT_BOUND: Final = (
    "Whoever answers in this dialog decides for this runtime alone: "
    "that yes is neither bound to what was judged nor on record."
)


class Hook:
    """One event of one runtime."""

    def __init__(
        self, settings: Settings, tools: ToolTable, connection: Connection, leases: LeaseFolder
    ) -> None:
        self._settings = settings
        self._tools = tools
        self._connection = connection
        self._leases = leases
        self._terms = Terms(
            deadline_seconds=settings.deadline_seconds,
            attempts=_ATTEMPTS,
            read_now=lambda: datetime.now(UTC),
            read_monotonic=time.monotonic,
        )

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str]) -> "Hook":
        """As the settings say. Raises `HookFailed`."""
        tools = ToolTable.read(Path(settings.tools).expanduser() if settings.tools else DEFAULT_TOOLS)
        connection = Connection(settings.url, read_key(settings, environment), uds=settings.uds)
        return cls(settings, tools, connection, LeaseFolder(state_folder(environment)))

    def answer(self, event: ToolEvent) -> str:
        """What to print. Raises `HookFailed`."""
        if event.tool in self._tools.left_to_runtime:
            return ""
        return self._before(event) if event.kind is EventKind.BEFORE else self._after(event)

    def _before(self, event: ToolEvent) -> str:
        """1. find the tool · 2. decide, wait, re-check, begin · 3. keep the lease · 4. answer."""
        try:
            mapped = self._tools.find(event)
            call = self._call(event, mapped)
        except NotMapped as refused:
            return _replies.deny(f"`{event.tool}` did not run: {refused.message}.")
        flow = guarded(call, self._terms)
        try:
            step = self._connection.advance(flow)
        except NoDecision as failure:
            raise HookFailed(failure.for_model()) from failure
        except ApprovalPending as pending:
            return self._pending(event, mapped, pending)
        except CallRefused as refused:
            return _replies.deny(refused.for_model())
        assert isinstance(step, HandOver)  # noqa: S101 - without a refusal the flow hands over
        permitted: Permitted = step.value
        give_back = Ended(outcome=Outcome.FAILED_RETRYABLE, detail="the tool was not begun")
        try:
            reply = _replies.allow(_why(permitted), _updated(event, mapped, permitted.arguments))
            if permitted.is_settled:
                kept = KeptLease(
                    decision_id=permitted.known_decision.decision_id, token=permitted.lease.token
                )
                self._leases.keep(event, kept)
        except (NotMapped, _replies.ReplyTooLong) as refused:
            self._connection.advance(flow, give_back)
            why = refused.message if isinstance(refused, NotMapped) else "its judged input is too long"
            return _replies.deny(f"`{event.tool}` was allowed and did not run: {why}.")
        except HookFailed:
            self._connection.advance(flow, give_back)
            raise
        return reply

    def _call(self, event: ToolEvent, mapped: Mapped) -> GuardedCall:
        """The call as the service is asked about it. Raises `NotMapped`."""
        settings = self._settings
        arguments = mapped.arguments_of(event)
        subject = {"agent": settings.agent, "session": event.session}
        if event.agent_id is not None:
            subject |= {"agent": f"{settings.agent}/{event.agent_id}", "parent_agent": settings.agent}
        if settings.on_behalf_of is not None:
            subject["on_behalf_of"] = settings.on_behalf_of
        context = {
            "trace_id": event.session,
            "turn_id": event.prompt_id or "-",
            "tool_call_id": event.tool_use_id,
            "cwd": event.cwd,
            "versions": {"client": "claude-code"},
        }
        if settings.sandbox_root is not None:
            context["sandbox_root"] = settings.sandbox_root
        return GuardedCall(
            subject=subject,
            server=mapped.server,
            tool=mapped.name,
            arguments=arguments,
            provenance=_provenance(event, mapped, arguments),
            context=context,
            # Never the same twice: a second hook on the same call must not let it run a second time.
            attempt=os.urandom(8).hex(),
            is_read=mapped.reads,
            advertised_digest=None,
            ticket=False,
            timeout_seconds=None if mapped.reads else settings.tool_timeout_seconds,
            resolve=_resolver(event, mapped) if mapped.paths else None,
            approval_seconds=0 if settings.on_ask == OnAsk.DIALOG else settings.approval_seconds,
            may_fail_open=lambda: False,
            present=None,
        )

    def _pending(self, event: ToolEvent, mapped: Mapped, pending: ApprovalPending) -> str:
        """Nobody has answered, or nobody is waited for."""
        if self._settings.on_ask != OnAsk.DIALOG:
            return _replies.deny(
                f"{pending.for_model()} Nobody answered within {self._settings.approval_seconds:g} seconds. "
                "Go on with other work; the same call, made again later, is decided by the answer."
            )
        with contextlib.suppress(DecisionUnavailable):
            # Nobody need answer there what is answered here.
            self._connection.advance(_requests.cancel_approval(pending.approval.id, self._terms))
        judged = pending.decision.arguments if pending.decision is not None else None
        rules = " ".join(f"Rule `{name}`: {reason}" for name, reason in pending.rules)
        try:
            updated = _updated(event, mapped, judged) if judged is not None else None
            return _replies.ask(f"{rules} {_NOT_BOUND}".strip(), updated)
        except (NotMapped, _replies.ReplyTooLong):
            return _replies.deny(f"`{event.tool}` did not run: its judged input cannot be handed back.")

    def _after(self, event: ToolEvent) -> str:
        """Tell how the call ended, by the lease that was kept. Labels of what came back belong here too."""
        lease = self._leases.find(event)
        if lease is None:
            self._check_known(event)
            return ""
        outcome = _outcome(event)
        try:
            self._connection.advance(
                _requests.settle(
                    lease.decision_id,
                    lease_token=lease.token,
                    outcome=outcome,
                    external_id=None,
                    result_digest=None,
                    detail="",
                    terms=self._terms,
                )
            )
        except RequestRefused as refused:
            self._leases.drop(event)
            raise HookFailed(f"how `{event.tool}` ended is not taken: {refused.detail}") from refused
        except DecisionUnavailable as failure:
            raise HookFailed(f"how `{event.tool}` ended could not be told: {failure.message}") from failure
        self._leases.drop(event)
        return ""

    def _check_known(self, event: ToolEvent) -> None:
        """A tool that must be settled has run, and nothing was kept of a permission. Raises `HookFailed`."""
        with contextlib.suppress(NotMapped):
            if self._tools.find(event).reads:
                return
        if self._settings.on_ask != OnAsk.DIALOG:
            raise HookFailed(
                f"`{event.tool}` ran without a permission that is known here: "
                'set the hook for PreToolUse, with `"onFailure": "block"`'
            )


def _updated(event: ToolEvent, mapped: Mapped, judged: Mapping[str, Any]) -> dict[str, Any] | None:
    """The input to run, where that is another than was proposed. Raises `NotMapped`."""
    made = mapped.input_of(event, judged)
    return None if same_input(made, event.tool_input) else made


def _why(permitted: Permitted) -> str:
    rules = ", ".join(f"`{rule.rule}`" for rule in permitted.known_decision.matched)
    return f"allowed by {rules}" if rules else "allowed"


def _provenance(event: ToolEvent, mapped: Mapped, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The model chose it, except what this hook itself has put there.

    A hook does not see what the model took a value from; what its session has read, the service remembers.
    """
    own = set(mapped.constants)
    if mapped.arguments is not None:
        own |= {name for name in mapped.cwd_for if mapped.arguments[name].name not in event.tool_input}
    return {_pointer(name): {"source": "system" if name in own else "model"} for name in arguments}


def _resolver(event: ToolEvent, mapped: Mapped) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """From arguments to what their paths lead to on this machine."""
    # Here, since most calls name no file.
    from authz_client.paths import resolve  # noqa: PLC0415

    def claims(arguments: Mapping[str, Any]) -> dict[str, Any]:
        named = {name: arguments[name] for name in mapped.paths if isinstance(arguments.get(name), str)}
        return {_pointer(name): resolve(path, cwd=event.cwd).claim() for name, path in named.items()}

    return claims


def _pointer(name: str) -> str:
    """RFC 6901."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _outcome(event: ToolEvent) -> Outcome:
    """What the runtime knows of how it ended."""
    runs_on = isinstance(event.response, dict) and bool(event.response.get("backgroundTaskId"))
    if event.is_interrupted or runs_on:
        return Outcome.UNKNOWN
    return Outcome.FAILED_FINAL if event.kind is EventKind.AFTER_FAILURE else Outcome.SUCCEEDED
