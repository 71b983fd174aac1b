"""Requests that were answered or are over, and what is permitted by a yes at this moment."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from authz.core.approval import told_state
from authz.errors import MalformedInput
from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalQuery
from authz.ui.access import member
from authz.ui.confirmation_view import STATES
from authz.ui.inbox import MOST_SHOWN, views_of
from authz.ui.render import render
from authz.ui.services import services_of

router = APIRouter(prefix="/ui")

_PAGE: Final = 50
_Text = Annotated[str, Query(max_length=512)]


@router.get("/history")
async def history(
    request: Request,
    state: _Text = "",
    agent: _Text = "",
    user: _Text = "",
    tool: _Text = "",
    trace: _Text = "",
    before: _Text = "",
) -> Response:
    """Requests of the tenant, newest first. Nothing of their arguments is on this page."""
    person = await member(request, "approve", "audit")
    services = services_of(request)
    now_ms = services.clock.now_ms()
    asked = {"state": state, "agent": agent, "user": user, "tool": tool, "trace": trace}
    found = await services.approvals.search(
        ApprovalQuery(
            tenant=person.tenant,
            states=frozenset({_state(state)} if state else set()),
            now_ms=now_ms,
            agent=agent,
            user=user,
            tool=tool,
            trace_id=trace,
            limit=_PAGE + 1,
            before=_place(before),
        )
    )
    shown = list(found[:_PAGE])
    last = shown[-1].request if len(found) > _PAGE else None
    return render(
        "history.html",
        person=person,
        here="/ui/history",
        asked=asked,
        states=STATES,
        listed=[(one, told_state(one.request, one.grant, now_ms)) for one in shown],
        next=f"{last.created_at_ms}.{last.id}" if last is not None else "",
        now_ms=now_ms,
    )


@router.get("/grants")
async def grants(request: Request) -> Response:
    """Every yes of which something is left, with what it reaches, to be revoked by whoever may."""
    person = await member(request, "approve", "audit", "policy")
    services = services_of(request)
    now_ms = services.clock.now_ms()
    query = ApprovalQuery(tenant=person.tenant, now_ms=now_ms, only_grants=True, limit=MOST_SHOWN + 1)
    found = await services.approvals.search(query)
    ids = [one.request.id for one in found[:MOST_SHOWN]]
    views = await views_of(services.approvals, person, ids, now_ms)
    return render(
        "grants.html",
        person=person,
        here="/ui/grants",
        views=[view for view in views if view.state is ApprovalState.APPROVED],
        has_more=len(found) > MOST_SHOWN,
        now_ms=now_ms,
    )


def _state(text: str) -> ApprovalState:
    try:
        return ApprovalState(text)
    except ValueError:
        raise MalformedInput("there is no such state", code="input.invalid") from None


def _place(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    at_ms, _, approval_id = text.partition(".")
    if at_ms.isascii() and at_ms.isdecimal() and len(at_ms) <= 18 and approval_id:
        return int(at_ms), approval_id
    raise MalformedInput("that is no place in the list", code="input.invalid")
