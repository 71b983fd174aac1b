"""What endpoints remember of effects: one row a key, claimed by whoever inserts it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Somebody is about to have an effect."""

    key: str
    fingerprint: str
    decision_id: str
    tool: str
    holder: str
    """Random: who claimed it, and so may say what came of it."""
    claimed_at_ms: int
    lease_ends_ms: int


class Claimed(StrEnum):
    """The key was free."""

    CLAIMED = "claimed"


class FoundState(StrEnum):
    """What is known of a key."""

    CLAIMED = "claimed"
    DONE = "done"
    IN_DOUBT = "in_doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The key, or the decision, was taken already."""

    key: str
    fingerprint: str
    tool: str
    state: FoundState
    lease_ends_ms: int
    result: Any


class EffectStore(Protocol):
    """Every method is one transaction, durable when it returns."""

    def claim(self, claim: Claim) -> Claimed | Found:
        """Take the key and the decision, both at once, or tell who has them."""

    def finish(self, claim: Claim, result: str, *, now_ms: int) -> bool:
        """The effect was had, with this JSON result. Whether the claim was there still."""

    def doubt(self, claim: Claim, *, now_ms: int) -> None:
        """It broke off."""

    def release(self, claim: Claim) -> None:
        """Nothing happened."""

    def resolve(self, key: str, result: str | None, *, now_ms: int) -> bool:
        """Somebody looked: it was had with this result, or (`None`) not. Whether it was in doubt."""

    def in_doubt(self, *, now_ms: int) -> tuple[str, ...]:
        """Keys of which nobody knows, oldest first."""

    def forget(self, before_ms: int) -> int:
        """Drop what was done before then; how many."""


TABLE: Final = """\
CREATE TABLE IF NOT EXISTS authz_effects (
  key TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  decision_id TEXT NOT NULL UNIQUE,
  tool TEXT NOT NULL,
  state TEXT NOT NULL,
  holder TEXT NOT NULL,
  claimed_at_ms BIGINT NOT NULL,
  lease_ends_ms BIGINT NOT NULL,
  ended_at_ms BIGINT,
  result TEXT
)"""
_DOUBTED: Final = "(state = 'in_doubt' OR (state = 'claimed' AND lease_ends_ms <= ?))"
_OF_KEY_IN_DOUBT: Final = f"WHERE key = ? AND {_DOUBTED}"
_DELETE: Final = "DELETE FROM authz_effects "
_SET_DONE: Final = "UPDATE authz_effects SET state = 'done', result = ?, ended_at_ms = ? "


class SqlEffects:
    """`EffectStore` in SQL that SQLite and PostgreSQL understand alike, with `?` for values."""

    def execute(self, statement: str, values: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        """(rows changed, rows found) of one statement, committed."""
        raise NotImplementedError

    def claim(self, claim: Claim) -> Claimed | Found:
        """See `EffectStore`. A key that is given free between the two statements is tried for again."""
        while True:
            changed, _ = self.execute(
                "INSERT INTO authz_effects (key, fingerprint, decision_id, tool, state, holder, "
                "claimed_at_ms, lease_ends_ms) VALUES (?, ?, ?, ?, 'claimed', ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (
                    claim.key,
                    claim.fingerprint,
                    claim.decision_id,
                    claim.tool,
                    claim.holder,
                    claim.claimed_at_ms,
                    claim.lease_ends_ms,
                ),
            )
            if changed:
                return Claimed.CLAIMED
            _, rows = self.execute(
                "SELECT key, fingerprint, tool, state, lease_ends_ms, result FROM authz_effects "
                "WHERE key = ? OR decision_id = ? ORDER BY CASE WHEN key = ? THEN 0 ELSE 1 END",
                (claim.key, claim.decision_id, claim.key),
            )
            if rows:
                return _found(rows[0])

    def finish(self, claim: Claim, result: str, *, now_ms: int) -> bool:
        """See `EffectStore`. Also of what was in doubt by then: whoever had the effect knows."""
        changed, _ = self.execute(
            _SET_DONE + "WHERE key = ? AND holder = ?",
            (result, now_ms, claim.key, claim.holder),
        )
        return changed == 1

    def doubt(self, claim: Claim, *, now_ms: int) -> None:
        """See `EffectStore`."""
        self.execute(
            "UPDATE authz_effects SET state = 'in_doubt', ended_at_ms = ? "
            "WHERE key = ? AND holder = ? AND state = 'claimed'",
            (now_ms, claim.key, claim.holder),
        )

    def release(self, claim: Claim) -> None:
        """See `EffectStore`."""
        self.execute(
            "DELETE FROM authz_effects WHERE key = ? AND holder = ? AND state = 'claimed'",
            (claim.key, claim.holder),
        )

    def resolve(self, key: str, result: str | None, *, now_ms: int) -> bool:
        """See `EffectStore`."""
        if result is None:
            changed, _ = self.execute(_DELETE + _OF_KEY_IN_DOUBT, (key, now_ms))
        else:
            changed, _ = self.execute(_SET_DONE + _OF_KEY_IN_DOUBT, (result, now_ms, key, now_ms))
        return changed == 1

    def in_doubt(self, *, now_ms: int) -> tuple[str, ...]:
        """See `EffectStore`."""
        _, rows = self.execute(
            f"SELECT key FROM authz_effects WHERE {_DOUBTED} ORDER BY claimed_at_ms, key",  # noqa: S608
            (now_ms,),
        )
        return tuple(str(row[0]) for row in rows)

    def forget(self, before_ms: int) -> int:
        """See `EffectStore`."""
        changed, _ = self.execute(
            "DELETE FROM authz_effects WHERE state = 'done' AND ended_at_ms < ?", (before_ms,)
        )
        return changed


def _found(row: Sequence[Any]) -> Found:
    key, fingerprint, tool, state, lease_ends_ms, result = row
    return Found(
        key=key,
        fingerprint=fingerprint,
        tool=tool,
        state=FoundState(state),
        lease_ends_ms=lease_ends_ms,
        result=None if result is None else json.loads(result),
    )


BUSY_SECONDS: Final = 30.0


class SqliteEffects(SqlEffects):
    """In a file of SQLite, for the threads and processes of one machine. Every commit is on disk."""

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        with self._connected() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(TABLE)

    def execute(self, statement: str, values: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        """See `SqlEffects`."""
        with self._connected() as connection:
            # Without a transaction of its own each statement is one.
            cursor = connection.execute(statement, tuple(values))
            rows = cursor.fetchall()
            return max(cursor.rowcount, 0), rows

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
