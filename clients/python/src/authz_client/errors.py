"""Every way to be left without an answer. Each is a refusal: none of them may be read as an allow."""


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


class ServerFailure(DecisionUnavailable):
    """The service, or a proxy before it, answered with a status of 500 or more."""

    def __init__(self, message: str, *, status: int, code: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """The machine code of the problem, or `None` when the body was not one."""


class RequestRefused(DecisionUnavailable):
    """The service refused to decide, with an RFC 9457 problem and a status of 400 to 499."""

    def __init__(self, message: str, *, status: int, code: str, detail: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.detail = detail
