"""The confirmation page: what is asked, shown whole, and the forms that answer it (spec section 8).

An answer that counts leads back to the page by a redirect, so that neither reload nor back sends it again.
One that does not count shows the page anew, as things stand, with the reason at its top.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from authz.core.approval_moves import AnswerCode, Refused
from authz.core.shown_types import ShownDocument
from authz.errors import MalformedInput, NotFound
from authz.model.account import SignedIn
from authz.model.approval import ScopeKind
from authz.service.approval_ballots import BallotIn
from authz.service.approvals import Answered
from authz.service.approvals_view import ConfirmationPage
from authz.ui.access import member, posted
from authz.ui.confirmation_view import Choices, ConfirmationView
from authz.ui.forms import Form
from authz.ui.render import render
from authz.ui.services import services_of

router = APIRouter(prefix="/ui/approvals")

ApprovalId = Annotated[str, Path(max_length=64)]

_ROLES: Final = frozenset({"approve", "audit", "policy"})
_REPEATED: Final = frozenset({AnswerCode.ALREADY_ANSWERED})
_LOOKED: Final = "Nothing was answered yet. To say yes, press Approve."


@router.get("/{approval_id}")
async def show(request: Request, approval_id: ApprovalId) -> Response:
    """The page as things stand."""
    return await _page(request, await member(request), approval_id, Choices())


@router.get("/{approval_id}/state")
async def state(request: Request, approval_id: ApprovalId) -> Response:
    """Where it stands, for the page's script: it compares this with what the page shows."""
    page = await _look(request, await member(request), approval_id)
    return JSONResponse({"state": page.state.value, "version": page.standing.request.version})


@router.post("/{approval_id}/approve")
async def approve(request: Request, approval_id: ApprovalId) -> Response:
    """A yes. Anything but the button itself, as Enter in a field, only shows the page again."""
    person, form = await posted(request, "approve")
    if form.get("answer") != "approve":
        return await _page(request, person, approval_id, _choices(form), alert=_LOOKED)
    approvals = services_of(request).approvals
    page = await approvals.page(person, approval_id)
    document = page.shown.document if page.shown is not None else None
    answered = await approvals.approve(person, approval_id, _ballot(form, document))
    return await _after(request, person, approval_id, answered, form)


@router.post("/{approval_id}/deny")
async def deny(request: Request, approval_id: ApprovalId) -> Response:
    """A no, with words for the agent."""
    person, form = await posted(request)
    # Browsers send line ends as CR LF.
    reason = form.get("reason", "").replace("\r\n", "\n").strip()
    answered = await services_of(request).approvals.deny(
        person, approval_id, reason, form.get("shown_digest") or None
    )
    return await _after(request, person, approval_id, answered, form)


@router.post("/{approval_id}/reveal")
async def reveal(request: Request, approval_id: ApprovalId) -> Response:
    """The page with one more secret value on it, for whoever may say yes. It answers nothing."""
    person, form = await posted(request)
    return await _page(request, person, approval_id, _choices(form))


@router.post("/{approval_id}/revoke")
async def revoke(request: Request, approval_id: ApprovalId) -> Response:
    """Make void what is left of a yes."""
    person, form = await posted(request, "approve", "policy")
    answered = await services_of(request).approvals.revoke(person, approval_id)
    return await _after(request, person, approval_id, answered, form)


async def _after(
    request: Request, person: SignedIn, approval_id: str, answered: Answered, form: Form
) -> Response:
    if isinstance(answered, Refused) and answered.code not in _REPEATED:
        told = f"Your answer changed nothing: {answered.message}."
        return await _page(request, person, approval_id, _choices(form), alert=told, status=409)
    return RedirectResponse(f"/ui/approvals/{approval_id}", 303)


async def _page(
    request: Request,
    person: SignedIn,
    approval_id: str,
    choices: Choices,
    *,
    alert: str = "",
    status: int = 200,
) -> Response:
    page = await _look(request, person, approval_id)
    now_ms = services_of(request).clock.now_ms()
    view = ConfirmationView(person=person, page=page, now_ms=now_ms, choices=choices, alert=alert)
    return render("confirmation.html", person=person, status=status, view=view)


async def _look(request: Request, person: SignedIn, approval_id: str) -> ConfirmationPage:
    """The request as this person sees it: one of its own, or one that its roles let it know of."""
    page = await services_of(request).approvals.page(person, approval_id)
    if page.shown is None and page.deny_refused is not None and person.account.roles.isdisjoint(_ROLES):
        raise NotFound("there is no such approval", code="approval.not_found")
    return page


def _choices(form: Form) -> Choices:
    return Choices(
        opened=frozenset(_numbers(form.every("opened"))),
        revealed=frozenset(_numbers([*form.every("revealed"), *form.every("reveal")])),
        scope=form.get("scope", ScopeKind.ONCE.value),
        uses=form.get("uses", Choices().uses),
        reason=form.get("reason", ""),
    )


def _ballot(form: Form, document: ShownDocument | None) -> BallotIn:
    """The yes that a form holds. Raises `MalformedInput` for what none of our forms sends."""
    scope = form.get("scope", "")
    if scope not in list(ScopeKind):
        raise MalformedInput("no such scope is offered", code="input.invalid", pointer="/scope")
    kind = ScopeKind(scope)
    arguments = document["arguments"] if document is not None else []
    # By number and not by name: a form changes line ends in what it sends.
    numbers = _numbers(form.every("opened"))
    opened = {arguments[number]["pointer"] for number in numbers if number < len(arguments)}
    return BallotIn(
        shown_digest=form.get("shown_digest", ""),
        scope=kind,
        uses=_uses(kind, form.get("uses", "")),
        opened=frozenset(opened),
        assertion=_assertion(form.get("assertion", "")),
    )


def _uses(kind: ScopeKind, text: str) -> int | None:
    if kind is not ScopeKind.TIMES:
        return 1 if kind is ScopeKind.ONCE else None
    # What is no number is none that was offered.
    return next(iter(_numbers([text])), 0)


def _numbers(texts: Iterable[str]) -> list[int]:
    return [int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) <= 6]


def _assertion(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise MalformedInput("the answer of the passkey cannot be read", code="input.invalid")
    return found
