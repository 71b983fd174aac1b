"""`GET /revocations`: what verifiers of tickets refuse. Public, like the keys that they verify with."""

import hashlib
from functools import lru_cache
from typing import Annotated, Final

from authz_client.capabilities import Revocations
from fastapi import APIRouter, Query, Request, Response

from authz.api.capabilities_wire import RevocationsOut
from authz.api.problems import problem_responses
from authz.api.request import refuse_unknown_parameters
from authz.api.wire import dump
from authz.errors import NotFound
from authz.service.capability_services import CapabilityServices

router = APIRouter(tags=["capabilities"])

MAX_AGE_SECONDS: Final = 1


@router.get(
    "/revocations",
    response_model=RevocationsOut,
    summary="What has been revoked",
    description=(
        "Without authentication. Of one tenant. A list that is older than the configured bound is not given "
        "(503): a verifier that gets none refuses. `If-None-Match` spares the body."
    ),
    responses={304: {"description": "It is what the `ETag` names."}, **problem_responses(400, 404, 503)},
)
async def revocations(
    request: Request,
    tenant: Annotated[str, Query(max_length=64, description="The tenant; `default` unless it is said.")] = (
        "default"
    ),
) -> Response:
    """Revocations."""
    refuse_unknown_parameters(request)
    services: CapabilityServices = request.app.state.services.capabilities
    if tenant not in request.app.state.services.bundles.tenants:
        raise NotFound("there is no such tenant", code="tenant.unknown")
    await services.revocations.confirm()
    body, tag = _rendered(services.revocations.in_force(tenant))
    headers = {"etag": tag, "cache-control": f"public, max-age={MAX_AGE_SECONDS}"}
    known = request.headers.get("if-none-match", "")
    if tag in (part.strip().removeprefix("W/") for part in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@lru_cache(maxsize=16)
def _rendered(revoked: Revocations) -> tuple[bytes, str]:
    """(body, `ETag`) in the form of `parse_revocations`, once for each list: anybody may ask.

    Sorted, so that the same list has the same bytes on every replica.
    """
    body = dump(
        {
            "links": sorted(revoked.links),
            "jtis": sorted(revoked.jtis),
            "holders": sorted(revoked.holders),
        }
    )
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
