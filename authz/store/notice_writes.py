"""Notices that a batch puts in the outbox, in one request for all of them."""

from authz.ports import CommitUnit
from authz.store.notice_rows import notice_row
from authz.store.statements import Statements
from authz.store.write_connection import SqlRow, WriteConnection


class NoticeWrites:
    """What the units of one batch tell outside, collected and then written."""

    def __init__(self, connection: WriteConnection, statements: Statements) -> None:
        self._connection = connection
        self._sql = statements
        self._rows: list[SqlRow] = []

    def add(self, unit: CommitUnit) -> None:
        """A unit that goes through."""
        self._rows += [notice_row(notice) for notice in unit.notices]

    def write(self) -> None:
        """Write what was added; a notice that is there already stays as it is."""
        if self._rows:
            self._connection.execute_many(self._sql.insert_notice, self._rows)
