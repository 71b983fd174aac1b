"""The exception tree. An exception means that no decision was made, and is never an allow.

Policy outcomes are data (`authz.model.decision.Decision`); what is raised here becomes an RFC 9457
problem on the wire (`authz.api.problems` holds the one table) or a message of the command line.
This module imports nothing, so every layer may raise these.
"""


class AuthzError(Exception):
    """Base of all errors of this product.

    `code` is stable and machine-readable; `message` is for people: lower case, no final period,
    input in backticks, and what to do next where that is known. Neither carries secrets.
    """

    code = "internal"

    def __init__(self, message: str, *, code: str | None = None, pointer: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.pointer = pointer
        """JSON Pointer (RFC 6901) of the faulty place in the request, where there is one."""


class MalformedInput(AuthzError):
    """The bytes of a request are not what the contract allows. `line` and `column` count from 1."""

    code = "input.malformed"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        pointer: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, code=code, pointer=pointer)
        self.line = line
        self.column = column


class TooLarge(MalformedInput):
    """A body is over the configured size."""


class Unauthenticated(AuthzError):
    """No credential, or one that is unknown or revoked."""

    code = "caller.unauthenticated"


class Forbidden(AuthzError):
    """The caller is known, but may not do this (a role, or a subject it may not assert)."""

    code = "caller.forbidden"


class NotFound(AuthzError):
    """Nothing of that name in the caller's tenant. Another tenant's data is as if absent."""

    code = "not_found"


class OperationConflict(AuthzError):
    """An operation is in a state from which what was reported does not follow. `state` names it."""

    code = "operation.conflict"

    def __init__(self, message: str, *, code: str, state: str) -> None:
        super().__init__(message, code=code)
        self.state = state


class ApprovalRefused(AuthzError):
    """An answer to a request for an approval changes nothing. The refusal is on record already.

    `state` is where the request stands; `None` for whoever may not know.
    """

    code = "approval.refused"

    def __init__(self, message: str, *, code: str, state: str | None) -> None:
        super().__init__(message, code=code)
        self.state = state


class TooManyRequests(AuthzError):
    """The caller does too much of this at a time. The same request may succeed later."""

    code = "caller.too_many_requests"


class BundleError(AuthzError):
    """A policy bundle that cannot be loaded. `problems` lists every fault that was found."""

    code = "bundle.invalid"

    def __init__(self, problems: "tuple[BundleProblem, ...]") -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class BundleProblem:
    """One finding about a bundle: where it stands, what is wrong, what to write instead.

    `code` is stable and machine-readable (`rule.never-matches`). `severity` is one of `SEVERITIES`: an
    `error` keeps the bundle from loading; a `warning` loads, but is surely not what was meant; an `info` is
    for reading. `pointer` is the JSON Pointer of the place inside a document, where that says more.
    """

    __slots__ = ("code", "file", "hint", "line", "message", "pointer", "severity")

    def __init__(
        self,
        message: str,
        *,
        file: str,
        line: int | None = None,
        hint: str = "",
        code: str = "bundle.invalid",
        severity: str = "error",
        pointer: str = "",
    ) -> None:
        self.message = message
        self.file = file
        self.line = line
        self.hint = hint
        self.code = code
        self.severity = severity
        self.pointer = pointer

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")

    def __repr__(self) -> str:
        return f"BundleProblem({str(self)!r})"


SEVERITIES = ("error", "warning", "info")
"""Of `BundleProblem`, the gravest first."""


class BundleStale(AuthzError):
    """The bundle in force may no longer be what its files say, for longer than was configured."""

    code = "bundle.stale"


class RevocationsStale(AuthzError):
    """What was revoked lately is not known, for longer than was configured: no capability is taken."""

    code = "revocations.stale"


class CapabilityDenied(AuthzError):
    """A capability that was asked for is not given. The refusal is on record already.

    `told` are members that the problem on the wire has besides: the rules that decided, which of R, O, P
    and E widened, which link refused.
    """

    code = "capability.refused"

    def __init__(
        self, message: str, *, code: str, pointer: str | None = None, told: "dict[str, object] | None" = None
    ) -> None:
        super().__init__(message, code=code, pointer=pointer)
        self.told = told or {}


class ConfigError(AuthzError):
    """The configuration is invalid: unknown key, wrong type, or values that exclude each other."""

    code = "config.invalid"


class StoreUnavailable(AuthzError):
    """The durable store did not take the record. The answer that depended on it is withheld.

    `internal` says where and by which error code, for logs and operators: strangers are told `message` only.
    """

    code = "store.unavailable"

    def __init__(
        self, message: str, *, code: str | None = None, pointer: str | None = None, internal: str = ""
    ) -> None:
        super().__init__(message, code=code, pointer=pointer)
        self.internal = internal

    def again(self) -> "StoreUnavailable":
        """The same for another who waits: an exception that is raised twice would mix their traces."""
        return StoreUnavailable(self.message, code=self.code, internal=self.internal)


class LogCorrupt(AuthzError):
    """The decision log cannot be continued, because what it holds does not verify."""

    code = "log.corrupt"
