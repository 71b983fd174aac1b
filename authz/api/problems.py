"""Errors on the wire: RFC 9457 problem+json. An HTTP error means that no decision was made."""

from typing import Any, Final

import orjson
from pydantic import BaseModel, Field

from authz.errors import (
    ApprovalRefused,
    AuthzError,
    BundleStale,
    CapabilityDenied,
    Forbidden,
    MalformedInput,
    NotFound,
    OperationConflict,
    RevocationsStale,
    StoreUnavailable,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
)

PROBLEM_JSON: Final = "application/problem+json"
INTERNAL: Final = "the request could not be handled"
"""All that a caller is told of a fault of ours."""


class Problem(BaseModel):
    """RFC 9457 problem+json. No decision was made."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    next: list[str]
    retry_unchanged: bool
    pointer: str | None = None
    line: int | None = None
    column: int | None = None
    stage: str | None = None
    component: str | None = Field(
        default=None, description="Of a capability: which of R, O, P, E it would widen, or does not cover."
    )
    reason: str | None = Field(default=None, description="Of a capability: the rule of the profile.")
    link: int | None = Field(default=None, description="Of a chain: which link refused, 0 for the root.")
    agent: str | None = Field(default=None, description="Who holds that link.")
    entry: int | None = None
    location: str | None = None
    right: str | None = None
    state: str | None = Field(default=None, description="Of an operation or an approval: where it stands.")
    matched: list[dict[str, Any]] | None = None


# The one table of error → status. The first class that fits decides, so the narrow ones come first.
STATUS: Final[tuple[tuple[type[AuthzError], int, str], ...]] = (
    (TooLarge, 413, "body too large"),
    (MalformedInput, 400, "malformed request"),
    (Unauthenticated, 401, "not authenticated"),
    (Forbidden, 403, "not permitted for this caller"),
    (CapabilityDenied, 403, "the capability is refused"),
    (NotFound, 404, "not found"),
    (OperationConflict, 409, "the operation is in another state"),
    (ApprovalRefused, 409, "the answer changes nothing"),
    (TooManyRequests, 429, "too much at a time"),
    (BundleStale, 503, "the policy bundle is stale"),
    (RevocationsStale, 503, "what was revoked is not known"),
    (StoreUnavailable, 503, "the store is unavailable"),
)

# Codes with a status that is narrower than their class's.
_STATUS_OF_CODE: Final = {
    "input.media_type": (415, "unsupported media type"),
    "input.timeout": (408, "request timeout"),
    "input.headers_too_large": (431, "headers too large"),
    "route.method": (405, "method not allowed"),
    **dict.fromkeys(
        (
            *("approval.not_a_person", "approval.own_request", "approval.not_permitted"),
            *("approval.not_an_approver", "approval.factor_too_weak", "approval.factor_not_proven"),
        ),
        (403, "not permitted for this person or caller"),
    ),
}

# Whether the same request may succeed later, and what to do until then.
_RETRY: Final = frozenset({408, 429, 503})
_CHANGE: Final = ("change_arguments", "stop")
_NEXT: Final = {
    400: _CHANGE,
    408: ("wait",),
    409: ("query_status", "stop"),
    413: _CHANGE,
    415: _CHANGE,
    429: ("wait",),
    431: _CHANGE,
    503: ("wait",),
}


def status_of(error: AuthzError) -> tuple[int, str]:
    """(HTTP status, title) of an error; what is not in the table is an internal error."""
    if error.code in _STATUS_OF_CODE:
        return _STATUS_OF_CODE[error.code]
    for kind, status, title in STATUS:
        if isinstance(error, kind):
            return status, title
    return 500, "internal error"


def problem(error: AuthzError) -> tuple[int, dict[str, Any]]:
    """(status, body) of an error as the caller sees it. Internals stay in the service's own log."""
    status, title = status_of(error)
    body: dict[str, Any] = {
        "type": f"urn:authz:problem:{error.code if status != 500 else 'internal'}",
        "title": title,
        "status": status,
        "code": error.code if status != 500 else "internal",
        "detail": error.message if status != 500 else INTERNAL,
        "next": list(_NEXT.get(status, ("stop",))),
        "retry_unchanged": status in _RETRY,
    }
    if error.pointer is not None:
        body["pointer"] = error.pointer
    if isinstance(error, MalformedInput) and error.line is not None:
        body["line"] = error.line
        body["column"] = error.column
    if isinstance(error, OperationConflict) or (isinstance(error, ApprovalRefused) and error.state):
        body["state"] = error.state
    if isinstance(error, CapabilityDenied):
        body |= error.told
    return status, body


def dump_problem(error: AuthzError) -> tuple[int, bytes]:
    """(status, JSON bytes) of an error as problem+json."""
    status, body = problem(error)
    return status, orjson.dumps(body)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of a route."""
    titles = {
        400: "The request is malformed; nothing was decided.",
        401: "No usable credential.",
        403: "The caller may not do this.",
        404: "Nothing of that name for this caller.",
        408: "The body did not arrive in time.",
        409: "What was reported does not follow from the state that the operation is in: see `state`.",
        413: "The body is too large.",
        429: "The caller has as many of these under way as it may.",
        415: "The body is not declared as plain JSON in UTF-8.",
        503: "The store is unavailable, or what decides is stale; nothing was decided or read.",
    }
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": titles[status], "content": {PROBLEM_JSON: {"schema": schema}}}
        for status in statuses
    }
