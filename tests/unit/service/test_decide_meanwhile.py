"""What people do between the moment that an approval is read and the moment that its use is on record."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from authz.model.approval import ScopeKind
from authz.model.call import CallIds
from authz.model.decision import Code, Decision, Effect
from authz.model.operation import OperationState
from authz.model.record import CommitOutcome
from authz.ports import CommitUnit
from authz.service.bundles import Admitted
from authz.store.memory import MemoryLedger
from tests.support.answering import TENANT, Answering, signed_in
from tests.support.world import call, source
from tests.unit.service.asked import ASKING, EDIT, decided, granted, service_of, under, waited_for
from tests.unit.service.test_decide_denial import Settled

FOLDER = call("fs/file_read", path="/workspace/d", provenance={"/path": source("user")})
INSIDE = call("fs/file_read", path="/workspace/d/e", provenance={"/path": source("user")})


class Meanwhile:
    """The ledger, before whose first commit that rests on an approval something else is done."""

    def __init__(self, ledger: MemoryLedger, act: Callable[[], Awaitable[object]]) -> None:
        self._ledger = ledger
        self._act = act
        self.acted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        if unit.consumes is not None and not self.acted:
            self.acted = True
            await self._act()
        return await self._ledger.commit(unit)


async def decide_while(world: Answering, made: Any, act: Callable[[], Awaitable[object]]) -> Decision:
    """The decision, while whose record is written `act` happens."""
    ledger = Meanwhile(world.ledger, act)
    ruleset = world.bundles.in_force(TENANT)
    assert ruleset is not None
    # With the ids of the world's own service: others would be given out a second time.
    service = service_of(world, ledger=ledger, ids=world.decisions._attempts._ids)
    answer = await service.decide(made, Admitted(caller=world.caller, ruleset=ruleset))
    assert ledger.acted
    return answer.decision


async def test_a_no_to_a_call_without_ids_undoes_the_use_of_a_sessions_yes() -> None:
    """AP2: of a call without ids the store knows nothing but what its use says."""
    world = await Answering.of(ASKING)
    await granted(world, FOLDER, scope=ScopeKind.SESSION, uses=None)
    worse = replace(INSIDE, provenance={("path",): source("web")})
    waiting = waited_for(await world.decide(under(worse, "c-2")))
    nameless = replace(INSIDE, ids=CallIds())
    assert (await world.decide(nameless)).effect is Effect.ALLOW

    async def says_no() -> None:
        await world.deny(signed_in("grace"), waiting, "no")

    decision = await decide_while(world, nameless, says_no)
    assert (decision.effect, decision.code) == (Effect.DENY, Code.APPROVAL_DENIED)
    assert decided(world)[-1]["code"] == "approval.denied"


async def test_what_is_revoked_while_a_failed_call_is_tried_again_is_not_taken_up_again() -> None:
    world = await Answering.of(ASKING)
    made = replace(EDIT, settles=True)
    approval_id = await granted(world, made, scope=ScopeKind.TIMES, uses=2)
    await Settled(world).settle(await world.decide(made), OperationState.FAILED_RETRYABLE)

    async def revoke() -> None:
        await world.approvals.revoke(signed_in("grace"), approval_id)

    assert waited_for(await decide_while(world, made, revoke)) != approval_id


async def test_what_is_used_up_while_a_failed_call_is_tried_again_is_still_its_own() -> None:
    world = await Answering.of(ASKING)
    made = replace(EDIT, settles=True)
    approval_id = await granted(world, made, scope=ScopeKind.TIMES, uses=2)
    await Settled(world).settle(await world.decide(made), OperationState.FAILED_RETRYABLE)

    async def use() -> None:
        assert (await world.decide(under(made, "another"))).effect is Effect.ALLOW

    decision = await decide_while(world, made, use)
    assert decision.effect is Effect.ALLOW
    record = decided(world)[-1]
    assert (record["approval"]["id"], record["approval"]["used"]) == (approval_id, False)
