"""What runs without authentication or for machines: health, readiness, keys; and metrics for auditors."""

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from authz.api.problems import problem_responses
from authz.api.request import caller_with
from authz.api.wire import dump

router = APIRouter(tags=["service"])


class HealthOut(BaseModel):
    """The process answers."""

    status: str


class ReadyOut(BaseModel):
    """State only, by component."""

    status: str
    components: dict[str, str]


class JwksOut(BaseModel):
    """The service's public keys (RFC 7517)."""

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
    responses={503: {"model": ReadyOut, "description": "Not ready."}},
)
async def readyz(request: Request) -> Response:
    """Readiness."""
    services = request.app.state.services
    components = {
        "bundle": "ready" if services.rulesets else "absent",
        "store": "ready" if await services.ledger.is_ready() else "unavailable",
    }
    ready = all(state == "ready" for state in components.values())
    body = {"status": "ready" if ready else "not_ready", "components": components}
    return Response(dump(body), 200 if ready else 503, media_type="application/json")


@router.get("/.well-known/jwks.json", response_model=JwksOut, summary="The service's public keys")
async def jwks(request: Request) -> Response:
    """Keys."""
    return Response(dump(request.app.state.services.jwks), media_type="application/json")


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    description="Role `audit` or `policy`.",
    dependencies=[Depends(caller_with("audit", "policy"))],
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "The text exposition format."},
        **problem_responses(401, 403, 503),
    },
)
async def metrics(request: Request) -> Response:
    """Metrics."""
    return Response(
        request.app.state.services.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )
