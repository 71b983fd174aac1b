"""What a batch keeps in the vault, sealed before it is written, and what is over and swept away."""

from typing import Final

from authz.core.limits import CLOCK_HOLD_MS
from authz.model.approval_writes import VaultWrite
from authz.ports import CommitUnit
from authz.store.approval_statements import ApprovalStatements
from authz.store.vault import SealedEntry, Vault
from authz.store.write_connection import SqlValue, WriteConnection

SWEPT_AT_ONCE: Final = 16
"""Entries that one look takes away, and two for each that was kept."""
SWEPT_EVERY_MS: Final = 60_000
"""How often commits that keep nothing look for entries that are over."""


class VaultSweep:
    """When one process takes away what is over. Bounded steps."""

    def __init__(self) -> None:
        self._next_ms: int | None = None

    def step(self, connection: WriteConnection, sql: ApprovalStatements, kept: int, now_ms: int) -> None:
        """Take away some, the oldest first: with everything that is kept, and now and then without."""
        if kept or self._is_due(now_ms):
            most = SWEPT_AT_ONCE + 2 * kept
            # As long as the clock may go back, one that is over could be asked for again.
            over = connection.fetch_all(sql.select_over, (now_ms - CLOCK_HOLD_MS, most))
            if over:
                connection.execute_many(sql.delete_kept, over)
            self._next_ms = now_ms if len(over) == most else now_ms + SWEPT_EVERY_MS

    def _is_due(self, now_ms: int) -> bool:
        if self._next_ms is None or self._next_ms > now_ms + SWEPT_EVERY_MS:
            # It begins, or the clock was set back.
            self._next_ms = now_ms + SWEPT_EVERY_MS
        return self._next_ms <= now_ms


class VaultWrites:
    """What the units of one batch keep, collected and then written in their order."""

    def __init__(self, connection: WriteConnection, sql: ApprovalStatements, vault: Vault) -> None:
        self._connection = connection
        self._sql = sql
        self._vault = vault
        self._kept: list[VaultWrite] = []

    def add(self, unit: CommitUnit) -> None:
        """A unit that goes through."""
        self._kept += unit.kept

    def write(self, sweep: VaultSweep, now_ms: int) -> None:
        """Seal and write them, and sweep on. `now_ms` is when the batch is recorded."""
        if self._kept:
            rows = [(*_row(self._vault.seal(kept)), now_ms) for kept in self._kept]
            self._connection.execute_many(self._sql.keep, rows)
        sweep.step(self._connection, self._sql, len(self._kept), now_ms)


def _row(entry: SealedEntry) -> tuple[SqlValue, ...]:
    """The columns of `vault`, in table order."""
    return (entry.tenant, entry.ref, entry.until_ms, entry.nonce, entry.sealed)
