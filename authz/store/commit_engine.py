"""What one commit writes, in which order, and how the hash chain goes on. Knows no driver.

The engine owns one connection of one writer and is used by one thread. The end of the chain is kept in
memory only while it is known to be durable: after any failure it is read again from the store before
the next record is written, so a failed commit can neither leave a gap nor fork the chain.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from authz.core.log_chain import check_record_hash, encode_rules, frame_record, genesis_hash, record_hash
from authz.core.log_checkpoint import (
    CHECKPOINT_TYPE,
    GENESIS_CHECKPOINT,
    LogHead,
    Signer,
    checkpoint_hash,
    checkpoint_payload,
    format_head,
    unverified_heads,
)
from authz.errors import AuthzError, LogCorrupt, StoreUnavailable
from authz.model.account_writes import AccountMoved
from authz.model.approval_writes import ApprovalMoved
from authz.model.limit import LimitReached
from authz.model.record import CommitOutcome, Committed, Conflict, Replayed
from authz.ports import Clock, CommitUnit
from authz.store.account_writes import write_accounts
from authz.store.approval_writes import ApprovalWrites
from authz.store.capability_writes import CapabilityWrites, RevocationSweep
from authz.store.limit_counters import LimitCounters
from authz.store.notice_writes import NoticeWrites
from authz.store.operation_writes import OperationWrites
from authz.store.proof_uses import ProofSweep, ProofUses
from authz.store.statements import Statements
from authz.store.vault import Vault
from authz.store.vault_writes import VaultSweep, VaultWrites
from authz.store.write_connection import NothingWritten, SqlValue, WriteConnection

_T = TypeVar("_T")
Refused = Replayed | LimitReached | Conflict | ApprovalMoved | AccountMoved
_ATTEMPTS = 3
"""How often a batch is written before it is refused, where each failure is known to have left nothing."""
_BALLAST = "ballast"
"""The row of `store_meta` that a probe writes. One that a crash left is replaced by the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Where the chain durably ends. `checkpointed` is the last sequence that a checkpoint covers."""

    sequence: int
    hash: str
    checkpointed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """A checkpoint that is now durable. `head` is the HEAD text to keep outside."""

    number: int
    head: str
    hash: str
    token: str


class CommitEngine:
    """Writes batches of units and signed checkpoints through one connection."""

    def __init__(
        self,
        connection: WriteConnection,
        statements: Statements,
        *,
        writer: str,
        clock: Clock,
        claim_writer: Callable[[], str] | None = None,
        vault: Vault | None = None,
    ) -> None:
        """`claim_writer` is asked, whenever the end of the chain is read, which chain is this process's.

        Without it the chain is `writer`'s for good.
        """
        self._connection = connection
        self._sql = statements
        self._writer = writer
        self._claim_writer = claim_writer
        self._clock = clock
        self._vault = vault or Vault(None)
        self._tail: Tail | None = None
        self._swept_to = ""
        self._proof_sweep = ProofSweep()
        self._revocation_sweep = RevocationSweep()
        self._vault_sweep = VaultSweep()
        self._seen = 0
        """The highest sequence that was ever acknowledged: a store that falls behind it lost records."""

    @property
    def records_since_checkpoint(self) -> int:
        """Durable records that no checkpoint covers yet; 0 while the end of the chain is not known."""
        return 0 if self._tail is None else self._tail.sequence - self._tail.checkpointed

    def load(self) -> Tail:
        """Read the end of the chain and check it. Raises `LogCorrupt`, `StoreUnavailable`."""
        try:
            if self._claim_writer is not None:
                self._go_on_as(self._claim_writer())
            self._connection.begin()
            self._connection.execute(self._sql.insert_head, (self._writer, 0, genesis_hash(self._writer)))
            tail = self._check_tail()
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        self._tail, self._seen = tail, tail.sequence
        return tail

    def commit_batch(self, units: Sequence[CommitUnit]) -> list[CommitOutcome]:
        """Write all units in one transaction, but none that was replayed, reached a limit or is in conflict.

        Raises `StoreUnavailable`: then nothing of any unit was acknowledged, and none may be answered.
        """
        return _retried(lambda: self._commit_once(units))

    def _commit_once(self, units: Sequence[CommitUnit]) -> list[CommitOutcome]:
        with self._transaction() as tail:
            outcomes, moved = self._write(units, tail)
        self._tail, self._seen = moved, moved.sequence
        return outcomes

    def write_checkpoint(self, signer: Signer) -> WrittenCheckpoint | None:
        """Sign and store the heads of all writers; `None` when nothing is new.

        Raises `StoreUnavailable`, also when the signer fails; the records are durable either way.
        """
        tail = self._tail
        if tail is None or tail.sequence == tail.checkpointed:
            return None
        return _retried(lambda: self._checkpoint_once(signer))

    def _checkpoint_once(self, signer: Signer) -> WrittenCheckpoint:
        with self._transaction() as tail:
            written = self._sign_heads(tail, signer)
        self._tail = Tail(sequence=tail.sequence, hash=tail.hash, checkpointed=tail.sequence)
        return written

    def probe(self, size_bytes: int) -> None:
        """Commit a row of `size_bytes` and take it away again. Raises `StoreUnavailable`.

        A write that changes one page may fit where no record does, and one that is rolled back may never
        reach the disk; so this one is as large as a record and is committed.
        """
        # Random, so that no file system can store it in less.
        ballast = secrets.token_hex(size_bytes // 2)
        _retried(lambda: self._probe_once(ballast))

    def _probe_once(self, ballast: str) -> None:
        with self._transaction() as tail:
            self._move_head(tail, tail.sequence, tail.hash)
            self._connection.execute(self._sql.write_ballast, (_BALLAST, ballast))
        with self._transaction():
            self._connection.execute(self._sql.remove_ballast, (_BALLAST,))

    def close(self) -> None:
        """Release the connection. The engine cannot be used afterwards."""
        self._tail = None
        self._connection.close()

    @property
    def writer(self) -> str:
        """The chain that is written now."""
        return self._writer

    def _go_on_as(self, writer: str) -> None:
        if writer != self._writer:
            # Another chain: what was acknowledged on the old one says nothing about its length.
            self._writer, self._seen = writer, 0

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Tail]:
        """A transaction at the end of the chain, durable when the block is left without a fault."""
        try:
            tail = self._tail if self._tail is not None else self.load()
            self._connection.begin()
            yield tail
            self._connection.commit()
        except BaseException as fault:
            # What is durable is not known after a failed COMMIT, so nothing is assumed about it.
            self._tail = None
            self._connection.rollback()
            if isinstance(fault, Exception):
                raise _as_unavailable(fault) from fault
            raise

    def _write(self, units: Sequence[CommitUnit], tail: Tail) -> tuple[list[CommitOutcome], Tail]:
        recorded_at_ms = self._clock.now_ms()
        sequence, previous = tail.sequence, tail.hash
        outcomes: list[CommitOutcome] = []
        events: list[Sequence[SqlValue]] = []
        exposures: list[Sequence[SqlValue]] = []
        proofs = ProofUses(self._connection, self._sql.capabilities, units)
        limits = LimitCounters(self._connection, self._sql.limits, units, recorded_at_ms)
        operations = OperationWrites(self._connection, self._sql, units, proofs)
        capabilities = CapabilityWrites(self._connection, self._sql)
        approvals = ApprovalWrites(self._connection, self._sql.approvals, units, recorded_at_ms)
        vault = VaultWrites(self._connection, self._sql.approvals, self._vault)
        notices = NoticeWrites(self._connection, self._sql)
        for index, unit in enumerate(units):
            refused = _check(index, unit, proofs, limits, operations, approvals)
            # Last, since it writes what holds: nothing refuses the unit after it.
            refused = refused or write_accounts(self._connection, self._sql.accounts, unit.accounts)
            if refused is not None:
                outcomes.append(refused)
                continue
            sequence += 1
            text = frame_record(
                unit.event,
                writer=self._writer,
                sequence=sequence,
                previous=previous,
                recorded_at_ms=recorded_at_ms,
            )
            previous = record_hash(previous, text)
            events.append(event_row(unit, self._writer, sequence, recorded_at_ms, text, previous))
            if unit.proof is not None:
                proofs.use(unit.proof)
            if unit.reservations and not unit.only_checked:
                limits.take(unit.reservations, unit.event.decision_id)
            if unit.releases:
                limits.release(unit.releases, unit.event.tenant)
            if unit.exposure is not None:
                key = unit.exposure.session_key
                exposures += [(key, label) for label in sorted(unit.exposure.labels)]
            capabilities.add(unit)
            approvals.add(unit)
            vault.add(unit)
            notices.add(unit)
            committed = Committed(
                writer=self._writer, sequence=sequence, recorded_at_ms=recorded_at_ms, hash=previous
            )
            outcomes.append(committed)
        operations.write()
        proofs.write(self._proof_sweep, recorded_at_ms)
        if exposures:
            self._connection.execute_many(self._sql.insert_exposure, exposures)
        if events:
            self._connection.execute_many(self._sql.insert_event, events)
            self._move_head(tail, sequence, previous)
        self._swept_to = limits.write(self._swept_to)
        capabilities.write(self._revocation_sweep, recorded_at_ms)
        approvals.write()
        vault.write(self._vault_sweep, recorded_at_ms)
        notices.write()
        return outcomes, Tail(sequence=sequence, hash=previous, checkpointed=tail.checkpointed)

    def _move_head(self, tail: Tail, sequence: int, last_hash: str) -> None:
        # By compare-and-set, so that a second process on the same chain fails instead of forking it.
        values = (sequence, last_hash, self._writer, tail.sequence, tail.hash)
        if self._connection.execute(self._sql.move_head, values) != 1:
            raise LogCorrupt("the stored head of the log is not where this process left it")

    def _check_tail(self) -> Tail:
        """What the store says of this chain, checked against itself and the newest checkpoint."""
        head = self._connection.fetch_one(self._sql.select_head, (self._writer,))
        last = self._connection.fetch_one(self._sql.select_last_sequence, (self._writer,))
        if head is None or head[0] != (0 if last is None else last[0]):
            raise LogCorrupt(_corrupt("its last record is not the one that its stored head names"))
        sequence, head_hash = _integer(head[0]), str(head[1])
        if sequence < self._seen:
            raise LogCorrupt(_corrupt(f"it ends before record {self._seen}, which was acknowledged"))
        if sequence == 0 and head_hash != genesis_hash(self._writer):
            raise LogCorrupt(_corrupt("its stored head is not how a log begins"))
        if sequence > 0:
            self._check_record(sequence, head_hash)
        return Tail(sequence=sequence, hash=head_hash, checkpointed=self._check_checkpoint(sequence))

    def _check_record(self, sequence: int, expected_hash: str) -> None:
        row = self._connection.fetch_one(self._sql.select_event, (self._writer, sequence))
        if row is None or row[1] != expected_hash:
            raise LogCorrupt(
                _corrupt(f"record {sequence} is gone or another than its head or checkpoint says")
            )
        try:
            check_record_hash(str(row[0]), expected_hash)
        except ValueError as fault:
            raise LogCorrupt(_corrupt(f"record {sequence} was changed")) from fault

    def _check_checkpoint(self, sequence: int) -> int:
        """The last sequence of this writer that the newest checkpoint covers."""
        row = self._connection.fetch_one(self._sql.select_checkpoint)
        if row is None:
            return 0
        try:
            heads = unverified_heads(str(row[2]))
        except ValueError as fault:
            raise LogCorrupt(_corrupt("its newest checkpoint is malformed")) from fault
        own = next((head for head in heads if head.writer == self._writer), None)
        if own is None:
            return 0
        if own.sequence > sequence:
            raise LogCorrupt(_corrupt(f"it ends before record {own.sequence}, which a checkpoint names"))
        self._check_record(own.sequence, own.hash)
        return own.sequence

    def _sign_heads(self, tail: Tail, signer: Signer) -> WrittenCheckpoint:
        rows = self._connection.fetch_all(self._sql.select_heads)
        stored = [LogHead(writer=str(row[0]), sequence=_integer(row[1]), hash=str(row[2])) for row in rows]
        heads = [head for head in stored if head.sequence > 0]
        # Never sign what this process does not itself know to be the end of its chain.
        if LogHead(writer=self._writer, sequence=tail.sequence, hash=tail.hash) not in heads:
            raise LogCorrupt("the stored head of the log is not where this process left it")
        last = self._connection.fetch_one(self._sql.select_checkpoint)
        number = 1 if last is None else _integer(last[0]) + 1
        previous = GENESIS_CHECKPOINT if last is None else str(last[1])
        at_ms = self._clock.now_ms()
        payload = checkpoint_payload(number=number, previous=previous, heads=heads, at_ms=at_ms)
        token = signer.sign({"typ": CHECKPOINT_TYPE}, payload)
        token_hash = checkpoint_hash(token)
        self._connection.execute(self._sql.insert_checkpoint, (number, at_ms, token, token_hash))
        return WrittenCheckpoint(number=number, head=format_head(heads), hash=token_hash, token=token)


def _check(
    index: int,
    unit: CommitUnit,
    proofs: ProofUses,
    limits: LimitCounters,
    operations: OperationWrites,
    approvals: ApprovalWrites,
) -> Refused | None:
    """Why the unit at that place of the batch does not go through; `None` where its operation has moved.

    Whatever can refuse it comes before anything of it counts as written, and in this order: a replay is told
    before a limit, a limit before a conflict, and a conflict before an approval that is not as it was.
    """
    refused: Refused | None = None
    if unit.proof is not None:
        refused = proofs.check(unit.proof)
    if refused is None and unit.reservations:
        refused = limits.check(unit.reservations)
    if refused is not None:
        return refused
    moved = approvals.check(unit)
    if unit.operation is not None:
        # A unit that does not go through for its approval moves no operation.
        refused = (
            operations.move(index, unit.operation) if moved is None else operations.check(unit.operation)
        )
    return refused or moved


def _retried(attempt: Callable[[], _T]) -> _T:
    """Try again what is known to have left nothing, as when a server undid it or went away before."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except NothingWritten:
            continue
    return attempt()


def event_row(
    unit: CommitUnit, writer: str, sequence: int, recorded_at_ms: int, text: str, text_hash: str
) -> Sequence[SqlValue]:
    """The columns of `events`, in table order."""
    event = unit.event
    return (
        *(writer, sequence, event.tenant, str(event.type), event.decision_id, event.trace_id),
        *(event.agent, event.user, event.tool, event.effect, encode_rules(event.rules)),
        *(recorded_at_ms, event.occurred_at_ms, text, text_hash),
    )


def _as_unavailable(fault: Exception) -> StoreUnavailable:
    if isinstance(fault, StoreUnavailable):
        return fault
    if isinstance(fault, AuthzError):
        return StoreUnavailable(fault.message, code=fault.code)
    return StoreUnavailable("the durable store did not take the record")


def _corrupt(what: str) -> str:
    return f"the decision log cannot be continued: {what}; run `authz log verify`"


def _integer(value: SqlValue) -> int:
    if type(value) is not int:
        raise LogCorrupt(_corrupt("a sequence is not a number"))
    return value
