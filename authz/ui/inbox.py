"""The inbox: what waits for people, first of all for whoever looks, kept fresh by a stream of events."""

from collections.abc import AsyncIterator
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from authz.errors import AuthzError, Forbidden, NotFound, TooManyRequests
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalQuery
from authz.service.approvals import ApprovalService
from authz.ui.access import member
from authz.ui.confirmation_view import ConfirmationView
from authz.ui.render import places_of, render
from authz.ui.services import services_of
from authz.ui.session import signed_in

router = APIRouter(prefix="/ui")

MOST_SHOWN: Final = 100
LOOK_SECONDS: Final = 15
"""How often a stream asks whether its session still lives, and says that it does itself."""


@router.get("")
async def without_slash(request: Request) -> Response:
    """The one spelling of the address."""
    return RedirectResponse("/ui/", 308)


@router.get("/")
async def inbox(request: Request) -> Response:
    """What waits. Whoever approves nothing is led to the first page that it may see."""
    person = await signed_in(request)
    if "approve" not in person.account.roles:
        request.state.person = person
        first = next(iter(places_of(person)), None)
        if first is None:
            raise Forbidden("your account has no role that has pages here", code="caller.role_missing")
        return RedirectResponse(first[0], 303)
    person = await member(request, "approve")
    services = services_of(request)
    now_ms = services.clock.now_ms()
    query = ApprovalQuery(
        tenant=person.tenant,
        states=frozenset({ApprovalState.PENDING}),
        now_ms=now_ms,
        limit=MOST_SHOWN + 1,
    )
    found = await services.approvals.search(query)
    views = await views_of(services.approvals, person, [one.request.id for one in found[:MOST_SHOWN]], now_ms)
    waiting = sorted((view for view in views if view.is_open), key=lambda view: view.request.expires_at_ms)
    mine = [view for view in waiting if view.may_approve or view.may_deny]
    return render(
        "inbox.html",
        person=person,
        here="/ui/",
        mine=mine,
        others=[view for view in waiting if view not in mine],
        has_more=len(found) > MOST_SHOWN,
        now_ms=now_ms,
    )


async def views_of(
    approvals: ApprovalService, person: SignedIn, approval_ids: list[str], now_ms: int
) -> list[ConfirmationView]:
    """Each request as this person sees it; what was swept away meanwhile is left out."""
    found = []
    for approval_id in approval_ids:
        try:
            page = await approvals.page(person, approval_id)
        except NotFound:
            continue
        found.append(ConfirmationView(person=person, page=page, now_ms=now_ms))
    return found


@router.get("/events")
async def events(request: Request) -> Response:
    """Ids of approvals as they are written, as server-sent events, for as long as the session lives."""
    person = await member(request, "approve", "audit", "policy")
    return StreamingResponse(_stream(request, person), media_type="text/event-stream")


async def _stream(request: Request, person: SignedIn) -> AsyncIterator[str]:
    waits = services_of(request).approvals.waits
    try:
        # Of the person, as for the API: not so many for every session that it opens.
        with waits.place(f"account:{person.tenant}/{person.account.account_id}"):
            async with waits.listen(person.tenant) as listener:
                yield "event: ready\ndata:\n\n"
                while not listener.is_over:
                    changes = await listener.next(LOOK_SECONDS)
                    await signed_in(request)
                    if changes is not None:
                        yield "".join(
                            f"id: {changes.number}\nevent: approval\ndata: {approval_id}\n\n"
                            for approval_id in changes.approval_ids
                        )
                    elif not listener.is_over:
                        yield ": nothing\n\n"
    except TooManyRequests:
        yield ": too many pages are open\n\n"
    except AuthzError:
        # The session is over, or the store cannot be asked. The browser comes back and is told.
        return
