"""A process of its own that asks, answers and uses, as fast as it can: to be killed, or to race another.

Run as `python -m tests.store.approval_child DATABASE KEYS [INDEX]`, where DATABASE is a file or a PostgreSQL
url. Without an index it goes on until it is killed and prints `what number` after each answer; with one it
waits for a line, tries all of `RACES` beside another process, and prints what it won as one line of JSON.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

from authz.model.approval_request import ApprovalRequest
from authz.model.approval_writes import ApprovalMoved, Notice, VaultWrite
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.store.approval_world import (
    NOW_MS,
    TENANT,
    VAULT_KEY,
    approved,
    asking,
    denied,
    moving,
    of_call,
    read_request,
    still_clock,
    using,
)
from tests.support.approvals import times

CLIENTS: Final = 8
FAR_MS: Final = NOW_MS + 10**12
STEPS: Final = ("asked", "approved", "used")
RACES: Final = 15
USES: Final = 7
FINGERPRINT: Final = "sha256:f"


def open_ledger(database: str, keys: Path) -> DurableLedger:
    """The same database and keys for every process, at a time that stands still."""
    signer, clock = ServiceKeys.load_or_create(keys), still_clock()
    limits = CommitLimits(checkpoint_records=50)
    if database.startswith("postgresql://"):
        url = PostgresUrl.parse(database)
        return PostgresLedger.open(
            url, keys.parent, clock=clock, signer=signer, limits=limits, vault_key=VAULT_KEY
        )
    return SqliteLedger.open(Path(database), clock=clock, signer=signer, limits=limits, vault_key=VAULT_KEY)


def numbered(number: int, **more: str) -> ApprovalRequest:
    """A request that nothing but the number tells from another; `more` is as of `read_request`."""
    return read_request(f"ap-{number}", dedupe_key=f"key-{number}", expires_at_ms=FAR_MS, **more)


def life_of(number: int) -> tuple[CommitUnit, ...]:
    """What is written of one request, in the order of `STEPS`."""
    request = numbered(number)
    kept = VaultWrite(tenant=TENANT, ref=f"shown:ap-{number}", content=b"%d" % number, until_ms=FAR_MS)
    notice = Notice(
        tenant=TENANT,
        kind="approval.requested",
        subject_key="s",
        approval_id=request.id,
        body=b"{}",
        at_ms=NOW_MS,
    )
    allowed = replace(of_call(FINGERPRINT, f"op-{number}"), approval=request.id)
    return (
        asking(request, caps=(10**6, 10**6), kept=(kept,), notices=(notice,)),
        moving(approved(request)),
        using(request.id, write=allowed),
    )


async def until_killed(ledger: DurableLedger) -> None:
    numbers = itertools.count(time.time_ns())

    async def client() -> None:
        for number in numbers:
            for step, unit in zip(STEPS, life_of(number), strict=True):
                assert isinstance(await ledger.commit(unit), Committed)
                # One system call a line, and not buffered: what the parent reads was answered.
                os.write(sys.stdout.fileno(), f"{step} {number}\n".encode())

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def race(ledger: DurableLedger, index: int) -> dict[str, int]:
    """Ask for the same, answer the same and use the same as the other process: how often each was won."""
    won: Counter[str] = Counter()

    async def tries(what: str, unit: CommitUnit) -> None:
        outcome = await ledger.commit(unit)
        assert isinstance(outcome, (Committed, ApprovalMoved))
        won[what] += isinstance(outcome, Committed)

    async def use(number: int, fingerprint: str) -> None:
        while True:
            found = await ledger.find_approval(TENANT, f"ap-{number}")
            if found is None or found.grant is None or not found.grant.uses_left:
                return
            await tries(f"used {number}", using(f"ap-{number}", found.grant.uses_left, of=fingerprint))

    for number in range(RACES):
        # Each about a call of its own: a no to one would be a no to all.
        request = numbered(number, path=f"/workspace/{number}")
        await asyncio.gather(*(tries("asked", asking(request)) for _ in range(3)))
        yes, no = moving(approved(request, times(USES))), moving(denied(request))
        answers = (yes, no) if (number + index) % 2 else (no, yes)
        await asyncio.gather(*(tries("answered", unit) for unit in answers))
        await asyncio.gather(*(use(number, request.asked.fingerprint) for _ in range(4)))
    return dict(won)


async def main(database: str, keys: Path, index: int | None) -> None:
    ledger = open_ledger(database, keys)
    if index is None:
        await until_killed(ledger)
        return
    sys.stdin.readline()
    async with ledger:
        print(json.dumps(await race(ledger, index)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None))
