"""A case about issuing: what is asked for under `issue`, and what the policies make of it.

- name: rights inside the workspace
  call:
    issue:
      agent: coder-1
      on_behalf_of: ada
      actions: [read, write]
      locations: [file:///workspace]
      constraints: {}        # optional, as in a capability; likewise `budget`
      expires_in: 3600       # optional, with `max_depth`
  expect: {effect: allow, rules: [capabilities-workspace]}
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from authz_client.capabilities import public_key
from authz_client.capabilities.entries import DETAIL_TYPE
from pydantic import Field, ValidationError

from authz.core.claims import check_subject_of
from authz.core.decide import Outcome
from authz.core.facts import Facts
from authz.core.issuing import IssueRequest, RightRefused, grants_of, judge_issue, read_entries
from authz.core.requests import Id, Wire, malformed
from authz.errors import MalformedInput
from authz.model.call import Call, CallIds, Claims, Subject
from authz.model.decision import Decision, Stage

ISSUE_MEMBER: Final = "issue"
RIGHT_UNKNOWN: Final = "capability.right_unknown"
SUBJECT_NOT_BOUND: Final = "subject.not_bound"
# RFC 8037, appendix A.2. Which key it is decides nothing.
_HOLDER: Final = public_key(
    {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
)


class IssueCase(Wire):
    """One entry that is asked for."""

    agent: Id
    on_behalf_of: Id | None = None
    actions: list[str]
    locations: list[str]
    constraints: dict[str, Any] | None = None
    budget: dict[str, Any] | None = None
    expires_in: Annotated[int, Field(ge=1, le=2**31)] = 3600
    max_depth: Annotated[int, Field(ge=0, le=8)] = 0


def parse_issue_case(body: Mapping[str, Any]) -> IssueCase:
    """What a case asks for. Raises `MalformedInput`."""
    others = sorted(body.keys() - {ISSUE_MEMBER})
    if others:
        raise MalformedInput(
            f"`/{others[0]}`: a case about `issue` has nothing else",
            code="input.invalid",
            pointer=f"/{others[0]}",
        )
    try:
        return IssueCase.model_validate(body[ISSUE_MEMBER])
    except ValidationError as error:
        found = malformed(error)
        raise MalformedInput(
            found.message, code=found.code, pointer=f"/{ISSUE_MEMBER}{found.pointer or ''}"
        ) from None


def answer_issue(asked: IssueCase, facts: Facts) -> tuple[Call, Outcome]:
    """The verdict, as the outcome of a call of no tool.

    Raises `MalformedInput` for whatever is refused before the policies are asked.
    """
    profile = facts.caller.profile
    subject = Subject(agent=asked.agent, on_behalf_of=asked.on_behalf_of)
    if (unbound := check_subject_of(subject, profile)) is not None:
        raise MalformedInput(unbound, code=SUBJECT_NOT_BOUND)
    detail: dict[str, Any] = {
        "type": DETAIL_TYPE,
        "actions": list(asked.actions),
        "locations": list(asked.locations),
    }
    detail |= {"constraints": asked.constraints} if asked.constraints is not None else {}
    detail |= {"budget": asked.budget} if asked.budget is not None else {}
    entries = read_entries([detail], profile)
    grants = grants_of(entries, facts.ruleset, asked.agent, asked.on_behalf_of, profile)
    if isinstance(grants, RightRefused):
        raise MalformedInput(f"`{grants.right}` names nothing that the agent may see", code=RIGHT_UNKNOWN)
    request = IssueRequest(
        agent=asked.agent,
        user=asked.on_behalf_of,
        holder=_HOLDER,
        details=[detail],
        lifetime_seconds=asked.expires_in,
        max_depth=asked.max_depth,
    )
    verdict = judge_issue(request, grants, facts.ruleset, profile, facts.now_ms)
    decision = Decision(
        decision_id=facts.decision_id,
        effect=verdict.effect,
        stage=Stage.POLICY,
        code=verdict.code,
        policy_version=facts.ruleset.version,
        request_digest="",
        matched=verdict.rules,
        internal=verdict.internal,
    )
    call = Call(
        subject=subject,
        server="",
        tool="",
        advertised_digest=None,
        arguments={},
        provenance={},
        ids=CallIds(),
        claims=Claims(),
    )
    return call, Outcome(decision=decision)
