"""A database from before there were approvals is brought up to date with nothing lost."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from authz.model.operation import OperationState
from authz.model.record import Committed, EventQuery
from authz.ports import CommitUnit
from authz.store import migrations
from authz.store.database import find_version
from authz.store.keys import ServiceKeys
from authz.store.postgres_url import PostgresUrl
from tests.store.approval_world import approved, asking, moving, read_request, using
from tests.store.capability_world import link, narrowed_root, proof, revoked, spending
from tests.store.durable import DurableStore
from tests.store.test_migrations import describe
from tests.store.version_1 import copy_rows
from tests.store.version_5 import SETTLEMENT, TABLES, make_version_5
from tests.store.world import event, operation, unit
from tests.support.postgres import Postgres

KEYS = ServiceKeys.generate()


@pytest.fixture
def other(store: DurableStore, postgres: Postgres, tmp_path: Path) -> Iterator[DurableStore]:
    """A second empty database of the same kind."""
    folder = tmp_path / "other"
    folder.mkdir()
    if not isinstance(store.database, PostgresUrl):
        yield DurableStore(database=folder / "authz.db", folder=folder)
        return
    with postgres.database() as url:
        yield DurableStore(database=PostgresUrl.parse(url), folder=folder)


@pytest.fixture
async def old(store: DurableStore, other: DurableStore) -> DurableStore:
    """A database of version 5 with operations at work, capabilities, revocations, proofs and reservations."""
    ledger, _ = store.open(signer=KEYS)
    async with ledger:
        runs = dataclasses.replace(
            operation("runs", state=OperationState.EXECUTING),
            attempt="a-1",
            first_at_ms=7,
            settles=True,
            ticketed=True,
        )
        whole = CommitUnit(
            event=event(1),
            operation=runs,
            reservations=(spending(cap=5),),
            proof=proof("p"),
            links=(link("a"), narrowed_root()),
            revocations=(revoked("a"),),
        )
        assert isinstance(await ledger.commit(whole), Committed)
        assert isinstance(await ledger.commit(unit(2, operation("waits"))), Committed)
    columns = ", ".join(SETTLEMENT)
    settlement = {"operations": store.fetch(f'SELECT {columns}, "key" FROM operations')}
    make_version_5(other, copy_rows(store, TABLES), settlement)
    return other


async def test_a_database_of_version_5_is_brought_up_to_date(store: DurableStore, old: DurableStore) -> None:
    assert find_version(old.database) == 5
    before = copy_rows(old, TABLES)
    ledger, _ = old.open(signer=KEYS)
    async with ledger:
        assert find_version(old.database) == migrations.CURRENT
        runs = await ledger.find_operation("runs")
        assert runs is not None
        assert (runs.state, runs.attempt, runs.ticketed, runs.approval) == (
            OperationState.EXECUTING,
            "a-1",
            True,
            "",
        )
        assert await ledger.find_link("default", "whole") == narrowed_root()
        assert len(await ledger.revocations_since(0)) == 1
        assert len(await ledger.search(EventQuery(tenant="default"))) == 2
        # And from there on it takes approvals.
        request = read_request(expires_at_ms=10**15)
        move = approved(request)
        assert move.grant is not None
        move = dataclasses.replace(move, grant=dataclasses.replace(move.grant, expires_at_ms=10**15))
        for each in (asking(request), moving(move), using()):
            assert isinstance(await ledger.commit(each), Committed)
    now = copy_rows(old, TABLES)
    for table in before.keys() - {"store_meta", "log_heads", "log_checkpoints"}:
        assert set(before[table]) <= set(now[table]), f"rows of {table} are gone"
    old.assert_sound(KEYS, 5)
    assert describe(old) == describe(store), "as if it had been made today"
