"""What the tests of many writers run, in a process of its own or in threads: it commits as fast as it can.

Run as `python -m tests.store.capability_child DATABASE KEYS NAME`, where DATABASE is a file or a PostgreSQL
url. Prints what it came to, as one line of JSON.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from authz.model.record import Committed, Replayed
from authz.ports import CommitUnit, Ledger
from tests.store.capability_world import proof, revoked, spending
from tests.store.sigkill_child import open_ledger
from tests.store.world import event

CAP: Final = 7
TASKS: Final = 6
TURNS: Final = 20
PROOFS: Final = 60
REVOKED_AT_ONCE: Final = 3
FAR_MS: Final = 10**15
"""When everything ends, by the clock of a real process."""
TAKES: Final = "takes"
GIVES_BACK: Final = "gives-back "
"""Traces by which a record says what its unit did."""


async def spend(ledger: Ledger, worker: int) -> int:
    """Take of one budget and give back; how much is held at the end."""
    held: list[int] = []
    for turn in range(TURNS):
        number = worker * 1000 + turn
        taken = (spending("small", cap=CAP, ends_ms=FAR_MS), spending("large", cap=10**6, ends_ms=FAR_MS))
        # In another order for every other worker: none may wait for one that waits for it.
        reservations = taken if worker % 2 else tuple(reversed(taken))
        takes = event(number, trace_id=TAKES)
        if isinstance(await ledger.commit(CommitUnit(event=takes, reservations=reservations)), Committed):
            held.append(number)
        if held and turn % 3:
            gone = f"d-{held.pop(0)}"
            # Twice at once, as by a caller that repeats itself and by the end of a lease.
            again = (event(number + more, trace_id=f"{GIVES_BACK}{gone}") for more in (500, 600))
            await asyncio.gather(*(ledger.commit(CommitUnit(event=each, releases=gone)) for each in again))
    return len(held)


async def use_proofs(ledger: Ledger) -> list[str]:
    """Try every proof; those that were ours."""
    won = []
    for number in range(PROOFS):
        used = proof(f"p-{number}", until_ms=FAR_MS)
        outcome = await ledger.commit(CommitUnit(event=event(number), proof=used))
        if isinstance(outcome, Committed):
            won.append(used.key)
        else:
            assert outcome == Replayed(key=used.key)
    return won


async def revoke(ledger: Ledger, name: str) -> None:
    """Revoke a handle of our own with each commit."""
    for turn in range(TURNS):
        stopped = tuple(revoked(f"{name}-{turn}-{part}", until_ms=FAR_MS) for part in range(REVOKED_AT_ONCE))
        await ledger.commit(CommitUnit(event=event(turn), revocations=stopped))


async def work(ledger: Ledger, index: int) -> dict[str, object]:
    """All of it at once; what it came to."""
    spent, won, _ = await asyncio.gather(
        asyncio.gather(*(spend(ledger, 100 * index + task) for task in range(TASKS))),
        asyncio.gather(*(use_proofs(ledger) for _ in range(3))),
        asyncio.gather(*(revoke(ledger, f"{index}-{task}") for task in range(TASKS))),
    )
    return {"held": sum(spent), "won": [key for each in won for key in each]}


async def main(database: str, keys: Path, index: int) -> None:
    ledger = open_ledger(database, keys)
    sys.stdin.readline()
    async with ledger:
        print(json.dumps(await work(ledger, index)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
