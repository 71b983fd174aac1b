"""AP1–AP5, AP8 and DE4 over whole histories: who answers, uses and takes back, in whatever order and at once.

An intent is made from what was read at one moment and written at another, by compare-and-set, into a store
that keeps nothing but what it is given. What may come out is said here a second time, by hand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Final, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.approval import grant_state_at, state_at
from authz.core.approval_answers import accept_vote, check_cancel, check_denial, check_vote, expire
from authz.core.approval_grants import check_revoke, use
from authz.core.approval_match import CallNow, Denied, Matched, match_grant
from authz.core.approval_moves import TRANSITIONS, Move, Refused
from authz.model.approval import ApprovalState, GrantScope, ScopeKind
from authz.model.approval_request import (
    ApprovalRequest,
    Consumption,
    CredentialKind,
    Denial,
    Grant,
    Vote,
    Voter,
)
from authz.model.call import Call
from tests.support.approvals import (
    ADA,
    ASKS,
    GRACE,
    LINUS,
    ONCE,
    PENDING_MS,
    PERMIT,
    SESSION,
    STAFF,
    TTL_SECONDS,
    USER,
    asked,
    ballot,
    granted,
    person,
    provenance,
    rule,
    times,
    wants,
)
from tests.support.world import IDS, NOW_MS, call, source

TWO_PEOPLE: Final = PERMIT + rule("asks", STAFF + ' @quorum("2")')
POLICIES: Final = {
    "same": ASKS,
    "two": TWO_PEOPLE,
    "more": ASKS + rule("more", STAFF),
    "none": PERMIT,
    "denied": ASKS
    + '@id("no") forbid (principal, action, resource) when { context.now > datetime("2000-01-01") };',
}


def read(path: str, **more: object) -> Call:
    return call("fs/file_read", **{"path": path, "provenance": USER, **more})  # type: ignore[arg-type]


CALLS: Final[dict[str, Call]] = {
    "shown": read("/workspace/d"),
    "again": read("/workspace/d", ids=replace(IDS, call="call-2")),
    "beneath": read("/workspace/d/e"),
    "beside": read("/workspace/dd"),
    "above": read("/workspace"),
    "session": read("/workspace/d", session="s-2"),
    "agent": read("/workspace/d", agent="coder-2"),
    "user": read("/workspace/d", user="grace"),
    "child": read("/workspace/d", parent_agent="coder-1"),
    "worse": read("/workspace/d", provenance=provenance({"/path": source("web")})),
    "script": call("shell/run", command="bash -c ls", provenance=USER),
}
SAME_CALL: Final = {"shown", "again"}
"""By fingerprint the child is, too: of the same name, user and session. It is not who was shown."""
IN_SESSION: Final = {"shown", "again", "beneath"}
REQUESTED: Final = ("shown", "beneath", "script")
ALL: Final = [(name, policy) for name in REQUESTED for policy in ("same", "two")]
T = TypeVar("T")
PEOPLE: Final = (
    GRACE,
    LINUS,
    person("ken", "staff"),
    ADA,
    person("eve"),
    replace(LINUS, tenant="other"),
    replace(LINUS, permitted=False),
    replace(LINUS, credential=CredentialKind.KEY),
    replace(LINUS, credential=CredentialKind.DEV_KEY),
    replace(LINUS, person="LINUS"),
)
APPROVERS: Final = {"grace", "linus", "ken"}
SCOPES: Final = (ONCE, times(2), times(3), SESSION, times(11))


@cache
def request_for(name: str, policy: str) -> ApprovalRequest:
    return asked(CALLS[name], POLICIES[policy], request_id=f"{name}-{policy}")


@cache
def meant(name: str, policy: str) -> CallNow:
    return wants(CALLS[name], POLICIES[policy])


@dataclass
class Desk:
    """Keeps what it is given if it is still as it was read, and remembers all that was ever written."""

    requests: dict[str, ApprovalRequest]
    votes: dict[str, list[Vote]] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    denials: list[Denial] = field(default_factory=list)
    states: dict[str, list[ApprovalState]] = field(default_factory=dict)
    uses: list[tuple[Grant, str, str]] = field(default_factory=list)

    def move(self, move: Move) -> bool:
        request_id = move.after.id
        if self.requests[request_id].version != move.expected_version:
            return False
        self.requests[request_id] = move.after
        self.states.setdefault(request_id, []).append(move.after.state)
        if move.vote is not None:
            self.votes.setdefault(request_id, []).append(move.vote)
        if move.grant is not None:
            self.grants[request_id] = move.grant
        if move.denial is not None:
            self.denials.append(move.denial)
        return True

    def revoke(self, read: Grant, revoked: Grant) -> bool:
        if self.grants[read.request_id].voided_at_ms:
            return False
        self.grants[read.request_id] = replace(
            self.grants[read.request_id], voided_at_ms=revoked.voided_at_ms, voided_by=revoked.voided_by
        )
        return True

    def consume(self, now: CallNow, taken: Consumption, name: str, policy: str, at_ms: int) -> bool:
        key = (now.asked.requester.session, now.asked.fingerprint)
        if any((denial.session, denial.fingerprint) == key for denial in self.denials):
            return False
        before = self.grants[taken.request_id]
        after = use(before, taken, at_ms)
        if after is None:
            return False
        self.grants[taken.request_id] = after
        self.uses.append((before, name, policy))
        return True


@dataclass(frozen=True)
class Act:
    """What somebody begins: on which request, by whom, with what."""

    what: str
    on: str
    policy: str
    voter: Voter
    scope: GrantScope
    call: str
    judged_by: str
    elapsed_ms: int
    commit: int
    """Which of the intents that are under way is written next, after this one began."""
    honest: bool


def mostly(often: tuple[T, ...], seldom: tuple[T, ...]) -> st.SearchStrategy[T]:
    """One of `often` in nine of ten."""
    return st.integers(0, 9).flatmap(lambda number: st.sampled_from(often if number < 9 else seldom))


ACTS: Final = st.builds(
    Act,
    what=mostly(("use", "vote"), ("deny", "cancel", "sweep", "revoke")),
    on=mostly(("shown", "beneath"), REQUESTED),
    policy=st.sampled_from(["same", "two"]),
    voter=mostly((GRACE, LINUS), PEOPLE),
    scope=st.sampled_from(SCOPES),
    call=mostly(("shown", "again", "beneath"), tuple(CALLS)),
    judged_by=mostly(("same",), tuple(POLICIES)),
    elapsed_ms=mostly((0, 1), (1000, TTL_SECONDS * 1000, PENDING_MS)),
    commit=st.integers(0, 3),
    honest=mostly((True,), (False,)),
)
GIVEN_BEFORE: Final = st.dictionaries(
    st.sampled_from([(name, policy) for name in ("shown", "beneath") for policy in ("same", "two")]),
    st.sampled_from(SCOPES[:-1]),
    max_size=3,
)
"""What was approved when a history begins, and how far."""
Intent = Callable[[int], bool]


@dataclass
class Play:
    """A history as it runs: what is kept, what is under way, and the clock."""

    desk: Desk
    now_ms: int = NOW_MS
    under_way: list[Intent] = field(default_factory=list)

    def act(self, act: Act) -> None:
        self.now_ms += act.elapsed_ms
        intent = self.begin(act)
        if intent is not None:
            self.under_way.append(intent)
        if self.under_way:
            self.write(act.commit % len(self.under_way))

    def approve(self, request_id: str, scope: GrantScope) -> None:
        """Both of two people say yes, or one where that is enough."""
        for voter in (GRACE, LINUS):
            request = self.desk.requests[request_id]
            votes = self.desk.votes.get(request_id, ())
            if request.state is ApprovalState.PENDING:
                vote = check_vote(request, votes, voter, ballot(request, scope=scope), self.now_ms)
                assert isinstance(vote, Vote)
                move = accept_vote(request, votes, vote, self.now_ms)
                assert isinstance(move, Move)
                assert self.desk.move(move)

    def write(self, index: int) -> None:
        before = dict(self.desk.requests)
        written = self.under_way.pop(index)(self.now_ms)
        if not written:
            assert self.desk.requests == before

    def begin(self, act: Act) -> Intent | None:
        """What somebody makes of what is read now. Whoever is refused writes nothing."""
        desk = self.desk
        request = desk.requests[f"{act.on}-{act.policy}"]
        move: Move | Refused | None
        if act.what == "vote":
            move = self.vote(act, request)
        elif act.what == "deny":
            move = check_denial(request, act.voter, "", self.now_ms)
        elif act.what == "cancel":
            move = check_cancel(request, "key-1", self.now_ms)
        elif act.what == "sweep":
            move = expire(request, self.now_ms)
        elif act.what == "revoke":
            return self.revoke(request)
        elif act.what == "use":
            return self.use(act)
        else:
            return None
        if state_at(request, self.now_ms) is not ApprovalState.PENDING and act.what != "sweep":
            assert isinstance(move, Refused), "late answers are inert"
        if not isinstance(move, Move):
            return None
        assert (move.source, move.after.state, move.by) in TRANSITIONS
        return lambda _, move=move: desk.move(move)  # type: ignore[misc]

    def vote(self, act: Act, request: ApprovalRequest) -> Move | Refused:
        # As they were read: a store would copy them.
        votes = tuple(self.desk.votes.get(request.id, ()))
        digest = request.shown_digest if act.honest else "sha256:other"
        given_yes = ballot(request, scope=act.scope, shown_digest=digest)
        vote = check_vote(request, votes, act.voter, given_yes, self.now_ms)
        if isinstance(vote, Refused):
            return vote
        assert act.honest
        assert vote.scope.uses is None or 1 <= vote.scope.uses <= 10
        return accept_vote(request, votes, vote, self.now_ms)

    def revoke(self, request: ApprovalRequest) -> Intent | None:
        grant = self.desk.grants.get(request.id)
        revoked = check_revoke(grant, "grace", self.now_ms) if grant is not None else None
        if grant is None or not isinstance(revoked, Grant):
            return None
        return lambda _: self.desk.revoke(grant, revoked)

    def use(self, act: Act) -> Intent | None:
        now = replace(meant(act.call, act.judged_by), now_ms=self.now_ms)
        grants, denials = list(self.desk.grants.values()), list(self.desk.denials)
        found = match_grant(now, grants, denials)
        for order in (grants[::-1], sorted(grants, key=lambda grant: grant.expires_at_ms)):
            assert match_grant(now, order, denials[::-1]) == found, "the order of facts decides nothing"
        denied = any(
            (denial.session, denial.fingerprint) == (now.asked.requester.session, now.asked.fingerprint)
            for denial in denials
        )
        assert isinstance(found, Denied) == denied, "a no sticks, and only to its own call"
        if not isinstance(found, Matched):
            return None
        taken = found.consumption
        assert taken is not None
        return lambda at_ms: self.desk.consume(now, taken, act.call, act.judged_by, at_ms)


def check_history(desk: Desk) -> None:
    for states in desk.states.values():
        # AP5: `pending` for yeses short of the quorum, then one end, and nothing after it.
        ended = [state for state in states if state is not ApprovalState.PENDING]
        assert len(ended) <= 1
        assert states[-1:] == ended[-1:] or not ended
    for request_id, grant in desk.grants.items():
        check_grant(desk, request_id, grant)
    for grant, name, policy in desk.uses:
        check_use(grant, name, policy)


def check_grant(desk: Desk, request_id: str, grant: Grant) -> None:
    assert desk.states[request_id][-1] is ApprovalState.APPROVED
    people = {vote.person.casefold() for vote in grant.votes}
    assert people <= APPROVERS, "nobody else, and never whose agent it is"
    needed = 2 if request_id.endswith("-two") else 1
    assert len(people) == len(grant.votes) == needed
    assert {vote.shown_digest for vote in grant.votes} == {desk.requests[request_id].shown_digest}
    if request_id.startswith("script-"):
        assert grant.scope.kind is ScopeKind.ONCE, "AP8: an interpreter is never remembered"
    used = sum(1 for one, _, _ in desk.uses if one.request_id == request_id)
    if grant.scope.uses is None:
        assert grant.uses_left is None
    else:
        assert used <= grant.scope.uses
        assert grant.uses_left == grant.scope.uses - used


def check_use(grant: Grant, name: str, policy: str) -> None:
    shown, _, asked_by = grant.request_id.rpartition("-")
    # AP4: what asks now was shown, by as many people as it asks for now.
    assert policy in ("same", "two")
    assert policy == "same" or asked_by == "two"
    assert name not in ("worse", "beside", "above", "session", "agent", "user")
    if grant.scope.kind is ScopeKind.SESSION:
        assert shown != "script"
        assert name in ({"beneath"} if shown == "beneath" else IN_SESSION)
    elif shown == "shown":
        assert name in SAME_CALL
    else:
        assert name == shown


@settings(max_examples=300, deadline=None)
@given(GIVEN_BEFORE, st.lists(ACTS, min_size=10, max_size=40))
def test_whatever_happens_in_whatever_order(
    given_before: dict[tuple[str, str], GrantScope], acts: list[Act]
) -> None:
    """AP1–AP5, AP8."""
    play = Play(Desk({request.id: request for request in map(request_for, *zip(*ALL, strict=True))}))
    for (name, policy), scope in given_before.items():
        play.approve(request_for(name, policy).id, scope)
    for act in acts:
        play.act(act)
        check_history(play.desk)
    while play.under_way:
        play.write(0)
    check_history(play.desk)


@settings(deadline=None)
@given(scope=st.sampled_from([ONCE, times(2), times(5)]), racing=st.integers(1, 40), chance=st.randoms())
def test_racing_uses_take_exactly_what_was_granted(scope: GrantScope, racing: int, chance: Random) -> None:
    """Whoever finds it moved decides again, until it is spent."""
    grant = granted(request_for("shown", "same"), GRACE, scope=scope)
    desk = Desk({}, grants={grant.request_id: grant})
    now = meant("shown", "same")
    wanting = racing
    while wanting:
        # All of them read before any of them writes.
        found = [match_grant(now, [desk.grants[grant.request_id]], []) for _ in range(wanting)]
        matched = [one.consumption for one in found if isinstance(one, Matched)]
        chance.shuffle(matched)
        taken = [one for one in matched if one and desk.consume(now, one, "shown", "same", NOW_MS)]
        assert len(taken) <= 1, "one of those that read the same"
        if not taken:
            break
        wanting -= 1
    assert scope.uses is not None
    assert len(desk.uses) == min(racing, scope.uses)
    assert grant_state_at(desk.grants[grant.request_id], NOW_MS) is (
        ApprovalState.CONSUMED if racing >= scope.uses else ApprovalState.APPROVED
    )


@given(st.permutations(["vote", "deny", "cancel", "sweep"]), st.sampled_from([0, PENDING_MS - 1, PENDING_MS]))
def test_answers_at_the_same_instant_end_in_one_state(order: Sequence[str], elapsed_ms: int) -> None:
    """AP5: all of them read the same; one is written, the others find it moved."""
    request = request_for("shown", "same")
    at_ms = NOW_MS + elapsed_ms
    vote = check_vote(request, (), GRACE, ballot(request), at_ms)
    made = {
        "vote": accept_vote(request, (), vote, at_ms) if isinstance(vote, Vote) else vote,
        "deny": check_denial(request, LINUS, "", at_ms),
        "cancel": check_cancel(request, "key-1", at_ms),
        "sweep": expire(request, at_ms),
    }
    desk = Desk({request.id: request})
    moves = [move for move in (made[name] for name in order) if isinstance(move, Move)]
    written = [desk.move(move) for move in moves]

    assert written == [True] + [False] * (len(moves) - 1)
    assert len(desk.states[request.id]) == 1
    over = elapsed_ms >= PENDING_MS
    assert {type(made[name]) for name in ("vote", "deny", "cancel")} == {Refused if over else Move}
    assert (made["sweep"] is not None) is over
