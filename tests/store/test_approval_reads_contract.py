"""What every ledger reads of approvals: facts of a call, counts, searches, changes."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from authz.core.approval import told_state
from authz.core.approval_limits import AskCounts
from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest, AskedFor
from authz.model.approval_writes import ApprovalFacts, ApprovalQuery, ApprovalStanding
from authz.model.call import CallIds
from authz.ports import CommitUnit
from authz.store.approval_bounds import CHANGES_AT_ONCE, MAX_APPROVALS
from tests.store.approval_world import (
    NOW_MS,
    SESSION,
    SUBJECT,
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
    read_request,
    revoking,
    using,
)
from tests.support.approvals import times

__all__ = ["ledger"]

HOUR_MS = 3_600_000


def _numbered(number: int, **more: Any) -> ApprovalRequest:
    return read_request(f"ap-{number}", dedupe_key=f"key-{number}", **more)


def _asked_by(**more: Any) -> AskedFor:
    found = read_request().asked
    return replace(found, requester=replace(found.requester, **more))


async def facts(ledger: AnyLedger, request: ApprovalRequest, **more: Any) -> ApprovalFacts:
    asked = request.asked
    about: dict[str, Any] = {
        "tenant": TENANT,
        "fingerprint": asked.fingerprint,
        "session": asked.requester.session,
        "server": asked.tool.server,
        "tool": asked.tool.name,
    }
    return await ledger.approval_facts(**{**about, **more})


async def test_the_facts_of_a_call_are_all_that_is_on_record_of_it(ledger: AnyLedger) -> None:
    spent, refused, waiting = _numbered(1), _numbered(2), _numbered(3)
    yes, no = approved(spent), denied(refused)
    await commit(ledger, asking(spent), moving(yes), using("ap-1"))
    await commit(ledger, asking(refused), moving(no), asking(waiting))
    other = read_request("ap-4", path="/workspace/b")
    await commit(ledger, asking(other), moving(approved(other)))

    assert yes.grant is not None
    assert no.denial is not None
    assert await facts(ledger, spent) == ApprovalFacts(
        grants=(replace(yes.grant, uses_left=0),), denials=(no.denial,), waiting=(waiting,)
    )
    assert await facts(ledger, spent, tenant="other") == ApprovalFacts()
    assert await facts(ledger, spent, fingerprint="sha256:0") == ApprovalFacts()
    # A no stands in its own session.
    assert (await facts(ledger, spent, session="s-2")).denials == ()
    assert (await facts(ledger, spent, session=None)).denials == ()


async def test_a_sessions_grants_are_found_for_its_tool_whatever_the_call(ledger: AnyLedger) -> None:
    wide, narrow = _numbered(1), read_request("ap-2", path="/workspace/b")
    given = approved(wide, SESSION)
    await commit(ledger, asking(wide), moving(given), asking(narrow), moving(approved(narrow, times(2))))
    elsewhere = {"fingerprint": "sha256:0"}

    assert (await facts(ledger, wide, **elsewhere)).grants == (given.grant,)
    assert (await facts(ledger, wide)).grants == (given.grant,)
    for other in ({"session": "s-2"}, {"session": None}, {"tool": "other"}, {"server": "other"}):
        assert (await facts(ledger, wide, **elsewhere, **other)).grants == (), other


async def test_a_no_outside_of_every_session_is_found_there(ledger: AnyLedger) -> None:
    request = read_request(asked=_asked_by(session=None))
    no = denied(request)
    await commit(ledger, asking(request), moving(no))
    assert (await facts(ledger, request)).denials == (no.denial,)
    assert (await facts(ledger, request, session="s-1")).denials == ()


# Counts


async def counts(ledger: AnyLedger, resources: Sequence[str], at_ms: int, **more: Any) -> AskCounts:
    about: dict[str, Any] = {
        "tenant": TENANT,
        "subject_key": SUBJECT,
        "resources": frozenset(resources),
        "since_ms": at_ms - HOUR_MS,
        "now_ms": at_ms,
    }
    return await ledger.ask_counts(**{**about, **more})


async def test_what_waits_is_counted_for_subject_and_tenant(ledger: AnyLedger) -> None:
    await commit(ledger, asking(_numbered(1)), asking(_numbered(2), subject="other"))
    await commit(ledger, asking(_numbered(3)), moving(denied(_numbered(3))))
    found = await counts(ledger, [], NOW_MS)
    assert found == AskCounts(
        pending_of_subject=1,
        pending_of_tenant=2,
        refused_on_resource=0,
        vain_of_subject=1,
        oldest_vain_at_ms=NOW_MS,
    )
    ends_ms = _numbered(1).expires_at_ms
    assert (await counts(ledger, [], ends_ms)).pending_of_tenant == 0
    assert (await counts(ledger, [], ends_ms - 1)).pending_of_tenant == 2
    assert (await counts(ledger, [], NOW_MS, tenant="other")).pending_of_tenant == 0


async def test_what_was_asked_in_vain_is_counted_for_the_resource_that_has_most(ledger: AnyLedger) -> None:
    about = [{"a"}, {"a", "b"}, {"b"}, {"b"}, {"c"}, {"c"}]
    requests = [_numbered(n, resources=frozenset(keys)) for n, keys in enumerate(about)]
    for request in requests:
        await commit(ledger, asking(request))
    await commit(ledger, moving(denied(requests[0])), moving(denied(requests[1])))
    ends_ms = requests[0].expires_at_ms
    clock_of(ledger).at_ms = ends_ms
    await commit(ledger, moving(expired(requests[2])))
    await commit(
        ledger,
        asking(read_request("yes", dedupe_key="y", resources=frozenset({"a"}), expires_at_ms=ends_ms + 1000)),
    )

    async def told(*resources: str, at_ms: int = ends_ms, **more: Any) -> tuple[int, int | None]:
        found = await counts(ledger, resources, at_ms, **more)
        return found.refused_on_resource, found.oldest_refused_at_ms

    assert await told("a") == (2, NOW_MS), "both denials"
    assert await told("b") == (3, NOW_MS), "one denial, one that is over, and one that is over unwritten"
    assert await told("c") == (2, ends_ms), "both over, and unwritten"
    assert await told("c", at_ms=ends_ms - 1) == (0, None)
    assert await told("a", "c") == (2, ends_ms), "of two alike the one that lasts"
    assert await told("a", "b", "c", "unheard") == (3, NOW_MS)
    assert await told("a", subject_key="other") == (0, None)
    assert await told("a", tenant="other") == (0, None)
    # Since a time: what ended at it is not counted any more.
    assert await told("a", since_ms=NOW_MS - 1) == (2, NOW_MS)
    assert await told("a", since_ms=NOW_MS) == (0, None)
    assert await told("b", since_ms=NOW_MS) == (2, ends_ms)
    assert await told("b", since_ms=ends_ms) == (0, None)


async def test_what_came_to_no_yes_is_counted_for_the_subject_whatever_it_was_about(
    ledger: AnyLedger,
) -> None:
    made = [_numbered(n, created_at_ms=NOW_MS + n) for n in range(5)]
    for request in made:
        await commit(ledger, asking(request))
    await commit(ledger, asking(_numbered(9), subject="other"), moving(cancelled(_numbered(9))))

    async def told(at_ms: int = NOW_MS + 10, **more: Any) -> tuple[int, int | None]:
        found = await counts(ledger, [], at_ms, **more)
        return found.vain_of_subject, found.oldest_vain_at_ms

    assert await told() == (0, None)
    await commit(ledger, moving(cancelled(made[1])), moving(denied(made[2])), moving(approved(made[3])))
    assert await told() == (2, NOW_MS + 1), "taken back and denied; never what waits or was approved"
    assert await told(since_ms=NOW_MS + 1) == (1, NOW_MS + 2), "of those that were made after it"
    ends_ms = made[0].expires_at_ms
    assert await told(ends_ms, since_ms=NOW_MS - 1) == (4, NOW_MS), "those that are over, though unwritten"
    clock_of(ledger).at_ms = ends_ms
    await commit(ledger, moving(expired(made[0])), moving(expired(made[4])))
    assert await told(ends_ms, since_ms=NOW_MS - 1) == (4, NOW_MS)
    assert await told(subject_key="other") == (1, NOW_MS)
    assert await told(tenant="other") == (0, None)


# Searches


def _states() -> list[CommitUnit]:
    """What brings a request into each state that can be told, each for another call."""
    units: list[CommitUnit] = []
    for number, state in enumerate(ApprovalState):
        path = f"/workspace/{number}"
        request = _numbered(number, path=path, created_at_ms=NOW_MS + number % 3)
        if state is not ApprovalState.EXPIRED:
            request = replace(request, expires_at_ms=NOW_MS + 10 * HOUR_MS)
        units += [asking(request), *_leading_to(state, request)]
    return units


def _leading_to(state: ApprovalState, request: ApprovalRequest) -> list[CommitUnit]:
    match state:
        case ApprovalState.APPROVED:
            return [moving(approved(request, times(2))), using(request.id, 2)]
        case ApprovalState.DENIED:
            return [moving(denied(request))]
        case ApprovalState.CANCELLED:
            return [moving(cancelled(request))]
        case ApprovalState.CONSUMED:
            return [moving(approved(request)), using(request.id)]
        case ApprovalState.VOID:
            return [moving(approved(request, SESSION)), revoking(request.id)]
        case ApprovalState.PENDING | ApprovalState.EXPIRED:
            return []


async def search(ledger: AnyLedger, *, at_ms: Any = NOW_MS, **query: Any) -> list[ApprovalStanding]:
    wanted: dict[str, Any] = {"tenant": TENANT, "now_ms": at_ms, **query}
    return list(await ledger.find_approvals(ApprovalQuery(**wanted)))


async def test_states_are_searched_as_they_are_told(ledger: AnyLedger) -> None:
    await commit(ledger, *_states())
    edges = [NOW_MS, read_request().expires_at_ms]
    everything = await search(ledger)
    edges += [found.grant.expires_at_ms for found in everything if found.grant is not None]
    for at_ms, state in itertools.product({edge + by for edge in edges for by in (-1, 0)}, ApprovalState):
        expected = {
            found.request.id for found in everything if told_state(found.request, found.grant, at_ms) is state
        }
        assert {
            found.request.id for found in await search(ledger, at_ms=at_ms, states=frozenset({state}))
        } == expected
    live = [found for found in everything if told_state(found.request, found.grant, NOW_MS) == "approved"]
    assert live
    assert await search(ledger, only_grants=True) == live


async def test_a_search_has_an_order_and_goes_on(ledger: AnyLedger) -> None:
    await commit(ledger, *_states())
    whole = await search(ledger)
    places = [(found.request.created_at_ms, found.request.id) for found in whole]
    assert places == sorted(places, reverse=True)
    assert len(whole) == len(ApprovalState)
    assert any(found.votes for found in whole)
    assert whole == [await ledger.find_approval(TENANT, found.request.id) for found in whole]
    found, before = [], None
    while page := await search(ledger, limit=2, before=before):
        assert len(page) <= 2
        found += page
        before = (page[-1].request.created_at_ms, page[-1].request.id)
    assert found == whole
    assert len(await search(ledger, limit=-5)) == 1


@pytest.mark.parametrize(
    ("field", "value", "own"),
    [
        ("agent", "coder-9", {"agent": "coder-9"}),
        ("user", "bob", {"on_behalf_of": "bob"}),
        ("session", "s-9", {"session": "s-9"}),
        ("key_id", "key-9", {"key_id": "key-9"}),
    ],
)
async def test_a_search_is_for_one_requester(
    ledger: AnyLedger, field: str, value: str, own: dict[str, Any]
) -> None:
    mine = _numbered(1, asked=_asked_by(**own))
    nobodys = _numbered(2, asked=_asked_by(on_behalf_of=None, session=None))
    await commit(ledger, asking(mine), asking(_numbered(3)), asking(nobodys))
    assert [found.request for found in await search(ledger, **{field: value})] == [mine]
    assert await search(ledger, **{field: "nobody"}) == []
    assert len(await search(ledger, **{field: ""})) == 3
    assert await search(ledger, **{field: value, "tenant": "other"}) == []
    assert await search(ledger, **{field: "\0"}) == []


async def test_a_search_is_for_a_tool_or_a_trace(ledger: AnyLedger) -> None:
    one = _numbered(1, ids=CallIds(trace="t-9", turn="1", call="1"))
    await commit(ledger, asking(one), asking(_numbered(2, ids=CallIds())))
    assert [found.request for found in await search(ledger, trace_id="t-9")] == [one]
    assert len(await search(ledger, tool="local:fs/file_read")) == 2
    assert await search(ledger, tool="file_read") == []


async def test_a_search_has_a_bound() -> None:
    assert MAX_APPROVALS <= 1000


# What is due, and what has changed


async def test_what_is_over_is_due_until_that_is_written_down(ledger: AnyLedger) -> None:
    first, second = _numbered(1, expires_at_ms=NOW_MS + 10), _numbered(2, expires_at_ms=NOW_MS + 20)
    await commit(ledger, asking(second), asking(first), asking(_numbered(3)), moving(denied(_numbered(3))))
    assert await ledger.due_approvals(NOW_MS + 9, 10) == []
    assert await ledger.due_approvals(NOW_MS + 10, 10) == [(TENANT, "ap-1")]
    assert await ledger.due_approvals(NOW_MS + 20, 10) == [(TENANT, "ap-1"), (TENANT, "ap-2")]
    assert await ledger.due_approvals(NOW_MS + 20, 1) == [(TENANT, "ap-1")]
    clock_of(ledger).at_ms = NOW_MS + 20
    await commit(ledger, moving(expired(first)))
    assert await ledger.due_approvals(NOW_MS + 20, 10) == [(TENANT, "ap-2")]


async def test_every_write_is_a_change_with_a_higher_number(ledger: AnyLedger) -> None:
    assert await ledger.approvals_since(TENANT, -1) == (0, [])
    assert await ledger.approvals_since(TENANT, 0) == (0, [])
    seen = 0
    one, other = _numbered(1), _numbered(2)
    for unit, changed in (
        (asking(one), "ap-1"),
        (asking(other), "ap-2"),
        (moving(approved(one, times(2))), "ap-1"),
        (using("ap-1", 2), "ap-1"),
        (revoking("ap-1"), "ap-1"),
        (moving(denied(other)), "ap-2"),
    ):
        await commit(ledger, unit)
        latest, ids = await ledger.approvals_since(TENANT, seen)
        assert ids == [changed]
        assert latest > seen
        assert await ledger.approvals_since(TENANT, latest) == (latest, [])
        assert await ledger.approvals_since(TENANT, -1) == (latest, [])
        seen = latest
    assert await ledger.commit(using("ap-1", 1)) is not None
    assert await ledger.approvals_since(TENANT, 0) == (seen, ["ap-1", "ap-2"]), (
        "each once, and the last one last"
    )
    assert await ledger.approvals_since(TENANT, seen + 99) == (seen, []), "the store says where it is"
    assert await ledger.approvals_since("other", 0) == (0, [])


async def test_many_changes_are_read_in_several_looks(
    ledger: AnyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("authz.store.approval_reads", "authz.store.memory_approvals"):
        monkeypatch.setattr(f"{module}.CHANGES_AT_ONCE", 2)
    assert CHANGES_AT_ONCE > 2
    await commit(ledger, *(asking(_numbered(number)) for number in range(5)))
    found, at = list[str](), 0
    while True:
        at, ids = await ledger.approvals_since(TENANT, at)
        if not ids:
            break
        found += ids
    assert found == [f"ap-{number}" for number in range(5)]
