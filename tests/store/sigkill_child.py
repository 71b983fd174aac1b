"""The process that `test_sigkill` kills: commits as fast as it can and says what was acknowledged.

Run as `python -m tests.store.sigkill_child DATABASE KEYS`, where DATABASE is a file or a PostgreSQL url.
Prints `writer sequence hash number` after each answer.
"""

import asyncio
import dataclasses
import itertools
import os
import sys
import time
from pathlib import Path

from authz.model.record import Committed
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.store.capability_world import proof, revoked
from tests.store.world import operation, unit


class WallClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def open_ledger(database: str, keys: Path) -> DurableLedger:
    limits = CommitLimits(checkpoint_records=50)
    signer = ServiceKeys.load_or_create(keys)
    if database.startswith("postgresql://"):
        url = PostgresUrl.parse(database)
        return PostgresLedger.open(url, keys.parent, clock=WallClock(), signer=signer, limits=limits)
    return SqliteLedger.open(Path(database), clock=WallClock(), signer=signer, limits=limits)


async def main(database: str, keys: Path) -> None:
    ledger = open_ledger(database, keys)
    numbers = itertools.count(time.time_ns())

    async def client() -> None:
        for number in numbers:
            write = operation(f"k-{number}", decision_id=f"d-{number}")
            used, stopped = proof(f"p-{number}", until_ms=10**15), revoked(f"l-{number}", until_ms=10**15)
            wanted = dataclasses.replace(unit(number, write), proof=used, revocations=(stopped,))
            outcome = await ledger.commit(wanted)
            assert isinstance(outcome, Committed)
            # One system call a line, and not buffered: what the parent reads was acknowledged.
            line = f"{outcome.writer} {outcome.sequence} {outcome.hash} {number}\n"
            os.write(sys.stdout.fileno(), line.encode())

    await asyncio.gather(*(client() for _ in range(16)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
