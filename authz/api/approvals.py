"""`/approvals`: requests for approvals, as runtimes wait for them and people answer them (spec section 8)."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from authz.api.approvals_request import (
    READERS,
    Anyone,
    Reader,
    answer,
    find_seen,
    now_ms,
    out,
    place_of,
    service_of,
    to_json,
)
from authz.api.approvals_stream import stream_all, stream_one
from authz.api.approvals_wire import (
    ApprovalRequestOut,
    ApprovalsOut,
    ReceiptsOut,
    ShownOut,
    State,
    receipts_out,
)
from authz.api.problems import problem_responses
from authz.api.request import admit_anyone, refuse_unknown_parameters
from authz.api.sse import EVENT_STREAM, EventStream
from authz.core.approval_moves import Refused
from authz.core.shown import Shown
from authz.errors import Forbidden, MalformedInput, NotFound
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalQuery
from authz.model.caller import Caller
from authz.service.approvals_view import ConfirmationPage, check_sees, sees_all

router = APIRouter(tags=["approvals"])

MAX_WAIT_SECONDS: Final = 55
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
        "description": "Events `approval`, whose data is an `ApprovalEventOut`.",
    },
    **problem_responses(400, 401, 403, 404, 429, 503),
}
_SEEN: Final = (
    "A key with role `decide` sees what its own credential asked for, one with `audit` all of its tenant. "
    "People with a role see all of their tenant, others what was asked on their own behalf."
)
_SEEN_BY_ID: Final = (
    f"{_SEEN} By its id a key with role `decide` also sees what was asked for a subject that it may assert: "
    "it may have joined the request."
)


@router.get(
    "/approvals",
    response_model=ApprovalsOut,
    summary="Requests for approvals",
    description=f"{_SEEN} All filters must match; newest first.",
    responses=problem_responses(400, 401, 403, 503),
)
async def search(
    request: Request,
    asker: Reader,
    state: Annotated[State | None, Query(description="As told now.")] = None,
    agent: Annotated[str, Query(max_length=256)] = "",
    on_behalf_of: Annotated[str, Query(max_length=256)] = "",
    session: Annotated[str, Query(max_length=256)] = "",
    tool: Annotated[str, Query(max_length=1024, description="`server identity/name`")] = "",
    trace_id: Annotated[str, Query(max_length=256)] = "",
    grants: Annotated[bool, Query(description="Only those of which something is left to use.")] = False,
    before: Annotated[str, Query(max_length=128)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Search."""
    refuse_unknown_parameters(request)
    key_id = ""
    if not sees_all(asker):
        if isinstance(asker, Caller):
            key_id = asker.key_id
        elif on_behalf_of in ("", asker.person):
            on_behalf_of = asker.person
        else:
            return to_json({"approvals": [], "next": None})
    found = await service_of(request).search(
        ApprovalQuery(
            tenant=asker.tenant,
            states=frozenset({ApprovalState(state)} if state is not None else ()),
            now_ms=now_ms(request),
            agent=agent,
            user=on_behalf_of,
            session=session,
            tool=tool,
            key_id=key_id,
            trace_id=trace_id,
            only_grants=grants,
            limit=limit,
            before=_position(before),
        )
    )
    last = found[-1].request if len(found) == limit else None
    return to_json(
        {
            "approvals": [out(request, asker, standing) for standing in found],
            "next": f"{last.created_at_ms}.{last.id}" if last is not None else None,
        }
    )


@router.get(
    "/approvals/events",
    summary="Every change of a request, as it happens",
    description=(
        f"{_SEEN} Server-sent events: each tells where one request stands when it is sent. `Last-Event-ID` "
        "resumes after the event of that id, at any replica and after a restart."
    ),
    response_class=Response,
    responses=_STREAM,
)
async def events(request: Request, asker: Reader) -> Response:
    """Stream all."""
    refuse_unknown_parameters(request)
    return _stream(request, asker, stream_all(request, asker, _last_event(request)))


@router.get(
    "/approvals/{approval_id}",
    response_model=ApprovalRequestOut,
    summary="Where a request stands",
    description=(
        f"{_SEEN_BY_ID} With `wait` the answer comes once the request is not pending any more, or after "
        "that many seconds: then ask again. `pending` is not `denied`."
    ),
    responses=problem_responses(400, 401, 403, 404, 429, 503),
)
async def show(
    request: Request,
    asker: Reader,
    approval_id: str,
    wait: Annotated[int, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds.")] = 0,
) -> Response:
    """Show one, or wait for it."""
    refuse_unknown_parameters(request)
    service = service_of(request)
    standing = await find_seen(request, asker, approval_id)
    if wait:
        with service.waits.place(place_of(asker)):
            standing = await service.wait(asker.tenant, approval_id, wait)
        # Meanwhile the key may have been revoked, or the person signed out.
        asker = await admit_anyone(request, READERS)
        check_sees(asker, standing)
    return answer(request, asker, standing)


@router.get(
    "/approvals/{approval_id}/events",
    summary="One request, as it changes",
    description=(
        f"{_SEEN_BY_ID} Server-sent events: at once where the request stands, then each change. It is sent "
        "anew whenever a client comes back, so that nothing is missed."
    ),
    response_class=Response,
    responses=_STREAM,
)
async def events_of(request: Request, asker: Reader, approval_id: str) -> Response:
    """Stream one."""
    refuse_unknown_parameters(request)
    await find_seen(request, asker, approval_id)
    return _stream(request, asker, stream_one(request, asker, approval_id))


@router.get(
    "/approvals/{approval_id}/shown",
    response_model=ShownOut,
    summary="What would run, in the clear",
    description=(
        "For signed-in people who may answer the request: its approvers, and the user on whose behalf it was "
        "asked, who may deny it. No API key gets it. 404 once it is kept no longer."
    ),
    responses=problem_responses(400, 401, 403, 404, 503),
)
async def shown(request: Request, asker: Anyone, approval_id: str) -> Response:
    """Show in the clear."""
    refuse_unknown_parameters(request)
    if isinstance(asker, Caller):
        raise Forbidden("only people are shown what they answer", code="approval.not_a_person")
    page = await service_of(request).page(asker, approval_id)
    if page.barred is not None:
        raise Forbidden(page.barred.message, code=page.barred.code.value)
    if page.shown is None:
        raise NotFound("what was shown is not kept any more", code="approval.shown_gone")
    return to_json(_shown_out(page, page.shown))


@router.get(
    "/approvals/{approval_id}/receipts",
    response_model=ReceiptsOut,
    summary="The signed receipts of every yes",
    description=(
        "For signed-in people who may answer the request, the user on whose behalf it was asked, and people "
        "with role `audit`. They hold whether or not the log has them: of a call with a secret it has "
        "digests alone. No API key gets them."
    ),
    responses=problem_responses(400, 401, 403, 404, 503),
)
async def receipts(request: Request, asker: Anyone, approval_id: str) -> Response:
    """Hand out receipts."""
    refuse_unknown_parameters(request)
    if isinstance(asker, Caller):
        raise Forbidden("only people are given receipts", code="approval.not_a_person")
    found = await service_of(request).receipts(asker, approval_id)
    if isinstance(found, Refused):
        raise Forbidden(found.message, code=found.code.value)
    return to_json(receipts_out(approval_id, found))


def _shown_out(page: ConfirmationPage, shown: Shown) -> dict[str, Any]:
    out = {
        "id": page.standing.request.id,
        "state": page.state.value,
        "shown_digest": shown.digest,
        "document": shown.document,
        "can_approve": page.refused is None,
        "can_deny": page.deny_refused is None,
        "drift": list(page.drift),
        "unmet": list(page.unmet),
    }
    if page.refused is not None:
        out |= {"code": page.refused.code.value, "message": page.refused.message}
    return out


def _stream(request: Request, asker: Caller | SignedIn, events: AsyncGenerator[bytes]) -> Response:
    # Before anything is sent: who has too many streams is told so, and gets none.
    with ExitStack() as place:
        place.enter_context(service_of(request).waits.place(place_of(asker)))
        return EventStream(events, place.pop_all())


def _last_event(request: Request) -> int | None:
    """Where a client left off. Raises `MalformedInput` for what no event of ours had for an id."""
    text = request.headers.get("last-event-id", "")
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        return int(text)
    raise MalformedInput("`Last-Event-ID` is no id of an event", code="input.invalid")


def _position(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    at, _, approval_id = text.partition(".")
    if at.isascii() and at.isdecimal() and len(at) <= 18 and approval_id and "\0" not in approval_id:
        return int(at), approval_id
    raise MalformedInput("`before` is no position of this list", code="input.invalid", pointer="/before")
