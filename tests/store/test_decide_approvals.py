"""Decisions with approvals on every ledger: however many race, a yes is used as often as was said."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from authz.core.redact import Redactor
from authz.model.approval import GrantScope, ScopeKind
from authz.model.call import Call
from authz.model.decision import Decision, Effect
from authz.model.record import Committed, EventQuery
from authz.service.bundles import Admitted, BundlesInForce
from authz.service.decide import DecisionService
from tests.store.approval_world import AnyLedger, clock_of, ledger, moving
from tests.support.approvals import GRACE, ONCE, accepted, ruleset, times, voted
from tests.support.operations import Ids, Nobody
from tests.support.world import IDS, call, caller_of, source

__all__ = ["ledger"]

READ: Final = call("fs/file_read", path="/workspace/a", provenance={"/path": source("user")})
RACING: Final = 200


def replica(ledger: AnyLedger) -> DecisionService:
    """One process of the service, with nothing in memory that another one has."""
    return DecisionService(
        ledger=ledger,
        bundles=BundlesInForce({"acme": ruleset()}),
        clock=clock_of(ledger),
        ids=Ids(),
        observer=Nobody(),
        operation_secret=b"k" * 32,
        redactor=Redactor(b"r" * 32),
        ttl_ms=60_000,
    )


async def decide(service: DecisionService, made: Call) -> Decision:
    whole = ruleset()
    return (await service.decide(made, Admitted(caller=caller_of(whole), ruleset=whole))).decision


async def race(services: Sequence[DecisionService], calls: Sequence[Call]) -> list[Decision]:
    """The decisions on all of these at once, spread over the replicas."""
    return await asyncio.gather(
        *(decide(services[index % len(services)], made) for index, made in enumerate(calls))
    )


def under(*names: object) -> list[Call]:
    return [replace(READ, ids=replace(IDS, call=f"c-{name}")) for name in names]


async def granted(ledger: AnyLedger, service: DecisionService, scope: GrantScope = ONCE) -> str:
    """Id of the approval that grace gives to the call."""
    decision = await decide(service, READ)
    assert decision.approval is not None
    standing = await ledger.find_approval("acme", decision.approval.id)
    assert standing is not None
    move = accepted(standing.request, voted(standing.request, GRACE, scope=scope))
    assert isinstance(await ledger.commit(moving(move)), Committed)
    return decision.approval.id


async def uses_left(ledger: AnyLedger, approval_id: str) -> int | None:
    standing = await ledger.find_approval("acme", approval_id)
    assert standing is not None
    assert standing.grant is not None
    return standing.grant.uses_left


async def records(ledger: AnyLedger) -> list[dict[str, Any]]:
    found = await ledger.search(EventQuery(tenant="acme", agent="coder-1", limit=1000))
    return [json.loads(record.text) for record in found]


def allowed(decisions: Sequence[Decision]) -> list[Decision]:
    return [decision for decision in decisions if decision.effect is Effect.ALLOW]


@pytest.mark.parametrize("replicas", [1, 2])
async def test_one_yes_is_one_allow_however_many_race_for_it(ledger: AnyLedger, replicas: int) -> None:
    """AP1: under as many ids; whoever came too late waits for one request, which asks people once."""
    services = [replica(ledger) for _ in range(replicas)]
    approval_id = await granted(ledger, services[0])
    decisions = await race(services, under(*range(RACING)))

    (one,) = allowed(decisions)
    assert one.approval is not None
    assert one.approval.id == approval_id
    others = [decision for decision in decisions if decision is not one]
    assert {decision.effect for decision in others} == {Effect.REQUIRE_APPROVAL}
    (waiting,) = {decision.approval.id for decision in others if decision.approval is not None}
    assert waiting != approval_id
    assert await uses_left(ledger, approval_id) == 0
    used = [one for one in await records(ledger) if one.get("approval", {}).get("used")]
    assert [one["decision_id"] for one in used] == [allowed(decisions)[0].decision_id]


async def test_the_same_ids_sent_at_once_are_one_permission(ledger: AnyLedger) -> None:
    services = [replica(ledger), replica(ledger)]
    approval_id = await granted(ledger, services[0])
    decisions = await race(services, [READ] * 50)
    assert {decision.effect for decision in decisions} == {Effect.ALLOW}
    assert len({decision.decision_id for decision in decisions}) == 1
    assert sum(not decision.repeated for decision in decisions) == 1
    assert await uses_left(ledger, approval_id) == 0


@pytest.mark.parametrize("replicas", [1, 2])
async def test_n_times_is_n_allows(ledger: AnyLedger, replicas: int) -> None:
    services = [replica(ledger) for _ in range(replicas)]
    approval_id = await granted(ledger, services[0], times(10))
    decisions = await race(services, under(*range(60)))
    taken = allowed(decisions)
    assert len(taken) == 10
    left = sorted(decision.approval.uses_left or 0 for decision in taken if decision.approval is not None)
    assert left == list(range(10)), "each says what is left after it"
    assert await uses_left(ledger, approval_id) == 0


async def test_a_sessions_yes_is_for_any_number_at_once(ledger: AnyLedger) -> None:
    service = replica(ledger)
    await granted(ledger, service, GrantScope(kind=ScopeKind.SESSION, uses=None))
    assert len(allowed(await race([service], under(*range(50))))) == 50


async def test_however_many_ask_at_once_it_is_one_request(ledger: AnyLedger) -> None:
    """AV2."""
    decisions = await race([replica(ledger), replica(ledger)], under(*range(100)))
    (approval_id,) = {decision.approval.id for decision in decisions if decision.approval is not None}
    told = [one["approval"] for one in await records(ledger)]
    assert len(told) == 100
    assert {one["id"] for one in told} == {approval_id}
    assert sum(not one["joined"] for one in told) == 1
