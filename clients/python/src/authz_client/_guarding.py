"""What both guards share: the options of a call, and how a call of a function becomes arguments."""

from __future__ import annotations

import contextvars
import inspect
import logging
import threading
import uuid
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from authz_client._flow import HandOver
from authz_client._guard_flow import GuardedCall
from authz_client.outcomes import Outcome
from authz_client.permitted import Ended

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from authz_client._driver import Finished
    from authz_client.permitted import Permitted, Unsettled

logger = logging.getLogger("authz_client")

DEFAULT_APPROVAL_SECONDS: Final = 300.0
_MAX_UNUSED_ATTEMPTS: Final = 1024
IDS: Final = ("trace_id", "turn_id", "tool_call_id")


class CallOptions(TypedDict, total=False):
    """What may be said of one call, or of every call of a decorated tool.

    `trace_id`, `turn_id`, `tool_call_id`: made at random where they are not given. Given anew with the same
    call after a crash, it runs once. `attempt`: name of this one try; never give one again that may have run.
    `effect`: `read` where the tool changes nothing, so that nothing is told of how it went. `failures`: by
    class of exception, the outcome that it means. `resolve`: from arguments to the claims of
    `context.resolved`, called before the decision and again before the tool runs. `provenance`: labels by
    JSON Pointer, or what makes them from the arguments. `timeout_seconds`: how long the tool may take.
    """

    trace_id: str
    turn_id: str
    tool_call_id: str
    attempt: str
    effect: Literal["read", "change"]
    provenance: Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]
    context: Mapping[str, Any]
    failures: Mapping[type[BaseException], Outcome]
    resolve: Callable[[Mapping[str, Any]], Any]
    advertised_digest: str
    ticket: bool
    timeout_seconds: int
    on_pending: Literal["wait", "raise"]


_options: contextvars.ContextVar[CallOptions] = contextvars.ContextVar("authz_client_options")


@contextmanager
def call_options(**options: Any) -> Iterator[None]:
    """Options (`CallOptions`) of the guarded calls in this block: the ids of a turn, say, or provenance."""
    unknown = options.keys() - CallOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option `{min(unknown)}`")
    token = _options.set({**_options.get({}), **options})  # type: ignore[typeddict-item]
    try:
        yield
    finally:
        _options.reset(token)


class Attempts:
    """Names of tries. One whose tool was not begun is used again by the next try of the same call.

    So a decision that began the act, and whose answer was lost, does not keep its own call from running.
    Kept in memory alone: after a crash nobody knows whether a try had begun.
    """

    def __init__(self) -> None:
        self._unused: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, ids: tuple[str, ...]) -> str:
        """A name that nobody else holds."""
        with self._lock:
            return self._unused.pop(ids, None) or uuid.uuid4().hex

    def give_back(self, ids: tuple[str, ...], attempt: str) -> None:
        """Its tool was not begun."""
        with self._lock:
            self._unused[ids] = attempt
            while len(self._unused) > _MAX_UNUSED_ATTEMPTS:
                self._unused.popitem(last=False)


class Guarding:
    """How a guard turns what it is told into a `GuardedCall`, and an end into an outcome."""

    def __init__(
        self,
        *,
        subject: Mapping[str, Any],
        context: Mapping[str, Any] | None,
        trace_id: str | None,
        provenance: Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]] | None,
        on_pending: Literal["wait", "raise"],
        approval_seconds: float,
        fail_open_for: Collection[str],
        present: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None,
        on_unsettled: Callable[[Unsettled], None] | None,
    ) -> None:
        if isinstance(fail_open_for, str):
            raise TypeError("`fail_open_for` holds names of tools, `server/name`")
        if on_pending not in ("wait", "raise"):
            raise ValueError("`on_pending` is `wait` or `raise`")
        self._subject = dict(subject)
        self._context = dict(context or {})
        self._trace_id = trace_id or uuid.uuid4().hex
        self._provenance = provenance
        self._on_pending = on_pending
        self._approval_seconds = approval_seconds
        self._fail_open_for = set(fail_open_for)
        self._present = present
        self._on_unsettled = on_unsettled
        self._attempts = Attempts()

    def call(self, server: str, tool: str, arguments: Mapping[str, Any], options: CallOptions) -> GuardedCall:
        """The call; `options` go before those of `call_options`, and these before the guard's own."""
        given: CallOptions = {**_options.get({}), **options}
        context = {**self._context, **given.get("context", {})}
        context["trace_id"] = given.get("trace_id") or context.get("trace_id") or self._trace_id
        context["turn_id"] = given.get("turn_id") or context.get("turn_id") or "1"
        context["tool_call_id"] = given.get("tool_call_id") or uuid.uuid4().hex
        provenance = given.get("provenance", self._provenance)
        name = f"{server}/{tool}"
        waits = given.get("on_pending", self._on_pending) == "wait"
        return GuardedCall(
            subject=self._subject,
            server=server,
            tool=tool,
            arguments=dict(arguments),
            provenance=dict(provenance(arguments) if callable(provenance) else provenance or {}),
            context=context,
            attempt=given.get("attempt") or self._attempts.take(_ids_of(context)),
            is_read=given.get("effect", "change") == "read",
            advertised_digest=given.get("advertised_digest"),
            ticket=given.get("ticket", False),
            timeout_seconds=given.get("timeout_seconds"),
            resolve=given.get("resolve"),
            approval_seconds=self._approval_seconds if waits else 0,
            may_fail_open=lambda: name in self._fail_open_for,
            present=self._present,
        )

    def handed_over(self, step: HandOver | Finished) -> Permitted:
        """What may run now. Only A0 without `connect` may ever fail open: what shows more does not again."""
        assert isinstance(step, HandOver)  # noqa: S101 - it ends only after it has handed over
        permitted: Permitted = step.value
        self._note(permitted)
        return permitted

    def _note(self, permitted: Permitted) -> None:
        decision = permitted.decision
        if decision is None or permitted.tool not in self._fail_open_for:
            return
        if decision.authority != "A0" or any(access.verb == "connect" for access in decision.accesses):
            self._fail_open_for.discard(permitted.tool)
            logger.warning(
                "`%s` does more than read what is at hand: it does not fail open any more", permitted.tool
            )

    def not_begun(self, call: GuardedCall) -> None:
        """The call was refused, or there was no answer: the name of its try is good still."""
        self._attempts.give_back(_ids_of(call.context), call.attempt)

    def unsettled(self, unsettled: Unsettled | None) -> None:
        """An outcome could not be told. The call itself is over, and its result stays as it is."""
        if unsettled is None:
            return
        logger.warning(
            "that `%s` ended as `%s` could not be told (%s): its operation `%s` becomes unknown",
            unsettled.permitted.tool,
            unsettled.ended.outcome.value,
            unsettled.failure.message,
            unsettled.permitted.known_decision.decision_id,
        )
        if self._on_unsettled is not None:
            self._on_unsettled(unsettled)


def _ids_of(context: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(context[name]) for name in IDS)


def ended_by(
    permitted: Permitted, error: BaseException | None, failures: Mapping[type[BaseException], Outcome]
) -> Ended:
    """What to tell of a call: what was said of it, or what its exception means.

    Undeclared, an exception of a tool that may run twice means that it may be tried again; of any other one
    that it is not known what came of it.
    """
    if permitted.ended is not None:
        return permitted.ended
    if error is None:
        return Ended(outcome=Outcome.SUCCEEDED)
    detail = type(error).__name__
    for kind in type(error).__mro__:
        if kind in failures:
            return Ended(outcome=Outcome(failures[kind]), detail=detail)
    decision = permitted.decision
    may_run_twice = decision is not None and decision.side_effect in ("none", "idempotent")
    return Ended(outcome=Outcome.FAILED_RETRYABLE if may_run_twice else Outcome.UNKNOWN, detail=detail)


class Signature:
    """How calls of a function become JSON arguments, and the arguments of a decision a call again."""

    def __init__(self, function: Callable[..., Any], *, receives: str | None) -> None:
        self._signature = inspect.signature(function)
        self._receives = receives
        self._open: str | None = None
        for name, parameter in self._signature.parameters.items():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(f"`{name}` has no name in a call: a guarded tool takes arguments by name")
            if parameter.kind is parameter.VAR_KEYWORD:
                self._open = name
        if receives is not None and receives not in self._signature.parameters:
            raise TypeError(f"the function has no parameter `{receives}` to receive what is permitted")

    def arguments(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What is asked about: what was given, and the function's own defaults, so that they are judged too.

        A default of `None` says that there is none. Raises `TypeError` as the call itself would.
        """
        if self._receives is not None:
            kwargs = {**kwargs, self._receives: None}
        bound = self._signature.bind(*args, **kwargs)
        given = set(bound.arguments)
        bound.apply_defaults()
        found = {name: value for name, value in bound.arguments.items() if name in given or value is not None}
        if self._receives is not None:
            del found[self._receives]
        if self._open is not None:
            found |= found.pop(self._open, {})
        return found

    def call(self, permitted: Permitted) -> dict[str, Any]:
        """Keyword arguments: those of the decision. Raises `TypeError` where the function takes them not."""
        keywords: dict[str, Any] = dict(permitted.arguments)
        if self._receives is not None:
            keywords[self._receives] = permitted
        try:
            self._signature.bind(**keywords)
        except TypeError:
            permitted.failed(Outcome.FAILED_FINAL, detail="the function does not take the arguments")
            raise
        return keywords
