"""Proofs of possession that a batch uses up, each once, whoever else uses it at the same time.

Which of them were used is read before anything of the batch is written, under the lock that every commit
holds, so a unit that does not go through for another reason leaves its proof unused.
"""

import json
from collections.abc import Sequence
from typing import Final

from authz.core.limits import CLOCK_HOLD_MS
from authz.errors import StoreUnavailable
from authz.model.capability import ProofUse
from authz.model.record import Replayed
from authz.ports import CommitUnit
from authz.store.capability_statements import CapabilityStatements
from authz.store.write_connection import WriteConnection

SWEPT_EVERY: Final = 64
"""Proofs that a process uses up between two looks at old ones."""


class ProofSweep:
    """Where one process is with taking away proofs that nobody would take any more. Bounded steps."""

    def __init__(self) -> None:
        self._after_key = ""
        self._unswept = 0

    def step(self, connection: WriteConnection, sql: CapabilityStatements, added: int, now_ms: int) -> None:
        """Now and then look at twice as many as were added: in the order of keys, again from the start."""
        self._unswept += added
        if self._unswept < SWEPT_EVERY:
            return
        most, self._unswept = 2 * self._unswept, 0
        rows = connection.fetch_all(sql.select_old_proofs, (self._after_key, most))
        # As long as the clock may go back, one that is over could be taken again.
        over = [(key,) for key, until_ms in rows if is_over(until_ms, now_ms)]
        if over:
            connection.execute_many(sql.delete_proof, over)
        self._after_key = str(rows[-1][0]) if len(rows) == most else ""


class ProofUses:
    """The proofs of one batch, for the length of its transaction."""

    def __init__(
        self, connection: WriteConnection, sql: CapabilityStatements, units: Sequence[CommitUnit]
    ) -> None:
        """Read which were used."""
        self._connection = connection
        self._sql = sql
        self._new: list[ProofUse] = []
        self._used: set[str] = set()
        self._shared: set[str] = set()
        keys: set[str] = set()
        for unit in units:
            if unit.proof is not None:
                (self._shared if unit.proof.key in keys else keys).add(unit.proof.key)
        if keys:
            rows = connection.fetch_all(sql.select_used, (json.dumps(sorted(keys)),))
            self._used = {str(key) for (key,) in rows}

    def check(self, proof: ProofUse) -> Replayed | None:
        """Whether it was used before, also by an earlier unit of the batch; `None` when it was not."""
        return Replayed(key=proof.key) if proof.key in self._used else None

    def is_settled(self, proof: ProofUse) -> bool:
        """Whether it is unused whatever becomes of the other units of the batch."""
        return proof.key not in self._used and proof.key not in self._shared

    def use(self, proof: ProofUse) -> None:
        """Use up what has just been found unused."""
        self._used.add(proof.key)
        self._new.append(proof)

    def write(self, sweep: ProofSweep, now_ms: int) -> None:
        """Write them, and sweep on."""
        if not self._new:
            return
        rows = [(proof.key, proof.until_ms) for proof in self._new]
        if set(self._connection.execute_each(self._sql.insert_proof, rows)) != {1}:
            raise StoreUnavailable("a proof was used by somebody who does not hold the commit lock")
        sweep.step(self._connection, self._sql, len(rows), now_ms)


def is_over(until_ms: object, now_ms: int) -> bool:
    """Whether something that ends then may be forgotten, though the clock may go back."""
    if type(until_ms) is not int:
        raise StoreUnavailable("a time in the store is not a number")
    return until_ms + CLOCK_HOLD_MS <= now_ms
