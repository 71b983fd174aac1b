"""The durable store on SQLite: `authz.ports.Ledger` and `authz.ports.CredentialSource` in one process."""

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Select, Update

from authz.core.log_checkpoint import Signer
from authz.model.capability import LinkQuery, LinkRecord, RevocationRecord
from authz.model.operation import OperationRecord
from authz.model.record import CommitOutcome, Committed, EventQuery, StoredEvent
from authz.ports import Clock, CommitUnit, Credential
from authz.store.account_reads import AccountReader
from authz.store.anchor_file import AnchorFile
from authz.store.api_keys import ApiKey, CreatedApiKey, create_api_key, list_api_keys, revoke_api_key
from authz.store.approval_reads import ApprovalSession, ReadsApprovals
from authz.store.commit_engine import CommitEngine
from authz.store.credential_cache import CredentialCache
from authz.store.database import run_beside
from authz.store.exposure_cache import ExposureCache
from authz.store.group_commit import CommitLimits, GroupCommitter
from authz.store.readiness import Readiness
from authz.store.sqlite_connection import (
    STATEMENTS,
    ProcessLock,
    SqliteWriteConnection,
    bind,
    make_private,
)
from authz.store.sqlite_reads import SqliteReader
from authz.store.vault import Vault
from authz.store.wal_checkpointer import WalCheckpointer, empty_wal
from authz.store.write_connection import WriteConnection

DEFAULT_LIMITS = CommitLimits()


class SqliteLedger(AccountReader, ReadsApprovals):
    """Use `open`. One process at a time; commits of many tasks share transactions."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        signer: Signer,
        limits: CommitLimits,
        busy_timeout_ms: int,
        monotonic: Callable[[], float],
        vault_key: bytes | None,
        wrap_connection: Callable[[WriteConnection], WriteConnection],
    ) -> None:
        self._path = path
        self._clock = clock
        self._credentials = CredentialCache(monotonic)
        self._exposures = ExposureCache()
        self._vault = Vault(vault_key)
        with contextlib.ExitStack() as stack:
            lock = ProcessLock(path)
            stack.callback(lock.release)
            make_private(path)
            stack.callback(empty_wal, path)
            connection = wrap_connection(SqliteWriteConnection(path, busy_timeout_ms=busy_timeout_ms))
            stack.callback(connection.close)
            # Two readers: a long search must not make a decision's look-ups wait.
            self._reader = stack.enter_context(contextlib.closing(SqliteReader(path)))
            self._searcher = stack.enter_context(contextlib.closing(SqliteReader(path)))
            self._approvals = ApprovalSession(
                queries=STATEMENTS.approval_queries,
                bind=bind,
                look_up=self._reader.fetch_raw,
                search=self._searcher.fetch_raw,
                in_thread=False,
                vault=self._vault,
            )
            self.writer = self._reader.writer
            """Id of this database as a writer of the log."""
            engine = CommitEngine(connection, STATEMENTS, writer=self.writer, clock=clock, vault=self._vault)
            engine.load()
            anchor = AnchorFile(path)
            anchor.check_continued(self._reader.find_checkpoint_hash)
            wal = stack.enter_context(contextlib.closing(WalCheckpointer(path)))
            self._committer = GroupCommitter(
                engine, signer, limits, after_batch=wal.count, after_checkpoint=anchor.keep
            )
            stack.callback(self._committer.close)
            self._readiness = Readiness(self._committer, self._read_something, monotonic)
            # Closed last to first: the committer drains before anything that it needs goes away.
            self._resources = stack.pop_all()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: Clock,
        signer: Signer,
        limits: CommitLimits = DEFAULT_LIMITS,
        busy_timeout_ms: int = 5000,
        monotonic: Callable[[], float] = time.monotonic,
        vault_key: bytes | None = None,
        wrap_connection: Callable[[WriteConnection], WriteConnection] = lambda connection: connection,
    ) -> Self:
        """Open or create the database at `path` and take over as its writer.

        Blocks for some milliseconds. Raises `StoreUnavailable` (`store.locked` when another process
        writes it) and `LogCorrupt` when the end of the log does not verify or the anchor file names a
        checkpoint that the log does not have. Database files are made private to this user.
        `vault_key`: see `authz.store.vault.Vault`; without it nothing is kept. `wrap_connection` lets a
        caller observe the writer's connection.
        """
        return cls(
            path,
            clock=clock,
            signer=signer,
            limits=limits,
            busy_timeout_ms=busy_timeout_ms,
            monotonic=monotonic,
            vault_key=vault_key,
            wrap_connection=wrap_connection,
        )

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        """See `authz.ports.Ledger.commit`. `store.overloaded` when too many units wait."""
        self._vault.check_can_keep(unit.kept)
        if unit.exposure is None and not unit.delegated:
            return await self._committer.commit(unit)
        # Shielded, so that what became durable is known here even when whoever asked has gone away.
        return await asyncio.shield(asyncio.ensure_future(self._commit_exposures(unit)))

    async def _commit_exposures(self, unit: CommitUnit) -> CommitOutcome:
        committed = await self._committer.commit(unit)
        if isinstance(committed, Committed):
            for exposure in (unit.exposure, *unit.delegated):
                if exposure is not None:
                    self._exposures.add(exposure.session_key, exposure.labels)
        return committed

    async def find_operation(self, key: str) -> OperationRecord | None:
        """See `authz.ports.Ledger.find_operation`. Raises `StoreUnavailable`."""
        return self._reader.find_operation(key)

    async def due_operations(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        """See `authz.ports.Ledger.due_operations`. Raises `StoreUnavailable`."""
        return self._reader.due_operations(now_ms, most)

    async def session_exposure(self, *keys: str) -> frozenset[str]:
        """See `authz.ports.Ledger.session_exposure`. Raises `StoreUnavailable`."""
        found = frozenset[str]()
        for key in keys:
            found |= self._exposures.find(key, self._reader.session_exposure)
        return found

    async def search(self, query: EventQuery) -> Sequence[StoredEvent]:
        """See `authz.ports.Ledger.search`; in a thread, since it may read much. Raises `StoreUnavailable`."""
        return await asyncio.to_thread(self._searcher.search, query)

    async def is_ready(self) -> bool:
        """See `authz.ports.Ledger.is_ready`. Asked of the store at most once a second, whoever asks."""
        return await self._readiness.check()

    async def _read_something(self) -> None:
        self._reader.session_exposure("")

    async def find_event(self, tenant: str, decision_id: str) -> StoredEvent | None:
        """See `authz.ports.Ledger.find_event`. Raises `StoreUnavailable`."""
        return self._reader.find_event(tenant, decision_id)

    async def find_moves(self, tenant: str, decision_id: str) -> Sequence[StoredEvent]:
        """See `authz.ports.Ledger.find_moves`. Raises `StoreUnavailable`."""
        return self._reader.find_moves(tenant, decision_id)

    async def find_link(self, tenant: str, link_hash: str) -> LinkRecord | None:
        """See `authz.ports.Ledger.find_link`. Raises `StoreUnavailable`."""
        return self._reader.find_link(tenant, link_hash)

    async def find_links(self, query: LinkQuery) -> Sequence[LinkRecord]:
        """See `authz.ports.Ledger.find_links`; in a thread, since it may read much."""
        return await asyncio.to_thread(self._searcher.find_links, query)

    async def revocations_since(self, sequence: int) -> Sequence[RevocationRecord]:
        """See `authz.ports.Ledger.revocations_since`. Raises `StoreUnavailable`."""
        return self._reader.revocations_since(sequence)

    async def counters_used(self, keys: Sequence[str]) -> Mapping[str, int]:
        """See `authz.ports.Ledger.counters_used`. Raises `StoreUnavailable`."""
        return {key: self._reader.counter_used(key) for key in keys}

    async def find_credential(self, key_digest: str) -> Credential | None:
        """See `authz.ports.CredentialSource`. Raises `StoreUnavailable`."""
        return self._credentials.find(key_digest, self._reader.find_credential)

    async def create_api_key(
        self, *, name: str, roles: Iterable[str], profile: str, tenant: str = "default", dev: bool = False
    ) -> CreatedApiKey:
        """See `authz.store.api_keys.create_api_key`."""
        create = functools.partial(create_api_key, name=name, roles=roles, profile=profile, tenant=tenant)
        return await asyncio.to_thread(create, self._path, dev=dev, now_ms=self._clock.now_ms())

    async def list_api_keys(self, *, tenant: str | None = None) -> Sequence[ApiKey]:
        """See `authz.store.api_keys.list_api_keys`."""
        return await asyncio.to_thread(list_api_keys, self._path, tenant=tenant)

    async def revoke_api_key(self, key_id: str, *, tenant: str | None = None) -> None:
        """See `authz.store.api_keys.revoke_api_key`; in this process it works at once."""
        now_ms = self._clock.now_ms()
        try:
            await asyncio.to_thread(revoke_api_key, self._path, key_id, now_ms=now_ms, tenant=tenant)
        finally:
            self._credentials.invalidate()

    async def _fetch_people(self, statement: Select[Any]) -> Sequence[Sequence[Any]]:
        return self._reader.fetch(statement)

    async def _write_beside(self, statement: Update) -> None:
        await asyncio.to_thread(run_beside, self._path, statement)

    async def close(self) -> None:
        """Write what waits and a last checkpoint, then release files and lock. May be called twice."""
        await asyncio.to_thread(self._resources.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
