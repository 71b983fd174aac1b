"""What the ordinary routes share: the caller of a request, and its strictly parsed body."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request

from authz.api.auth import check_role
from authz.api.body import check_media_type, read_body
from authz.core.strict_json import escape_pointer, loads
from authz.errors import MalformedInput
from authz.model.account import SignedIn
from authz.model.caller import Caller
from authz.service.bundles import Admitted


def caller_with(*roles: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the authenticated caller, which has one of `roles`, once its whole request is there.

    FastAPI resolves dependencies before it validates a route's own parameters, so a stranger is told
    nothing of them. The caller is left on the request, so that whatever refuses it can be recorded.
    """

    async def caller_of(request: Request) -> Caller:
        caller = await _admit(request, roles)
        if request.method == "POST":
            request.state.body = await read_body(request.receive, request.app.state.services.max_body_bytes)
            # A body can take long to come: what counts is who the caller is, and what is in force, after it.
            caller = await _admit(request, roles)
        return caller

    return caller_of


async def _admit(request: Request, roles: tuple[str, ...]) -> Caller:
    admitted: Admitted = await request.app.state.services.authenticator.admit(request.scope["headers"])
    request.state.caller = admitted.caller
    # What the request goes by from here on: a reload meanwhile is for the next one.
    request.state.ruleset = admitted.ruleset
    check_role(admitted, *roles)
    return admitted.caller


def anyone_with(*roles: str) -> Callable[[Request], Awaitable[Caller | SignedIn]]:
    """A dependency: a caller with one of `roles`, or a person who is signed in, whatever its roles."""

    async def asker_of(request: Request) -> Caller | SignedIn:
        asker = await admit_anyone(request, roles)
        if request.method == "POST":
            request.state.body = await read_body(request.receive, request.app.state.services.max_body_bytes)
            asker = await admit_anyone(request, roles)
        return asker

    return asker_of


async def admit_anyone(request: Request, roles: tuple[str, ...]) -> Caller | SignedIn:
    """Who sends this request, as of now: whoever answers it long after it came asks again."""
    found = await request.app.state.services.authenticator.admit_anyone(request.scope["headers"])
    if isinstance(found, SignedIn):
        return found
    admitted: Admitted = found
    request.state.caller = admitted.caller
    check_role(admitted, *roles)
    return admitted.caller


async def body_of(request: Request) -> Any:
    """The body, which `caller_with` has read, by the one JSON parser. Raises `MalformedInput`."""
    check_media_type(request.scope["headers"])
    return loads(request.state.body)


def refuse_body(request: Request) -> None:
    """For routes that take none: what nobody reads was not meant for this route. Raises `MalformedInput`."""
    if request.state.body:
        raise MalformedInput("this route takes no body; send none", code="input.invalid")


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
