"""Reservations that units of a batch give back: what a decision still holds, each once.

What it holds is what rows there are of it, so whoever comes second finds nothing, and a reservation that
ended before is not given back again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from authz.errors import StoreUnavailable
from authz.ports import CommitUnit
from authz.store.limit_statements import LimitStatements
from authz.store.write_connection import SqlValue, WriteConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one decision holds of one counter."""

    tenant: str
    key: str
    until_ms: int
    decision_id: str
    amount: int


class HeldReservations:
    """What the decisions hold that units of one batch give back."""

    def __init__(
        self, connection: WriteConnection, statements: LimitStatements, units: Sequence[CommitUnit]
    ) -> None:
        """Find the counters that must be locked."""
        self._connection = connection
        self._sql = statements
        self._decisions = sorted({unit.releases for unit in units if unit.releases})
        self._given: list[Held] = []
        self._held: list[Held] = self._find()

    @property
    def keys(self) -> set[str]:
        """The counters that they are of."""
        return {held.key for held in self._held}

    def find_again(self) -> None:
        """Once the counters are locked, and what has ended was taken away."""
        self._held = self._find()

    def give_back(self, decision_id: str, tenant: str) -> list[Held]:
        """What that decision of that tenant holds and no earlier unit gave back."""
        given = [held for held in self._held if (held.decision_id, held.tenant) == (decision_id, tenant)]
        if given:
            self._held = [held for held in self._held if held not in given]
            self._given += given
        return given

    def write(self) -> None:
        """Take the rows away."""
        rows = [(held.key, held.until_ms, held.decision_id) for held in self._given]
        if rows and set(self._connection.execute_each(self._sql.remove_reservation, rows)) != {1}:
            raise StoreUnavailable("a reservation went away under the lock of its counter")

    def _find(self) -> list[Held]:
        if not self._decisions:
            return []
        rows = self._connection.fetch_all(self._sql.select_held, (json.dumps(self._decisions),))
        return [
            Held(
                tenant=str(tenant),
                key=str(key),
                until_ms=_integer(until_ms),
                decision_id=str(decision_id),
                amount=_integer(amount),
            )
            for tenant, key, until_ms, decision_id, amount in rows
        ]


def _integer(value: SqlValue) -> int:
    if type(value) is not int:
        raise StoreUnavailable("a reservation is not a number")
    return value
