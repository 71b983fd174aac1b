"""The databases that a ledger can stand on, in one shape for the tests that run on each."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from authz.store.database import Database
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.postgres import PostgresLedger
from authz.store.postgres_connection import connect
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from authz.store.sqlite_connection import open_read_only
from authz.store.write_connection import WriteConnection
from tests.store.world import QUIET, Clock, WatchedConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableStore:
    """One database, empty at first."""

    database: Database
    folder: Path

    def open(
        self,
        *,
        limits: CommitLimits = QUIET,
        signer: ServiceKeys | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> tuple[DurableLedger, WatchedConnection]:
        """A ledger whose writer's connection is watched."""
        watched: list[WatchedConnection] = []

        def wrap(inner: WriteConnection) -> WriteConnection:
            watched.append(WatchedConnection(inner))
            return watched[0]

        ledger: DurableLedger
        clock, signer = Clock(), signer or ServiceKeys.generate()
        if isinstance(self.database, PostgresUrl):
            ledger = PostgresLedger.open(
                self.database,
                self.folder,
                clock=clock,
                signer=signer,
                limits=limits,
                monotonic=monotonic,
                wrap_connection=wrap,
            )
        else:
            ledger = SqliteLedger.open(
                self.database,
                clock=clock,
                signer=signer,
                limits=limits,
                monotonic=monotonic,
                wrap_connection=wrap,
            )
        watched[0].order.clear()
        return ledger, watched[0]

    def records_on_disk(self) -> int:
        """How many records another connection sees."""
        return self.rows_on_disk("events")

    def rows_on_disk(self, table: str) -> int:
        """How many rows of a table another connection sees."""
        ((count,),) = self.fetch(f"SELECT count(*) FROM {table}")
        return int(count)

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """All rows, as another connection sees them."""
        if isinstance(self.database, PostgresUrl):
            with contextlib.closing(connect(self.database, part="test")) as server:
                return server.execute(query.encode()).fetchall()
        with contextlib.closing(open_read_only(self.database)) as file:
            return file.execute(query).fetchall()

    def assert_sound(self, keys: ServiceKeys, records: int) -> None:
        """The log verifies, and has so many records."""
        with LogSnapshot(self.database) as snapshot:
            report = verify_log(snapshot, keys.public_keys())
        assert report.findings == ()
        assert report.records == records
