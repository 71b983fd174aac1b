"""What the store's tests of approvals are made of: requests, the units that write them, and what is answered.

whole = await commit(ledger, asking(request), moving(approved(request)), using("ap-1"))
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from authz.core.approval_answers import check_cancel, check_denial, expire
from authz.core.approval_moves import Move
from authz.model.approval import GrantScope
from authz.model.approval_request import ApprovalRequest, Consumption
from authz.model.approval_writes import GrantVoid, NewApproval, VaultWrite
from authz.model.operation import OperationWrite
from authz.model.record import CommitOutcome, Committed, EventQuery
from authz.ports import CommitUnit
from authz.store.keys import ServiceKeys
from authz.store.memory import MemoryLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.store.world import QUIET, Clock, event, operation
from tests.support.approvals import GRACE, ONCE, SESSION, accepted, asked, voted
from tests.support.world import NOW_MS, call

AnyLedger = MemoryLedger | SqliteLedger | PostgresLedger
TENANT: Final = "acme"
VAULT_KEY: Final = bytes(range(32))
SUBJECT: Final = "subject-1"


def still_clock() -> Clock:
    """It stands at the time that the requests are made, until it is moved."""
    clock = Clock(step_ms=0)
    clock.at_ms = NOW_MS
    return clock


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AnyLedger]:
    """Each kind of ledger, empty, with a vault."""
    opened: AnyLedger
    signer, clock = ServiceKeys.generate(), still_clock()
    if request.param == "memory":
        opened = MemoryLedger(clock=clock, vault_key=VAULT_KEY)
    elif request.param == "sqlite":
        opened = SqliteLedger.open(
            tmp_path / "authz.db", clock=clock, signer=signer, limits=QUIET, vault_key=VAULT_KEY
        )
    else:
        url = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
        opened = PostgresLedger.open(
            url, tmp_path, clock=clock, signer=signer, limits=QUIET, vault_key=VAULT_KEY
        )
    async with opened:
        yield opened


def clock_of(ledger: AnyLedger) -> Clock:
    found = ledger._clock
    assert isinstance(found, Clock)
    return found


def read_request(request_id: str = "ap-1", *, path: str = "/workspace/a", **more: Any) -> ApprovalRequest:
    """A request to read a file, as a real decision makes it; `more` replaces fields of it."""
    found = asked(call("fs/file_read", path=path), request_id=request_id)
    return replace(found, **more)


def whole_unit(number: int = 1, *, tenant: str = TENANT, **writes: Any) -> CommitUnit:
    return CommitUnit(event=event(number, tenant=tenant), **writes)


def asking(
    request: ApprovalRequest, *, subject: str = SUBJECT, caps: tuple[int, int] = (20, 1000), **writes: Any
) -> CommitUnit:
    """The unit of the decision that asks."""
    of_subject, of_tenant = caps
    asks = NewApproval(
        request=request,
        subject_key=subject,
        pending_per_subject=of_subject,
        pending_per_tenant=of_tenant,
    )
    return whole_unit(tenant=request.asked.requester.tenant, asks=asks, **writes)


def moving(*moves: Move, **writes: Any) -> CommitUnit:
    return whole_unit(moves=moves, tenant=moves[0].after.asked.requester.tenant, **writes)


def approved(request: ApprovalRequest, scope: GrantScope = ONCE, *, at_ms: int = NOW_MS) -> Move:
    """Grace's yes, which is all that is missing."""
    return accepted(request, voted(request, GRACE, scope=scope, at_ms=at_ms), at_ms=at_ms)


def denied(request: ApprovalRequest, *, reason: str = "not “now” ü", at_ms: int = NOW_MS) -> Move:
    move = check_denial(request, GRACE, reason, at_ms)
    assert isinstance(move, Move), move
    return move


def cancelled(request: ApprovalRequest) -> Move:
    move = check_cancel(request, "key-1", NOW_MS)
    assert isinstance(move, Move), move
    return move


def expired(request: ApprovalRequest) -> Move:
    move = expire(request, request.expires_at_ms)
    assert move is not None
    return move


def using(
    request_id: str = "ap-1",
    left: int | None = 1,
    write: OperationWrite | None = None,
    *,
    of: str = "",
    takes: bool = True,
    **writes: Any,
) -> CommitUnit:
    """The unit of a decision that uses the grant; `of` is the fingerprint of its call."""
    consumption = Consumption(
        request_id=request_id,
        fingerprint=of or (write.fingerprint if write is not None else "sha256:of some call"),
        expected_uses_left=left,
        takes=takes,
    )
    return whole_unit(consumes=consumption, operation=write, **writes)


def revoking(request_id: str = "ap-1", *, at_ms: int = NOW_MS) -> CommitUnit:
    void = GrantVoid(tenant=TENANT, request_id=request_id, voided_at_ms=at_ms, voided_by="grace")
    return whole_unit(voids=void)


def keeping(ref: str, content: bytes, *, until_ms: int = NOW_MS + 60_000, tenant: str = TENANT) -> CommitUnit:
    kept = VaultWrite(tenant=tenant, ref=ref, content=content, until_ms=until_ms)
    return whole_unit(tenant=tenant, kept=(kept,))


def of_call(fingerprint: str, key: str = "op-1") -> OperationWrite:
    """An operation of that call that is allowed."""
    return replace(operation(key, tenant=TENANT), fingerprint=fingerprint)


async def commit(ledger: AnyLedger, *units: CommitUnit) -> list[CommitOutcome]:
    """One after the other; all of them go through."""
    outcomes = [await ledger.commit(each) for each in units]
    assert all(isinstance(outcome, Committed) for outcome in outcomes), outcomes
    return outcomes


async def records(ledger: AnyLedger, tenant: str = TENANT) -> int:
    return len(await ledger.search(EventQuery(tenant=tenant, limit=1000)))


__all__ = [
    "GRACE",
    "NOW_MS",
    "ONCE",
    "SESSION",
    "SUBJECT",
    "TENANT",
    "VAULT_KEY",
    "AnyLedger",
    "approved",
    "asking",
    "cancelled",
    "clock_of",
    "commit",
    "denied",
    "expired",
    "keeping",
    "ledger",
    "moving",
    "of_call",
    "read_request",
    "records",
    "revoking",
    "still_clock",
    "using",
    "whole_unit",
]
