"""`POST /explain` and `GET /decisions/{id}/explanation`: why, for those who write and audit the rules."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from authz.api.problems import problem_responses
from authz.api.request import body_of, caller_with, refuse_unknown_parameters
from authz.api.wire import CapabilityRefusedOut, dump
from authz.core.requests import parse_decide
from authz.model.caller import Caller
from authz.service.bundles import Admitted
from authz.service.explain import ExplanationService

router = APIRouter(tags=["explain"])

Reviewer = Annotated[Caller, Depends(caller_with("policy", "audit"))]
ProfileName = Annotated[
    str | None,
    Query(max_length=256, description="Explain as for a caller of this credential profile of the bundle."),
]
EffectOut = Literal["allow", "require_approval", "deny"]
Level = Literal["A0", "A1", "A2", "A3"]


class ExplainedRule(BaseModel):
    """A rule, where it stands and, for one that asks, on which terms."""

    rule: str
    kind: Literal["permit", "forbid", "ask", "limit", "budget"]
    file: str | None
    line: int | None
    reason: str
    approvers: list[str] | None
    quorum: int | None
    factor: str | None
    ttl_seconds: int | None


class Condition(BaseModel):
    """One part of a rule, evaluated by Cedar with the request's own entities and context."""

    clause: Literal["principal", "action", "resource", "when", "unless"]
    text: str = Field(description="Cedar text. Of an `unless` it must be false for the rule to match.")
    value: Literal["true", "false", "error", "not_reached", "unknown"] = Field(
        description="`unknown`: it reads a value that the log holds only as a digest."
    )
    holds: bool = Field(description="Whether what the rule asks for is met.")
    reached: bool = Field(description="False: Cedar stops before it, and `value` is of this part by itself.")
    error: str | None = Field(description="What kind of error, without entities or values.")
    inside: list["Condition"] = Field(description="Members of an `||` (in a `when`) or `&&` (`unless`).")


class ExaminedRuleOut(ExplainedRule):
    """A rule that matched an access, or nearly did."""

    status: Literal["determining", "matched", "not_matched", "error", "unknown"] = Field(
        description="`matched`: it holds and is outranked. `error`: it denies the call, as every error does."
    )
    distance: int = Field(description="How many of its conditions are not met.")
    conditions: list[Condition]


class ExplainedAccess(BaseModel):
    """What the rules say of one access for one agent of the chain."""

    agent: str
    on_behalf_of: str | None
    verb: str
    resource: str
    uri: str
    scope: Literal["object", "tree"]
    pattern: str | None = Field(
        default=None, description="Of a tree: the access is only to what matches beneath its resource."
    )
    authority: Level
    effect: EffectOut | None
    code: str | None
    rules: list[str]
    overruled: list[str]
    depends_on: list[str] = Field(description="Rules that read redacted values and leave the effect open.")
    examined: list[ExaminedRuleOut]
    further: int = Field(description="Rules about this action that are further off, and not listed.")
    elsewhere: int = Field(description="Rules about other actions or types of resources.")
    unexamined: int = Field(description="Rules about this action that were left out: there are too many.")
    broken: str | None


class ExplainedStage(BaseModel):
    """One stage of the decision. What it took and gave depends on the stage."""

    number: int
    stage: Literal[
        "caller", "tool", "schema", "canonical", "operation", "capability", "policy", "approval", "limits"
    ]
    outcome: Literal["passed", "settled", "not_reached"]
    summary: str
    input: dict[str, Any]
    output: dict[str, Any]


class ExplainedDecision(BaseModel):
    """What `POST /decide` would answer now, with what it does not tell."""

    effect: EffectOut
    stage: str
    code: str
    matched: list[ExplainedRule]
    overruled: list[ExplainedRule]
    message: str
    next: list[str]
    retry_unchanged: bool
    capability: CapabilityRefusedOut | None
    authority: Level | None
    fingerprint: str | None
    request_digest: str | None


class ExplainedApproval(BaseModel):
    """The approval that would lift a `require_approval`, and what holds once it is there."""

    rules: list[ExplainedRule]
    factor: str
    ttl_seconds: int | None
    scopes: list[Literal["once", "times", "session"]]
    scopes_because: str
    afterwards: EffectOut
    afterwards_code: str
    afterwards_matched: list[ExplainedRule]


class ExplainedChange(BaseModel):
    """A rule that stands in the way of an allow: what would have to differ."""

    rule: ExplainedRule
    access: str
    conditions: list[Condition]


class RecordedDecision(BaseModel):
    """What the log says of a decision, and how it compares to what holds now."""

    decision_id: str
    occurred_at: str
    policy_version: str
    effect: str
    stage: str
    code: str
    matched: list[dict[str, Any]]
    overruled: list[dict[str, Any]]
    accesses: list[dict[str, Any]]
    arguments: Any
    profile: str
    same_policy: bool
    agrees: bool | None = Field(description="Null where what holds now cannot be told.")
    redacted: list[str] = Field(description="Places of the request that the log holds as digests.")
    not_reevaluated: list[str] = Field(description="What cannot be told now, and why.")
    not_in_the_record: list[str]


class ExplanationOut(BaseModel):
    """Why a call is decided as it is."""

    format: Literal[1]
    at: str
    profile: str
    policy_version: str
    subject_refused: str | None = Field(
        description="Why this profile may not assert the subject: then no decision is made at all."
    )
    decision: ExplainedDecision | None
    stages: list[ExplainedStage]
    accesses: list[ExplainedAccess]
    unexplained_accesses: int
    approval: ExplainedApproval | None
    changes: list[ExplainedChange]
    recorded: RecordedDecision | None


@router.post(
    "/explain",
    response_model=ExplanationOut,
    summary="Explain how a call is decided",
    description=(
        "Role `policy` or `audit`. The body is that of `POST /decide`, always taken as a dry run: nothing is "
        "reserved or consumed. That somebody looked is recorded as `explanation.made`."
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DecideRequest"}}},
        }
    },
    responses=problem_responses(400, 401, 403, 408, 413, 415, 503),
)
async def explain(request: Request, caller: Reviewer, profile: ProfileName = None) -> Response:
    """Explain a call."""
    refuse_unknown_parameters(request)
    call = parse_decide(await body_of(request))
    told = await _service(request).explain(call, _admitted(request, caller), profile)
    return Response(dump(told), media_type="application/json", headers=_NO_STORE)


@router.get(
    "/decisions/{decision_id}/explanation",
    response_model=ExplanationOut,
    summary="Explain a decision of the log",
    description=(
        "Role `policy` or `audit`. `recorded` is what was decided then; the rest is what the bundle in force "
        "now makes of the recorded facts. What the log holds only as a digest is never guessed. A decision "
        "of another tenant is as if absent. That somebody looked is recorded as `explanation.made`."
    ),
    responses=problem_responses(400, 401, 403, 404, 503),
)
async def explain_decision(
    request: Request, caller: Reviewer, decision_id: str, profile: ProfileName = None
) -> Response:
    """Explain a decision."""
    refuse_unknown_parameters(request)
    told = await _service(request).explain_decision(decision_id, _admitted(request, caller), profile)
    return Response(dump(told), media_type="application/json", headers=_NO_STORE)


_NO_STORE = {"cache-control": "no-store"}


def _service(request: Request) -> ExplanationService:
    service: ExplanationService = request.app.state.services.explanations
    return service


def _admitted(request: Request, caller: Caller) -> Admitted:
    return Admitted(caller=caller, ruleset=request.state.ruleset)
