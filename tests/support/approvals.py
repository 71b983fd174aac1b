"""Requests for approvals from real decisions, people who answer them, and calls that want to use a yes.

request = asked(call("fs/file_read", path="/workspace/a"))
move = accepted(request, voted(request, GRACE))
assert match_grant(wants(call("fs/file_read", path="/workspace/a")), [move.grant], []) is not None
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from authz.core.approval_answers import accept_vote, check_vote
from authz.core.approval_match import CallNow, call_now
from authz.core.approval_moves import Move
from authz.core.approval_request import new_request
from authz.core.ruleset import Ruleset
from authz.core.shown import show
from authz.model.approval import ApprovalState, Factor, GrantScope, ScopeKind
from authz.model.approval_request import (
    ApprovalRequest,
    Ballot,
    CredentialKind,
    Grant,
    Vote,
    Voter,
)
from authz.model.call import Call
from authz.model.decision import Effect
from tests.support.world import NOW_MS, TOOLS, decide_in, facts, source, tool, tool_file, world

TTL_SECONDS: Final = 900
PENDING_MS: Final = 1_800_000
PERMIT: Final = '@id("everything") permit (principal, action, resource);\n'


def rule(name: str, terms: str = "", condition: str = "", reason: str = "It is looked at.") -> str:
    """A rule that asks; `terms` are further annotations."""
    return (
        f'@id("{name}") @reason("{reason}") @requires("approval") {terms} '
        f"forbid (principal, action, resource) {condition};\n"
    )


STAFF: Final = '@approvers("Group::\\"staff\\"")'
FINANCE: Final = '@approvers("Group::\\"finance\\"")'
ASKS: Final = PERMIT + rule("asks", STAFF)
SHELL: Final = tool_file(
    "shell",
    tool(
        "run",
        [{"verb": "execute", "kind": "shell", "at": "/command"}],
        {"command": {"type": "string"}},
        roles={"/command": "command"},
        side_effect="cumulative",
    ),
)
USER: Final = {
    f"/{name}": source("user") for name in ("path", "command", "to", "text", "from", "url", "recursive")
}
ONCE: Final = GrantScope(kind=ScopeKind.ONCE, uses=1)
SESSION: Final = GrantScope(kind=ScopeKind.SESSION, uses=None)


def times(uses: int) -> GrantScope:
    """So many uses of this very call."""
    return GrantScope(kind=ScopeKind.TIMES, uses=uses)


@cache
def ruleset(rules: str = ASKS) -> Ruleset:
    """The usual tools and a shell, under these rules."""
    return world(rules, tools={**TOOLS, "shell": SHELL})


def asked(made: Call, rules: str = ASKS, *, request_id: str = "ap-1", **known: Any) -> ApprovalRequest:
    """The request that the call makes. Fails where it is not asked for."""
    bundle = ruleset(rules)
    outcome = decide_in(bundle, made, **known)
    assert outcome.decision.effect is Effect.REQUIRE_APPROVAL, outcome.decision.message
    whole = facts(bundle, **known)
    shown = show(made, outcome, whole, default_ttl_seconds=TTL_SECONDS)
    return new_request(made, outcome, whole, shown, request_id=request_id, pending_ttl_ms=PENDING_MS)


def wants(made: Call, rules: str = ASKS, *, held: str | None = None, **known: Any) -> CallNow:
    """The call as stage 8 meets it now, without any approval yet."""
    bundle = ruleset(rules)
    outcome, whole = decide_in(bundle, made, **known), facts(bundle, **known)
    assert outcome.draft is not None, outcome.decision.message
    assert outcome.judged is not None
    assert outcome.provenance is not None
    decision = outcome.decision
    return call_now(
        made,
        whole,
        bundle.tools[(made.server, made.tool)],
        outcome.draft,
        # With what `context.ask` makes of it.
        replace(outcome.judged, effect=decision.effect, matched=decision.matched),
        outcome.provenance,
        outcome.capability,
        held=held,
    )


def person(name: str, *groups: str, **more: Any) -> Voter:
    """Somebody who is signed in and whom policy lets approve."""
    entities = {f'User::"{name}"', *(f'Group::"{group}"' for group in groups)}
    known: dict[str, Any] = {
        "tenant": "acme",
        "person": name,
        "credential": CredentialKind.PERSON,
        "entities": frozenset(entities),
        "permitted": True,
    }
    return Voter(**{**known, **more})


GRACE: Final = person("grace", "finance", "staff")
LINUS: Final = person("linus", "staff")
ADA: Final = person("ada", "staff")
"""On whose behalf the usual call is."""


def ballot(request: ApprovalRequest, **more: Any) -> Ballot:
    """A yes to what was shown, once."""
    known = {"shown_digest": request.shown_digest, "scope": ONCE, "factor": Factor.SESSION}
    return Ballot(**{**known, **more})


def voted(
    request: ApprovalRequest,
    voter: Voter = GRACE,
    votes: Sequence[Vote] = (),
    *,
    at_ms: int = NOW_MS,
    **more: Any,
) -> Vote:
    """A yes that counts. Fails where it does not."""
    vote = check_vote(request, votes, voter, ballot(request, **more), at_ms)
    assert isinstance(vote, Vote), vote
    return vote


def accepted(
    request: ApprovalRequest, vote: Vote, votes: Sequence[Vote] = (), *, at_ms: int = NOW_MS
) -> Move:
    """What the yes makes of the request. Fails where it makes nothing of it."""
    move = accept_vote(request, votes, vote, at_ms)
    assert isinstance(move, Move), move
    return move


def granted(request: ApprovalRequest, *voters: Voter, at_ms: int = NOW_MS, **more: Any) -> Grant:
    """What the yes of all of these permits. Fails where some are missing, or too many."""
    votes: list[Vote] = []
    grant = None
    for voter in voters or (GRACE,):
        vote = voted(request, voter, votes, at_ms=at_ms, **more)
        move = accepted(request, vote, votes, at_ms=at_ms)
        votes.append(vote)
        request, grant = move.after, move.grant
    assert request.state is ApprovalState.APPROVED
    assert grant is not None
    return grant


def provenance(claims: Mapping[str, Any] | None = None, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """All typed by the user, but for these claims and what nothing is said about."""
    return {place: claim for place, claim in {**USER, **(claims or {})}.items() if place not in without}
