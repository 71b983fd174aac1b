"""The protocol without I/O: a flow yields what to send, is sent what came back, and returns its result."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn, TypeVar

from authz_client._json import decode, encode
from authz_client.errors import MalformedAnswer, RequestRefused, ServerFailure
from authz_client.model import Asked, Decision

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request to send by POST."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A complete answer: its status, its media type without parameters, its body."""

    status: int
    media_type: str
    body: bytes


Flow = Generator[Outgoing, Incoming, _T]


def decide(request: Mapping[str, Any], *, read_now: Callable[[], datetime]) -> Flow[Decision]:
    """One call, one answer. The clock is read after the answer came: an allow may have expired on its way."""
    body = encode(request)
    # Kept from before the answer, so that the caller's dict may change meanwhile.
    asked = Asked.now(request)
    answer = yield Outgoing(path="/decide", body=body)
    if answer.status != _OK:
        _refuse(answer)
    if answer.media_type != "application/json":
        raise MalformedAnswer("the answer is not `application/json`")
    decision = Decision.from_json(decode(answer.body), now=read_now(), asked=asked)
    if request.get("dry_run") and not decision.dry_run:
        raise MalformedAnswer("a dry run was asked for, and the answer does not say that it is one")
    return decision


_OK: Final = 200
_FIRST_REFUSAL: Final = 400
_FIRST_FAILURE: Final = 500


def _refuse(answer: Incoming) -> NoReturn:
    problem = _problem(answer)
    if answer.status >= _FIRST_FAILURE:
        code = problem.get("code")
        raise ServerFailure(
            f"the service failed with status {answer.status}",
            status=answer.status,
            code=code if isinstance(code, str) else None,
        )
    if answer.status < _FIRST_REFUSAL:
        # A redirect is not followed: what stands at its end was not asked for, and must not get the key.
        raise MalformedAnswer(f"status {answer.status} is neither a decision nor a problem")
    code, detail = problem.get("code"), problem.get("detail", "")
    if not isinstance(code, str) or not isinstance(detail, str):
        raise MalformedAnswer(f"status {answer.status} came without a problem that has a `code`")
    raise RequestRefused(
        f"the service refused to decide: `{code}`", status=answer.status, code=code, detail=detail
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
