"""Links, revocations and delegated sessions that a batch puts on record: a few requests for all of them."""

from collections.abc import Sequence
from typing import Final

from authz.errors import StoreUnavailable
from authz.ports import CommitUnit
from authz.store.capability_rows import link_row, revocation_row
from authz.store.proof_uses import is_over
from authz.store.statements import Statements
from authz.store.write_connection import SqlValue, WriteConnection

SWEPT_AT_ONCE: Final = 16
"""Revocations that a commit with one looks over; and two for each that it adds."""


class RevocationSweep:
    """Where one process is with taking away revocations that stop nothing any more. Bounded steps."""

    def __init__(self) -> None:
        self._after = 0

    def step(
        self, connection: WriteConnection, statements: Statements, newest: int, added: int, now_ms: int
    ) -> None:
        """Look at a few, in the order in which they came and again from the start.

        Never takes the newest: the next one is numbered after it, and who has read so far must see that.
        """
        sql, most = statements.capabilities, SWEPT_AT_ONCE + 2 * added
        rows = connection.fetch_all(sql.select_old_revocations, (self._after, most))
        over = [
            (sequence,) for sequence, until_ms in rows if sequence != newest and is_over(until_ms, now_ms)
        ]
        if over:
            connection.execute_many(sql.delete_revocation, over)
        self._after = _sequence(rows[-1][0]) if len(rows) == most else 0


class CapabilityWrites:
    """What the units of one batch add, collected and then written in their order."""

    def __init__(self, connection: WriteConnection, statements: Statements) -> None:
        self._connection = connection
        self._sql = statements
        self._units: list[CommitUnit] = []

    def add(self, unit: CommitUnit) -> None:
        """A unit that goes through."""
        if unit.links or unit.revocations or unit.delegated:
            self._units.append(unit)

    def write(self, sweep: RevocationSweep, now_ms: int) -> None:
        """Write what was added. `now_ms` is when the batch is recorded."""
        if not self._units:
            return
        links = [link_row(link) for unit in self._units for link in unit.links]
        if links:
            self._connection.execute_many(self._sql.capabilities.insert_link, links)
        exposures = [
            (exposure.session_key, label)
            for unit in self._units
            for exposure in unit.delegated
            for label in sorted(exposure.labels)
        ]
        if exposures:
            self._connection.execute_many(self._sql.insert_exposure, exposures)
        self._revoke(sweep, now_ms)

    def _revoke(self, sweep: RevocationSweep, now_ms: int) -> None:
        """Numbered in the order of commits, since the lock that every commit holds is held until its end."""
        revoked = [each for unit in self._units for each in unit.revocations]
        if not revoked:
            return
        sql = self._sql.capabilities
        last = self._connection.fetch_one(sql.select_last_revocation)
        newest = 0 if last is None or last[0] is None else _sequence(last[0])
        rows: list[Sequence[SqlValue]] = []
        for each in revoked:
            newest += 1
            rows.append(revocation_row(each, newest))
        self._connection.execute_many(sql.put_revocation, rows)
        sweep.step(self._connection, self._sql, newest, len(rows), now_ms)


def _sequence(value: SqlValue) -> int:
    if type(value) is not int:
        raise StoreUnavailable("the sequence of a revocation is not a number")
    return value
