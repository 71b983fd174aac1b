"""The durable store on PostgreSQL: `authz.ports.Ledger` and `authz.ports.CredentialSource`, many processes.

Each process writes a chain of its own in the log, and all commits take turns under one lock in the
database: what SQLite gives one process by `BEGIN IMMEDIATE` holds here for all of them, so operations,
limits, exposure and checkpoints are exact without another rule. What is read for a decision is read from
the database after the decision was asked for; only credentials are remembered, for half a second.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from sqlalchemy import Select, Update

from authz.core.log_checkpoint import Signer
from authz.model.capability import LinkQuery, LinkRecord, RevocationRecord
from authz.model.operation import OperationRecord
from authz.model.record import CommitOutcome, EventQuery, StoredEvent
from authz.ports import Clock, CommitUnit, Credential
from authz.store.account_reads import AccountReader
from authz.store.anchor_file import AnchorFile
from authz.store.api_keys import ApiKey, CreatedApiKey, create_api_key, list_api_keys, revoke_api_key
from authz.store.approval_reads import ApprovalSession, ReadsApprovals
from authz.store.commit_engine import CommitEngine
from authz.store.credential_cache import CredentialCache
from authz.store.database import ANCHOR_NAME, run_beside
from authz.store.group_commit import CommitLimits, GroupCommitter
from authz.store.postgres_connection import (
    STATEMENTS,
    PostgresWriteConnection,
    bind,
    cause,
    connect,
    unavailable,
)
from authz.store.postgres_reads import CLOSE_SECONDS, PostgresReader
from authz.store.postgres_schema import prepare_schema
from authz.store.postgres_url import PostgresUrl
from authz.store.readiness import Readiness
from authz.store.vault import Vault
from authz.store.write_connection import WriteConnection

DEFAULT_LIMITS = CommitLimits(close_seconds=CLOSE_SECONDS)
_log = logging.getLogger("authz.store")


class PostgresLedger(AccountReader, ReadsApprovals):
    """Use `open`. Any number of processes at a time; commits of many tasks share transactions."""

    def __init__(
        self,
        url: PostgresUrl,
        data_dir: Path,
        *,
        clock: Clock,
        signer: Signer,
        limits: CommitLimits,
        monotonic: Callable[[], float],
        vault_key: bytes | None,
        wrap_connection: Callable[[WriteConnection], WriteConnection],
    ) -> None:
        self._url = url
        self._clock = clock
        self._credentials = CredentialCache(monotonic)
        self._vault = Vault(vault_key)
        with contextlib.ExitStack() as stack:
            _prepare(url)
            self._reader = stack.enter_context(contextlib.closing(PostgresReader(url)))
            self._approvals = ApprovalSession(
                queries=STATEMENTS.approval_queries,
                bind=bind,
                look_up=self._reader.fetch_raw,
                search=self._reader.search_raw,
                in_thread=True,
                vault=self._vault,
            )
            session = PostgresWriteConnection(url)
            connection = wrap_connection(session)
            unowned = stack.enter_context(contextlib.ExitStack())
            unowned.callback(connection.close)
            self._engine = CommitEngine(
                connection,
                STATEMENTS,
                writer="",
                clock=clock,
                claim_writer=session.claim_writer,
                vault=self._vault,
            )
            self._engine.load()
            session.register_key(signer.identity)
            _log.info("this process writes a chain of the log", extra={"writer": self._engine.writer})
            anchor = AnchorFile(data_dir / ANCHOR_NAME)
            anchor.check_continued(self._reader.find_checkpoint_hash)
            self._committer = GroupCommitter(self._engine, signer, limits, after_checkpoint=anchor.keep)
            # From here on the writer's thread closes it at its end; nobody else may, while it is used there.
            unowned.pop_all()
            stack.callback(self._committer.close)
            self._readiness = Readiness(self._committer, lambda: self._reader.session_exposure(""), monotonic)
            # Closed last to first: the committer drains before anything that it needs goes away.
            self._resources = stack.pop_all()

    @classmethod
    def open(
        cls,
        url: PostgresUrl,
        data_dir: Path,
        *,
        clock: Clock,
        signer: Signer,
        limits: CommitLimits = DEFAULT_LIMITS,
        monotonic: Callable[[], float] = time.monotonic,
        vault_key: bytes | None = None,
        wrap_connection: Callable[[WriteConnection], WriteConnection] = lambda connection: connection,
    ) -> Self:
        """Connect, make or migrate the schema, and take a chain of the log that no live process writes.

        `data_dir` holds the anchor file. Blocks for some tens of milliseconds. Raises `StoreUnavailable`
        (`store.not_durable`, `store.schema`, `store.key_differs`) and `LogCorrupt` when the end of the
        chain does not verify or the anchor file names a checkpoint that the log does not have.
        `vault_key`: see `authz.store.vault.Vault`; without it nothing is kept. `wrap_connection` lets a
        caller observe the writer's connection.
        """
        return cls(
            url,
            data_dir,
            clock=clock,
            signer=signer,
            limits=limits,
            monotonic=monotonic,
            vault_key=vault_key,
            wrap_connection=wrap_connection,
        )

    @property
    def writer(self) -> str:
        """Id of this process as a writer of the log. Another one after the session was lost, at times."""
        return self._engine.writer

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        """See `authz.ports.Ledger.commit`. `store.overloaded` when too many units wait."""
        self._vault.check_can_keep(unit.kept)
        return await self._committer.commit(unit)

    async def find_operation(self, key: str) -> OperationRecord | None:
        """See `authz.ports.Ledger.find_operation`. Raises `StoreUnavailable`."""
        return await self._reader.find_operation(key)

    async def due_operations(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        """See `authz.ports.Ledger.due_operations`. Raises `StoreUnavailable`."""
        return await asyncio.to_thread(self._reader.due_operations, now_ms, most)

    async def session_exposure(self, *keys: str) -> frozenset[str]:
        """See `authz.ports.Ledger.session_exposure`: what every process had committed when it was asked."""
        return await self._reader.session_exposure(*keys)

    async def search(self, query: EventQuery) -> Sequence[StoredEvent]:
        """See `authz.ports.Ledger.search`. Raises `StoreUnavailable`."""
        return await asyncio.to_thread(self._reader.search, query)

    async def find_event(self, tenant: str, decision_id: str) -> StoredEvent | None:
        """See `authz.ports.Ledger.find_event`. Raises `StoreUnavailable`."""
        return await asyncio.to_thread(self._reader.find_event, tenant, decision_id)

    async def find_moves(self, tenant: str, decision_id: str) -> Sequence[StoredEvent]:
        """See `authz.ports.Ledger.find_moves`. Raises `StoreUnavailable`."""
        return await asyncio.to_thread(self._reader.find_moves, tenant, decision_id)

    async def is_ready(self) -> bool:
        """See `authz.ports.Ledger.is_ready`. Asked of the store at most once a second, whoever asks."""
        return await self._readiness.check()

    async def find_link(self, tenant: str, link_hash: str) -> LinkRecord | None:
        """See `authz.ports.Ledger.find_link`. Raises `StoreUnavailable`."""
        return await self._reader.find_link(tenant, link_hash)

    async def find_links(self, query: LinkQuery) -> Sequence[LinkRecord]:
        """See `authz.ports.Ledger.find_links`. Raises `StoreUnavailable`."""
        return await asyncio.to_thread(self._reader.find_links, query)

    async def revocations_since(self, sequence: int) -> Sequence[RevocationRecord]:
        """See `authz.ports.Ledger.revocations_since`: those of every process. Raises `StoreUnavailable`."""
        return await asyncio.to_thread(self._reader.revocations_since, sequence)

    async def counters_used(self, keys: Sequence[str]) -> Mapping[str, int]:
        """See `authz.ports.Ledger.counters_used`. Raises `StoreUnavailable`."""
        return await self._reader.counters_used(keys)

    async def find_credential(self, key_digest: str) -> Credential | None:
        """See `authz.ports.CredentialSource`. Raises `StoreUnavailable`."""
        return await self._credentials.find_async(key_digest, self._reader.find_credential)

    async def create_api_key(
        self, *, name: str, roles: Iterable[str], profile: str, tenant: str = "default", dev: bool = False
    ) -> CreatedApiKey:
        """See `authz.store.api_keys.create_api_key`."""
        create = functools.partial(create_api_key, name=name, roles=roles, profile=profile, tenant=tenant)
        return await asyncio.to_thread(create, self._url, dev=dev, now_ms=self._clock.now_ms())

    async def list_api_keys(self, *, tenant: str | None = None) -> Sequence[ApiKey]:
        """See `authz.store.api_keys.list_api_keys`."""
        return await asyncio.to_thread(list_api_keys, self._url, tenant=tenant)

    async def revoke_api_key(self, key_id: str, *, tenant: str | None = None) -> None:
        """See `authz.store.api_keys.revoke_api_key`; in this process it works at once."""
        now_ms = self._clock.now_ms()
        try:
            await asyncio.to_thread(revoke_api_key, self._url, key_id, now_ms=now_ms, tenant=tenant)
        finally:
            self._credentials.invalidate()

    async def _fetch_people(self, statement: Select[Any]) -> Sequence[Sequence[Any]]:
        return await asyncio.to_thread(self._reader.fetch, statement)

    async def _write_beside(self, statement: Update) -> None:
        await asyncio.to_thread(run_beside, self._url, statement)

    async def close(self) -> None:
        """Write what waits and a last checkpoint, then give the chain back. May be called twice."""
        await asyncio.to_thread(self._resources.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _prepare(url: PostgresUrl) -> None:
    with contextlib.closing(connect(url, part="schema")) as connection:
        try:
            prepare_schema(connection, migrate=True)
        except psycopg.Error as fault:
            raise unavailable(fault, "preparing the schema") from cause(fault, url)
