"""What the pages' own scripts post and are answered: small JSON, and errors as `{code, message}`."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Final

import orjson
from fastapi import Request, Response

from authz.core.strict_json import loads
from authz.errors import AuthzError, MalformedInput
from authz.ui.bodies import read_body
from authz.ui.error_pages import status_of

MAX_BYTES: Final = 64 * 1024
_log = logging.getLogger("authz.ui")
_Route = Callable[[Request], Coroutine[Any, Any, Response]]


async def json_of(request: Request) -> Mapping[str, Any]:
    """The object that was posted. Raises `MalformedInput`, `TooLarge`.

    The media type is one that no form of another site can send without asking first.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise MalformedInput("send `application/json`", code="input.media_type")
    document = loads(await read_body(request, MAX_BYTES, what="the answer of a passkey"))
    if not isinstance(document, dict):
        raise MalformedInput("send a JSON object", code="input.invalid")
    return document


def text_of(document: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """A text member. Raises `MalformedInput`."""
    value = document.get(name, default)
    if not isinstance(value, str):
        raise MalformedInput(f"`{name}` must be a text", code="input.invalid", pointer=f"/{name}")
    return value


def object_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object member. Raises `MalformedInput`."""
    value = document.get(name)
    if not isinstance(value, dict):
        raise MalformedInput(f"`{name}` must be an object", code="input.invalid", pointer=f"/{name}")
    return value


def answer(document: Any, status: int = 200) -> Response:
    """JSON that nobody keeps."""
    return Response(
        orjson.dumps(document), status, {"cache-control": "no-store"}, media_type="application/json"
    )


def for_scripts(route: _Route) -> _Route:
    """A route whose errors are read by a script and not by a person."""

    @wraps(route)
    async def told(request: Request) -> Response:
        try:
            return await route(request)
        except AuthzError as error:
            status = status_of(error)
            if status >= 500:
                _log.error("a script's request failed: %s", error.code)
            message = error.message if status < 500 else "not possible at this moment, try again"
            return answer({"code": error.code, "message": message}, status)

    return told
