"""The little that a commit needs of a database, whichever it is."""

from collections.abc import Sequence
from typing import Protocol

from authz.errors import StoreUnavailable

SqlValue = str | int | bytes | None
SqlRow = tuple[SqlValue, ...]


class NothingWritten(StoreUnavailable):
    """The transaction is known to have left nothing, and the same one may succeed at a second try."""


class WriteConnection(Protocol):
    """The little that a commit needs of a database. Every method raises `StoreUnavailable` on failure."""

    @property
    def is_remote(self) -> bool:
        """Whether each request is a round trip, so that few requests are worth more work in each."""
        ...

    def begin(self) -> None:
        """Start a transaction that no other writer can interleave with."""
        ...

    def commit(self) -> None:
        """Make the transaction durable. When this returns, losing power loses nothing of it."""
        ...

    def rollback(self) -> None:
        """Leave no transaction open, whatever state the connection is in. Does not raise."""
        ...

    def execute(self, sql: str, parameters: Sequence[SqlValue]) -> int:
        """Run one statement; the number of rows that it wrote."""
        ...

    def execute_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[int]:
        """Run one statement for each of `rows`; the number of rows that each wrote."""
        ...

    def execute_many(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        """Run one statement for each of `rows`."""
        ...

    def fetch_one(self, sql: str, parameters: Sequence[SqlValue] = ()) -> SqlRow | None:
        """The first row."""
        ...

    def fetch_all(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """All rows."""
        ...

    def fetch_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[list[SqlRow]]:
        """Run one statement for each of `rows`; all rows that each answered. One round trip to a server."""
        ...

    def close(self) -> None:
        """Release the connection."""
        ...
