"""A session's exposure only grows, also in memory, also when whoever caused it has gone away."""

import asyncio
from pathlib import Path

from authz.model.record import Event, EventType
from authz.ports import CommitUnit, ExposureWrite
from authz.store.exposure_cache import MAX_SESSIONS, ExposureCache
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from tests.support.service import SettableClock


def _unit(label: str) -> CommitUnit:
    event = Event(type=EventType.DECISION_MADE, tenant="default", occurred_at_ms=1, body=b"{}")
    return CommitUnit(event=event, exposure=ExposureWrite(session_key="s", labels=frozenset({label})))


async def test_a_cancelled_commit_is_not_forgotten(tmp_path: Path) -> None:
    clock = SettableClock()
    async with SqliteLedger.open(tmp_path / "a.db", clock=clock, signer=ServiceKeys.generate()) as ledger:
        assert await ledger.session_exposure("s") == frozenset()
        committing = asyncio.ensure_future(ledger.commit(_unit("untrusted")))
        await asyncio.sleep(0)
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        # The next commit is answered after the first: then the first is durable, and known.
        await ledger.commit(_unit("secret"))
        assert await ledger.session_exposure("s") == {"untrusted", "secret"}


def test_what_is_dropped_from_memory_is_read_again() -> None:
    cache = ExposureCache()
    stored = {str(number): frozenset({str(number)}) for number in range(MAX_SESSIONS + 10)}
    for _ in range(2):
        for key, labels in stored.items():
            assert cache.find(key, stored.__getitem__) == labels
    cache.add("not-in-memory", frozenset({"x"}))
    assert cache.find("not-in-memory", lambda _: frozenset({"x", "y"})) == {"x", "y"}
