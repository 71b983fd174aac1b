"""Errors as pages for people: what happened and what to do next, and nothing of the inside."""

import logging
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse

from authz.errors import (
    AuthzError,
    BundleStale,
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
from authz.ui.render import render

logger = logging.getLogger("authz.ui")

# The first class that fits decides.
_STATUS: Final[tuple[tuple[type[AuthzError], int], ...]] = (
    (TooLarge, 413),
    (MalformedInput, 400),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (OperationConflict, 409),
    (TooManyRequests, 429),
    (BundleStale, 503),
    (RevocationsStale, 503),
    (StoreUnavailable, 503),
)
_STATUS_OF_CODE: Final = {
    "route.method": 405,
    "input.timeout": 408,
    "input.media_type": 415,
    "rate.limited": 429,
    "account.changed": 409,
    "oidc.unavailable": 503,
}
_TITLES: Final = {
    400: "That cannot be read",
    401: "You are not signed in",
    403: "That is not for you",
    404: "There is nothing here",
    405: "That cannot be done here",
    408: "That took too long",
    409: "That was changed meanwhile",
    413: "That is too large",
    415: "That cannot be read",
    429: "Too many tries",
    500: "Something went wrong here",
    503: "Not possible at this moment",
}
_WHAT_NOW: Final = {
    400: "Go back and try again. Nothing was changed.",
    401: "Sign in and try again. Nothing was changed.",
    403: "Nothing was changed. Whoever runs this service can tell who may do it.",
    404: "It may have been removed, it may never have been there, or it belongs to somebody else.",
    429: "Wait a minute and try again.",
    500: "Nothing was approved by this. Try again; if it stays so, tell whoever runs this service.",
    503: "Nothing was approved by this. Try again in a moment.",
}


def add_error_pages(app: FastAPI) -> None:
    """Every way in which a request can fail gets its page."""
    app.add_exception_handler(AuthzError, _of_error)
    app.add_exception_handler(RequestValidationError, _of_parameters)
    app.add_exception_handler(404, _of_unknown)
    app.add_exception_handler(405, _of_method)
    app.add_exception_handler(Exception, _of_fault)


def status_of(error: AuthzError) -> int:
    """The HTTP status of an error; 500 for what is not in the table."""
    narrow = _STATUS_OF_CODE.get(error.code)
    if narrow is not None:
        return narrow
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_page(request: Request, status: int, message: str = "") -> Response:
    """A page that says `message`, if there is one for people, and what can be done."""
    return render(
        "error.html",
        person=getattr(request.state, "person", None),
        status=status,
        title=_TITLES.get(status, _TITLES[500]),
        message=f"{message[:1].upper()}{message[1:]}." if message else "",
        what_now=_WHAT_NOW.get(status, _WHAT_NOW[400]),
    )


async def _of_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AuthzError)  # noqa: S101 - registered for this class only
    status = status_of(error)
    if status == 401 and request.method == "GET" and error.code == Unauthenticated.code:
        return to_sign_in(request)
    if status >= 500:
        logger.error("a page failed: %s", error.code, exc_info=error if status == 500 else None)
    # Of a fault of ours nothing is told but that there is one.
    return error_page(request, status, error.message if status < 500 else "")


def to_sign_in(request: Request) -> Response:
    """To the sign-in page, and from there back to this one."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/ui/sign-in?next={quote(here, safe='')}", 303)


async def _of_parameters(request: Request, error: Exception) -> Response:
    return error_page(request, 400, "a part of the address cannot be read")


async def _of_unknown(request: Request, error: Exception) -> Response:
    return error_page(request, 404)


async def _of_method(request: Request, error: Exception) -> Response:
    return error_page(request, 405)


async def _of_fault(request: Request, error: Exception) -> Response:
    logger.error("a page failed", exc_info=error)
    return error_page(request, 500)
