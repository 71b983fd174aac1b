"""What a capability's budget is given back when a call is settled, over every link that it was taken of."""

from dataclasses import replace

import pytest

from authz.core.redact import Redactor
from authz.core.settlement import Outcome
from authz.model.call import Call, Start
from authz.model.decision import Code, Decision, Effect
from authz.model.operation import OperationState
from authz.service.operations import OperationService
from tests.support.chains import entry, handed_on, issued
from tests.support.world import caller_of, world
from tests.unit.service.deciding import Deciding, proved, reading

W = "file:///workspace"
WORLD = world()
ROOT = issued([entry("read", W, budget={"calls": 2})])
CHILD = handed_on(ROOT, [entry("read", W, budget={"calls": 1})])


def settling(path: str, *, attempt: str | None = None) -> Call:
    made = reading(path, agent="sub-1")
    return replace(made, settles=True, start=Start(attempt=attempt) if attempt is not None else None)


def now_s(deciding: Deciding) -> int:
    return deciding.clock.at_ms // 1000


async def held(deciding: Deciding, decision: Decision) -> dict[str, int]:
    return dict(await deciding.ledger.counters_used([taken.key for taken in decision.reservations]))


@pytest.mark.parametrize("how", ["reported", "lapsed", "resolved"])
async def test_every_ancestors_budget_is_given_back_once(how: str) -> None:
    """BU1, DE: what is proven not to have run counts nowhere in the chain."""
    deciding = await Deciding.of(WORLD)
    await deciding.issue(ROOT)
    operations = OperationService(
        ledger=deciding.ledger,
        clock=deciding.clock,
        redactor=Redactor(b"r" * 32),
        operation_secret=b"k" * 32,
    )
    made = settling("/workspace/a", attempt="a" if how == "resolved" else None)
    first = (await deciding.decide(proved(made, CHILD))).decision
    assert first.effect is Effect.ALLOW, first
    assert first.lease is not None
    assert sorted((await held(deciding, first)).values()) == [1, 1], "of the child's budget and the root's"
    full = (await deciding.decide(proved(settling("/workspace/b"), CHILD, iat=now_s(deciding)))).decision
    assert full.code is Code.CAPABILITY_BUDGET

    runtime = caller_of(WORLD)
    gone = Outcome(state=OperationState.NOT_EXECUTED)
    if how == "reported":
        for _ in range(2):
            await operations.settle(runtime, first.decision_id, first.lease.token, gone, "")
    else:
        deciding.clock.at_ms += 60_000
    if how == "resolved":
        still = (await deciding.decide(proved(settling("/workspace/b"), CHILD, iat=now_s(deciding)))).decision
        assert still.code is Code.CAPABILITY_BUDGET, "what began is not given back by the time"
        person = replace(runtime, key_id="key-2", roles=frozenset({"approve"}))
        await operations.resolve(person, first.decision_id, gone, "the endpoint never saw it")
    if how != "lapsed":
        assert set((await held(deciding, first)).values()) == {0}

    second = (await deciding.decide(proved(settling("/workspace/c"), CHILD, iat=now_s(deciding)))).decision
    assert second.effect is Effect.ALLOW
    assert sorted((await held(deciding, second)).values()) == [1, 1]
