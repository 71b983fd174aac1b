"""Reading the whole log in one snapshot, also beside a running server, and verifying it."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Select, select

from authz.core.log_chain import StoredRecord
from authz.core.log_checkpoint import LogHead, StoredCheckpoint, check_expected_head, verify_checkpoints
from authz.core.log_verify import Anchor, ChainReport, Finding, FindingKind, check_log_head, verify_chain
from authz.store.commit_engine import SqlValue
from authz.store.sqlite_connection import bind, open_read_only, unavailable
from authz.store.tables import EVENTS, LOG_CHECKPOINTS, LOG_HEADS

_RECORD_FIELDS = tuple(field.name for field in fields(StoredRecord))
_CHECKPOINT_FIELDS = tuple(field.name for field in fields(StoredCheckpoint))
_MAX_DAMAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """What an audit found. `heads` is where each writer's chain ends, without writers that wrote nothing."""

    records: int
    checkpoints: int
    checkpointed: int
    """Records that the newest checkpoint covers, over all writers."""
    heads: tuple[LogHead, ...]
    findings: tuple[Finding, ...]


class LogSnapshot:
    """The log as it stood at one moment. Takes no lock: a server may go on writing meanwhile.

    Every method raises `StoreUnavailable` when the database cannot be read.
    """

    def __init__(self, database: Path) -> None:
        self._connection = open_read_only(database)
        # A byte that was changed may leave text that is not UTF-8: a finding, and not a failure to read.
        self._connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        try:
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT count(*) FROM log_heads").fetchone()
        except sqlite3.Error as fault:
            self._connection.close()
            raise unavailable(fault, "reading the log") from fault

    def find_damage(self) -> list[str]:
        """What SQLite's own check says is wrong with the file, such as an index that skips rows."""
        rows = self._rows_of(f"PRAGMA integrity_check({_MAX_DAMAGES})", ())
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def writers(self) -> list[str]:
        """Every writer of a record or a head."""
        rows = list(self._rows(select(EVENTS.c.writer).distinct()))
        rows += self._rows(select(LOG_HEADS.c.writer))
        return sorted({str(row[0]) for row in rows})

    def records(self, writer: str) -> Iterator[StoredRecord]:
        """One writer's records by their sequence."""
        columns = [EVENTS.c[name] for name in _RECORD_FIELDS]
        statement = select(*columns).where(EVENTS.c.writer == writer).order_by(EVENTS.c.sequence)
        for row in self._rows(statement):
            yield StoredRecord(**dict(zip(_RECORD_FIELDS, row, strict=True)))

    def stored_heads(self) -> dict[str, Anchor]:
        """The heads that were written together with the records, by writer."""
        rows = self._rows(select(LOG_HEADS.c.writer, LOG_HEADS.c.sequence, LOG_HEADS.c.hash))
        return {
            writer: Anchor(sequence=sequence, hash=head_hash, source="the stored head")
            for writer, sequence, head_hash in rows
        }

    def checkpoints(self) -> Iterator[StoredCheckpoint]:
        """All checkpoints by number."""
        columns = [LOG_CHECKPOINTS.c[name] for name in _CHECKPOINT_FIELDS]
        for row in self._rows(select(*columns).order_by(LOG_CHECKPOINTS.c.number)):
            yield StoredCheckpoint(**dict(zip(_CHECKPOINT_FIELDS, row, strict=True)))

    def has_checkpoints(self) -> bool:
        """Whether there is anything to check with a key."""
        return next(self._rows(select(LOG_CHECKPOINTS.c.number).limit(1)), None) is not None

    def find_hash(self, writer: str, sequence: int) -> str | None:
        """The stored hash of one record."""
        at = (EVENTS.c.writer == writer, EVENTS.c.sequence == sequence)
        row = next(self._rows(select(EVENTS.c.hash).where(*at)), None)
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Release the snapshot."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _rows(self, statement: Select[Any]) -> Iterator[tuple[Any, ...]]:
        return self._rows_of(*bind(statement))

    def _rows_of(self, sql: str, parameters: Sequence[SqlValue]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(sql, parameters)
        except sqlite3.Error as fault:
            raise unavailable(fault, "reading the log") from fault


def verify_log(
    snapshot: LogSnapshot,
    expected_keys: Mapping[str, Ed25519PublicKey],
    expected_head: Iterable[LogHead] = (),
) -> LogReport:
    """Verify every chain, the stored heads, the checkpoints (keys by thumbprint) and an expected HEAD."""
    kind = FindingKind.DATABASE_DAMAGED
    damages = snapshot.find_damage()
    findings = [Finding(writer="", sequence=0, kind=kind, message=damage) for damage in damages]
    checkpoints = verify_checkpoints(snapshot.checkpoints(), expected_keys)
    findings += checkpoints.findings
    stored_heads = snapshot.stored_heads()
    chains: list[ChainReport] = []
    for writer in sorted({*snapshot.writers(), *checkpoints.anchors}):
        anchors = checkpoints.anchors.get(writer, ())
        chain = verify_chain(writer, snapshot.records(writer), anchors=anchors)
        findings += (*chain.findings, *check_log_head(chain, stored_heads.get(writer)))
        chains.append(chain)
    findings += check_expected_head(expected_head, snapshot.find_hash)
    return LogReport(
        records=sum(chain.records for chain in chains),
        checkpoints=checkpoints.checkpoints,
        checkpointed=sum(anchors[-1].sequence for anchors in checkpoints.anchors.values()),
        heads=read_heads(chains),
        findings=tuple(findings),
    )


def read_heads(chains: Sequence[ChainReport]) -> tuple[LogHead, ...]:
    """Where chains end, without those that hold nothing."""
    return tuple(
        LogHead(writer=chain.writer, sequence=chain.sequence, hash=chain.hash)
        for chain in chains
        if chain.sequence > 0
    )
