"""Permissions that rest on a capability, or that a ticket was given for: what becomes of them afterwards."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from authz_client.capabilities import NOTHING_REVOKED, verify_ticket
from authz_client.capabilities.envelope import TICKET_TYP, Envelope, parse_envelope
from authz_client.capabilities.keys import published_keys
from authz_client.capabilities.tickets import MAX_TICKET_SECONDS, Ticket

from authz.ports import CommitUnit
from authz.store.postgres_url import PostgresUrl
from tests.support.holders import Holder, entry, issue
from tests.support.service import Service
from tests.support.world import world as world_of

EDIT = ("fs/file_edit", {"path": "/workspace/a", "text": "x"})
WORK = entry(["fs/file_edit", "fs/file_read"], ["file:///workspace"])
TTL_MS = 300_000


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    database = None
    if request.param == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    async with Service.running(tmp_path, {"default": world_of()}, database=database) as running:
        yield running


def edit(holder: Holder, *, ids: str = "held", ticket: bool = False, **context: Any) -> dict[str, Any]:
    """A call of a runtime that settles, with a proof of its own."""
    body = {
        "subject": {"agent": holder.agent, "on_behalf_of": holder.user, "session": "s-1"},
        "tool": {"server": "fs", "name": "file_edit"},
        "arguments": dict(EDIT[1]),
        "context": {"trace_id": "t-1", "turn_id": "1", "tool_call_id": ids, "settles": True, **context},
        **({"ticket": True} if ticket else {}),
    }
    return {**body, "capability": list(holder.chain), "proof": holder.prove(body)}


async def report(service: Service, answer: dict[str, Any], what: str, **body: Any) -> httpx.Response:
    path = f"/operations/{answer['decision_id']}/{what}"
    return await service.client.post(path, json={"lease_token": answer["lease"]["token"]} | body)


def told(response: httpx.Response) -> str:
    """The state of an operation, or the code of the refusal."""
    body = response.json()
    return str(body["state"] if response.status_code == 200 else body["code"])


async def used(service: Service, holder: Holder) -> int:
    """Calls that are taken of the holder's budget."""
    body = {"capability": list(holder.chain)}
    found = (await service.client.post("/capabilities/introspect", json=body)).json()
    return int(found["links"][-1]["budgets"][0]["used"]["calls"])


async def verified(service: Service, holder: Holder, answer: dict[str, Any], after_s: int = 0) -> Any:
    """What a tool server makes of the ticket, offline, so many seconds from now."""
    claims = claims_of(answer)
    return verify_ticket(
        answer["ticket"],
        jwks=published_keys((await service.client.get("/.well-known/jwks.json")).json()),
        issuer=claims["iss"],
        audience=claims["aud"],
        fingerprint=answer["fingerprint"],
        arguments=answer["arguments"],
        holder_thumbprint=holder.key.public.thumbprint,
        now=service.clock.now_ms() // 1000 + after_s,
        revoked=NOTHING_REVOKED,
    )


def claims_of(answer: dict[str, Any]) -> dict[str, Any]:
    envelope = parse_envelope(answer["ticket"], typ=TICKET_TYP, has_kid=True)
    assert isinstance(envelope, Envelope)
    return dict(envelope.unverified_claims)


# Budgets and tickets


@pytest.mark.parametrize("with_the_repeat", [False, True])
async def test_a_budget_bounds_tickets(service: Service, with_the_repeat: bool) -> None:
    """Who has a ticket cannot say that it did not run, whenever the ticket was given."""
    holder = await issue(service, WORK | {"budget": {"calls": 1}})
    answer = await service.decide(edit(holder, ticket=not with_the_repeat))
    if with_the_repeat:
        answer = await service.decide(edit(holder, ticket=True))
    assert isinstance(await verified(service, holder, answer), Ticket)
    assert told(await report(service, answer, "settle", outcome="not_executed")) == "operation.not_proven"
    assert await used(service, holder) == 1
    assert isinstance(await verified(service, holder, answer), Ticket)
    again = await service.decide(edit(holder, ids="another", ticket=True))
    assert (again["effect"], again["code"]) == ("deny", "capability.budget")


async def test_without_a_ticket_the_runtimes_word_gives_it_back(service: Service) -> None:
    holder = await issue(service, WORK | {"budget": {"calls": 1}})
    answer = await service.decide(edit(holder))
    assert told(await report(service, answer, "settle", outcome="not_executed")) == "not_executed"
    assert await used(service, holder) == 0


async def test_a_lease_with_a_ticket_ends_unknown_and_only_who_looked_gives_it_back(service: Service) -> None:
    holder = await issue(service, WORK | {"budget": {"calls": 1}}, expires_in=3000)
    answer = await service.decide(edit(holder, ticket=True))
    assert told(await report(service, answer, "settle", outcome="unknown")) == "unknown"
    person = await service.add_key("person", "approve")
    looked = {"outcome": "not_executed", "reason": "it is not there"}
    path = f"/operations/{answer['decision_id']}/resolve"
    early = await service.client.post(path, json=looked, headers=person)
    assert told(early) == "operation.not_proven", "the ticket is still good"
    service.clock.at_ms += TTL_MS
    assert not isinstance(await verified(service, holder, answer), Ticket)
    assert told(await service.client.post(path, json=looked, headers=person)) == "not_executed"
    assert await used(service, holder) == 0


async def test_a_silent_holder_of_a_ticket_gets_nothing_back(service: Service) -> None:
    holder = await issue(service, WORK | {"budget": {"calls": 1}}, expires_in=3000)
    answer = await service.decide(edit(holder, ticket=True))
    service.clock.at_ms += TTL_MS
    await service.application.services.operations.lapses.sweep()
    (record,) = await service.records(type="operation.unknown")
    assert (record["operation"]["ticketed"], record["operation"]["released"]) == (True, False)
    found = (await service.client.get(f"/operations/{answer['decision_id']}")).json()
    assert (found["state"], found["ticketed"]) == ("unknown", True)
    assert await used(service, holder) == 1


async def test_a_cancelled_call_with_a_ticket_may_have_run(service: Service) -> None:
    """Nobody takes a ticket back from a tool server, so nobody is told that the call cannot have run."""
    holder = await issue(service, WORK)
    answer = await service.decide(edit(holder, ticket=True))
    cancelled = await service.client.post(f"/operations/{answer['decision_id']}/cancel", json={})
    assert (cancelled.json()["ticketed"], cancelled.json()["cancel_requested"]) == (True, True)
    again = await service.decide(edit(holder, ticket=True))
    assert (again["code"], "ticket" in again, "lease" in again) == (
        "operation.cancel_requested",
        False,
        False,
    )
    assert "use its ticket no more" in again["message"]
    assert "find that out before" in again["message"]


@pytest.mark.parametrize("life_s", [10, 120, 3000])
@pytest.mark.parametrize("timeout_s", [None, 1, 600, 3600])
async def test_a_ticket_ends_with_its_capability_and_its_decision(
    service: Service, life_s: int, timeout_s: int | None
) -> None:
    """However long the act may take; nor does a repeat of a long act get a longer one."""
    holder = await issue(service, WORK, expires_in=life_s)
    start = {"attempt": "a"} | ({} if timeout_s is None else {"timeout_seconds": timeout_s})
    now = service.clock.now_ms() // 1000
    bound = min(life_s, TTL_MS // 1000, MAX_TICKET_SECONDS)
    for _ in range(2):
        answer = await service.decide(edit(holder, ticket=True, start=start))
        assert answer["effect"] == "allow"
        assert claims_of(answer)["exp"] == now + bound
        assert isinstance(await verified(service, holder, answer, bound - 1), Ticket)
        assert not isinstance(await verified(service, holder, answer, bound), Ticket)


# Beginning, after what allowed it is over


async def test_what_was_revoked_begins_nothing(service: Service) -> None:
    root = await issue(service, WORK, max_depth=2)
    child = root.hand_on("sub-1")
    answers = {
        kind: await service.decide(edit(holder, ids=kind))
        for kind, holder in (("root", root), ("child", child))
    }
    assert told(await report(service, answers["root"], "start", attempt="a")) == "executing"
    body = {"holder": root.key.public.thumbprint, "reason": "lost"}
    assert (await service.client.post("/capabilities/revoke", json=body)).status_code == 200
    for answer in answers.values():
        response = await report(service, answer, "start", attempt="a", timeout_seconds=60)
        assert (response.status_code, told(response)) == (409, "operation.capability_ended")
    # What began is still told about by whoever began it.
    assert told(await report(service, answers["root"], "settle", outcome="succeeded")) == "succeeded"
    service.clock.at_ms += TTL_MS
    found = await service.client.get(f"/operations/{answers['child']['decision_id']}")
    assert told(found) == "not_executed"


async def test_a_lease_ends_with_the_capability_however_it_begins(service: Service) -> None:
    holder = await issue(service, WORK, expires_in=10)
    at_once = await service.decide(edit(holder, ids="1", start={"attempt": "a", "timeout_seconds": 600}))
    assert at_once["lease"]["expires_at"] == "2026-11-30T10:00:10.000Z"
    later = await service.decide(edit(holder, ids="2"))
    begun = (await report(service, later, "start", attempt="a", timeout_seconds=600)).json()
    assert begun["lease_expires_at"] == "2026-11-30T10:00:10.000Z"
    service.clock.at_ms += 10_000
    assert told(await report(service, later, "start", attempt="a")) == "operation.unknown"


async def test_without_news_of_revocations_nothing_begins(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = await issue(service, WORK)
    answer = await service.decide(edit(holder))
    plain = service.body(*EDIT, context={"settles": True})
    bare = await service.decide(plain)
    revocations = service.application.services.capabilities.revocations
    monkeypatch.setattr(revocations, "_confirmed_s", float("-inf"))

    async def nothing() -> None:
        return None

    monkeypatch.setattr(revocations, "refresh", nothing)
    response = await report(service, answer, "start", attempt="a")
    assert (response.status_code, told(response)) == (503, "revocations.stale")
    assert told(await report(service, bare, "start", attempt="a")) == "executing"


async def test_a_repeat_under_another_capability_gets_no_permission(service: Service) -> None:
    """Neither around the budget of the one presented, nor around what revoked the first."""
    first = await issue(service, WORK)
    spent = await issue(service, WORK | {"budget": {"calls": 1}})
    assert (await service.decide(edit(spent, ids="spends")))["effect"] == "allow"
    answer = await service.decide(edit(first))
    assert answer["effect"] == "allow"
    assert (await service.decide(edit(first)))["decision_id"] == answer["decision_id"]
    start = {"attempt": "a"}
    for _ in ("in force", "revoked"):
        for ticket in (False, True):
            other = await service.decide(edit(spent, ticket=ticket, start=start))
            assert (other["effect"], other["stage"], other["code"]) == (
                "deny",
                "operation",
                "operation.conflict",
            )
            assert not {"ticket", "lease"} & other.keys()
        body = {"holder": first.key.public.thumbprint, "reason": "lost"}
        assert (await service.client.post("/capabilities/revoke", json=body)).status_code == 200
    assert (await service.decide(edit(first, start=start)))["code"] == "capability.revoked"
    found = (await service.client.get(f"/operations/{answer['decision_id']}")).json()
    assert (found["state"], found["ticketed"]) == ("reserved", False)


async def test_with_a_capability_or_without_one_is_not_the_same_permission(service: Service) -> None:
    holder = await issue(service, WORK | {"budget": {"calls": 1}})
    held = edit(holder)
    bare = {name: value for name, value in held.items() if name not in ("capability", "proof")}
    assert (await service.decide(bare))["effect"] == "allow"
    assert (await service.decide(held))["code"] == "operation.conflict"
    assert await used(service, holder) == 0
    assert (await service.decide(edit(holder, ids="other")))["effect"] == "allow"
    other = edit(holder, ids="other")
    del other["capability"], other["proof"]
    assert (await service.decide(other))["code"] == "operation.conflict"


@pytest.mark.parametrize("what", ["decide", "start"])
async def test_what_is_revoked_while_its_record_goes_to_disk_is_not_allowed(
    service: Service, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record stands, nobody is told that it may, and what was reserved stays so."""
    holder = await issue(service, WORK | {"budget": {"calls": 5}})
    answer = await service.decide(edit(holder))
    real = type(service.ledger).commit
    stalled: list[CommitUnit] = []

    async def stalling(ledger: Any, unit: CommitUnit) -> Any:
        committed = await real(ledger, unit)
        if unit.operation is not None and not stalled:
            stalled.append(unit)
            body = {"link": holder.link, "reason": "lost"}
            assert (await service.client.post("/capabilities/revoke", json=body)).status_code == 200
        return committed

    monkeypatch.setattr(type(service.ledger), "commit", stalling)
    if what == "decide":
        response = await service.client.post("/decide", json=edit(holder, ids="stalled", ticket=True))
        assert (response.status_code, told(response)) == (503, "capability.revoked_meanwhile")
        assert "ticket" not in response.json()
        record = (await service.records(type="decision.made"))[-1]
        assert (record["effect"], record["tool_call_id"]) == ("allow", "stalled")
        assert (await service.decide(edit(holder, ids="stalled")))["code"] == "capability.revoked"
        assert await used(service, holder) == 2
    else:
        response = await report(service, answer, "start", attempt="a")
        assert (response.status_code, told(response)) == (409, "operation.capability_ended")
    assert stalled
