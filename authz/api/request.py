"""What the ordinary routes share: the caller of a request, and its strictly parsed body."""

from typing import Any

from fastapi import Request

from authz.api.decide import check_media_type, read_body
from authz.core.strict_json import escape_pointer, loads
from authz.errors import MalformedInput
from authz.model.caller import Caller


async def caller_of(request: Request, *roles: str) -> Caller:
    """The authenticated caller with one of `roles`."""
    caller: Caller = await request.app.state.services.authenticator.caller(request.scope["headers"], *roles)
    return caller


async def body_of(request: Request) -> Any:
    """The body by the one JSON parser. Raises `MalformedInput`."""
    check_media_type(request.scope["headers"])
    return loads(await read_body(request.receive, request.app.state.services.max_body_bytes))


def refuse_unknown_parameters(request: Request) -> None:
    """A filter that nobody reads would answer more than was asked for. Raises `MalformedInput`."""
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            raise MalformedInput(
                f"`{name}` is no parameter of this route; it has {', '.join(sorted(known))}",
                code="input.invalid",
                pointer="/" + escape_pointer(name),
            )
    if len(request.query_params.multi_items()) != len(request.query_params):
        raise MalformedInput("a parameter is sent twice; send each once", code="input.duplicate_name")
