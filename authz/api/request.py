"""What the ordinary routes share: the caller of a request, and its strictly parsed body."""

from typing import Any

from fastapi import Request

from authz.api.decide import check_media_type, read_body
from authz.core.strict_json import loads
from authz.model.caller import Caller


async def caller_of(request: Request, *roles: str) -> Caller:
    """The authenticated caller with one of `roles`."""
    caller: Caller = await request.app.state.services.authenticator.caller(request.scope["headers"], *roles)
    return caller


async def body_of(request: Request) -> Any:
    """The body by the one JSON parser. Raises `MalformedInput`."""
    check_media_type(request.scope["headers"])
    return loads(await read_body(request.receive, request.app.state.services.max_body_bytes))
