"""Approvals that a database fails in the middle of, and how it looks them up."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from authz.errors import StoreUnavailable
from authz.model.approval_writes import ApprovalMoved
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.store.keys import ServiceKeys
from authz.store.sqlite_connection import STATEMENTS, open_database
from tests.store.approval_world import (
    NOW_MS,
    TENANT,
    approved,
    asking,
    clock_of,
    commit,
    denied,
    moving,
    of_call,
    read_request,
    records,
    revoking,
    using,
    whole_unit,
)
from tests.store.durable import DurableStore
from tests.support.approvals import times

REQUEST = read_request()
OTHER = read_request("ap-2", path="/workspace/b")


@pytest.mark.parametrize(
    ("unit", "statement"),
    [
        (asking(OTHER), "INSERT INTO approvals "),
        (asking(OTHER), "INSERT INTO approval_resources "),
        (moving(approved(REQUEST)), "UPDATE approvals SET state"),
        (moving(approved(REQUEST)), "UPDATE approvals SET change"),
        (moving(approved(REQUEST)), "INSERT INTO approval_votes "),
        (moving(approved(REQUEST)), "INSERT INTO approval_grants "),
        (moving(denied(REQUEST)), "INSERT INTO approval_denials "),
    ],
)
async def test_a_database_that_fails_in_the_middle_keeps_nothing(
    store: DurableStore, unit: CommitUnit, statement: str
) -> None:
    ledger, watched = store.open(signer=ServiceKeys.generate())
    clock_of(ledger).step_ms, clock_of(ledger).at_ms = 0, NOW_MS
    async with ledger:
        await commit(ledger, asking(REQUEST))
        before = [await ledger.find_approval(TENANT, name) for name in ("ap-1", "ap-2")]
        watched.fail_at = statement
        with pytest.raises(StoreUnavailable):
            await ledger.commit(unit)
        assert watched.fail_at == "", "the statement was tried"
        assert [await ledger.find_approval(TENANT, name) for name in ("ap-1", "ap-2")] == before
        assert await ledger.approvals_since(TENANT, -1) == (1, [])
        assert await records(ledger) == 1
        await commit(ledger, unit)


@pytest.mark.parametrize("unit", [using(left=2, write=of_call("sha256:f")), revoking()])
async def test_a_grant_that_could_not_be_changed_is_as_it_was(store: DurableStore, unit: CommitUnit) -> None:
    ledger, watched = store.open(signer=ServiceKeys.generate())
    clock_of(ledger).step_ms, clock_of(ledger).at_ms = 0, NOW_MS
    async with ledger:
        await commit(ledger, asking(REQUEST), moving(approved(REQUEST, times(2))))
        before = await ledger.find_approval(TENANT, "ap-1")
        watched.fail_at = "UPDATE approval_grants "
        with pytest.raises(StoreUnavailable):
            await ledger.commit(unit)
        assert await ledger.find_approval(TENANT, "ap-1") == before
        assert await ledger.find_operation("op-1") is None
        await commit(ledger, unit)


async def test_an_answer_that_was_lost_was_given_once(store: DurableStore) -> None:
    ledger, watched = store.open(signer=ServiceKeys.generate())
    clock_of(ledger).step_ms, clock_of(ledger).at_ms = 0, NOW_MS
    async with ledger:
        await commit(ledger, asking(REQUEST), moving(approved(REQUEST)))
        watched.fail_after_commit = 1
        with pytest.raises(StoreUnavailable):
            await ledger.commit(using())
        assert await ledger.commit(using()) == ApprovalMoved(request_id="ap-1")


async def test_a_batch_asks_the_database_as_often_however_many_approvals_it_has(store: DurableStore) -> None:
    async def asked(number: int) -> int:
        ledger, watched = store.open(signer=ServiceKeys.generate())
        clock_of(ledger).step_ms, clock_of(ledger).at_ms = 0, NOW_MS
        async with ledger:
            watched.hold()
            first = asyncio.ensure_future(ledger.commit(whole_unit()))
            await asyncio.to_thread(watched.at_commit.wait)
            before = watched.asked
            name = f"{number}-"
            requests = [read_request(f"{name}{each}", dedupe_key=f"{name}{each}") for each in range(number)]
            tasks = [asyncio.ensure_future(ledger.commit(asking(each, caps=(99, 99)))) for each in requests]
            await asyncio.sleep(0)
            watched.release()
            outcomes = await asyncio.gather(first, *tasks)
            assert all(isinstance(outcome, Committed) for outcome in outcomes)
            return watched.asked - before

    assert await asked(2) == await asked(20)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        (STATEMENTS.approval_queries.facts, ("t", "f", "t", "s", "v", "n", "f", "t", "f", "s", "t", "f")),
        (
            STATEMENTS.approval_queries.counts,
            ("s", "t", 1, "t", "s", 1, 1, "t", "[]", 1, "s", 1, 1, 1),
        ),
        (STATEMENTS.approval_queries.standing, ("t", "i")),
        (STATEMENTS.approval_queries.due, (1, 1)),
        (STATEMENTS.approval_queries.since, ("t", "t", 1, 1)),
        (STATEMENTS.approval_queries.kept, ("t", "r", 1)),
        (STATEMENTS.approvals.select_request, ("t", "i")),
        (STATEMENTS.approvals.select_waiting, ("t", "k")),
        (STATEMENTS.approvals.select_denied, ("t", "f")),
        (STATEMENTS.approvals.count_pending, ("s", "t", 1)),
        (STATEMENTS.approvals.select_last_change, ("t",)),
        (STATEMENTS.approvals.select_over, (1, 1)),
    ],
)
def test_nothing_is_looked_for_in_a_whole_table(
    tmp_path: Path, sql: str, values: tuple[str | int, ...]
) -> None:
    with contextlib.closing(open_database(tmp_path / "authz.db")) as file:
        plan = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    tables = (
        "approvals",
        "approval_votes",
        "approval_grants",
        "approval_denials",
        "approval_resources",
        "vault",
    )
    assert any("USING" in step for step in plan), plan
    assert not [
        step for step in plan if step.startswith("SCAN") and step.split()[1] in tables and "INDEX" not in step
    ]
    assert not [step for step in plan if "TEMP B-TREE FOR ORDER BY" in step]


def test_two_requests_for_the_same_cannot_wait_whatever_a_program_writes(tmp_path: Path) -> None:
    with contextlib.closing(open_database(tmp_path / "authz.db")) as file:
        columns = (
            "tenant, id, dedupe_key, subject_key, fingerprint, agent, user, session, tool, key_id, trace_id"
        )
        insert = f"""INSERT INTO approvals ({columns}, state, version, created_at_ms, expires_at_ms,
            closed_at_ms, closed_by, "change", details)
            VALUES ('t', ?, 'k', '', '', '', '', '', '', '', '', ?, 0, 0, 0, 0, '', ?, '')"""
        file.execute(insert, ("a", "denied", 1))
        file.execute(insert, ("b", "pending", 2))
        with pytest.raises(sqlite3.IntegrityError):
            file.execute(insert, ("c", "pending", 3))
