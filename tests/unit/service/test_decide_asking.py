"""How much people are asked, what a dry run says of it, and that nobody else pays for it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from authz.core.approval_limits import AskLimits
from authz.model.call import Call
from authz.model.decision import Code, Effect, Next, Stage
from authz.service.asking import AskingTerms
from authz.service.bundles import Admitted
from authz.store.memory import MemoryLedger
from tests.support.answering import PERMITS, TENANT, Answering, ruleset_of
from tests.support.world import call, source
from tests.unit.service.asked import (
    ASKING,
    EDIT,
    READ,
    decided,
    denied,
    granted,
    reading,
    service_of,
    under,
    waited_for,
)


class TestTooMuch:
    """AV2: nobody floods approvers."""

    async def test_a_subject_has_so_many_requests_and_no_more(self) -> None:
        world = await _limited(AskLimits(pending_per_subject=2))
        for name in "ab":
            waited_for(await world.decide(reading(f"/workspace/{name}")))
        decision = await world.decide(reading("/workspace/c"))
        assert (decision.effect, decision.stage, decision.code) == (
            Effect.DENY,
            Stage.APPROVAL,
            Code.APPROVAL_TOO_MANY_PENDING,
        )
        assert (decision.next, decision.retry_unchanged) == ((Next.WAIT, Next.STOP), True)
        record = decided(world)[-1]
        assert (record["code"], record["effect"]) == ("approval.too_many_pending", "deny")
        assert [rule["rule"] for rule in record["matched"]] == ["asks"]
        assert "approval" not in record
        assert len(await world.ledger.outbox.undirected(10)) == 2
        waited_for(await world.decide(under(reading("/workspace/a"), "again"))), "who joins takes nothing"
        other = reading("/workspace/c")
        waited_for(await world.decide(replace(other, subject=replace(other.subject, agent="coder-2"))))

    async def test_the_tenant_has_so_many(self) -> None:
        world = await _limited(AskLimits(pending_per_tenant=1))
        waited_for(await world.decide(reading("/workspace/a")))
        other = reading("/workspace/b")
        decision = await world.decide(replace(other, subject=replace(other.subject, agent="coder-2")))
        assert decision.code is Code.APPROVAL_TOO_MANY_PENDING

    async def test_asking_again_about_the_same_resource_has_an_end(self) -> None:
        world = await _limited(AskLimits(refused_per_resource=2))
        for number in range(2):
            text = replace(EDIT, arguments={**EDIT.arguments, "text": f"version {number}"})
            await denied(world, under(text, f"c-{number}"))
        text = replace(EDIT, arguments={**EDIT.arguments, "text": "version 3"})
        decision = await world.decide(under(text, "c-3"))
        assert (decision.effect, decision.code) == (Effect.DENY, Code.APPROVAL_ASKED_TOO_OFTEN)
        assert decision.retry_after_ms == 3_600_000
        assert decided(world)[-1]["retry_after_ms"] == 3_600_000
        world.clock.at_ms += 3_600_000
        waited_for(await world.decide(under(text, "c-3")))

    async def test_nor_may_it_ask_and_take_it_back_for_ever(self) -> None:
        """AV2: each time people would be told, and nothing of it would wait."""
        world = await _limited(AskLimits(vain_per_subject=3))
        for number in range(3):
            approval_id = waited_for(await world.decide(under(READ, f"c-{number}")))
            await world.approvals.cancel(world.caller, approval_id)
        decision = await world.decide(reading("/workspace/another"))
        assert (decision.effect, decision.code) == (Effect.DENY, Code.APPROVAL_ASKED_TOO_OFTEN)
        assert decision.retry_after_ms == 3_600_000
        assert len(await world.ledger.outbox.undirected(10)) == 6
        world.clock.at_ms += 3_600_000
        waited_for(await world.decide(reading("/workspace/another")))


async def _limited(limits: AskLimits) -> Answering:
    world = await Answering.of(ASKING)
    world.decisions = service_of(world, asking=AskingTerms(limits=limits))
    return world


class TestDryRun:
    """A dry run says what would be, and asks nobody and uses nothing."""

    async def test_it_would_ask(self) -> None:
        world = await Answering.of(ASKING)
        decision = await world.decide(replace(READ, dry_run=True))
        assert (decision.effect, decision.code) == (Effect.REQUIRE_APPROVAL, Code.APPROVAL_REQUIRED)
        assert decision.approval is None
        assert (decision.next, decision.retry_unchanged) == ((Next.REQUEST_APPROVAL, Next.STOP), False)
        assert decided(world)[-1]["dry_run"] is True
        assert await world.ledger.outbox.undirected(10) == []
        first = waited_for(await world.decide(READ))
        again = await world.decide(replace(READ, dry_run=True))
        assert again.approval is not None
        assert (again.approval.id, again.next) == (first, (Next.REQUEST_APPROVAL, Next.STOP))

    async def test_it_would_be_allowed(self) -> None:
        world = await Answering.of(ASKING)
        approval_id = await granted(world, READ)
        for _ in range(2):
            decision = await world.decide(replace(READ, dry_run=True))
            assert (decision.effect, decision.code) == (Effect.ALLOW, Code.APPROVAL_GRANTED)
            assert decision.approval is not None
            assert (decision.approval.id, decision.approval.uses_left) == (approval_id, 0)
            assert decided(world)[-1]["approval"]["used"] is False
        assert (await world.decide(READ)).effect is Effect.ALLOW

    async def test_it_would_be_denied(self) -> None:
        world = await Answering.of(ASKING)
        await denied(world, READ)
        assert (await world.decide(replace(READ, dry_run=True))).code is Code.APPROVAL_DENIED


class TestBatch:
    async def test_each_call_its_own_and_the_same_twice_is_one_request(self) -> None:
        world = await Answering.of(ASKING)
        other = call("fs/file_read", path="/workspace/b", provenance={"/path": source("user")})
        ruleset = world.bundles.in_force(TENANT)
        assert ruleset is not None
        answers = await world.decisions.decide_all(
            [READ, under(READ, "c-2"), under(other, "c-3"), READ],
            Admitted(caller=world.caller, ruleset=ruleset),
        )
        first, same, another, itself = (
            waited_for(answer.decision)  # type: ignore[union-attr]
            for answer in answers
        )
        assert first == same == itself != another

    async def test_one_yes_allows_one_call_of_a_batch(self) -> None:
        world = await Answering.of(ASKING)
        await granted(world, READ)
        ruleset = world.bundles.in_force(TENANT)
        assert ruleset is not None
        answers = await world.decisions.decide_all(
            [under(READ, f"c-{number}") for number in range(3)],
            Admitted(caller=world.caller, ruleset=ruleset),
        )
        effects = [answer.decision.effect for answer in answers]  # type: ignore[union-attr]
        assert effects == [Effect.ALLOW, Effect.REQUIRE_APPROVAL, Effect.REQUIRE_APPROVAL]


class Counted(MemoryLedger):
    """Counts what is read of it."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.reads: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in ("approval_facts", "ask_counts", "find_operation", "session_exposure", "find_kept"):
            self.reads[name] += 1
        return super().__getattribute__(name)


class TestHotPath:
    @pytest.mark.parametrize(
        ("made", "rules", "reads"),
        [
            (lambda: READ, PERMITS, {"session_exposure": 1}),
            (
                lambda: replace(READ, subject=replace(READ.subject, agent="coder-9")),
                "",
                {"session_exposure": 1},
            ),
            (
                lambda: replace(READ, subject=replace(READ.subject, session=None)),
                PERMITS,
                {"session_exposure": 2, "approval_facts": 1, "find_operation": 1},
            ),
        ],
        ids=["an allow", "a deny", "without a session"],
    )
    async def test_a_call_that_asks_nobody_reads_nothing_of_approvals(
        self, made: Callable[[], Call], rules: str, reads: dict[str, int]
    ) -> None:
        world = await Answering.of(ASKING)
        ledger = Counted(clock=world.clock, vault_key=b"v" * 32)
        service = service_of(world, ledger=ledger)
        ruleset = ruleset_of(rules or '@id("none") permit (principal, action, resource is Host);')
        await service.decide(made(), Admitted(caller=world.caller, ruleset=ruleset))
        assert ledger.reads == reads
