"""The public failure cases of kind `budget`, by budgets of capabilities, on each store.

The same by limits of the bundle is in `tests/api/test_limits.py`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from authz.store.postgres_url import PostgresUrl
from tests.cases.served import ids_of_kind, ids_of_tests, told_of
from tests.support.holders import Holder, entry, issue
from tests.support.service import Service
from tests.support.world import PERMIT_ALL, TEXT, tool, tool_file, world

LLM: Final = tool_file(
    "llm",
    tool(
        "call",
        [{"verb": "transact", "kind": "id", "type": "model", "resource": "large"}],
        {"prompt": TEXT},
        roles={"/prompt": "payload"},
        side_effect="cumulative",
        cost={"amount": "1", "currency": "USD"},
    ),
)
RULES: Final = (
    PERMIT_ALL + '@id("no") forbid (principal, action in Action::"llm/call", resource) '
    'when { context.arguments.prompt == "no" };'
    '@id("asks") @requires("approval") forbid (principal, action in Action::"llm/call", resource) '
    'when { context.arguments.prompt == "perhaps" };'
)
DAY_S: Final = 86_400


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    database = None
    if request.param == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    rulesets = {"default": world(RULES, tools={"llm": LLM})}
    async with Service.running(tmp_path, rulesets, database=database) as running:
        yield running


def spending(**budget: Any) -> dict[str, Any]:
    return entry("llm/call", "id:model:large", budget=budget)


def ten_dollars(amount: str = "10.00") -> dict[str, Any]:
    return spending(cost={"amount": amount, "currency": "USD"})


def calling(holder: Holder, prompt: str = "x", **more: Any) -> dict[str, Any]:
    return holder.body("llm/call", {"prompt": prompt}, **more)


async def decisions(service: Service) -> list[dict[str, Any]]:
    return await service.records(tool="llm/call", type="decision.made")


async def at_once(service: Service, bodies: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """How often which (effect, code) was answered; and each answer is on record, once."""
    before = len(await decisions(service))
    answers = await asyncio.gather(*map(service.decide, bodies))
    records = (await decisions(service))[before:]
    assert len(records) == len(bodies)
    assert {record["decision_id"]: record["effect"] for record in records} == {
        answer["decision_id"]: answer["effect"] for answer in answers
    }
    return Counter((answer["effect"], answer["code"]) for answer in answers)


ALLOWED: Final = ("allow", "policy.permit")
SPENT: Final = ("deny", "capability.budget")


async def test_bug_178_of_sixteen_at_once_exactly_ten_are_let_through(service: Service) -> None:
    main = await issue(service, ten_dollars(), expires_in=DAY_S)
    bodies = [calling(main) for _ in range(16)]
    assert await at_once(service, bodies) == {ALLOWED: 10, SPENT: 6}
    taken = [one for record in await decisions(service) for one in record.get("budgets", [])]
    assert [one["amount"] for one in taken] == [1_000_000] * 10
    assert {one["cap"] for one in taken} == {10_000_000}


async def test_bug_178_children_that_each_carry_the_whole_of_it_share_it(service: Service) -> None:
    main = await issue(service, ten_dollars(), expires_in=DAY_S, max_depth=2)
    children = [main.hand_on(f"sub-{number}") for number in range(3)]
    grandchildren = [child.hand_on(f"{child.agent}-1") for child in children]
    holders = [main, *children, *grandchildren]
    bodies = [calling(holders[number % len(holders)]) for number in range(21)]
    assert await at_once(service, bodies) == {ALLOWED: 10, SPENT: 11}


async def test_bug_181_fifty_triggers_at_once_are_ten_calls(service: Service) -> None:
    """The gate is before the act, and an hour later there are ten more."""
    rate = spending(rate={"calls": 10, "seconds": 3600})
    main = await issue(service, rate, expires_in=DAY_S)
    reached = ("deny", "capability.rate")
    assert await at_once(service, [calling(main) for _ in range(50)]) == {ALLOWED: 10, reached: 40}
    service.clock.at_ms += 3_600_000
    later = replace(main, now=service.clock.now_ms() // 1000)
    assert await at_once(service, [calling(later) for _ in range(12)]) == {ALLOWED: 10, reached: 2}


async def effects(service: Service, bodies: Sequence[Mapping[str, Any]]) -> list[str]:
    return [(await told_of(service, body))[0]["effect"] for body in bodies]


async def test_bug_180_what_never_happened_is_free_again_exactly_once(service: Service) -> None:
    """Denied or asked for, it takes nothing; never begun, it is given back when its lease ends."""
    main = await issue(service, ten_dollars("1.00"), expires_in=DAY_S)
    not_run = [calling(main, prompt) for prompt in ("no", "perhaps") * 3]
    assert await effects(service, not_run) == ["deny", "require_approval"] * 3
    declared = calling(main)["context"] | {"settles": True}
    assert await effects(service, [calling(main, context=declared), calling(main)]) == ["allow", "deny"]

    service.clock.at_ms += 301_000
    later = replace(main, now=service.clock.now_ms() // 1000)
    found = await at_once(service, [calling(later) for _ in range(8)])
    assert found == {ALLOWED: 1, SPENT: 7}


async def test_bug_180_what_is_said_not_to_have_begun_is_given_back_once(service: Service) -> None:
    main = await issue(service, ten_dollars("1.00"), expires_in=DAY_S)
    declared = calling(main)["context"] | {"settles": True}
    first = await service.decide(calling(main, context=declared))
    assert await effects(service, [calling(main)]) == ["deny"]
    settle = {"lease_token": first["lease"]["token"], "outcome": "not_executed"}
    url = f"/operations/{first['decision_id']}/settle"
    for _ in range(2):
        settled = await service.client.post(url, json=settle)
        assert settled.status_code == 200, settled.text
    found = await at_once(service, [calling(main) for _ in range(8)])
    assert found == {ALLOWED: 1, SPENT: 7}, "given back once, although it was said twice"


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("budget")
