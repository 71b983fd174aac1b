"""A swap whose record may be durable although its commit failed: the log says in the end what decides."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from authz.errors import StoreUnavailable
from authz.model.record import CommitOutcome
from authz.ports import CommitUnit
from authz.service import reloads
from authz.service.bundles import ReloadOutcome, Trigger, TriggerKind
from tests.support.reloading import FORBID, Reloading, reloading
from tests.unit.service.test_reloads import over

WATCH = Trigger(kind=TriggerKind.WATCH)
LOOKS = 500


class LosesAnswers:
    """The real ledger, whose next answers are lost after the record is durable, or before."""

    def __init__(self, running: Reloading, *, after: int = 0, before: int = 0) -> None:
        self._ledger = running.service.ledger
        self._after, self._before = after, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        if self._before > 0 and self._after == 0:
            self._before -= 1
            raise StoreUnavailable("the store is gone")
        committed = await self._ledger.commit(unit)
        if self._after > 0:
            self._after -= 1
            raise StoreUnavailable("the answer is lost", code="store.timeout")
        return committed


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloads, "SETTLE_SECONDS", 0.01)


async def loaded(running: Reloading, count: int) -> list[dict[str, Any]]:
    """The records of bundles in force, once there are so many."""
    for _ in range(LOOKS):
        records = await running.service.records(type="bundle.loaded")
        if len(records) >= count:
            return records
        await asyncio.sleep(0.01)
    raise AssertionError("the record never came")


async def test_what_decides_is_recorded_once_the_store_answers(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        before = running.version
        running.write(FORBID)
        uncertain = over(running, ledger=LosesAnswers(running, after=1, before=3))

        attempt = await uncertain.reload("default", WATCH)

        assert (attempt.outcome, running.version) == (ReloadOutcome.NOT_RECORDED, before)
        wrong, right = await loaded(running, 2)
        assert (wrong["previous_version"], right["previous_version"]) == (before, wrong["policy_version"])
        assert (right["policy_version"], right["trigger"]) == (before, "uncertain_commit")
        await uncertain.close()
        assert len(await running.service.records(type="bundle.loaded")) == 2, "once"


async def test_a_swap_that_is_recorded_settles_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloads, "SETTLE_SECONDS", 0.2)
    async with reloading(tmp_path) as running:
        running.write(FORBID)
        uncertain = over(running, ledger=LosesAnswers(running, after=1))
        assert (await uncertain.reload("default", WATCH)).outcome is ReloadOutcome.NOT_RECORDED
        assert (await uncertain.reload("default", WATCH)).outcome is ReloadOutcome.LOADED
        assert not uncertain._uncertain
        await uncertain._settle("default")
        records = await running.service.records(type="bundle.loaded")
        assert [record["policy_version"] for record in records] == [running.version] * 2
        await uncertain.close()
