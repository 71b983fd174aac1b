"""Every way to be left without an answer, or without a safe way to act on one.

Each is a refusal: none of them may be read as an allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from authz_client.model import Decision


class DecisionUnavailable(Exception):
    """No decision was received, so the call must not run.

    Messages are lower case and hold neither the API key nor the arguments of the call.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RequestNotEncodable(DecisionUnavailable):
    """The request cannot be written as JSON (NaN, a lone surrogate, a value of a foreign type)."""


class Timeout(DecisionUnavailable):
    """The deadline passed before an answer began."""


class Unreachable(DecisionUnavailable):
    """The connection failed before an answer began."""


class MalformedAnswer(DecisionUnavailable):
    """Something answered, but not with a decision that may be acted on.

    Also raised when an answer broke off, and for an allow that contradicts itself or has expired.
    """

    def __init__(self, message: str, *, broke_off: bool = False) -> None:
        super().__init__(message)
        self.broke_off = broke_off
        """The connection ended before the answer was whole: what was asked may have been done."""


class ServerFailure(DecisionUnavailable):
    """The service, or a proxy before it, answered with a status of 500 or more."""

    def __init__(self, message: str, *, status: int, code: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """The machine code of the problem, or `None` when the body was not one."""


class RequestRefused(DecisionUnavailable):
    """The service refused to decide, with an RFC 9457 problem and a status of 400 to 499."""

    def __init__(
        self, message: str, *, status: int, code: str, detail: str, state: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.detail = detail
        self.state = state
        """Where the operation or the approval stands that the request was about."""


class ExecutionRefused(Exception):
    """A decision was made, or is about to be asked for, but the call cannot be run as it was decided.

    Never an allow, and never to be answered by running the call another way. Messages are lower case and
    say what to do next.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotCovered(ExecutionRefused):
    """The decision is none that permits this: no live allow, or one of another object or verb."""


class UnsupportedPlatform(ExecutionRefused):
    """This system has no way to do it safely. There is no unsafe way to fall back on."""


class PathRefused(ExecutionRefused):
    """The path has no one object that could be decided on."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code
        """Stable: `path.loop`, `path.not_directory`, `path.process_alias`, …"""


class ObjectChanged(ExecutionRefused):
    """What stands at the path is not what was decided on: resolve and ask again."""


class HopRefused(ExecutionRefused):
    """The decision on one hop of a fetch is not an allow. `decision` says why and what may be tried."""

    def __init__(self, message: str, *, decision: Decision) -> None:
        super().__init__(message)
        self.decision = decision


class AddressRefused(ExecutionRefused):
    """A name led to an address of a class that the decision on the name does not cover."""


class FetchFailed(ExecutionRefused):
    """There is no complete response: no connection, bad TLS, over a limit, or not HTTP."""
