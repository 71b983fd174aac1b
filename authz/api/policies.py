"""`GET /policies`: which bundle decides."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from authz.api.problems import problem_responses
from authz.api.request import caller_with
from authz.api.wire import dump
from authz.model.caller import Caller

router = APIRouter(tags=["policies"])


class RuleStatus(BaseModel):
    """One rule in force."""

    rule: str
    kind: str
    file: str
    line: int
    reason: str


class PoliciesOut(BaseModel):
    """The bundle in force for the caller's tenant."""

    version: str
    rules: list[RuleStatus]
    tools: list[str]


@router.get(
    "/policies",
    response_model=PoliciesOut,
    summary="The bundle in force",
    description="Role `policy` or `audit`.",
    responses=problem_responses(401, 403, 503),
)
async def status(
    request: Request, caller: Annotated[Caller, Depends(caller_with("policy", "audit"))]
) -> Response:
    """Show the bundle."""
    ruleset = request.app.state.services.rulesets[caller.tenant]
    rules = [
        {
            "rule": policy.id,
            "kind": policy.match.kind.value,
            "file": policy.match.file,
            "line": policy.match.line,
            "reason": policy.match.reason,
        }
        for policy in ruleset.engine.policies.values()
    ]
    tools = sorted(f"{server}/{name}" for server, name in ruleset.tools)
    body = {"version": ruleset.version, "rules": rules, "tools": tools}
    return Response(dump(body), media_type="application/json")
