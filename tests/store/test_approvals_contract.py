"""Approvals on every ledger: what a commit writes of them, and each way in which it is refused."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from authz.core.approval import told_state
from authz.core.approval_moves import Move
from authz.model.approval import ApprovalState, ScopeKind
from authz.model.approval_request import ApprovalRequest, AskedFor, Grant
from authz.model.approval_writes import ApprovalMoved, ApprovalStanding
from authz.model.record import Committed, Conflict
from authz.ports import CommitUnit, ExposureWrite
from tests.store.approval_world import (
    NOW_MS,
    SESSION,
    TENANT,
    AnyLedger,
    approved,
    asking,
    cancelled,
    clock_of,
    commit,
    denied,
    expired,
    ledger,
    moving,
    of_call,
    read_request,
    records,
    revoking,
    using,
    whole_unit,
)
from tests.support.approvals import GRACE, LINUS, PERMIT, STAFF, accepted, asked, rule, times, voted
from tests.support.world import call

__all__ = ["ledger"]

TWO_YESES = PERMIT + rule("asks", f'{STAFF} @quorum("2")')


async def standing(ledger: AnyLedger, request_id: str = "ap-1") -> ApprovalStanding:
    found = await ledger.find_approval(TENANT, request_id)
    assert found is not None
    return found


async def told(ledger: AnyLedger, request_id: str = "ap-1", at_ms: int = NOW_MS) -> str:
    found = await standing(ledger, request_id)
    return told_state(found.request, found.grant, at_ms).value


async def test_a_request_is_found_as_it_was_made(ledger: AnyLedger) -> None:
    request = read_request()
    await commit(ledger, asking(request))

    assert await standing(ledger) == ApprovalStanding(request=request)
    assert await ledger.find_approval("other", "ap-1") is None
    assert await ledger.find_approval(TENANT, "ap-2") is None
    assert await ledger.find_approval(TENANT, "ap-1\0") is None


async def test_a_yes_short_of_a_quorum_and_the_last_one_are_kept(ledger: AnyLedger) -> None:
    request = asked(call("fs/file_read", path="/workspace/a"), TWO_YESES)
    first = accepted(request, voted(request, GRACE))
    await commit(ledger, asking(request), moving(first))

    assert first.vote is not None
    assert await standing(ledger) == ApprovalStanding(request=first.after, votes=(first.vote,))
    last = accepted(first.after, voted(first.after, LINUS, [first.vote]), [first.vote])
    assert last.vote is not None
    await commit(ledger, moving(last))
    assert await standing(ledger) == ApprovalStanding(
        request=last.after, votes=(first.vote, last.vote), grant=last.grant
    )


async def test_a_denial_is_kept_with_its_words(ledger: AnyLedger) -> None:
    request = read_request()
    move = denied(request)
    await commit(ledger, asking(request), moving(move))
    assert await standing(ledger) == ApprovalStanding(request=move.after, denial=move.denial)


# What waits already


async def test_what_waits_already_is_not_asked_twice(ledger: AnyLedger) -> None:
    await commit(ledger, asking(read_request()))
    write = of_call("sha256:f")
    again = asking(
        read_request("ap-2"), operation=write, exposure=ExposureWrite(session_key="s", labels=frozenset("x"))
    )
    assert await ledger.commit(again) == ApprovalMoved(request_id="ap-1")

    assert await ledger.find_approval(TENANT, "ap-2") is None
    assert await ledger.find_operation("op-1") is None
    assert await ledger.session_exposure("s") == frozenset()
    assert await records(ledger) == 1
    other = read_request("ap-1", asked=_of_tenant("other"))
    assert isinstance(await ledger.commit(asking(other)), Committed), "tenants ask apart"


async def test_what_is_over_makes_room_only_when_that_is_on_record(ledger: AnyLedger) -> None:
    first = read_request()
    await commit(ledger, asking(first))
    clock_of(ledger).at_ms = first.expires_at_ms
    later = read_request("ap-2", expires_at_ms=first.expires_at_ms + 1000)

    assert await ledger.commit(asking(later)) == ApprovalMoved(request_id="ap-1")
    assert (await standing(ledger)).request.state is ApprovalState.PENDING
    await commit(ledger, moving(expired(first)), asking(later))
    assert (await standing(ledger)).request.state is ApprovalState.EXPIRED
    assert (await standing(ledger, "ap-2")).request == later


@pytest.mark.parametrize("end", ["denied", "cancelled", "approved"])
async def test_what_has_ended_makes_room(ledger: AnyLedger, end: str) -> None:
    request = read_request()
    moves: dict[str, Callable[[ApprovalRequest], Move]] = {
        "denied": denied,
        "approved": approved,
        "cancelled": cancelled,
    }
    move = moves[end](request)
    await commit(ledger, asking(request), moving(move), asking(read_request("ap-2")))


async def test_an_id_is_given_once(ledger: AnyLedger) -> None:
    await commit(ledger, asking(read_request()))
    same = read_request("ap-1", dedupe_key="another")
    assert await ledger.commit(asking(same)) == ApprovalMoved(request_id="ap-1")


# Caps


def _numbered(number: int) -> ApprovalRequest:
    return read_request(f"ap-{number}", dedupe_key=f"key-{number}")


async def test_a_subject_has_so_many_waiting_and_no_more(ledger: AnyLedger) -> None:
    await commit(ledger, *(asking(_numbered(number), caps=(3, 9)) for number in range(3)))
    assert await ledger.commit(asking(_numbered(3), caps=(3, 9))) == ApprovalMoved()
    await commit(ledger, asking(_numbered(3), caps=(4, 9)))
    await commit(ledger, asking(_numbered(4), caps=(3, 9), subject="subject-2"))
    await commit(ledger, moving(denied(_numbered(0))), moving(denied(_numbered(1))))
    await commit(ledger, asking(_numbered(5), caps=(3, 9)))


async def test_a_tenant_has_so_many_waiting_and_no_more(ledger: AnyLedger) -> None:
    await commit(ledger, *(asking(_numbered(number), subject=f"s-{number}") for number in range(3)))
    assert await ledger.commit(asking(_numbered(3), caps=(9, 3), subject="s-3")) == ApprovalMoved()
    other = replace(_numbered(3), asked=_of_tenant("other"))
    await commit(ledger, asking(other, caps=(1, 1)))
    await commit(ledger, asking(_numbered(3), caps=(9, 4), subject="s-3"))


async def test_what_is_over_does_not_count(ledger: AnyLedger) -> None:
    await commit(ledger, asking(_numbered(0), caps=(1, 1)))
    clock_of(ledger).at_ms = _numbered(0).expires_at_ms - 1
    assert await ledger.commit(asking(_numbered(1), caps=(1, 9))) == ApprovalMoved()
    clock_of(ledger).at_ms += 1
    await commit(ledger, asking(_numbered(1), caps=(1, 1)))


def _of_tenant(tenant: str) -> AskedFor:
    found = read_request().asked
    return replace(found, requester=replace(found.requester, tenant=tenant))


# Moves


async def test_a_move_is_made_once(ledger: AnyLedger) -> None:
    request = read_request()
    await commit(ledger, asking(request), moving(approved(request)))
    for late in (approved(request), denied(request), expired(request)):
        assert await ledger.commit(moving(late)) == ApprovalMoved(request_id="ap-1")
    found = await standing(ledger)
    assert (found.request, found.denial) == (approved(request).after, None)
    assert len(found.votes) == 1


async def test_two_yeses_at_once_are_not_both_the_first(ledger: AnyLedger) -> None:
    request = asked(call("fs/file_read", path="/workspace/a"), TWO_YESES)
    first, other = accepted(request, voted(request, GRACE)), accepted(request, voted(request, LINUS))
    await commit(ledger, asking(request), moving(first))
    assert await ledger.commit(moving(other)) == ApprovalMoved(request_id="ap-1")
    assert (await standing(ledger)).votes == (first.vote,)


async def test_of_several_moves_all_hold_or_none_is_made(ledger: AnyLedger) -> None:
    one, other = _numbered(1), _numbered(2)
    await commit(ledger, asking(one), asking(other), moving(denied(other)))
    assert await ledger.commit(moving(denied(one), approved(other))) == ApprovalMoved(request_id="ap-2")
    assert await standing(ledger, "ap-1") == ApprovalStanding(request=one)


async def test_nobody_answers_what_is_over_and_nothing_ends_early(ledger: AnyLedger) -> None:
    request = read_request()
    await commit(ledger, asking(request))
    assert await ledger.commit(moving(expired(request))) == ApprovalMoved(request_id="ap-1")
    clock_of(ledger).at_ms = request.expires_at_ms
    for late in (approved(request), denied(request)):
        assert await ledger.commit(moving(late)) == ApprovalMoved(request_id="ap-1")
    await commit(ledger, moving(expired(request)))


async def test_what_was_asked_for_stays_as_it_was(ledger: AnyLedger) -> None:
    request = read_request()
    await commit(ledger, asking(request))
    wider = replace(request, scopes=(*request.scopes, times(99)), ttl_seconds=99_999)
    assert await ledger.commit(moving(approved(wider))) == ApprovalMoved(request_id="ap-1")
    assert await ledger.commit(moving(approved(_numbered(7)))) == ApprovalMoved(request_id="ap-7")
    other = replace(request, asked=_of_tenant("other"))
    assert await ledger.commit(moving(denied_as(other))) == ApprovalMoved(request_id="ap-1")


def denied_as(request: ApprovalRequest) -> Move:
    """A denial by somebody of that tenant."""
    move = denied(replace(request, asked=read_request().asked))
    assert move.denial is not None
    tenant = request.asked.requester.tenant
    return replace(
        move, after=replace(move.after, asked=request.asked), denial=replace(move.denial, tenant=tenant)
    )


# Use


async def granted(ledger: AnyLedger, move: Move, request: ApprovalRequest | None = None) -> Grant:
    await commit(ledger, asking(request or read_request()), moving(move))
    assert move.grant is not None
    return move.grant


async def test_a_use_is_taken_once(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request()))
    assert await told(ledger) == "approved"
    await commit(ledger, using())
    assert await told(ledger) == "consumed"
    for left in (1, 0):
        assert await ledger.commit(using(left=left)) == ApprovalMoved(request_id="ap-1")


async def test_uses_are_counted_down_to_the_last(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request(), times(3)))
    assert await ledger.commit(using(left=2)) == ApprovalMoved(request_id="ap-1")
    for left in (3, 2, 1):
        await commit(ledger, using(left=left))
    assert await ledger.commit(using(left=0)) == ApprovalMoved(request_id="ap-1")
    assert await told(ledger) == "consumed"


async def test_a_sessions_yes_is_not_counted_but_compared(ledger: AnyLedger) -> None:
    grant = await granted(ledger, approved(read_request(), SESSION))
    await commit(ledger, using(left=None), using(left=None))
    assert (await standing(ledger)).grant == grant
    await commit(ledger, revoking())
    assert await ledger.commit(using(left=None)) == ApprovalMoved(request_id="ap-1")


async def test_what_is_over_is_not_used(ledger: AnyLedger) -> None:
    grant = await granted(ledger, approved(read_request()))
    clock_of(ledger).at_ms = grant.expires_at_ms
    assert await ledger.commit(using()) == ApprovalMoved(request_id="ap-1")
    assert await ledger.commit(revoking(at_ms=grant.expires_at_ms)) == ApprovalMoved(request_id="ap-1")
    clock_of(ledger).at_ms -= 1
    await commit(ledger, using())


async def test_nobody_uses_what_is_another_tenants(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request()))
    theirs = dataclasses.replace(using(), event=whole_unit(tenant="other").event)
    assert await ledger.commit(theirs) == ApprovalMoved(request_id="ap-1")
    assert await ledger.commit(using("ap-9")) == ApprovalMoved(request_id="ap-9")


async def test_a_no_to_the_same_call_stops_a_use(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request()))
    # The same call, asked about again for another reason.
    second = read_request("ap-2", dedupe_key="another")
    await commit(ledger, asking(second), moving(denied(second)))
    assert await ledger.commit(using()) == ApprovalMoved(request_id="ap-1")
    assert await told(ledger) == "approved"


async def test_a_no_to_one_call_stops_a_sessions_yes_for_that_call_alone(ledger: AnyLedger) -> None:
    grant = await granted(ledger, approved(read_request(), SESSION))
    other = read_request("ap-2", path="/workspace/b")
    await commit(ledger, asking(other), moving(denied(other)))

    refused = await ledger.commit(using(left=None, write=of_call(other.asked.fingerprint)))
    assert refused == ApprovalMoved(request_id="ap-1")
    assert await ledger.find_operation("op-1") is None
    # Nor is it used by a call that has no ids, and so no operation.
    refused = await ledger.commit(using(left=None, of=other.asked.fingerprint))
    assert refused == ApprovalMoved(request_id="ap-1")
    await commit(ledger, using(left=None, write=of_call(grant.asked.fingerprint)))
    await commit(ledger, using(left=None, of=grant.asked.fingerprint))


async def test_a_no_to_what_was_shown_leaves_a_sessions_yes_for_other_calls(ledger: AnyLedger) -> None:
    grant = await granted(ledger, approved(read_request(), SESSION))
    second = read_request("ap-2", dedupe_key="another")
    await commit(ledger, asking(second), moving(denied(second)))
    own = of_call(grant.asked.fingerprint)
    assert await ledger.commit(using(left=None, write=own)) == ApprovalMoved(request_id="ap-1")
    await commit(ledger, using(left=None, write=of_call("sha256:0")))


async def test_what_was_taken_before_takes_nothing_more(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request(), times(2)))
    await commit(ledger, using(left=2))
    before = await standing(ledger)
    number, _ = await ledger.approvals_since(TENANT, -1)
    clock_of(ledger).at_ms += 10**9
    # Neither uses nor time are left to be asked for: they were when it was taken.
    await commit(ledger, using(left=2, takes=False))
    assert await standing(ledger) == before
    assert await ledger.approvals_since(TENANT, -1) == (number, [])


@pytest.mark.parametrize("end", ["revoked", "denied"])
async def test_what_was_taken_before_is_not_taken_up_again_after_a_no(ledger: AnyLedger, end: str) -> None:
    await granted(ledger, approved(read_request(), times(2)))
    again = using(left=1, takes=False, write=of_call(read_request().asked.fingerprint))
    await commit(ledger, using(left=2))
    if end == "revoked":
        await commit(ledger, revoking())
    else:
        second = read_request("ap-2", dedupe_key="another")
        await commit(ledger, asking(second), moving(denied(second)))
    assert await ledger.commit(again) == ApprovalMoved(request_id="ap-1")
    assert await ledger.find_operation("op-1") is None


async def test_a_no_counts_for_what_comes_after_it_in_a_batch(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request(), times(3)))
    second = read_request("ap-2", dedupe_key="another")
    await commit(ledger, asking(second))
    outcomes = await commit_together(ledger, using(left=3), moving(denied(second)), using(left=2))
    assert [type(outcome).__name__ for outcome in outcomes] == ["Committed", "Committed", "ApprovalMoved"]


# Revoking


async def test_a_grant_is_revoked_once(ledger: AnyLedger) -> None:
    grant = await granted(ledger, approved(read_request(), times(2)))
    await commit(ledger, using(left=2), revoking(at_ms=NOW_MS + 5))
    assert await told(ledger) == "void"
    for late in (using(left=1), revoking()):
        assert await ledger.commit(late) == ApprovalMoved(request_id="ap-1")
    revoked = replace(grant, uses_left=1, voided_at_ms=NOW_MS + 5, voided_by="grace")
    assert (await standing(ledger)).grant == revoked


async def test_of_what_is_spent_nothing_is_left_to_revoke(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request()))
    await commit(ledger, using())
    assert await ledger.commit(revoking()) == ApprovalMoved(request_id="ap-1")
    assert await ledger.commit(revoking("ap-9")) == ApprovalMoved(request_id="ap-9")


# With what else a decision writes


async def test_a_conflict_is_told_before_an_approval_that_moved(ledger: AnyLedger) -> None:
    await commit(ledger, whole_unit(operation=of_call("sha256:f")))
    both = using(write=of_call("sha256:f"))
    assert await ledger.commit(both) == Conflict(key="op-1")
    fits = replace(of_call("sha256:f"), expected_version=1)
    assert await ledger.commit(using(write=fits)) == ApprovalMoved(request_id="ap-1")
    found = await ledger.find_operation("op-1")
    assert found is not None
    assert found.version == 1


async def test_an_operation_keeps_the_approval_that_it_was_allowed_by(ledger: AnyLedger) -> None:
    await granted(ledger, approved(read_request()))
    write = replace(of_call("sha256:f"), approval="ap-1")
    await commit(ledger, using(write=write))
    found = await ledger.find_operation("op-1")
    assert found is not None
    assert found.approval == "ap-1"
    await commit(ledger, whole_unit(operation=replace(write, expected_version=1, approval="ap-2")))
    moved = await ledger.find_operation("op-1")
    assert moved is not None
    assert moved.approval == "ap-2"


async def commit_together(ledger: AnyLedger, *units: CommitUnit) -> list[object]:
    """In one turn of the loop, so that they share a transaction where there is one."""
    return list(await asyncio.gather(*(ledger.commit(each) for each in units)))


async def test_units_of_a_batch_see_what_earlier_ones_did(ledger: AnyLedger) -> None:
    request = read_request()
    outcomes = await commit_together(
        ledger,
        whole_unit(1, operation=of_call("f", "free")),
        asking(request),
        asking(read_request("ap-2")),
        using(),
        moving(approved(request, times(2))),
        moving(denied(request)),
        using(left=2, write=of_call("sha256:f")),
        using(left=2),
        using(left=1),
        revoking(),
        asking(read_request("ap-3")),
        whole_unit(2, operation=of_call("f", "last")),
    )
    kinds = [type(outcome).__name__ for outcome in outcomes]
    moved, done = "ApprovalMoved", "Committed"
    assert kinds == [done, done, moved, moved, done, moved, done, moved, done, moved, done, done]
    assert await records(ledger) == 7
    found = await standing(ledger)
    assert found.grant is not None
    assert (found.grant.uses_left, found.grant.voided_at_ms, len(found.votes)) == (0, 0, 1)
    assert found.denial is None
    assert (await ledger.find_operation("last")) is not None


async def test_a_cap_holds_within_a_batch(ledger: AnyLedger) -> None:
    outcomes = await commit_together(ledger, *(asking(_numbered(n), caps=(5, 9)) for n in range(12)))
    assert Counter(type(outcome).__name__ for outcome in outcomes) == {"Committed": 5, "ApprovalMoved": 7}


async def test_a_batch_that_ends_what_waits_has_room_again(ledger: AnyLedger) -> None:
    await commit(ledger, asking(_numbered(1), caps=(1, 1)))
    outcomes = await commit_together(
        ledger,
        asking(_numbered(2), caps=(1, 1)),
        moving(denied(_numbered(1))),
        asking(replace(_numbered(3), dedupe_key="key-1"), caps=(1, 1)),
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["ApprovalMoved", "Committed", "Committed"]


def test_scopes_are_all_tried() -> None:
    assert {scope.kind for scope in read_request().scopes} == set(ScopeKind)
