"""What the store's tests are made of: a clock, units, and a connection that can be watched and broken."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from authz.core.log_chain import index_members
from authz.errors import StoreUnavailable
from authz.model.operation import OperationState, OperationWrite
from authz.model.record import Event, EventType
from authz.ports import CommitUnit, ExposureWrite
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from authz.store.write_connection import SqlRow, SqlValue, WriteConnection

START_MS = 1_800_000_000_000
QUIET = CommitLimits(checkpoint_records=10**9, checkpoint_seconds=1e9)
"""No checkpoint but the one at close."""


class Clock:
    """One millisecond later at every look, unless it is stopped."""

    def __init__(self, *, step_ms: int = 1) -> None:
        self.at_ms = START_MS
        self.step_ms = step_ms

    def now_ms(self) -> int:
        self.at_ms += self.step_ms
        return self.at_ms


def event(
    number: int,
    *,
    tenant: str = "default",
    event_type: EventType = EventType.DECISION_MADE,
    agent: str = "coder-1",
    user: str = "ada",
    server: str = "fs",
    name: str = "edit",
    effect: str = "allow",
    rules: Sequence[str] = ("workspace-write",),
    trace_id: str = "t-1",
) -> Event:
    """A record as the service makes it: its fields are read from its body."""
    body: dict[str, object] = {
        "decision_id": f"d-{number}",
        "trace_id": trace_id,
        "effect": effect,
        "subject": {"agent": agent, "on_behalf_of": user},
        "tool": {"server": server, "name": name},
        "matched": [{"rule": rule, "kind": "permit"} for rule in rules],
        "arguments": {"path": f"/workspace/ü{number}", "sequence": 99},
    }
    members = index_members(body)
    return Event(
        type=event_type,
        tenant=tenant,
        occurred_at_ms=START_MS,
        body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(),
        decision_id=members.decision_id,
        trace_id=members.trace_id,
        agent=members.agent,
        user=members.user,
        tool=members.tool,
        effect=members.effect,
        rules=members.rules,
    )


def operation(
    key: str,
    *,
    expected_version: int | None = None,
    state: OperationState = OperationState.RESERVED,
    tenant: str = "default",
    decision_id: str = "d-1",
) -> OperationWrite:
    return OperationWrite(
        tenant=tenant,
        key=key,
        fingerprint="sha256:f",
        state=state,
        decision_id=decision_id,
        expires_at_ms=START_MS + 1000,
        expected_version=expected_version,
    )


def unit(
    number: int, write: OperationWrite | None = None, exposure: ExposureWrite | None = None
) -> CommitUnit:
    return CommitUnit(event=event(number), operation=write, exposure=exposure)


class WatchedConnection:
    """Passes everything on, remembers the order, and can hold or fail a COMMIT."""

    def __init__(self, inner: WriteConnection) -> None:
        self.inner = inner
        self.order: list[str] = []
        self.at_commit = threading.Event()
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.fail_before_commit = 0
        """How many of the next transactions that write records fail, with nothing written."""
        self.fail_after_commit = 0
        """The same, but they are durable and only the answer is lost."""
        self.fail_at = ""
        """Statements that begin so fail, once each."""
        self._writes_records = False
        self.asked = 0
        """How often the database was asked for something, BEGIN and COMMIT left out."""

    @property
    def is_remote(self) -> bool:
        return self.inner.is_remote

    def hold(self) -> None:
        """Let the next COMMIT wait for `release`."""
        self.at_commit.clear()
        self.may_commit.clear()

    def release(self) -> None:
        self.may_commit.set()

    def begin(self) -> None:
        self.order.append("begin")
        self._writes_records = False
        self.inner.begin()

    def commit(self) -> None:
        self.order.append("commit called")
        self.at_commit.set()
        self.may_commit.wait()
        if self._writes_records and self.fail_before_commit > 0:
            self.fail_before_commit -= 1
            raise StoreUnavailable("the disk is gone")
        self.inner.commit()
        if self._writes_records and self.fail_after_commit > 0:
            self.fail_after_commit -= 1
            raise StoreUnavailable("the answer of the disk is lost")
        self.order.append("commit returned")

    def rollback(self) -> None:
        self.order.append("rollback")
        self.inner.rollback()

    def _ask(self, sql: str) -> None:
        self.asked += 1
        if self.fail_at and sql.startswith(self.fail_at):
            self.fail_at = ""
            raise StoreUnavailable("the disk is full")

    def execute(self, sql: str, parameters: Sequence[SqlValue]) -> int:
        self._ask(sql)
        return self.inner.execute(sql, parameters)

    def execute_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[int]:
        self._ask(sql)
        return self.inner.execute_each(sql, rows)

    def execute_many(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        self._ask(sql)
        self._writes_records |= sql.startswith("INSERT INTO events ")
        self.inner.execute_many(sql, rows)

    def fetch_one(self, sql: str, parameters: Sequence[SqlValue] = ()) -> SqlRow | None:
        self._ask(sql)
        return self.inner.fetch_one(sql, parameters)

    def fetch_all(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        self._ask(sql)
        return self.inner.fetch_all(sql, parameters)

    def fetch_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> list[list[SqlRow]]:
        self._ask(sql)
        return self.inner.fetch_each(sql, rows)

    def close(self) -> None:
        self.inner.close()


def open_watched(
    path: Path,
    *,
    limits: CommitLimits = QUIET,
    busy_timeout_ms: int = 5000,
    signer: ServiceKeys | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[SqliteLedger, WatchedConnection]:
    """A ledger whose writer's connection is watched."""
    watched: list[WatchedConnection] = []

    def wrap(inner: WriteConnection) -> WriteConnection:
        watched.append(WatchedConnection(inner))
        return watched[0]

    ledger = SqliteLedger.open(
        path,
        clock=Clock(),
        signer=signer or ServiceKeys.generate(),
        limits=limits,
        busy_timeout_ms=busy_timeout_ms,
        monotonic=monotonic,
        wrap_connection=wrap,
    )
    watched[0].order.clear()
    return ledger, watched[0]
