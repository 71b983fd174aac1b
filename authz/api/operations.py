"""`/operations`: what became of an allowed call, told by whoever holds its lease (spec section 9)."""

from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from authz.api.problems import problem_responses
from authz.api.request import body_of, caller_with, refuse_unknown_parameters
from authz.api.wire import dump
from authz.core.cedar_context import rfc3339
from authz.core.requests import DigestText, Id, Wire, malformed
from authz.core.settlement import Outcome
from authz.model.caller import Caller
from authz.model.operation import OperationState
from authz.service.operations import OperationService, OperationView

router = APIRouter(tags=["operations"])

_NO_STORE: Final = {"cache-control": "no-store"}
_READ_ERRORS: Final = problem_responses(400, 401, 403, 404, 503)
_ERRORS: Final = problem_responses(400, 401, 403, 404, 408, 409, 413, 415, 503)
Model = TypeVar("Model", bound=Wire)


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    return text


Words = Annotated[str, StringConstraints(max_length=2048), AfterValidator(_no_nul)]
Token = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class StartOperation(Wire):
    """The act begins now."""

    lease_token: Token
    attempt: Annotated[
        Id, Field(description="The runtime's own name for this attempt. Sent again, it gets the same answer.")
    ]
    timeout_seconds: Annotated[
        int | None,
        Field(ge=1, le=86_400, description="How long the act may take. The lease ends after that."),
    ] = None


class SettleOperation(Wire):
    """How the act ended."""

    lease_token: Token
    outcome: Literal["succeeded", "failed_retryable", "failed_final", "unknown", "not_executed"]
    external_id: Id | None = None
    result_digest: DigestText | None = None
    detail: Words = ""


class ResolveOperation(Wire):
    """What was found out about an operation that nobody settled."""

    outcome: Literal["succeeded", "not_executed"]
    reason: Annotated[Words, StringConstraints(min_length=1)]
    external_id: Id | None = None
    result_digest: DigestText | None = None


class CancelOperation(Wire):
    """The act is not wanted any more."""

    reason: Words = ""


class OperationOut(BaseModel):
    """An operation as it stands now. Members that it does not have are absent."""

    decision_id: str
    state: Literal[
        "refused",
        "waiting",
        "reserved",
        "executing",
        "succeeded",
        "failed_retryable",
        "failed_final",
        "unknown",
        "not_executed",
    ]
    settles: bool
    ticketed: bool = Field(description="A ticket was given for it: only `/resolve` says that it did not run.")
    cancel_requested: bool = Field(description="Somebody wants it not to run. That is not `cancelled`.")
    contradicted: bool = Field(
        description="It is `unknown` because an outcome was told that does not fit: that is what is shown of "
        "it, and only `/resolve` says what is true."
    )
    tool: str = Field(description="`server/name`")
    trace_id: str
    turn_id: str
    tool_call_id: str
    lease_expires_at: str | None = None
    external_id: str | None = None
    result_digest: str | None = None
    settled_at: str | None = None
    superseded_by: str | None = Field(
        None,
        description="The decision that holds the operation now, after it was decided anew. All else is of "
        "the one that was asked about.",
    )


@router.get(
    "/operations/{decision_id}",
    response_model=OperationOut,
    summary="Where the operation of a decision stands",
    description=(
        "Role `decide` for subjects that the caller may assert; `audit`, `policy` or `approve` for all of "
        "the tenant. The end of a lease counts from its moment on."
    ),
    responses=_READ_ERRORS,
)
async def status(
    request: Request,
    caller: Annotated[Caller, Depends(caller_with("decide", "audit", "policy", "approve"))],
    decision_id: str,
) -> Response:
    """Show one."""
    refuse_unknown_parameters(request)
    return _answer(await _service(request).status(caller, decision_id))


def _document(model: type[Wire]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "/operations/{decision_id}/start",
    response_model=OperationOut,
    summary="Begin the act",
    description=(
        "Role `decide`, and the lease's token. One attempt begins; another is told `operation.in_progress` "
        "(409). `context.start` of `/decide` does the same with the decision itself. What rests on a "
        "capability begins only while that is in force (`operation.capability_ended`), and its lease ends "
        "with it at the latest. What may take longer than the endpoint remembers its key does not begin "
        "(`operation.expired`)."
    ),
    openapi_extra=_document(StartOperation),
    responses=_ERRORS,
)
async def start(
    request: Request, caller: Annotated[Caller, Depends(caller_with("decide"))], decision_id: str
) -> Response:
    """Start."""
    refuse_unknown_parameters(request)
    asked = _validated(StartOperation, await body_of(request))
    lasts_ms = None if asked.timeout_seconds is None else asked.timeout_seconds * 1000
    return _answer(
        await _service(request).start(caller, decision_id, asked.lease_token, asked.attempt, lasts_ms)
    )


@router.post(
    "/operations/{decision_id}/settle",
    response_model=OperationOut,
    summary="Say how the act ended",
    description=(
        "Role `decide`, and the lease's token. The same report again gets the same answer; another is 409. "
        "`not_executed` gives back what was reserved. It counts where the runtime declared "
        "`context.settles`, no ticket was given and the act has not begun; else it must be proven, see "
        "`/resolve`. "
        "After the lease has ended only `succeeded` is still taken. What is not taken is on record all the "
        "same (`operation.contradicted`). Where it says that an effect may stand, of a call that could run "
        "or run again, that call is `unknown` until `/resolve`."
    ),
    openapi_extra=_document(SettleOperation),
    responses=_ERRORS,
)
async def settle(
    request: Request, caller: Annotated[Caller, Depends(caller_with("decide"))], decision_id: str
) -> Response:
    """Settle."""
    refuse_unknown_parameters(request)
    asked = _validated(SettleOperation, await body_of(request))
    return _answer(
        await _service(request).settle(caller, decision_id, asked.lease_token, _outcome(asked), asked.detail)
    )


@router.post(
    "/operations/{decision_id}/resolve",
    response_model=OperationOut,
    summary="Say what became of an operation that nobody settled",
    description=(
        "Role `approve` or `policy`: a person, or a probe, who looked. Not the credential that asked for the "
        "decision, nor one with role `decide` that may assert its subject. Only from `unknown`, and "
        "`not_executed` of what has a ticket or is contradicted only after the lease's end. `not_executed` "
        "gives back what was reserved, also by a decision whose call was decided anew since."
    ),
    openapi_extra=_document(ResolveOperation),
    responses=_ERRORS,
)
async def resolve(
    request: Request, caller: Annotated[Caller, Depends(caller_with("approve", "policy"))], decision_id: str
) -> Response:
    """Resolve."""
    refuse_unknown_parameters(request)
    asked = _validated(ResolveOperation, await body_of(request))
    return _answer(await _service(request).resolve(caller, decision_id, _outcome(asked), asked.reason))


@router.post(
    "/operations/{decision_id}/cancel",
    response_model=OperationOut,
    summary="Ask that the act does not happen",
    description=(
        "Role `decide` for subjects that the caller may assert; `policy` or `approve` for all of the tenant. "
        "What has not begun cannot begin any more, nor does its runtime's own attempt begin again; what has "
        "begun goes on until its runtime settles it. A ticket that was given stays good until it ends: who "
        "has it can still let the call run."
    ),
    openapi_extra=_document(CancelOperation),
    responses=_ERRORS,
)
async def cancel(
    request: Request,
    caller: Annotated[Caller, Depends(caller_with("decide", "policy", "approve"))],
    decision_id: str,
) -> Response:
    """Ask to cancel."""
    refuse_unknown_parameters(request)
    asked = _validated(CancelOperation, await body_of(request))
    return _answer(await _service(request).cancel(caller, decision_id, asked.reason))


def _validated(model: type[Model], body: Any) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise malformed(error) from None


def _outcome(asked: SettleOperation | ResolveOperation) -> Outcome:
    return Outcome(
        state=OperationState(asked.outcome),
        external_id=asked.external_id or "",
        result_digest=asked.result_digest or "",
    )


def _answer(view: OperationView) -> Response:
    told, operation = view.told, view.operation
    out = {
        "decision_id": told.decision_id,
        "state": view.state.value,
        "settles": operation.settles,
        "ticketed": operation.ticketed,
        "cancel_requested": operation.cancel_requested,
        "contradicted": operation.is_contradicted,
        "tool": f"{told.server}/{told.tool}",
        "trace_id": told.ids.trace,
        "turn_id": told.ids.turn,
        "tool_call_id": told.ids.call,
        "lease_expires_at": rfc3339(operation.expires_at_ms) if operation.expires_at_ms else None,
        "external_id": operation.external_id or None,
        "result_digest": operation.result_digest or None,
        "settled_at": rfc3339(operation.settled_at_ms) if operation.settled_at_ms else None,
        "superseded_by": view.superseded_by,
    }
    present = {name: value for name, value in out.items() if value is not None}
    return Response(dump(present), media_type="application/json", headers=_NO_STORE)


def _service(request: Request) -> OperationService:
    service: OperationService = request.app.state.services.operations
    return service
