"""`POST /tools/visible`: the part of an advertised catalogue that a subject could ever be allowed."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field, ValidationError

from authz.api.problems import problem_responses
from authz.api.request import body_of, caller_with
from authz.api.wire import Id, SubjectIn, Wire, dump, malformed
from authz.core.catalogue import visible_entries
from authz.core.claims import check_subject_of
from authz.errors import Forbidden
from authz.model.call import Subject
from authz.model.caller import Caller

router = APIRouter(tags=["tools"])


class CatalogueIn(Wire):
    """What one server advertises: the entries of its `tools/list`, as it sent them."""

    server: Id
    tools: Annotated[list[dict[str, Any]], Field(max_length=2048)] | None = None


class VisibleRequest(Wire):
    """Whose view is asked for, and of which catalogues."""

    subject: SubjectIn
    servers: Annotated[list[CatalogueIn], Field(min_length=1, max_length=64)]


class CatalogueOut(BaseModel):
    """The entries that are visible, unchanged, each with the digest to send with a call."""

    server: str
    tools: list[dict[str, Any]]
    advertised_digests: dict[str, str]


class VisibleOut(BaseModel):
    """The filtered catalogues, in the order they were sent. Of what is left out nothing is said."""

    servers: list[CatalogueOut]
    policy_version: str


@router.post(
    "/tools/visible",
    response_model=VisibleOut,
    summary="Filter a tool catalogue down to what this subject could ever be allowed",
    description=(
        "Role `decide`. An entry whose definition is not the reviewed one is left out. For a local server "
        "`tools` may be absent: then its reviewed tools are listed."
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/VisibleRequest"}}},
        }
    },
    responses=problem_responses(400, 401, 403, 408, 413, 415, 503),
)
async def visible(request: Request, caller: Annotated[Caller, Depends(caller_with("decide"))]) -> Response:
    """Filter catalogues."""
    body = await body_of(request)
    try:
        asked = VisibleRequest.model_validate(body)
    except ValidationError as error:
        raise malformed(error) from None
    subject = Subject(**asked.subject.model_dump())
    refused = check_subject_of(subject, caller.profile)
    if refused is not None:
        raise Forbidden(refused, code="subject.not_bound", pointer="/subject")
    # What nothing may be decided by is not shown either.
    request.app.state.services.bundles.check_fresh(caller.tenant)
    ruleset = request.state.ruleset
    servers = []
    for catalogue in asked.servers:
        entries = visible_entries(ruleset, caller.profile, subject, catalogue.server, catalogue.tools)
        servers.append(
            {
                "server": catalogue.server,
                "tools": [entry.entry for entry in entries],
                "advertised_digests": {entry.name: entry.digest for entry in entries},
            }
        )
    return Response(
        dump({"servers": servers, "policy_version": ruleset.version}), media_type="application/json"
    )
