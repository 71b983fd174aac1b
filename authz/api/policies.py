"""`/policies`: which bundle decides, what is wrong with the files where they are not it, and reloading."""

from itertools import islice
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from authz.api.problems import problem_responses
from authz.api.request import caller_with, refuse_body, refuse_unknown_parameters
from authz.api.wire import dump
from authz.core.cedar_context import rfc3339
from authz.core.policy import Policy
from authz.core.ruleset import Ruleset
from authz.errors import BundleProblem, MalformedInput, StoreUnavailable
from authz.model.caller import Caller
from authz.service.bundles import Attempt, BundlesInForce, ReloadOutcome, Trigger, TriggerKind

router = APIRouter(tags=["policies"])

MAX_PROBLEMS: Final = 1000
"""How many problems an answer lists; how many there are it says in any case."""
MAX_RULES: Final = 1000
"""How many rules an answer lists, so that none holds up others."""


class RuleStatus(BaseModel):
    """One rule in force."""

    rule: str
    kind: str
    file: str
    line: int
    reason: str


class ProblemOut(BaseModel):
    """One fault of the files: where it stands, what is wrong, what to write instead."""

    file: str
    line: int | None
    code: str
    message: str
    hint: str


class AttemptOut(BaseModel):
    """One attempt to load the bundle's files."""

    at: str
    trigger: Literal["start", "watch", "signal", "api"]
    outcome: Literal["loaded", "unchanged", "rejected", "not_recorded"] = Field(
        description="`not_recorded`: the files are good, but the record of the swap could not be written."
    )
    version: str = Field(description="The version in force after the attempt.")
    problem_count: int
    problems: list[ProblemOut] = Field(description="The first thousand.")


class WatchOut(BaseModel):
    """How changes of the files are noticed."""

    by: Literal["events", "polling", "off"]
    fault: str = Field(description="Why there are no events; empty where there are.")


class PoliciesOut(BaseModel):
    """The bundle in force for the caller's tenant, and how it relates to its files."""

    version: str
    since: str = Field(description="When it came into force in this process.")
    state: Literal["ready", "degraded", "stale"] = Field(
        description="`degraded`: the last attempt failed, and the last good bundle decides. "
        "`stale`: the bound on staleness is exceeded, and nothing is decided."
    )
    unconfirmed_seconds: float = Field(
        description="How long ago the files were last seen to be the bundle in force."
    )
    max_staleness_seconds: float | None
    watch: WatchOut
    last_attempt: AttemptOut | None = Field(description="Null while nothing was loaded since the start.")
    rule_count: int
    tool_count: int
    rules: list[RuleStatus] = Field(description="In the order of the files, at most `limit` of them.")
    next: str | None = Field(description="Send as `after` for the rules that follow; null at the end.")
    tools: list[str]


@router.get(
    "/policies",
    response_model=PoliciesOut,
    summary="The bundle in force, and what is wrong with its files",
    description="Role `policy` or `audit`. Answered also while decisions are refused as stale.",
    responses=problem_responses(400, 401, 403, 503),
)
async def status(
    request: Request,
    caller: Annotated[Caller, Depends(caller_with("policy", "audit"))],
    after: Annotated[str, Query(max_length=256, description="The name of a rule: list those after it.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_RULES)] = MAX_RULES,
) -> Response:
    """Show the bundle."""
    refuse_unknown_parameters(request)
    bundles: BundlesInForce = request.app.state.services.bundles
    known = bundles.status(caller.tenant)
    ruleset = known.ruleset
    attempt = known.last_attempt
    rules, following = _page(ruleset, after, limit)
    body = {
        "version": ruleset.version,
        "since": rfc3339(known.since_ms),
        "state": bundles.state(caller.tenant).value,
        "unconfirmed_seconds": round(bundles.unconfirmed_seconds(caller.tenant), 3),
        "max_staleness_seconds": bundles.max_staleness_seconds,
        "watch": {"by": known.watching, "fault": known.watch_fault},
        "last_attempt": _attempt_out(attempt) if attempt is not None else None,
        "rule_count": len(ruleset.engine.policies),
        "tool_count": len(ruleset.tools),
        "rules": [
            {
                "rule": policy.id,
                "kind": policy.match.kind.value,
                "file": policy.match.file,
                "line": policy.match.line,
                "reason": policy.match.reason,
            }
            for policy in rules
        ],
        "next": following,
        "tools": sorted(f"{server}/{name}" for server, name in ruleset.tools),
    }
    return Response(dump(body), media_type="application/json")


@router.post(
    "/policies/reload",
    response_model=AttemptOut,
    summary="Load the bundle's files now",
    description=(
        "Role `policy`. Reads the files after the request arrived, and answers when the attempt has ended: "
        "also a refused bundle is an outcome, and leaves the one in force. Requests that wait for the same "
        "attempt get the same answer. `loaded` leaves the record `bundle.loaded` before anything is decided "
        "by it, and `rejected` leaves `bundle.rejected`; both name the key of the first who asked. The same "
        "rejection is recorded once a key. There is no body."
    ),
    responses=problem_responses(400, 401, 403, 408, 413, 503),
)
async def reload(request: Request, caller: Annotated[Caller, Depends(caller_with("policy"))]) -> Response:
    """Reload."""
    refuse_unknown_parameters(request)
    refuse_body(request)
    attempt = await request.app.state.services.reloads.reload(
        caller.tenant, Trigger(kind=TriggerKind.API, key_id=caller.key_id)
    )
    if attempt.outcome is ReloadOutcome.NOT_RECORDED:
        raise StoreUnavailable("the new bundle could not be recorded, so the old one decides; try again")
    return Response(dump(_attempt_out(attempt)), media_type="application/json")


def _page(ruleset: Ruleset, after: str, limit: int) -> tuple[list[Policy], str | None]:
    """(some of the rules, the name of the last if others follow)."""
    policies = ruleset.engine.policies
    begin = 0
    if after:
        if after not in policies:
            raise MalformedInput(
                "`after` names no rule of the bundle in force; begin again without it",
                code="input.invalid",
                pointer="/after",
            )
        begin = next(number for number, name in enumerate(policies, 1) if name == after)
    page = list(islice(policies.values(), begin, begin + limit))
    return page, page[-1].id if begin + len(page) < len(policies) else None


def _attempt_out(attempt: Attempt) -> dict[str, Any]:
    return {
        "at": rfc3339(attempt.at_ms),
        "trigger": attempt.trigger.kind.value,
        "outcome": attempt.outcome.value,
        "version": attempt.version,
        "problem_count": len(attempt.problems),
        "problems": [_problem_out(problem) for problem in attempt.problems[:MAX_PROBLEMS]],
    }


def _problem_out(problem: BundleProblem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }
