"""Answers to requests for approvals: yes, no, taken back, revoked. Each is on record before it is told."""

from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError

from authz.api.approvals_request import Anyone, answer, raise_refused, service_of
from authz.api.approvals_wire import ApprovalRequestOut, ApproveRequest, DenyRequest
from authz.api.problems import problem_responses
from authz.api.request import anyone_with, body_of, refuse_body, refuse_unknown_parameters
from authz.core.requests import Wire, malformed
from authz.errors import Forbidden
from authz.model.account import SignedIn
from authz.model.caller import Caller

router = APIRouter(tags=["approvals"])

_ERRORS: Final = problem_responses(400, 401, 403, 404, 408, 409, 413, 415, 503)
_ERRORS[409]["description"] = (
    "The answer changes nothing: `code` says why, and `state` where the request stands."
)
Model = TypeVar("Model", bound=Wire)


def _document(model: type[Wire]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "/approvals/{approval_id}/approve",
    response_model=ApprovalRequestOut,
    summary="Say yes",
    description=(
        "A signed-in person's alone: no API key approves, whatever its roles (403 `approval.not_a_person`, "
        "on record). The digest is of what the person was shown; what is folded there has to be opened."
    ),
    openapi_extra=_document(ApproveRequest),
    responses=_ERRORS,
)
async def approve(request: Request, asker: Anyone, approval_id: str) -> Response:
    """Approve."""
    refuse_unknown_parameters(request)
    if isinstance(asker, Caller):
        raise_refused(await service_of(request).refuse_key(asker, approval_id, "approve"))
    asked = _validated(ApproveRequest, await body_of(request))
    return answer(request, asker, await service_of(request).approve(asker, approval_id, asked.ballot()))


@router.post(
    "/approvals/{approval_id}/deny",
    response_model=ApprovalRequestOut,
    summary="Say no",
    description=(
        "A signed-in person's: of whoever may approve, and of the user on whose behalf it was asked. It "
        "needs no quorum, and sticks for the same call in the same session."
    ),
    openapi_extra=_document(DenyRequest),
    responses=_ERRORS,
)
async def deny(request: Request, asker: Anyone, approval_id: str) -> Response:
    """Deny."""
    refuse_unknown_parameters(request)
    if isinstance(asker, Caller):
        raise_refused(await service_of(request).refuse_key(asker, approval_id, "deny"))
    asked = _validated(DenyRequest, await body_of(request))
    answered = await service_of(request).deny(asker, approval_id, asked.reason, asked.shown_digest)
    return answer(request, asker, answered)


@router.post(
    "/approvals/{approval_id}/cancel",
    response_model=ApprovalRequestOut,
    summary="Take a request back",
    description="Role `decide`, and the credential that asked: what others asked for is as if absent.",
    responses=_ERRORS,
)
async def cancel(
    request: Request,
    asker: Annotated[Caller | SignedIn, Depends(anyone_with("decide"))],
    approval_id: str,
) -> Response:
    """Cancel."""
    refuse_unknown_parameters(request)
    refuse_body(request)
    if isinstance(asker, SignedIn):
        raise Forbidden("the credential that asked takes it back; people deny", code="approval.not_requester")
    return answer(request, asker, await service_of(request).cancel(asker, approval_id))


@router.post(
    "/approvals/{approval_id}/revoke",
    response_model=ApprovalRequestOut,
    summary="Make void what is left of a yes",
    description=(
        "A signed-in person's: of whoever may approve the request, and with role `policy`. What was allowed "
        "by it stays allowed."
    ),
    responses=_ERRORS,
)
async def revoke(request: Request, asker: Anyone, approval_id: str) -> Response:
    """Revoke."""
    refuse_unknown_parameters(request)
    refuse_body(request)
    if isinstance(asker, Caller):
        raise_refused(await service_of(request).refuse_key(asker, approval_id, "revoke"))
    return answer(request, asker, await service_of(request).revoke(asker, approval_id))


def _validated(model: type[Model], body: Any) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise malformed(error) from None
