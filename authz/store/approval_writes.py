"""Approvals of one batch, read, judged and written in the commit's own transaction.

Whatever the batch names is read before anything of it is written, under the lock that every commit holds, in
a number of requests that does not depend on how many units there are. What a unit may do is then judged
without the database (`authz.store.approval_batch`). Every statement that changes a row says what the row was
like when it was read: where it is not, somebody wrote without the lock and the whole batch is undone.
"""

from collections.abc import Iterable, Mapping, Sequence

from authz.errors import StoreUnavailable
from authz.model.approval_request import Grant
from authz.model.approval_writes import ApprovalMoved
from authz.ports import CommitUnit
from authz.store.approval_batch import (
    ApprovalBatch,
    Changes,
    DeniedCall,
    Key,
    Known,
    PendingCounts,
    touches_approvals,
)
from authz.store.approval_rows import denial_row, grant_row, read_grant, read_request, request_row, vote_row
from authz.store.approval_statements import ApprovalStatements
from authz.store.write_connection import SqlRow, SqlValue, WriteConnection


class ApprovalWrites:
    """The approvals that the units of one batch name, for the length of its transaction."""

    def __init__(
        self,
        connection: WriteConnection,
        statements: ApprovalStatements,
        units: Sequence[CommitUnit],
        now_ms: int,
    ) -> None:
        """Read them; nothing is asked where no unit names any. `now_ms` is when the batch is recorded."""
        self._connection = connection
        self._sql = statements
        named = [unit for unit in units if touches_approvals(unit)]
        self._batch = ApprovalBatch(_OnRecord(connection, statements), named, now_ms) if named else None

    def check(self, unit: CommitUnit) -> ApprovalMoved | None:
        """Whether something of the unit does not hold any more; `None` when all of it does."""
        return None if self._batch is None else self._batch.check(unit)

    def add(self, unit: CommitUnit) -> None:
        """Do what has just been found to hold."""
        if self._batch is not None:
            self._batch.add(unit)

    def write(self) -> None:
        """Write what became of all of them."""
        if self._batch is None or not self._batch.changes.touched:
            return
        changes = self._batch.changes
        numbers = self._number(changes)
        # Moved ones first: what waits no longer makes room for what now waits for the same.
        self._write_each(self._sql.move_request, self._moved(self._batch, changes))
        self._write_each(self._sql.insert_request, self._new(self._batch, changes, numbers))
        touched = [(number, *key) for key, number in numbers.items() if key not in changes.new]
        self._write_each(self._sql.touch_request, touched)
        resources = [
            (key[0], resource, asks.request.expires_at_ms, key[1])
            for key, asks in changes.new.items()
            for resource in sorted(asks.request.resources)
        ]
        self._write_each(self._sql.insert_resource, resources)
        self._write_each(self._sql.insert_vote, [vote_row(*vote) for vote in changes.votes])
        grants = self._batch.grants
        new_grants = [grant_row(grants[key]) for key in sorted(changes.new_grants)]
        self._write_each(self._sql.insert_grant, new_grants)
        moved_grants = [_move_grant(grants[key], before) for key, before in changes.moved_grants.items()]
        self._write_each(self._sql.move_grant, moved_grants)
        self._write_each(self._sql.insert_denial, [denial_row(denial) for denial in changes.denials])

    def _number(self, changes: Changes) -> dict[Key, int]:
        """Numbered in the order of commits, since the lock that every commit holds is held until its end."""
        tenants = sorted({tenant for tenant, _ in changes.touched})
        found = self._connection.fetch_each(self._sql.select_last_change, [(tenant,) for tenant in tenants])
        last = {tenant: _integer(rows[0][0] or 0) for tenant, rows in zip(tenants, found, strict=True)}
        numbers: dict[Key, int] = {}
        for key in changes.touched:
            last[key[0]] += 1
            numbers[key] = last[key[0]]
        return numbers

    def _new(
        self, batch: ApprovalBatch, changes: Changes, numbers: Mapping[Key, int]
    ) -> Iterable[Sequence[SqlValue]]:
        for key in changes.new:
            known = batch.requests[key]
            yield request_row(known.request, known.subject_key, numbers[key])

    def _moved(self, batch: ApprovalBatch, changes: Changes) -> Iterable[Sequence[SqlValue]]:
        for key, version in changes.moved.items():
            after = batch.requests[key].request
            yield (after.state.value, after.version, after.closed_at_ms, after.closed_by, *key, version)

    def _write_each(self, sql: str, rows: Iterable[Sequence[SqlValue]]) -> None:
        listed = list(rows)
        if listed and set(self._connection.execute_each(sql, listed)) != {1}:
            raise StoreUnavailable("an approval was moved by somebody who does not hold the commit lock")


class _OnRecord:
    """`ApprovalSource` of a database: one request for each kind."""

    def __init__(self, connection: WriteConnection, sql: ApprovalStatements) -> None:
        self._connection = connection
        self._sql = sql

    def find_requests(self, keys: Sequence[Key]) -> Mapping[Key, Known]:
        return {
            key: Known(request=read_request(row[1:]), subject_key=str(row[0]))
            for key, (row, *_) in self._found(self._sql.select_request, keys)
        }

    def find_waiting(self, keys: Sequence[Key]) -> Mapping[Key, str]:
        return {key: str(row[0]) for key, (row, *_) in self._found(self._sql.select_waiting, keys)}

    def find_grants(self, keys: Sequence[Key]) -> Mapping[Key, Grant]:
        return {key: read_grant(row) for key, (row, *_) in self._found(self._sql.select_grant, keys)}

    def find_denied(self, keys: Sequence[Key]) -> set[DeniedCall]:
        return {
            (tenant, None if session is None else str(session), fingerprint)
            for (tenant, fingerprint), rows in self._found(self._sql.select_denied, keys)
            for (session,) in rows
        }

    def count_pending(self, keys: Sequence[Key], now_ms: int) -> Mapping[Key, PendingCounts]:
        if not keys:
            return {}
        asked = [(subject, tenant, now_ms) for tenant, subject in keys]
        found = self._connection.fetch_each(self._sql.count_pending, asked)
        return {
            key: PendingCounts(of_subject=_integer(row[0]), of_tenant=_integer(row[1]))
            for key, (row,) in zip(keys, found, strict=True)
        }

    def _found(self, sql: str, keys: Sequence[Key]) -> list[tuple[Key, list[SqlRow]]]:
        if not keys:
            return []
        found = zip(keys, self._connection.fetch_each(sql, keys), strict=True)
        return [(key, rows) for key, rows in found if rows]


def _move_grant(after: Grant, before: Grant) -> Sequence[SqlValue]:
    key = (after.asked.requester.tenant, after.request_id)
    return (after.uses_left, after.voided_at_ms, after.voided_by, *key, before.uses_left)


def _integer(value: SqlValue) -> int:
    if type(value) is not int:
        raise StoreUnavailable("a number of approvals in the store is none")
    return value
