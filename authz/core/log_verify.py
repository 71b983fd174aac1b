"""Verifying the decision log: what was changed, removed, reordered or cut off (spec section 10).

Pure: the rows, the stored heads and the checkpoints come in as arguments. Nothing here stops at the
first fault, since an auditor wants to know how far the damage goes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from authz.core.log_chain import (
    StoredRecord,
    expected_columns,
    genesis_hash,
    is_hash,
    parse_record,
    record_hash,
)

MAX_UNCOVERED_RECORDS = 4000
MAX_UNCOVERED_MS = 60_000
"""How far a log may go beyond its last checkpoint: a service writes one after 1000 records or 5 seconds,
and before the first record after a restart. The rest is slack for batches and slow disks."""


class FindingKind(StrEnum):
    """What is wrong with a log. The values are stable: `authz log verify --json` prints them."""

    CHANGED = "changed"
    """The text or the stored hash is not what was written."""
    UNLINKED = "unlinked"
    """The record does not follow the one before it: one of the two was replaced."""
    MISSING = "missing"
    REORDERED = "reordered"
    DUPLICATED = "duplicated"
    TRUNCATED = "truncated"
    """Records that a head, a checkpoint or the expected HEAD names are gone from the end."""
    MALFORMED = "malformed"
    """The text is not a record."""
    INDEX_DISAGREES = "index_disagrees"
    """A column that searches select by is not what the text says."""
    HEAD_DISAGREES = "head_disagrees"
    """The stored head, a checkpoint or the expected HEAD names another hash or an older end."""
    CHECKPOINT_INVALID = "checkpoint_invalid"
    """A checkpoint's signature, form or place in the chain of checkpoints is wrong."""
    CHECKPOINT_MISSING = "checkpoint_missing"
    """Records are too old or too many to be without a checkpoint, or one that the anchor names is gone."""
    ANCHOR_INVALID = "anchor_invalid"
    """The anchor file's signature or form is wrong."""
    DATABASE_DAMAGED = "database_damaged"
    """The database's own integrity check failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault. `writer` is empty and `sequence` the number where a checkpoint is at fault."""

    writer: str
    sequence: int
    kind: FindingKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A hash that some other witness (`source`) says a record of this sequence has."""

    sequence: int
    hash: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What the verification of one writer's chain found, and where the chain ends."""

    writer: str
    records: int
    sequence: int
    hash: str
    findings: tuple[Finding, ...]
    uncovered: int = 0
    """Records after the last one that an anchor names."""
    uncovered_from: int = 0
    """The sequence of the first of them."""
    uncovered_ms: int = 0
    """From the first of them to the last, by their own times of recording."""


def verify_chain(writer: str, rows: Iterable[StoredRecord], *, anchors: Iterable[Anchor] = ()) -> ChainReport:
    """Verify one writer's records, in the order in which they are stored.

    `anchors` are hashes that other witnesses (checkpoints) name for some of the records. A dropped
    tail shows only against a witness: pass the report to `check_log_head` as well.
    """
    walk = _ChainWalk(writer, anchors)
    for row in rows:
        walk.take(row)
    return walk.finish()


def check_log_head(report: ChainReport, head: Anchor | None) -> tuple[Finding, ...]:
    """Compare where a chain ends with the head that was stored in the same transaction as its end."""
    if head is None:
        if report.records == 0:
            return ()
        message = "records exist, but the stored head of this writer is gone"
        return (_head_finding(report, FindingKind.HEAD_DISAGREES, message),)
    if type(head.sequence) is not int:
        message = f"{head.source} is malformed"
        return (_head_finding(report, FindingKind.HEAD_DISAGREES, message),)
    if head.sequence > report.sequence:
        message = f"the log ends at record {report.sequence}, but {head.source} is at {head.sequence}"
        return (_head_finding(report, FindingKind.TRUNCATED, message, sequence=report.sequence + 1),)
    if head.sequence < report.sequence:
        message = f"the log ends at record {report.sequence}, but {head.source} is still at {head.sequence}"
        return (_head_finding(report, FindingKind.HEAD_DISAGREES, message),)
    if head.hash != report.hash:
        message = f"{head.source} names another hash for the last record"
        return (_head_finding(report, FindingKind.HEAD_DISAGREES, message),)
    return ()


def check_coverage(report: ChainReport) -> tuple[Finding, ...]:
    """A chain must not go on for long after its last checkpoint: then checkpoints were taken away.

    By the records' own times and not by a clock, so that a log which nobody writes any more may end
    uncovered, as a killed service leaves it. `report` must come from anchors of all checkpoints.
    """
    if report.uncovered <= MAX_UNCOVERED_RECORDS and report.uncovered_ms <= MAX_UNCOVERED_MS:
        return ()
    message = (
        f"no checkpoint covers this record and those after it ({report.uncovered} in all, written over "
        f"{report.uncovered_ms // 1000} seconds); a service writes one after seconds"
    )
    return (_head_finding(report, FindingKind.CHECKPOINT_MISSING, message, sequence=report.uncovered_from),)


def _head_finding(
    report: ChainReport, kind: FindingKind, message: str, *, sequence: int | None = None
) -> Finding:
    at = report.sequence if sequence is None else sequence
    return Finding(writer=report.writer, sequence=at, kind=kind, message=message)


class _ChainWalk:
    """State of one pass over a chain. `_previous` is unknown (`None`) right after a gap."""

    def __init__(self, writer: str, anchors: Iterable[Anchor]) -> None:
        self._writer = writer
        self._findings: list[Finding] = []
        self._anchors: dict[int, list[Anchor]] = {}
        for anchor in anchors:
            self._anchors.setdefault(anchor.sequence, []).append(anchor)
        self._covered = max(self._anchors, default=0)
        self._uncovered = 0
        self._uncovered_from = 0
        self._uncovered_since_ms: int | None = None
        self._last_ms: int | None = None
        self._gaps: list[range] = []
        self._late: set[int] = set()
        self._records = 0
        self._last = 0
        self._previous: str | None = genesis_hash(writer)
        self._last_hash = genesis_hash(writer)

    def take(self, row: StoredRecord) -> None:
        self._records += 1
        if type(row.sequence) is not int:
            self._find(0, FindingKind.MALFORMED, "a record has no place: its sequence is not a number")
            return
        if row.writer != self._writer:
            self._find(row.sequence, FindingKind.REORDERED, f"the record belongs to writer `{row.writer}`")
        claimed_previous = self._check_text(row)
        if row.sequence <= self._last:
            self._take_late(row.sequence)
            return
        if row.sequence > self._last + 1:
            self._gaps.append(range(self._last + 1, row.sequence))
            self._previous = None
        if self._previous is not None and claimed_previous not in (None, self._previous):
            message = "the record does not follow the one before it"
            self._find(row.sequence, FindingKind.UNLINKED, message)
        for anchor in self._anchors.pop(row.sequence, ()):
            if anchor.hash != row.hash:
                message = f"{anchor.source} names another hash for this record"
                self._find(row.sequence, FindingKind.HEAD_DISAGREES, message)
        if row.sequence > self._covered:
            self._take_uncovered(row)
        # Goes on from the stored hash, so that one changed record is one finding and not all the rest.
        self._last, self._previous, self._last_hash = row.sequence, row.hash, row.hash

    def finish(self) -> ChainReport:
        for gap in self._gaps:
            self._find_gap(gap)
        beyond = [anchor for at, named in self._anchors.items() if at > self._last for anchor in named]
        if beyond:
            furthest = max(beyond, key=lambda anchor: anchor.sequence)
            message = f"the log ends at record {self._last}, but {furthest.source} names {furthest.sequence}"
            self._find(self._last + 1, FindingKind.TRUNCATED, message)
        return ChainReport(
            writer=self._writer,
            records=self._records,
            sequence=self._last,
            hash=self._last_hash,
            findings=tuple(self._findings),
            uncovered=self._uncovered,
            uncovered_from=self._uncovered_from,
            uncovered_ms=(self._last_ms or 0) - (self._uncovered_since_ms or 0),
        )

    def _take_uncovered(self, row: StoredRecord) -> None:
        self._uncovered += 1
        if self._uncovered == 1:
            self._uncovered_from = row.sequence
        if type(row.recorded_at_ms) is int:
            self._last_ms = row.recorded_at_ms
            if self._uncovered_since_ms is None:
                self._uncovered_since_ms = row.recorded_at_ms

    def _take_late(self, sequence: int) -> None:
        if sequence not in self._late and any(sequence in gap for gap in self._gaps):
            self._late.add(sequence)
            self._find(sequence, FindingKind.REORDERED, "the record stands after a later one")
        else:
            self._find(sequence, FindingKind.DUPLICATED, "a record of this sequence is there already")

    def _find_gap(self, gap: range) -> None:
        start = gap.start
        for end in [*sorted(self._late.intersection(gap)), gap.stop] if self._late else [gap.stop]:
            if start < end:
                span = f"record {start} is" if end == start + 1 else f"records {start} to {end - 1} are"
                self._find(start, FindingKind.MISSING, f"{span} missing")
            start = end + 1

    def _check_text(self, row: StoredRecord) -> str | None:
        """Check a record by itself. Returns the previous hash that it names, `None` when it names none."""
        try:
            record = parse_record(row.text)
            expected = expected_columns(record)
        except (ValueError, RecursionError, OverflowError) as fault:
            self._find(row.sequence, FindingKind.MALFORMED, f"the text is not a record: {fault}")
            return None
        previous = record.get("previous")
        if not isinstance(previous, str) or not is_hash(previous):
            self._find(row.sequence, FindingKind.MALFORMED, "the text names no previous hash")
            previous = None
        elif record_hash(previous, row.text) != row.hash:
            self._find(row.sequence, FindingKind.CHANGED, "the text and its stored hash do not agree")
        for name, value in expected.items():
            stored: object = getattr(row, name)
            if type(stored) is not type(value) or stored != value:
                kind = FindingKind.REORDERED if name == "sequence" else FindingKind.INDEX_DISAGREES
                self._find(row.sequence, kind, f"column `{name}` is not what the text says")
        return previous

    def _find(self, sequence: int, kind: FindingKind, message: str) -> None:
        self._findings.append(Finding(writer=self._writer, sequence=sequence, kind=kind, message=message))
