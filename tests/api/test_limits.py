"""Limits of the bundle over HTTP: who gets through, what the refused are told, and what the log says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authz.api.wire import DecisionOut
from authz.model.record import CommitOutcome
from authz.ports import CommitUnit
from tests.support.service import Service
from tests.support.world import tool, tool_file
from tests.support.world import world as world_of

RULES = """\
@id("work") permit (principal, action, resource in Directory::"/workspace");
@id("model") permit (principal, action in Action::"llm/call", resource);
@id("no") forbid (principal, action, resource in Directory::"/workspace/no");
"""
LLM = tool_file(
    "llm",
    tool(
        "call",
        [{"verb": "transact", "kind": "id", "type": "model", "resource": "large"}],
        {"prompt": {"type": "string"}},
        roles={"/prompt": "payload"},
        side_effect="cumulative",
        cost={"amount": "1", "currency": "USD"},
    ),
)
FS = tool_file(
    "fs",
    tool(
        "edit",
        [{"verb": "write", "kind": "path", "at": "/path"}],
        {"path": {"type": "string"}},
        leaves_sandbox=False,
    ),
    tool("read", [{"verb": "read", "kind": "path", "at": "/path"}], {"path": {"type": "string"}}),
)
LIMITS = """\
limits:
  - id: edits
    reason: Slowly.
    calls: 2
    seconds: 60
    per: [agent]
    where: {tools: [fs/edit]}
  - id: budget
    reason: Ten a day.
    cost: {amount: "10.00", currency: USD}
    seconds: 86400
    per: [agent]
    where: {tools: [llm/call]}
  - id: reads
    reason: Two at a time.
    concurrency: 2
    per: [user]
    where: {tools: [fs/read]}
"""


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    ruleset = world_of(RULES, tools={"llm": LLM, "fs": FS}, limits=LIMITS)
    async with Service.running(tmp_path, {"default": ruleset}) as running:
        yield running


def edit(service: Service, path: str = "/workspace/a", **more: Any) -> dict[str, Any]:
    return service.body("fs/edit", {"path": path}, **more)


async def effects(service: Service, *bodies: dict[str, Any]) -> list[str]:
    return [(await service.decide(body))["effect"] for body in bodies]


async def test_a_refusal_names_the_limit_and_when_to_come_back(service: Service) -> None:
    assert await effects(service, edit(service), edit(service)) == ["allow", "allow"]
    service.clock.at_ms += 20_000

    refused = await service.decide(edit(service))

    DecisionOut.model_validate(refused, extra="forbid")
    assert (refused["effect"], refused["stage"], refused["code"]) == ("deny", "reservation", "limit.rate")
    assert refused["matched"] == [
        {"rule": "edits", "kind": "limit", "file": "limits.yaml", "line": 2, "reason": "Slowly."}
    ]
    assert (refused["retry_after_ms"], refused["retry_unchanged"], refused["next"]) == (
        40_000,
        True,
        ["wait", "stop"],
    )
    assert "lease" not in refused
    record = (await service.records(rule="edits"))[0]
    assert (record["decision_id"], record["code"]) == (refused["decision_id"], "limit.rate")
    assert record["accesses"][0]["effect"] == "allow"


async def test_the_same_call_goes_through_when_it_was_told_to(service: Service) -> None:
    await effects(service, edit(service), edit(service))
    waiting = edit(service)
    refused = await service.decide(waiting)
    service.clock.at_ms += refused["retry_after_ms"] - 1
    assert (await service.decide(waiting))["effect"] == "deny"
    service.clock.at_ms += 1
    assert (await service.decide(waiting))["effect"] == "allow"


async def test_a_budget_is_exact_among_many_at_once(service: Service) -> None:
    """Public cases bug-178 and bug-181: the gate is before the act, in every interleaving."""
    bodies = [service.body("llm/call", {"prompt": "x"}) for _ in range(16)]

    answers = await asyncio.gather(*map(service.decide, bodies))

    allowed = [answer for answer in answers if answer["effect"] == "allow"]
    denied = [answer for answer in answers if answer["effect"] == "deny"]
    assert (len(allowed), len(denied)) == (10, 6)
    assert {answer["code"] for answer in denied} == {"limit.cost"}
    records = await service.records(tool="llm/call")
    assert len(records) == 16, "one record each"
    taken = [entry for record in records for entry in record.get("limits", [])]
    assert [(entry["limit"], entry["amount"]) for entry in taken] == [("budget", 1_000_000)] * 10


async def test_a_deny_takes_nothing(service: Service) -> None:
    """Public case bug-180: what never happened is free again, exactly once."""
    denied = [edit(service, "/workspace/no/a") for _ in range(5)]
    assert set(await effects(service, *denied)) == {"deny"}
    asked = [edit(service, context={"ask": True}) for _ in range(5)]
    assert set(await effects(service, *asked)) == {"require_approval"}
    assert await effects(service, *(edit(service) for _ in range(3))) == ["allow", "allow", "deny"]


async def test_a_slot_ends_with_the_decision(service: Service) -> None:
    def read() -> dict[str, Any]:
        return service.body("fs/read", {"path": "/workspace/a"})

    first = await service.decide(read())
    service.clock.at_ms += 5000
    assert await effects(service, read()) == ["allow"]
    refused = await service.decide(read())
    assert refused["code"] == "limit.concurrency"
    assert (await service.records(rule="reads"))[0]["occurred_at"] < first["expires_at"]
    service.clock.at_ms += refused["retry_after_ms"]
    assert await effects(service, read(), read()) == ["allow", "deny"], "one of the two has ended"


async def test_a_repeat_takes_nothing_and_is_never_refused_by_a_limit(service: Service) -> None:
    one, two = edit(service), edit(service)
    first = await service.decide(one)
    for _ in range(5):
        again = await service.decide(one)
        assert (again["decision_id"], again["repeated"]) == (first["decision_id"], True)
    assert (await service.decide(two))["effect"] == "allow"
    assert (await service.decide(edit(service)))["effect"] == "deny"
    full = await service.decide(one)
    assert (full["effect"], full["repeated"]) == ("allow", True)


async def test_a_dry_run_is_told_and_takes_nothing(service: Service) -> None:
    for _ in range(5):
        dry = await service.decide(edit(service, dry_run=True))
        assert (dry["effect"], dry["dry_run"]) == ("allow", True)
        assert "lease" not in dry
    await effects(service, edit(service), edit(service))
    refused = await service.decide(edit(service, dry_run=True))
    assert (refused["code"], refused["dry_run"]) == ("limit.rate", True)
    assert refused["retry_after_ms"] == 60_000


async def test_what_was_full_may_be_free_when_the_call_is_decided_again(service: Service) -> None:
    """Only a commit's own last word is a refusal: another copy of the call came between, and time passed."""
    await effects(service, edit(service), edit(service))
    contended = edit(service)
    commit, commits = service.ledger.commit, []

    async def slow_commit(unit: CommitUnit) -> CommitOutcome:
        commits.append(unit)
        if len(commits) == 2:  # found full, and the refusal is about to be written
            assert unit.event.effect == "deny"
            assert (await service.decide(contended))["effect"] == "deny"
            service.clock.at_ms += 60_000
        return await commit(unit)

    service.ledger.commit = slow_commit  # type: ignore[method-assign]
    answer = await service.decide(contended)

    assert (answer["effect"], answer["code"]) == ("allow", "policy.permit")
    assert await effects(service, edit(service), edit(service)) == ["allow", "deny"], "and it has taken"


async def test_a_batch_is_counted_call_by_call(service: Service) -> None:
    response = await service.client.post("/decide/batch", json={"calls": [edit(service) for _ in range(4)]})
    answers = response.json()["decisions"]
    assert [answer["effect"] for answer in answers] == ["allow", "allow", "deny", "deny"]


async def test_tenants_have_counters_of_their_own(tmp_path: Path) -> None:
    ruleset = world_of(RULES, tools={"llm": LLM, "fs": FS}, limits=LIMITS)
    async with Service.running(tmp_path, {"default": ruleset, "other": ruleset}) as service:
        headers = await service.add_key("other", "decide", tenant="other")
        bodies = [edit(service) for _ in range(3)]
        assert await effects(service, *bodies) == ["allow", "allow", "deny"]
        other = [(await service.decide(body, headers))["effect"] for body in bodies]
        assert other == ["allow", "allow", "deny"]


async def test_metrics_say_what_limits_did(service: Service) -> None:
    await effects(service, *(edit(service) for _ in range(3)), edit(service, "/workspace/b", dry_run=True))
    text = (await service.client.get("/metrics")).text
    assert 'authz_limits_total{limit="edits",outcome="reserved",tenant="default"} 2.0' in text
    assert 'authz_limits_total{limit="edits",outcome="reached",tenant="default"} 2.0' in text
