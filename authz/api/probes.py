"""What runs without authentication or for machines: health, readiness, keys; and metrics for auditors."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from authz.api.problems import problem_responses
from authz.api.request import caller_with
from authz.api.wire import dump
from authz.model.caller import Caller
from authz.service.bundles import BundleState

router = APIRouter(tags=["service"])

_WORST_FIRST: Final = (BundleState.STALE, BundleState.DEGRADED, BundleState.READY)


class HealthOut(BaseModel):
    """The process answers."""

    status: str


class ReadyOut(BaseModel):
    """State only, by component."""

    status: Literal["ready", "degraded", "not_ready"]
    components: dict[str, str]


class JwksOut(BaseModel):
    """Keys that verify tokens of this service (RFC 7517): published for later, in use, and retired."""

    keys: list[dict[str, str]]


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=HealthOut, summary="Whether the process answers")
async def healthz() -> Response:
    """Health."""
    return Response(dump({"status": "ok"}), media_type="application/json")


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    response_model=ReadyOut,
    summary="Whether decisions can be made and recorded, by component",
    description=(
        "`degraded` is ready: a bundle on disk could not be loaded, and the last good one decides. "
        "`stale` is not: the bound on staleness is exceeded, and nothing is decided."
    ),
    responses={503: {"model": ReadyOut, "description": "Not ready."}},
)
async def readyz(request: Request) -> Response:
    """Readiness."""
    services = request.app.state.services
    bundles = {services.bundles.state(tenant) for tenant in services.bundles.tenants}
    components = {
        # The worst of all tenants, and no more: whose it is and why, `GET /policies` tells its operators.
        "bundle": next((state.value for state in _WORST_FIRST if state in bundles), "absent"),
        "store": "ready" if await services.ledger.is_ready() else "unavailable",
    }
    ready = all(state in ("ready", "degraded") for state in components.values())
    status = "not_ready" if not ready else "degraded" if "degraded" in components.values() else "ready"
    body = {"status": status, "components": components}
    return Response(dump(body), 200 if ready else 503, media_type="application/json")


@router.get("/.well-known/jwks.json", response_model=JwksOut, summary="The service's public keys")
async def jwks(request: Request) -> Response:
    """Keys."""
    services = request.app.state.services
    headers = {"cache-control": f"public, max-age={services.jwks_max_age_seconds}"}
    return Response(dump(services.jwks()), headers=headers, media_type="application/json")


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    description=(
        "Role `audit` or `policy`. What is counted by tenant is told of the caller's own; requests and "
        "refusals are those of the whole process."
    ),
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "The text exposition format."},
        **problem_responses(401, 403, 503),
    },
)
async def metrics(
    request: Request, caller: Annotated[Caller, Depends(caller_with("audit", "policy"))]
) -> Response:
    """Metrics."""
    text = request.app.state.services.metrics.render(caller.tenant)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
