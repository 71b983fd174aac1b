"""The protocol without I/O: a flow yields a step, is sent what came of it, and returns its result.

A failure of a step is raised inside the flow, which may go on. `authz_client._driver` takes the steps over
blocking and over asynchronous connections, so that no procedure is written twice.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn, TypeVar

from authz_client._json import decode
from authz_client.errors import (
    DecisionUnavailable,
    MalformedAnswer,
    RequestRefused,
    ServerFailure,
    Timeout,
    Unreachable,
)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """Step: a request to send, whose whole answer is waited for so long. Sent back: `Incoming`."""

    method: str
    path: str
    body: bytes | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A complete answer: its status, its media type without parameters, its body."""

    status: int
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Step: let so much time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Do:
    """Step: call the runtime's own function, and wait for what it returns if that is awaited."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Step: whoever drives the flow goes on with `value`, and sends later how that ended."""

    value: Any


Step = Outgoing | Pause | Do | HandOver
Flow = Generator[Step, Any, _T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a client asks."""

    deadline_seconds: float
    """For a request with all its repeats."""
    attempts: int
    """How often a request may be sent that is safe to repeat unchanged."""
    read_now: Callable[[], datetime]
    read_monotonic: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request before it is sent."""

    path: str
    method: str = "POST"
    body: bytes | None = None
    is_repeatable: bool = False
    """Sent twice with the same bytes it has one effect, and the second answer is as good as the first."""
    wait_seconds: float = 0
    """How long the service may hold the answer back, because it was asked to."""


FIRST_PAUSE_SECONDS: Final = 0.05
_OK: Final = 200
_FIRST_REFUSAL: Final = 400
_FIRST_FAILURE: Final = 500
_UNAVAILABLE: Final = 503


def answered(ask: Ask, terms: Terms) -> Flow[Any]:
    """The JSON value of an answer with status 200. Raises a `DecisionUnavailable` for every other end."""
    answer = yield from _exchanged(ask, terms)
    if answer.status != _OK:
        refuse(answer.status, _problem(answer))
    if answer.media_type != "application/json":
        raise MalformedAnswer("the answer is not `application/json`")
    return decode(answer.body)


def _exchanged(ask: Ask, terms: Terms) -> Flow[Incoming]:
    """Send it, and again with the same bytes where that is safe, until there is an answer that lasts.

    Repeated is what was not answered, what broke off, and a 503 that says that the same request may help.
    A try that may be followed by another waits for half of what is left of the deadline. At the end, what
    was answered outlasts what was not: `Timeout` and `Unreachable` mean that no try was answered at all.
    """
    ends_at = terms.read_monotonic() + terms.deadline_seconds
    told: Incoming | MalformedAnswer | None = None
    failure: DecisionUnavailable = Timeout("no answer within the deadline")
    pause = FIRST_PAUSE_SECONDS
    for repeats_left in reversed(range(terms.attempts if ask.is_repeatable else 1)):
        left = ends_at - terms.read_monotonic()
        if left <= 0:
            break
        seconds = ask.wait_seconds + (left / 2 if repeats_left else left)
        try:
            answer: Incoming = yield Outgoing(
                method=ask.method, path=ask.path, body=ask.body, seconds=seconds
            )
        except (Timeout, Unreachable) as error:
            failure = error
        except MalformedAnswer as error:
            if not error.broke_off:
                raise
            told = error
        else:
            if not _may_be_repeated(answer):
                return answer
            told = answer
        if repeats_left:
            yield Pause(min(pause, max(0.0, ends_at - terms.read_monotonic()) / 2))
            pause *= 2
    if isinstance(told, Incoming):
        return told
    raise told or failure


def _may_be_repeated(answer: Incoming) -> bool:
    return answer.status == _UNAVAILABLE and _problem(answer).get("retry_unchanged") is True


def refuse(status: int, problem: Mapping[str, Any]) -> NoReturn:
    """Raise what a status other than 200 means; `problem` has the members of an RFC 9457 body, or none."""
    code, detail, state = problem.get("code"), problem.get("detail", ""), problem.get("state")
    if status >= _FIRST_FAILURE:
        raise ServerFailure(
            f"the service failed with status {status}",
            status=status,
            code=code if isinstance(code, str) else None,
        )
    if status < _FIRST_REFUSAL:
        # A redirect is not followed: what stands at its end was not asked for, and must not get the key.
        raise MalformedAnswer(f"status {status} is neither an answer nor a problem")
    if not isinstance(code, str) or not isinstance(detail, str):
        raise MalformedAnswer(f"status {status} came without a problem that has a `code`")
    raise RequestRefused(
        f"the service refused the request: `{code}`",
        status=status,
        code=code,
        detail=detail,
        state=state if isinstance(state, str) else None,
    )


def _problem(answer: Incoming) -> Mapping[str, Any]:
    """The members of an RFC 9457 problem; none when the body is not one."""
    if answer.media_type != "application/problem+json":
        return {}
    try:
        value = decode(answer.body)
    except MalformedAnswer:
        return {}
    return value if isinstance(value, dict) else {}
