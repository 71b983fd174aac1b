"""Approvals and the vault as a durable ledger reads them, over whichever database."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import ClauseElement

from authz.core.approval_limits import AskCounts
from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalFacts, ApprovalQuery, ApprovalStanding
from authz.store.approval_bounds import CHANGES_AT_ONCE, most_refused
from authz.store.approval_queries import (
    DENIAL,
    GRANT,
    PENDING,
    VAIN,
    WAITING,
    ApprovalQueries,
    build_find_approvals,
)
from authz.store.approval_rows import read_denial, read_grant, read_request, read_vote
from authz.store.vault import SealedEntry, Vault
from authz.store.write_connection import SqlValue

Rows = Sequence[Sequence[Any]]
Fetch = Callable[[str, Sequence[SqlValue]], Rows]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSession:
    """What the readings go through. `look_up` and `search` block, and raise `StoreUnavailable`."""

    queries: ApprovalQueries
    bind: Callable[[ClauseElement], tuple[str, Sequence[SqlValue]]]
    look_up: Fetch
    """For what a decision waits for."""
    search: Fetch
    """For what may take long."""
    in_thread: bool
    """Whether a look-up may take longer than an event loop may be held up."""
    vault: Vault


class ReadsApprovals:
    """`authz.ports.approvals.ApprovalReads` for a durable ledger. Every method raises `StoreUnavailable`."""

    _approvals: ApprovalSession

    async def approval_facts(
        self, *, tenant: str, fingerprint: str, session: str | None, server: str, tool: str
    ) -> ApprovalFacts:
        """See the port, as of those that follow."""
        of_call = (tenant, fingerprint)
        of_session = (tenant, session or "", server, tool, fingerprint)
        values = (*of_call, *of_session, *of_call, session, *of_call)
        rows = await self._look_up(self._approvals.queries.facts, values)
        found: dict[str, list[Sequence[Any]]] = {GRANT: [], DENIAL: [], WAITING: []}
        for kind, *row in rows:
            found[kind].append(row)
        pending = ApprovalState.PENDING.value
        grants = [read_grant(row) for row in found[GRANT]]
        denials = [read_denial(details) for details, *_ in found[DENIAL]]
        waiting = [read_request((details, pending, *rest)) for details, *rest in found[WAITING]]
        return ApprovalFacts(
            grants=tuple(sorted(grants, key=lambda grant: grant.request_id)),
            denials=tuple(sorted(denials, key=lambda denial: denial.request_id)),
            waiting=tuple(sorted(waiting, key=lambda request: request.id)),
        )

    async def ask_counts(
        self, *, tenant: str, subject_key: str, resources: frozenset[str], since_ms: int, now_ms: int
    ) -> AskCounts:
        listed = json.dumps(sorted(resources))
        about = (tenant, listed, since_ms, subject_key, since_ms, now_ms, since_ms)
        values = (subject_key, tenant, now_ms, tenant, subject_key, since_ms, now_ms, *about)
        rows = await self._look_up(self._approvals.queries.counts, values)
        of = {kind: (number, other) for kind, number, other in rows if kind in (PENDING, VAIN)}
        refused = ((number, oldest_ms) for kind, number, oldest_ms in rows if kind not in of)
        return most_refused(refused, *of.get(PENDING, (0, 0)), of.get(VAIN, (0, None)))

    async def find_approval(self, tenant: str, approval_id: str) -> ApprovalStanding | None:
        found = _standings(await self._look_up(self._approvals.queries.standing, (tenant, approval_id)))
        return found[0] if found else None

    async def find_approvals(self, query: ApprovalQuery) -> Sequence[ApprovalStanding]:
        sql, values = self._approvals.bind(build_find_approvals(query))
        return _standings(await asyncio.to_thread(_asked, self._approvals.search, sql, values))

    async def due_approvals(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        rows = await self._look_up(self._approvals.queries.due, (now_ms, most))
        return [(str(tenant), str(approval_id)) for tenant, approval_id in rows]

    async def approvals_since(self, tenant: str, change: int) -> tuple[int, Sequence[str]]:
        most = 0 if change < 0 else CHANGES_AT_ONCE
        rows = await self._look_up(self._approvals.queries.since, (tenant, tenant, change, most))
        newest = max((number or 0 for kind, number, _ in rows if kind == 0), default=0)
        later = sorted((number, str(approval_id)) for kind, number, approval_id in rows if kind == 1)
        return (later[-1][0] if later else newest), [approval_id for _, approval_id in later]

    async def find_kept(self, tenant: str, ref: str, now_ms: int) -> bytes | None:
        read = self._approvals
        rows = await asyncio.to_thread(_asked, read.search, read.queries.kept, (tenant, ref, now_ms))
        if not rows:
            return None
        until_ms, nonce, sealed = rows[0]
        entry = SealedEntry(
            tenant=tenant, ref=ref, until_ms=until_ms, nonce=bytes(nonce), sealed=bytes(sealed)
        )
        return await asyncio.to_thread(read.vault.open, entry)

    async def _look_up(self, sql: str, values: Sequence[SqlValue]) -> Rows:
        if self._approvals.in_thread:
            return await asyncio.to_thread(_asked, self._approvals.look_up, sql, values)
        return _asked(self._approvals.look_up, sql, values)


def _asked(fetch: Fetch, sql: str, values: Sequence[SqlValue]) -> Rows:
    # No text of PostgreSQL holds a NUL, so nothing is found by one that does.
    if any(isinstance(value, str) and "\0" in value for value in values):
        return []
    return fetch(sql, values)


def _standings(rows: Rows) -> list[ApprovalStanding]:
    """Of rows as `ApprovalQueries.standing` has them: those of one request stand together."""
    return [_standing(list(group)) for _, group in groupby(rows, key=lambda row: (row[0], row[1]))]


def _standing(rows: Rows) -> ApprovalStanding:
    _, _, *rest = rows[0]
    request, grant, denial = rest[:5], rest[5:9], rest[9]
    return ApprovalStanding(
        request=read_request(request),
        votes=tuple(read_vote(row[-1]) for row in rows if row[-1] is not None),
        grant=None if grant[0] is None else read_grant(grant),
        denial=None if denial is None else read_denial(denial),
    )
