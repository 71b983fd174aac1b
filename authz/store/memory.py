"""The ledger in memory, for tests: the same chain, conflicts and searches, and nothing durable."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from authz.core.log_chain import (
    StoredRecord,
    encode_rule,
    encode_rules,
    frame_record,
    genesis_hash,
    record_hash,
)
from authz.errors import StoreUnavailable
from authz.model.capability import LinkQuery, LinkRecord, RevocationRecord
from authz.model.operation import OperationRecord, OperationWrite
from authz.model.record import CommitOutcome, Committed, Conflict, Event, EventQuery, EventType, StoredEvent
from authz.ports import Clock, CommitUnit, Credential
from authz.store.approval_batch import touches_approvals
from authz.store.event_search import MOVES_PREFIX, clamp_limit
from authz.store.memory_accounts import MemoryAccounts
from authz.store.memory_approvals import MemoryApprovals, ReadsMemoryApprovals
from authz.store.memory_capabilities import MemoryCapabilities
from authz.store.memory_limits import MemoryLimits
from authz.store.memory_notices import MemoryOutbox
from authz.store.operation_rows import read_basis, write_basis
from authz.store.unit_check import check_unit
from authz.store.vault import Vault


class MemoryLedger(ReadsMemoryApprovals, MemoryAccounts):
    """`authz.ports.Ledger` and `authz.ports.CredentialSource` without a disk.

    Set `unavailable` to a message to have every call refuse with `StoreUnavailable`, as a store does
    that lost its disk; `None` lets it recover.
    """

    def __init__(self, *, clock: Clock, writer: str = "0123456789ab", vault_key: bytes | None = None) -> None:
        """`vault_key`: see `authz.store.vault.Vault`. Without it nothing can be kept."""
        self.writer = writer
        self.unavailable: str | None = None
        self._clock = clock
        self._records: list[StoredRecord] = []
        self._operations: dict[str, tuple[str, OperationRecord]] = {}
        self._due: dict[str, int] = {}
        self._limits = MemoryLimits()
        self._capabilities = MemoryCapabilities()
        self._vault = Vault(vault_key)
        self._approvals = MemoryApprovals(self._vault)
        self.outbox = MemoryOutbox()
        self._exposure: dict[str, set[str]] = {}
        self._credentials: dict[str, Credential] = {}
        self._start_accounts()

    @property
    def records(self) -> Sequence[StoredRecord]:
        """Everything that was written, oldest first: what `verify_chain` takes."""
        return tuple(self._records)

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        """See `authz.ports.Ledger.commit`. Gives way once, as a real commit does."""
        check_unit(unit)
        self._vault.check_can_keep(unit.kept)
        await asyncio.sleep(0)
        self._check_available()
        # No await from here on: the whole unit is written, or nothing of it.
        if unit.proof is not None and (replayed := self._capabilities.check(unit.proof)) is not None:
            return replayed
        reservations, now_ms = tuple(unit.reservations), self._clock.now_ms() if unit.reservations else 0
        if reservations and (reached := self._limits.check(reservations, now_ms)) is not None:
            return reached
        if unit.operation is not None and not self._is_current(unit.operation):
            return Conflict(key=unit.operation.key)
        at_ms = self._clock.now_ms() if touches_approvals(unit) or unit.kept else 0
        if (moved := self._approvals.check(unit, at_ms)) is not None:
            return moved
        if (refused := self.write_accounts(unit.accounts)) is not None:
            return refused
        record = self._next_record(unit.event)
        self._records.append(record)
        if unit.operation is not None:
            self._write_operation(unit.operation)
        if not unit.only_checked:
            self._limits.take(reservations, unit.event.decision_id, now_ms)
        if unit.releases:
            self._limits.release(unit.releases, unit.event.tenant)
        for exposure in (*([] if unit.exposure is None else [unit.exposure]), *unit.delegated):
            self._exposure.setdefault(exposure.session_key, set()).update(exposure.labels)
        self._capabilities.write(unit)
        self._approvals.write(unit, at_ms)
        self.outbox.write(unit.notices)
        return Committed(
            writer=record.writer,
            sequence=record.sequence,
            recorded_at_ms=record.recorded_at_ms,
            hash=record.hash,
        )

    async def find_operation(self, key: str) -> OperationRecord | None:
        """See `authz.ports.Ledger.find_operation`."""
        self._check_available()
        found = self._operations.get(key)
        return None if found is None else found[1]

    async def due_operations(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        """See `authz.ports.Ledger.due_operations`."""
        self._check_available()
        due = ((self._due[key], tenant, key) for key, (tenant, _) in self._operations.items())
        return [(tenant, key) for at_ms, tenant, key in sorted(due) if 0 < at_ms <= now_ms][:most]

    async def session_exposure(self, *keys: str) -> frozenset[str]:
        """See `authz.ports.Ledger.session_exposure`."""
        self._check_available()
        return frozenset().union(*(self._exposure.get(key, ()) for key in keys))

    async def search(self, query: EventQuery) -> Sequence[StoredEvent]:
        """See `authz.ports.Ledger.search`."""
        self._check_available()
        found = [record for record in self._records if _is_match(record, query)]
        found.sort(key=_position, reverse=True)
        return [_stored_event(record) for record in found[: clamp_limit(query.limit)]]

    async def is_ready(self) -> bool:
        """See `authz.ports.Ledger.is_ready`."""
        return self.unavailable is None

    async def find_event(self, tenant: str, decision_id: str) -> StoredEvent | None:
        """See `authz.ports.Ledger.find_event`."""
        self._check_available()
        if not decision_id:
            return None
        found = [
            record
            for record in self._records
            if (record.tenant, record.decision_id) == (tenant, decision_id)
            and record.type == EventType.DECISION_MADE
        ]
        return _stored_event(max(found, key=_position)) if found else None

    async def find_moves(self, tenant: str, decision_id: str) -> Sequence[StoredEvent]:
        """See `authz.ports.Ledger.find_moves`."""
        self._check_available()
        found = [
            record
            for record in self._records
            if decision_id
            and (record.tenant, record.decision_id) == (tenant, decision_id)
            and record.type.startswith(MOVES_PREFIX)
        ]
        return [_stored_event(record) for record in sorted(found, key=_position)]

    async def find_link(self, tenant: str, link_hash: str) -> LinkRecord | None:
        """See `authz.ports.Ledger.find_link`."""
        self._check_available()
        return self._capabilities.find_link(tenant, link_hash)

    async def find_links(self, query: LinkQuery) -> Sequence[LinkRecord]:
        """See `authz.ports.Ledger.find_links`."""
        self._check_available()
        return self._capabilities.find_links(query)

    async def revocations_since(self, sequence: int) -> Sequence[RevocationRecord]:
        """See `authz.ports.Ledger.revocations_since`."""
        self._check_available()
        return self._capabilities.revocations_since(sequence)

    async def counters_used(self, keys: Sequence[str]) -> Mapping[str, int]:
        """See `authz.ports.Ledger.counters_used`."""
        self._check_available()
        return {key: self._limits.used(key) for key in keys}

    async def find_credential(self, key_digest: str) -> Credential | None:
        """See `authz.ports.CredentialSource`."""
        self._check_available()
        return self._credentials.get(key_digest)

    def add_credential(self, key_digest: str, credential: Credential) -> None:
        """Make a credential known."""
        self._credentials[key_digest] = credential

    def revoke_credential(self, key_digest: str) -> None:
        """Forget a credential."""
        self._credentials.pop(key_digest, None)

    async def close(self) -> None:
        """Refuse every later call, as a closed store does."""
        self.unavailable = "the store is closed"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_available(self) -> None:
        if self.unavailable is not None:
            raise StoreUnavailable(self.unavailable)

    def _is_current(self, write: OperationWrite) -> bool:
        found = self._operations.get(write.key)
        if write.expected_version is None or found is None:
            return write.expected_version is None and found is None
        tenant, record = found
        return tenant == write.tenant and record.version == write.expected_version

    def _write_operation(self, write: OperationWrite) -> None:
        record = OperationRecord(
            key=write.key,
            fingerprint=write.fingerprint,
            state=write.state,
            decision_id=write.decision_id,
            expires_at_ms=write.expires_at_ms,
            version=(write.expected_version or 0) + 1,
            settles=write.settles,
            cancel_requested=write.cancel_requested,
            attempt=write.attempt,
            first_at_ms=write.first_at_ms,
            settled_at_ms=write.settled_at_ms,
            external_id=write.external_id,
            result_digest=write.result_digest,
            ticketed=write.ticketed,
            # By way of a row, so that it is found as any other store has it.
            basis=read_basis(write_basis(write.basis)),
            approval=write.approval,
        )
        self._due[write.key] = write.due_ms
        self._operations[write.key] = (write.tenant, record)

    def _next_record(self, event: Event) -> StoredRecord:
        previous = self._records[-1].hash if self._records else genesis_hash(self.writer)
        sequence, recorded_at_ms = len(self._records) + 1, self._clock.now_ms()
        text = frame_record(
            event, writer=self.writer, sequence=sequence, previous=previous, recorded_at_ms=recorded_at_ms
        )
        return StoredRecord(
            writer=self.writer,
            sequence=sequence,
            text=text,
            hash=record_hash(previous, text),
            type=str(event.type),
            tenant=event.tenant,
            decision_id=event.decision_id,
            trace_id=event.trace_id,
            agent=event.agent,
            user=event.user,
            tool=event.tool,
            effect=event.effect,
            rules=encode_rules(event.rules),
            occurred_at_ms=event.occurred_at_ms,
            recorded_at_ms=recorded_at_ms,
        )


def _position(record: StoredRecord) -> tuple[int, str, int]:
    return (record.recorded_at_ms, record.writer, record.sequence)


def _stored_event(record: StoredRecord) -> StoredEvent:
    return StoredEvent(
        writer=record.writer,
        sequence=record.sequence,
        recorded_at_ms=record.recorded_at_ms,
        hash=record.hash,
        text=record.text,
    )


def _is_match(record: StoredRecord, query: EventQuery) -> bool:
    equal = ("trace_id", "agent", "user", "tool", "effect", "type")
    return (
        record.tenant == query.tenant
        and all(getattr(query, name) in ("", getattr(record, name)) for name in equal)
        and (not query.rule or f"|{encode_rule(query.rule)}|" in record.rules)
        and (query.since_ms is None or record.recorded_at_ms >= query.since_ms)
        and (query.until_ms is None or record.recorded_at_ms <= query.until_ms)
        and (query.before is None or _position(record) < query.before)
    )
