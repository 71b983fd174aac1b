"""Operations that a batch writes by compare-and-set, in as many requests however many units there are."""

import json
from collections.abc import Iterable, Sequence

from authz.errors import StoreUnavailable
from authz.model.operation import OperationWrite
from authz.model.record import Conflict
from authz.ports import CommitUnit
from authz.store.approval_batch import touches_approvals
from authz.store.operation_rows import write_basis
from authz.store.proof_uses import ProofUses
from authz.store.statements import Statements
from authz.store.write_connection import SqlValue, WriteConnection


class OperationWrites:
    """The operations of one batch, for the length of its transaction.

    New ones of units that depend on nothing else are inserted at once, which also finds out whether they are
    new. The others are each written when their unit is known to go through. Where that would be a round trip
    for each, their versions are read first, under the lock that every commit holds, and what was found to fit
    is written at the end.
    """

    def __init__(
        self,
        connection: WriteConnection,
        statements: Statements,
        units: Sequence[CommitUnit],
        proofs: ProofUses,
    ) -> None:
        """Insert what is inserted at once, and read the versions of the others."""
        self._connection = connection
        self._sql = statements
        self._inserts: list[Sequence[SqlValue]] = []
        self._moves: list[Sequence[SqlValue]] = []
        self._inserted = self._insert(units, proofs)
        self._versions = self._read_versions(units) if connection.is_remote else None

    def check(self, write: OperationWrite) -> Conflict | None:
        """Whether the operation has moved, for a unit that is refused whatever the answer. Writes nothing."""
        found = self._versions
        if found is None:
            found = self._read((write.key,))
        return None if found.get(write.key) == _expected(write) else Conflict(key=write.key)

    def move(self, index: int, write: OperationWrite) -> Conflict | None:
        """Move the operation of the unit at that place of the batch; `None` when it had not moved."""
        if index in self._inserted:
            return None if self._inserted[index] else Conflict(key=write.key)
        is_new = write.expected_version is None
        sql = self._sql.insert_operation if is_new else self._sql.move_operation
        values = _row(write) if is_new else _move_values(write)
        if self._versions is None:
            return None if self._connection.execute(sql, values) == 1 else Conflict(key=write.key)
        if self._versions.get(write.key) != _expected(write):
            return Conflict(key=write.key)
        (self._inserts if is_new else self._moves).append(values)
        self._versions[write.key] = (write.tenant, (write.expected_version or 0) + 1)
        return None

    def write(self) -> None:
        """Write what was found to fit: new ones first, since one of the batch may have moved since."""
        for sql, rows in (
            (self._sql.insert_operation, self._inserts),
            (self._sql.move_operation, self._moves),
        ):
            if rows and set(self._connection.execute_each(sql, rows)) != {1}:
                raise StoreUnavailable("an operation was moved by somebody who does not hold the commit lock")

    def _read_versions(self, units: Sequence[CommitUnit]) -> dict[str, tuple[str, int]] | None:
        """Tenant and version of each that exists; `None` when at most one is left to be written."""
        left = [
            unit.operation.key
            for index, unit in enumerate(units)
            if unit.operation is not None and index not in self._inserted
        ]
        if len(left) < 2:
            return None
        return self._read(left)

    def _read(self, keys: Iterable[str]) -> dict[str, tuple[str, int]]:
        rows = self._connection.fetch_all(self._sql.select_versions, (json.dumps(sorted({*keys})),))
        return {str(key): (str(tenant), _version(version)) for key, tenant, version in rows}

    def _insert(self, units: Sequence[CommitUnit], proofs: ProofUses) -> dict[int, bool]:
        """By place in the batch, whether it was new.

        Together, since a server is asked for all of them in the time of one.
        """
        new = {
            index: _row(unit.operation)
            for index, unit in enumerate(units)
            if unit.operation is not None
            and unit.operation.expected_version is None
            and not unit.reservations
            and not touches_approvals(unit)
            and (unit.proof is None or proofs.is_settled(unit.proof))
        }
        if not new:
            return {}
        counts = self._connection.execute_each(self._sql.insert_operation, list(new.values()))
        return {index: count == 1 for index, count in zip(new, counts, strict=True)}


def _row(write: OperationWrite) -> Sequence[SqlValue]:
    """The columns of a new operation, in table order."""
    return (
        *(write.key, write.tenant, write.fingerprint, str(write.state), write.decision_id),
        *(write.expires_at_ms, 1),
        *_settlement(write),
    )


def _move_values(write: OperationWrite) -> Sequence[SqlValue]:
    state, version = str(write.state), write.expected_version or 0
    return (
        *(write.fingerprint, state, write.decision_id, write.expires_at_ms, version + 1),
        *_settlement(write),
        *(write.key, write.tenant, version),
    )


def _expected(write: OperationWrite) -> tuple[str, int] | None:
    """Tenant and version that it must have; `None` where it must not exist."""
    return None if write.expected_version is None else (write.tenant, write.expected_version)


def _settlement(write: OperationWrite) -> Sequence[SqlValue]:
    return (
        *(int(write.settles), int(write.cancel_requested), write.attempt, write.first_at_ms),
        *(write.settled_at_ms, write.external_id, write.result_digest, write.due_ms),
        *(int(write.ticketed), write_basis(write.basis), write.approval),
    )


def _version(value: SqlValue) -> int:
    if type(value) is not int:
        raise StoreUnavailable("the version of an operation is not a number")
    return value
