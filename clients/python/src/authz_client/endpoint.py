"""For tool servers: each call has its effect once, and only as it was decided.

    endpoint = Endpoint(SqliteEffects(path), tickets=TicketRules(...))
    result = endpoint.run(received, lambda: pay(received.arguments))

1. verify the ticket against the arguments that arrived · 2. claim the idempotency key · 3. have the effect ·
4. store its result. A repeat gets the stored result. What broke off between 2 and 4 is in doubt: it is not
tried again before somebody has found out what is true (`resolve`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from authz_client._effects import Claim, Claimed, EffectStore, Found, FoundState, SqliteEffects
from authz_client._effects_postgres import PostgresEffects
from authz_client.capabilities import Refusal, Ticket, verify_ticket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from authz_client.capabilities import PublicKey, Revocations

__all__ = [
    "CallRejected",
    "EffectStore",
    "Endpoint",
    "InDoubt",
    "KeyConflict",
    "NotPerformed",
    "PostgresEffects",
    "Received",
    "SqliteEffects",
    "StillRunning",
    "TicketRefused",
    "TicketRules",
]

DEFAULT_LEASE_SECONDS: Final = 300.0
_MAX_KEY: Final = 256


class CallRejected(Exception):
    """The endpoint does not have this effect. `code` is stable."""

    code = "endpoint.rejected"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TicketRefused(CallRejected):
    """The ticket does not permit this call. `refusal` says why."""

    code = "endpoint.ticket"

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"the ticket is refused: {refusal}")
        self.refusal = refusal


class KeyConflict(CallRejected):
    """The key belongs to another call, or the decision to another key."""

    code = "endpoint.conflict"


class StillRunning(CallRejected):
    """The same call is under way. Ask again later."""

    code = "endpoint.running"


class InDoubt(CallRejected):
    """The same call began, and it is not known what came of it. It is not tried again by itself."""

    code = "endpoint.in_doubt"


class NotPerformed(Exception):
    """To be raised by an effect of which nothing happened: the key is free again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketRules:
    """What a ticket is verified against. Keys and revocations are asked for at each call.

    Where one of them cannot be had, raise: a list that could not be fetched is no empty list.
    """

    issuer: str
    audience: str
    """This server's identity, as the bundle has it."""
    keys: Callable[[], Mapping[str, PublicKey]]
    revoked: Callable[[], Revocations]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A call as it arrived. `arguments` are those that are about to be used."""

    tool: str
    """`server/name`, as this endpoint calls what it is about to do."""
    arguments: Mapping[str, Any]
    ticket: str = field(repr=False)
    fingerprint: str
    idempotency_key: str = field(repr=False)
    holder_thumbprint: str | None = None
    """Of the key that the caller has proved to hold."""


class Endpoint:
    """Threads and processes may share a store: of the same call, however often it arrives, one runs.

    `lease_seconds` is longer than any effect takes: one that has no result by then is in doubt.
    """

    def __init__(
        self,
        store: EffectStore,
        *,
        tickets: TicketRules,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < lease_seconds < float("inf"):
            raise ValueError("`lease_seconds` must be positive and finite")
        self._store = store
        self._tickets = tickets
        self._lease_ms = int(lease_seconds * 1000)
        self._clock = clock

    def run(self, received: Received, effect: Callable[[], Any]) -> Any:
        """The effect's result (a JSON value), or the first one. Raises `CallRejected`, or what it raised.

        An effect that raises leaves its key in doubt, unless it raises `NotPerformed`.
        """
        claim = self._claim(received)
        if isinstance(claim, Found):
            return claim.result
        with self._ending(claim) as ended:
            ended.result = effect()
        return ended.result

    async def run_async(self, received: Received, effect: Callable[[], Awaitable[Any]]) -> Any:
        """`run` for asyncio. The store is spoken to in a thread."""
        claim = await asyncio.to_thread(self._claim, received)
        if isinstance(claim, Found):
            return claim.result
        ended = _Ended()
        try:
            ended.result = await effect()
        except BaseException as error:
            await asyncio.shield(asyncio.to_thread(self._broke_off, claim, error))
            raise
        await asyncio.shield(asyncio.to_thread(self._store_result, claim, ended))
        return ended.result

    def resolve(self, idempotency_key: str, *, performed: bool, result: Any = None) -> None:
        """Say what became of a call that is in doubt. Raises `KeyConflict` where it is not."""
        text = _json(result) if performed else None
        if not self._store.resolve(idempotency_key, text, now_ms=self._now_ms()):
            raise KeyConflict("the call is not in doubt: nothing is known of its key, or all is")

    def in_doubt(self) -> tuple[str, ...]:
        """Keys of calls that somebody has to look after, oldest first."""
        return self._store.in_doubt(now_ms=self._now_ms())

    def forget(self, older_than_seconds: float) -> int:
        """Drop what is settled and that old; how much. Never less than the retention of the descriptor."""
        return self._store.forget(self._now_ms() - int(older_than_seconds * 1000))

    def verify(self, received: Received) -> Ticket:
        """The ticket, if it permits the call as it arrived. Raises `TicketRefused`."""
        rules = self._tickets
        found = verify_ticket(
            received.ticket,
            jwks=rules.keys(),
            revoked=rules.revoked(),
            issuer=rules.issuer,
            audience=rules.audience,
            fingerprint=received.fingerprint,
            arguments=received.arguments,
            holder_thumbprint=received.holder_thumbprint,
            now=int(self._clock()),
        )
        if isinstance(found, Refusal):
            raise TicketRefused(found)
        if found.tool != received.tool:
            raise KeyConflict("the ticket is for another tool")
        return found

    def _claim(self, received: Received) -> Claim | Found:
        ticket = self.verify(received)
        key = received.idempotency_key
        if not 0 < len(key) <= _MAX_KEY or not key.isascii() or not key.isprintable():
            raise KeyConflict("the idempotency key is none that the service gives")
        now_ms = self._now_ms()
        claim = Claim(
            key=key,
            fingerprint=ticket.fingerprint,
            decision_id=ticket.decision_id,
            tool=ticket.tool,
            holder=secrets.token_hex(16),
            claimed_at_ms=now_ms,
            lease_ends_ms=now_ms + self._lease_ms,
        )
        found = self._store.claim(claim)
        return claim if isinstance(found, Claimed) else _checked(found, claim, now_ms)

    @contextmanager
    def _ending(self, claim: Claim) -> Iterator[_Ended]:
        ended = _Ended()
        try:
            yield ended
        except BaseException as error:
            self._broke_off(claim, error)
            raise
        self._store_result(claim, ended)

    def _broke_off(self, claim: Claim, error: BaseException) -> None:
        if isinstance(error, NotPerformed):
            self._store.release(claim)
        else:
            self._store.doubt(claim, now_ms=self._now_ms())

    def _store_result(self, claim: Claim, ended: _Ended) -> None:
        try:
            text = _json(ended.result)
        except ValueError:
            self._store.doubt(claim, now_ms=self._now_ms())
            raise
        if not self._store.finish(claim, text, now_ms=self._now_ms()):
            raise InDoubt("the effect was had after its lease, when somebody had said that it was not")

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


@dataclass(slots=True)
class _Ended:
    result: Any = None


def _checked(found: Found, claim: Claim, now_ms: int) -> Found:
    """The first result of the same call. Raises `CallRejected` where there is none to give."""
    if found.key != claim.key:
        raise KeyConflict("the decision was used under another idempotency key")
    if found.fingerprint != claim.fingerprint or found.tool != claim.tool:
        raise KeyConflict("the idempotency key belongs to another call")
    if found.state is FoundState.DONE:
        return found
    if found.state is FoundState.CLAIMED and now_ms < found.lease_ends_ms:
        raise StillRunning("the same call is under way")
    raise InDoubt("the same call began, and what came of it is not known")


def _json(result: Any) -> str:
    """Raises `ValueError` for what is no JSON value."""
    try:
        return json.dumps(result, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except TypeError as error:
        raise ValueError(f"the result is no JSON value: {error}") from error
