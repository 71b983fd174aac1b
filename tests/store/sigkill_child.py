"""The process that `test_sigkill` kills: commits as fast as it can and says what was acknowledged.

Run as `python sigkill_child.py DATABASE KEYS`. Prints `writer sequence hash` after each answer.
"""

import asyncio
import itertools
import os
import sys
import time
from pathlib import Path

from authz.model.record import Committed
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from tests.store.world import operation, unit


class WallClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


async def main(database: Path, keys: Path) -> None:
    limits = CommitLimits(checkpoint_records=50)
    signer = ServiceKeys.load_or_create(keys)
    ledger = SqliteLedger.open(database, clock=WallClock(), signer=signer, limits=limits)
    numbers = itertools.count(time.time_ns())

    async def client() -> None:
        for number in numbers:
            outcome = await ledger.commit(unit(number, operation(f"k-{number}", decision_id=f"d-{number}")))
            assert isinstance(outcome, Committed)
            # One system call a line, and not buffered: what the parent reads was acknowledged.
            line = f"{outcome.writer} {outcome.sequence} {outcome.hash} {number}\n"
            os.write(sys.stdout.fileno(), line.encode())

    await asyncio.gather(*(client() for _ in range(16)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
