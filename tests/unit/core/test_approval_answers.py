"""Who may answer, what an answer makes of a request, and that a late one makes nothing of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from authz.core.approval_answers import (
    accept_vote,
    check_cancel,
    check_denial,
    check_vote,
    expire,
    is_own,
)
from authz.core.approval_grants import check_revoke, grant_of, use
from authz.core.approval_moves import TRANSITIONS, AnswerCode, By, Move, Refused, moved
from authz.core.approval_quorum import is_met, strongest_factor, unmet_rules
from authz.model.approval import ApprovalState, Factor, GrantScope, ScopeKind
from authz.model.approval_request import ApprovalRequest, Consumption, CredentialKind, Grant, Vote, Voter
from tests.support.approvals import (
    ADA,
    ASKS,
    FINANCE,
    GRACE,
    LINUS,
    ONCE,
    PERMIT,
    SESSION,
    STAFF,
    USER,
    accepted,
    asked,
    ballot,
    granted,
    person,
    rule,
    times,
    voted,
)
from tests.support.world import NOW_MS, call

READ = call("fs/file_read", path="/workspace/a", provenance=USER)
PAY = call("bank/transfer", to="ops", amount=1, provenance=USER)
REQUEST = asked(READ)
LATER = NOW_MS + 1000


def refusal(found: object) -> tuple[AnswerCode, ApprovalState | None]:
    assert isinstance(found, Refused), found
    assert found.message
    return found.code, found.state


def vote_code(request: ApprovalRequest, voter: Voter, **more: Any) -> tuple[AnswerCode, ApprovalState | None]:
    return refusal(check_vote(request, (), voter, ballot(request, **more), LATER))


def test_a_yes_of_an_approver_counts_and_says_what_it_was_given_to() -> None:
    vote = check_vote(REQUEST, (), GRACE, ballot(REQUEST, receipt="r"), LATER)

    assert vote == Vote(
        request_id="ap-1",
        person="grace",
        entities=GRACE.entities,
        factor=Factor.SESSION,
        shown_digest=REQUEST.shown_digest,
        scope=REQUEST.scopes[0],
        at_ms=LATER,
        receipt="r",
    )


NOBODY = [
    (replace(GRACE, tenant="other"), AnswerCode.NOT_FOUND),
    (replace(GRACE, credential=CredentialKind.KEY), AnswerCode.NOT_A_PERSON),
    (replace(GRACE, credential=CredentialKind.DEV_KEY), AnswerCode.NOT_A_PERSON),
    (ADA, AnswerCode.OWN_REQUEST),
    (replace(ADA, person="Ada"), AnswerCode.OWN_REQUEST),
    (replace(ADA, person="\uff41\uff44\uff41"), AnswerCode.OWN_REQUEST),
    (replace(GRACE, person="coder-1"), AnswerCode.OWN_REQUEST),
    (person("eve"), AnswerCode.NOT_AN_APPROVER),
    (person("eve", "Staff", "staf", "staff2"), AnswerCode.NOT_AN_APPROVER),
    (replace(GRACE, entities=frozenset()), AnswerCode.NOT_AN_APPROVER),
    (replace(GRACE, permitted=False), AnswerCode.NOT_PERMITTED),
]


@pytest.mark.parametrize(("voter", "code"), NOBODY, ids=lambda part: getattr(part, "value", None))
def test_nobody_else_approves_or_learns_how_it_stands(voter: Voter, code: AnswerCode) -> None:
    """AP3: also where the request is over already, and whatever is posted."""
    for request in (REQUEST, replace(REQUEST, state=ApprovalState.DENIED)):
        assert vote_code(request, voter) == (code, None)
        assert vote_code(request, voter, shown_digest="sha256:0") == (code, None)


@pytest.mark.parametrize("voter", [person("root", "staff"), person("parent", "staff")])
def test_no_agent_of_the_chain_approves_under_its_own_name(voter: Voter) -> None:
    chained = replace(
        REQUEST.asked,
        requester=replace(REQUEST.asked.requester, chain=("root", "coder-1"), parent_agent="parent"),
    )

    assert vote_code(replace(REQUEST, asked=chained), voter) == (AnswerCode.OWN_REQUEST, None)


def test_a_call_on_nobodys_behalf_is_nobodys_own() -> None:
    requester = replace(REQUEST.asked.requester, on_behalf_of=None)

    assert not is_own(requester, "ada")
    assert is_own(requester, "coder-1")


def test_without_approvers_whoever_policy_lets() -> None:
    request = asked(READ, PERMIT + rule("asks"))

    assert isinstance(check_vote(request, (), person("eve"), ballot(request), LATER), Vote)
    assert vote_code(request, replace(person("eve"), permitted=False)) == (AnswerCode.NOT_PERMITTED, None)


def test_an_approver_may_be_named_as_a_person() -> None:
    request = asked(READ, PERMIT + rule("asks", '@approvers("User::\\"grace\\"")'))

    assert isinstance(check_vote(request, (), GRACE, ballot(request), LATER), Vote)
    assert vote_code(request, LINUS) == (AnswerCode.NOT_AN_APPROVER, None)


@pytest.mark.parametrize("posted", ["", "sha256:0", REQUEST.shown_digest.upper(), asked(PAY).shown_digest])
def test_a_yes_to_anything_else_than_what_is_shown_is_none(posted: str) -> None:
    assert vote_code(REQUEST, GRACE, shown_digest=posted) == (
        AnswerCode.SHOWN_CHANGED,
        ApprovalState.PENDING,
    )


def test_the_strongest_factor_is_asked_of_everybody() -> None:
    """Also of those whose own rule is content with less."""
    request = asked(READ, ASKS + rule("strong", FINANCE + ' @factor("passkey")'))

    assert strongest_factor(request.asked.rules) is Factor.PASSKEY
    for voter in (LINUS, GRACE):
        assert vote_code(request, voter) == (AnswerCode.FACTOR_TOO_WEAK, ApprovalState.PENDING)
        assert isinstance(check_vote(request, (), voter, ballot(request, factor=Factor.PASSKEY), LATER), Vote)


def test_without_rules_nothing_is_met() -> None:
    assert strongest_factor(()) is Factor.PASSKEY
    assert not is_met((), (voted(REQUEST),))


def test_what_cannot_be_seen_is_not_approved() -> None:
    request = asked(call("shell/run", command="\u2003\u200b", provenance=USER))

    assert request.cannot_be_approved_because
    assert vote_code(request, GRACE) == (AnswerCode.CANNOT_BE_APPROVED, ApprovalState.PENDING)
    denied = check_denial(request, GRACE, "", LATER)
    assert isinstance(denied, Move)


@pytest.mark.parametrize(
    ("made", "scope"),
    [
        (PAY, times(2)),
        (PAY, SESSION),
        (READ, times(0)),
        (READ, times(-1)),
        (READ, times(11)),
        (READ, replace(ONCE, uses=2)),
        (READ, replace(ONCE, uses=None)),
        (READ, replace(ONCE, uses=True)),
        (READ, GrantScope(kind=ScopeKind.TIMES, uses=None)),
        (READ, GrantScope(kind=ScopeKind.SESSION, uses=3)),
    ],
)
def test_what_was_not_offered_cannot_be_chosen(made: Any, scope: GrantScope) -> None:
    assert vote_code(asked(made), GRACE, scope=scope) == (
        AnswerCode.SCOPE_NOT_OFFERED,
        ApprovalState.PENDING,
    )


def test_a_choice_reaches_what_was_offered_whatever_it_says() -> None:
    wider = replace(REQUEST.scopes[2].reach[0], uri="file:///", tree=True)
    vote = check_vote(REQUEST, (), GRACE, ballot(REQUEST, scope=replace(SESSION, reach=(wider,))), LATER)

    assert isinstance(vote, Vote)
    assert vote.scope == REQUEST.scopes[2]


def test_one_yes_approves_where_one_is_asked_for() -> None:
    move = accepted(REQUEST, voted(REQUEST), at_ms=LATER)

    assert (move.source, move.after.state, move.by) == (
        ApprovalState.PENDING,
        ApprovalState.APPROVED,
        By.APPROVER,
    )
    assert (move.expected_version, move.after.version) == (0, 1)
    assert (move.after.closed_at_ms, move.after.closed_by) == (LATER, "grace")
    assert move.grant is not None
    assert (move.grant.uses_left, move.grant.granted_at_ms) == (1, LATER)
    assert move.grant.expires_at_ms == LATER + 900_000
    assert move.grant.asked == REQUEST.asked


def test_a_quorum_is_met_by_distinct_people() -> None:
    request = asked(READ, PERMIT + rule("asks", STAFF + ' @quorum("2")'))
    first = accepted(request, voted(request, LINUS))

    assert (first.after.state, first.after.version, first.grant) == (ApprovalState.PENDING, 1, None)
    again = check_vote(first.after, [voted(request, LINUS)], LINUS, ballot(request), LATER)
    assert refusal(again) == (AnswerCode.ALREADY_ANSWERED, ApprovalState.PENDING)
    spelled = replace(LINUS, person="LINUS")
    assert refusal(check_vote(first.after, [voted(request, LINUS)], spelled, ballot(request), LATER)) == (
        AnswerCode.ALREADY_ANSWERED,
        ApprovalState.PENDING,
    )
    assert refusal(accept_vote(first.after, [voted(request, LINUS)], voted(request, LINUS), LATER)) == (
        AnswerCode.ALREADY_ANSWERED,
        ApprovalState.PENDING,
    )
    second = accepted(first.after, voted(first.after, GRACE), [voted(request, LINUS)])
    assert second.after.state is ApprovalState.APPROVED
    assert second.grant is not None
    assert [vote.person for vote in second.grant.votes] == ["linus", "grace"]


def test_two_spellings_of_a_name_are_one_person() -> None:
    request = asked(READ, PERMIT + rule("asks", STAFF + ' @quorum("2")'))
    one, two = voted(request, LINUS), voted(request, replace(LINUS, person="Linus"))

    assert not is_met(request.asked.rules, [one, two])
    assert is_met(request.asked.rules, [one, two, voted(request, GRACE)])


def test_each_rule_needs_its_own_people() -> None:
    rules = PERMIT + rule("staff", STAFF + ' @quorum("2")') + rule("money", FINANCE)
    request = asked(READ, rules)
    other = person("ken", "staff")
    linus, ken = voted(request, LINUS), voted(request, other)

    assert unmet_rules(request.asked.rules, [linus, ken]) == ("money",)
    waits = accepted(request, ken, [linus])
    assert waits.after.state is ApprovalState.PENDING
    # One person of both counts for both.
    assert accepted(request, voted(request, GRACE), [linus]).after.state is ApprovalState.APPROVED
    assert unmet_rules(request.asked.rules, [voted(request, GRACE)]) == ("staff",)


def test_what_everybody_agreed_to_is_the_narrowest() -> None:
    request = asked(READ, PERMIT + rule("asks", STAFF + ' @quorum("2")'))

    def agreed(one: GrantScope, two: GrantScope) -> tuple[ScopeKind, int | None]:
        first = voted(request, LINUS, scope=one)
        move = accepted(request, voted(request, GRACE, scope=two), [first])
        assert move.grant is not None
        assert move.grant.scope.uses == move.grant.uses_left
        return move.grant.scope.kind, move.grant.uses_left

    assert agreed(SESSION, ONCE) == (ScopeKind.ONCE, 1)
    assert agreed(times(7), SESSION) == (ScopeKind.TIMES, 7)
    assert agreed(times(7), times(3)) == (ScopeKind.TIMES, 3)
    assert agreed(times(7), ONCE) == (ScopeKind.ONCE, 1)
    assert agreed(SESSION, SESSION) == (ScopeKind.SESSION, None)


def test_votes_that_are_too_few_permit_nothing() -> None:
    request = asked(READ, PERMIT + rule("asks", STAFF + ' @quorum("2")'))

    with pytest.raises(ValueError, match="quorum"):
        grant_of(request, [voted(request)], LATER)


def test_a_vote_for_another_request_is_not_counted() -> None:
    """AP5: an answer goes to the request that it names."""
    other = asked(call("fs/file_read", path="/workspace/b", provenance=USER), request_id="ap-2")

    assert refusal(accept_vote(REQUEST, (), voted(other), LATER))[0] is AnswerCode.SHOWN_CHANGED
    twin = asked(READ, request_id="ap-2")
    assert twin.shown_digest == REQUEST.shown_digest
    assert refusal(accept_vote(REQUEST, (), voted(twin), LATER))[0] is AnswerCode.SHOWN_CHANGED


def test_the_shortest_time_holds() -> None:
    rules = PERMIT + rule("asks", STAFF + ' @ttl("10m")') + rule("also", STAFF + ' @ttl("2m")')

    assert granted(asked(READ, rules)).expires_at_ms == NOW_MS + 120_000


def test_a_no_is_one_persons_and_final() -> None:
    request = asked(READ, PERMIT + rule("asks", STAFF + ' @quorum("2")'))
    first = accepted(request, voted(request, LINUS))
    move = check_denial(first.after, LINUS, "not today", LATER)

    assert isinstance(move, Move)
    assert (move.after.state, move.after.version, move.grant) == (ApprovalState.DENIED, 2, None)
    assert move.denial is not None
    assert (move.denial.person, move.denial.reason, move.denial.fingerprint, move.denial.session) == (
        "linus",
        "not today",
        request.asked.fingerprint,
        "s-1",
    )


def test_whose_agent_it_is_may_say_no_though_not_yes() -> None:
    assert isinstance(check_denial(REQUEST, ADA, "", LATER), Move)


@pytest.mark.parametrize(
    ("voter", "code"),
    [pair for pair in NOBODY if pair[1] is not AnswerCode.OWN_REQUEST],
    ids=lambda part: getattr(part, "value", None),
)
def test_nobody_else_denies(voter: Voter, code: AnswerCode) -> None:
    assert refusal(check_denial(REQUEST, voter, "", LATER)) == (code, None)


def test_the_requester_takes_it_back() -> None:
    move = check_cancel(REQUEST, "key-1", LATER)

    assert isinstance(move, Move)
    assert (move.after.state, move.by, move.after.closed_by) == (
        ApprovalState.CANCELLED,
        By.REQUESTER,
        "key-1",
    )
    assert (move.denial, move.grant) == (None, None)


def test_its_end_is_written_down_once_and_is_no_denial() -> None:
    assert expire(REQUEST, REQUEST.expires_at_ms - 1) is None
    move = expire(REQUEST, REQUEST.expires_at_ms + 5000)

    assert move is not None
    assert (move.after.state, move.by, move.denial) == (ApprovalState.EXPIRED, By.TIME, None)
    assert move.after.closed_at_ms == REQUEST.expires_at_ms
    assert expire(move.after, REQUEST.expires_at_ms + 5000) is None


ANSWERS: list[Callable[[ApprovalRequest, int], object]] = [
    lambda request, now_ms: check_vote(request, (), GRACE, ballot(request), now_ms),
    lambda request, now_ms: accept_vote(request, (), voted(REQUEST), now_ms),
    lambda request, now_ms: check_denial(request, GRACE, "", now_ms),
    lambda request, now_ms: check_cancel(request, "key-1", now_ms),
]
ENDED = sorted(set(ApprovalState) - {ApprovalState.PENDING})


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("answer", ANSWERS, ids=["vote", "accept", "deny", "cancel"])
def test_late_answers_change_nothing_and_say_so(
    state: ApprovalState, answer: Callable[[ApprovalRequest, int], object]
) -> None:
    """AP5."""
    assert refusal(answer(replace(REQUEST, state=state), LATER)) == (AnswerCode.CLOSED, state)


@pytest.mark.parametrize("answer", ANSWERS, ids=["vote", "accept", "deny", "cancel"])
def test_an_answer_after_the_end_is_late_though_nobody_swept(
    answer: Callable[[ApprovalRequest, int], object],
) -> None:
    assert refusal(answer(REQUEST, REQUEST.expires_at_ms)) == (AnswerCode.CLOSED, ApprovalState.EXPIRED)


def test_what_is_no_row_of_the_table_does_not_happen() -> None:
    for source in ApprovalState:
        for target in ApprovalState:
            for by in By:
                if (source, target, by) in TRANSITIONS:
                    assert moved(replace(REQUEST, state=source), target, by).after.state is target
                else:
                    with pytest.raises(ValueError, match="nothing leads"):
                        moved(replace(REQUEST, state=source), target, by)


def test_only_pending_and_approved_lead_anywhere() -> None:
    assert {source for source, _, _ in TRANSITIONS} == {ApprovalState.PENDING, ApprovalState.APPROVED}


def test_a_grant_is_revoked_once() -> None:
    grant = granted(REQUEST, scope=SESSION)
    revoked = check_revoke(grant, "grace", LATER)

    assert isinstance(revoked, Grant)
    assert (revoked.voided_at_ms, revoked.voided_by) == (LATER, "grace")
    assert refusal(check_revoke(revoked, "linus", LATER)) == (AnswerCode.CLOSED, ApprovalState.VOID)
    assert refusal(check_revoke(grant, "linus", grant.expires_at_ms)) == (
        AnswerCode.CLOSED,
        ApprovalState.VOID,
    )
    spent = replace(granted(REQUEST), uses_left=0)
    assert refusal(check_revoke(spent, "linus", LATER)) == (AnswerCode.CLOSED, ApprovalState.CONSUMED)


def test_a_use_is_taken_by_compare_and_set() -> None:
    grant = granted(REQUEST, scope=times(2))
    first, stale = (taking(left) for left in (2, 1))

    used = use(grant, first, LATER)
    assert used is not None
    assert used.uses_left == 1
    assert use(grant, stale, LATER) is None
    assert use(used, first, LATER) is None
    last = use(used, stale, LATER)
    assert last is not None
    assert last.uses_left == 0
    assert use(last, taking(0), LATER) is None
    assert use(grant, replace(first, request_id="ap-2"), LATER) is None
    assert use(grant, replace(first, expected_uses_left=None), LATER) is None
    assert use(grant, first, grant.expires_at_ms) is None


def test_a_use_that_is_not_counted_is_not_taken_of_what_was_revoked() -> None:
    grant = granted(REQUEST, scope=SESSION)
    one = taking(None)

    assert use(grant, one, LATER) == grant
    assert use(replace(grant, voided_at_ms=LATER), one, LATER) is None


def test_what_was_taken_before_is_there_until_it_is_revoked() -> None:
    spent = replace(granted(REQUEST), uses_left=0)
    again = replace(taking(1), takes=False)

    assert use(spent, again, spent.expires_at_ms + 1) == spent
    assert use(replace(spent, voided_at_ms=LATER), again, LATER) is None
    assert use(spent, replace(again, request_id="ap-2"), LATER) is None


def taking(left: int | None) -> Consumption:
    return Consumption(request_id="ap-1", fingerprint=REQUEST.asked.fingerprint, expected_uses_left=left)
