"""What the routes of approvals share: who asks, what it may see, and how it is answered."""

from typing import Annotated, Any, Final, NoReturn

from fastapi import Depends, Request, Response

from authz.api.approvals_wire import approval_out
from authz.api.request import anyone_with
from authz.api.wire import dump
from authz.core.approval_moves import Refused
from authz.core.notice import approval_url
from authz.errors import ApprovalRefused
from authz.model.account import SignedIn
from authz.model.approval_writes import ApprovalStanding
from authz.model.caller import Caller
from authz.service.approvals import Answered, ApprovalService
from authz.service.approvals_view import check_sees, sees_all

READERS: Final = ("decide", "audit")
"""Roles of keys that read; people read whatever their roles."""
EVERY_ROLE: Final = ("decide", "issue", "approve", "policy", "audit")
_NO_STORE: Final = {"cache-control": "no-store"}

Reader = Annotated[Caller | SignedIn, Depends(anyone_with(*READERS))]
Anyone = Annotated[Caller | SignedIn, Depends(anyone_with(*EVERY_ROLE))]
"""For what keys are refused by name, and not for want of a role."""


def service_of(request: Request) -> ApprovalService:
    """The service of this application."""
    service: ApprovalService = request.app.state.services.approvals
    return service


def now_ms(request: Request) -> int:
    """The time, as the service has it."""
    return service_of(request).now_ms()


def place_of(asker: Caller | SignedIn) -> str:
    """Whose places among those who wait are counted together."""
    if isinstance(asker, Caller):
        return f"key:{asker.key_id}"
    return f"account:{asker.tenant}/{asker.account.account_id}"


async def find_seen(request: Request, asker: Caller | SignedIn, approval_id: str) -> ApprovalStanding:
    """The request, if this asker may see it. Raises `NotFound` else, as for what there is not."""
    standing = await service_of(request).find(asker.tenant, approval_id)
    check_sees(asker, standing)
    return standing


def answer(request: Request, asker: Caller | SignedIn, answered: Answered) -> Response:
    """The request as it stands now. Raises `ApprovalRefused` for an answer that changed nothing."""
    if isinstance(answered, Refused):
        raise_refused(answered)
    return to_json(out(request, asker, answered))


def raise_refused(found: Refused) -> NoReturn:
    """Tell why an answer changes nothing: that is on record already."""
    raise ApprovalRefused(
        found.message, code=found.code.value, state=found.state.value if found.state is not None else None
    )


def out(request: Request, asker: Caller | SignedIn, standing: ApprovalStanding) -> dict[str, Any]:
    """An `ApprovalRequestOut` for this asker."""
    service = service_of(request)
    return approval_out(
        standing,
        url=approval_url(service.public_url, standing.request.id),
        now_ms=service.now_ms(),
        with_people=isinstance(asker, SignedIn) or sees_all(asker),
    )


def to_json(body: Any) -> Response:
    """An answer that nobody keeps."""
    return Response(dump(body), media_type="application/json", headers=_NO_STORE)
