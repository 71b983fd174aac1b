"""Capabilities on record: the roots, and the tree of one as a picture."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from authz.errors import MalformedInput
from authz.model.capability import LinkQuery
from authz.ui.access import member
from authz.ui.delegation_picture import BOX_WIDTH, draw, hops_of
from authz.ui.render import render
from authz.ui.services import services_of

router = APIRouter(prefix="/ui/delegations")

_Text = Annotated[str, Query(max_length=512)]


@router.get("")
async def roots(request: Request, agent: _Text = "", subject: _Text = "", after: _Text = "") -> Response:
    """Roots and narrowed capabilities that this service signed, newest first."""
    person = await member(request, "audit", "policy")
    found = await services_of(request).capabilities.views.list_links(
        LinkQuery(
            tenant=person.tenant, agent=agent, subject=subject, after=_place(after), limit=50, only_roots=True
        )
    )
    return render(
        "delegations.html",
        person=person,
        here="/ui/delegations",
        asked={"agent": agent, "subject": subject},
        links=found.links,
        next="" if found.next is None else f"{found.next[0]}.{found.next[1]}",
    )


@router.get("/{link}")
async def tree(request: Request, link: Annotated[str, Path(max_length=128)]) -> Response:
    """Everything on record of the root that `link` goes back to. Another tenant's is as if absent."""
    person = await member(request, "audit", "policy")
    found = await services_of(request).capabilities.views.tree(person.tenant, link)
    hops = hops_of(found["roots"])
    return render(
        "delegation.html",
        person=person,
        here="/ui/delegations",
        hops=hops,
        picture=draw(hops),
        box_width=BOX_WIDTH,
        is_complete=found["complete"],
        looked_at=link,
    )


def _place(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    at, _, link = text.partition(".")
    if at.isascii() and at.isdecimal() and len(at) <= 15 and link:
        return int(at), link
    raise MalformedInput("that is no place in the list", code="input.invalid")
