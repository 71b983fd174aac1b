"""Reading the whole log in one snapshot, also beside a running server, and verifying it."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Select, select

from authz.core.log_anchor import AnchorReport, verify_anchor
from authz.core.log_chain import StoredRecord
from authz.core.log_checkpoint import LogHead, StoredCheckpoint, check_expected_head, verify_checkpoints
from authz.core.log_verify import (
    Anchor,
    ChainReport,
    Finding,
    FindingKind,
    check_coverage,
    check_log_head,
    verify_chain,
)
from authz.store.database import Database
from authz.store.log_source import open_log_source
from authz.store.tables import EVENTS, LOG_CHECKPOINTS, LOG_HEADS

_RECORD_FIELDS = tuple(field.name for field in fields(StoredRecord))
_CHECKPOINT_FIELDS = tuple(field.name for field in fields(StoredCheckpoint))
_LAST_INTEGER = 2**63 - 1


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

    def __init__(self, database: Database) -> None:
        self._source = open_log_source(database)

    def find_damage(self) -> list[str]:
        """What the database's own check says is wrong with it, such as an index that skips rows."""
        return self._source.find_damage()

    def chains(self) -> Iterator[tuple[str, Iterator[StoredRecord]]]:
        """Every writer of a record with its records by sequence; use them up before the next.

        In one pass, and not by asking for each writer's: a changed name may be none that SQLite takes.
        """
        columns = [EVENTS.c[name] for name in _RECORD_FIELDS]
        rows = self._source.stream(select(*columns).order_by(EVENTS.c.writer, EVENTS.c.sequence))
        records = (StoredRecord(**dict(zip(_RECORD_FIELDS, row, strict=True))) for row in rows)
        for writer, of_writer in itertools.groupby(records, key=lambda record: record.writer):
            yield _as_name(writer), of_writer

    def stored_heads(self) -> dict[str, Anchor]:
        """The heads that were written together with the records, by writer."""
        rows = self._source.fetch(select(LOG_HEADS.c.writer, LOG_HEADS.c.sequence, LOG_HEADS.c.hash))
        return {
            _as_name(writer): Anchor(sequence=sequence, hash=head_hash, source="the stored head")
            for writer, sequence, head_hash in rows
        }

    def checkpoints(self) -> Iterator[StoredCheckpoint]:
        """All checkpoints by number."""
        columns = [LOG_CHECKPOINTS.c[name] for name in _CHECKPOINT_FIELDS]
        for row in self._source.stream(select(*columns).order_by(LOG_CHECKPOINTS.c.number)):
            yield StoredCheckpoint(**dict(zip(_CHECKPOINT_FIELDS, row, strict=True)))

    def has_checkpoints(self) -> bool:
        """Whether there is anything to check with a key."""
        return bool(self._source.fetch(select(LOG_CHECKPOINTS.c.number).limit(1)))

    def find_checkpoint_hash(self, number: int) -> str | None:
        """The stored hash of one checkpoint."""
        if number > _LAST_INTEGER:
            return None
        return self._find(select(LOG_CHECKPOINTS.c.hash).where(LOG_CHECKPOINTS.c.number == number))

    def find_hash(self, writer: str, sequence: int) -> str | None:
        """The stored hash of one record."""
        if sequence > _LAST_INTEGER:
            return None  # no database would even take the question
        at = (EVENTS.c.writer == writer, EVENTS.c.sequence == sequence)
        return self._find(select(EVENTS.c.hash).where(*at))

    def close(self) -> None:
        """Release the snapshot."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, statement: Select[Any]) -> str | None:
        rows = self._source.fetch(statement)
        return str(rows[0][0]) if rows else None


def verify_log(
    snapshot: LogSnapshot,
    expected_keys: Mapping[str, Ed25519PublicKey],
    expected_head: Iterable[LogHead] = (),
    *,
    withdrawn: Collection[str] = (),
    anchor: str | None = None,
) -> LogReport:
    """Verify every chain, the stored heads, the checkpoints (keys by thumbprint) and an expected HEAD.

    Keys of `withdrawn` prove nothing without a later one (`verify_checkpoints`).
    `anchor` is what the anchor file held before the snapshot was taken, `None` where there is none.
    """
    kind = FindingKind.DATABASE_DAMAGED
    damages = snapshot.find_damage()
    findings = [Finding(writer="", sequence=0, kind=kind, message=damage) for damage in damages]
    checkpoints = verify_checkpoints(snapshot.checkpoints(), expected_keys, withdrawn=withdrawn)
    findings += checkpoints.findings
    anchored = AnchorReport(anchors={}, findings=())
    if anchor is not None:
        anchored = verify_anchor(anchor, expected_keys, snapshot.find_checkpoint_hash)
    findings += anchored.findings
    stored_heads = snapshot.stored_heads()
    chains: dict[str, ChainReport] = {}

    def verify(writer: str, records: Iterable[StoredRecord]) -> None:
        anchors = [*checkpoints.anchors.get(writer, ())]
        extra = anchored.anchors.get(writer)
        # Usually it is the last checkpoint, and one fault need not be told twice.
        if extra is not None and (extra.sequence, extra.hash) not in {(a.sequence, a.hash) for a in anchors}:
            anchors.append(extra)
        chain = chains[writer] = verify_chain(writer, records, anchors=anchors)
        findings.extend(chain.findings)
        findings.extend(check_coverage(chain))
        findings.extend(check_log_head(chain, stored_heads.get(writer)))

    for writer, records in snapshot.chains():
        verify(writer, records)
    # Whoever is only named, by a head or a checkpoint, has lost all its records.
    for writer in sorted({*stored_heads, *checkpoints.anchors, *anchored.anchors} - chains.keys()):
        verify(writer, ())
    findings += check_expected_head(expected_head, snapshot.find_hash)
    return LogReport(
        records=sum(chain.records for chain in chains.values()),
        checkpoints=checkpoints.checkpoints,
        checkpointed=sum(anchors[-1].sequence for anchors in checkpoints.anchors.values()),
        heads=read_heads(chains.values()),
        findings=tuple(findings),
    )


def _as_name(writer: object) -> str:
    """A writer's name as it was read, also where somebody stored no text in its place."""
    return writer if isinstance(writer, str) else ascii(writer)


def read_heads(chains: Iterable[ChainReport]) -> tuple[LogHead, ...]:
    """Where chains end, without those that hold nothing."""
    return tuple(
        LogHead(writer=chain.writer, sequence=chain.sequence, hash=chain.hash)
        for chain in chains
        if chain.sequence > 0
    )
