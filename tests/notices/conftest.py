"""Fixtures of the tests of notices: receivers, and every database that an outbox can stand on."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from authz.ports.notices import Outbox
from authz.store.keys import ServiceKeys
from authz.store.ledger import open_ledger
from authz.store.memory import MemoryLedger
from authz.store.notice_outbox import StoredOutbox
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.notices.receiver import Receiver
from tests.store.world import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A ledger and its outbox."""

    ledger: MemoryLedger | SqliteLedger | PostgresLedger
    outbox: Outbox
    clock: Clock


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """Each kind of store, empty."""
    clock = Clock(step_ms=0)
    if request.param == "memory":
        ledger = MemoryLedger(clock=clock)
        yield Opened(ledger=ledger, outbox=ledger.outbox, clock=clock)
        return
    database: Path | PostgresUrl = tmp_path / "authz.db"
    if request.param == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    async with open_ledger(database, tmp_path, clock=clock, signer=ServiceKeys.generate()) as stored:
        outbox = StoredOutbox(database)
        yield Opened(ledger=stored, outbox=outbox, clock=clock)
        await outbox.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks."""
    with Receiver() as running:
        yield running
