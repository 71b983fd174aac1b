"""The outbox on either database: `authz.ports.notices.Outbox`.

Over a session of its own and in a thread, so that no decision waits for a notice. Its transactions take the
lock that commits take, and are a few statements long: what one has compared has not moved when it is written.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from authz.core.notice import notice_key
from authz.errors import StoreUnavailable
from authz.model.approval_writes import Notice
from authz.ports.notices import Delivery, DeliveryState, Load
from authz.store import notice_statements as sql
from authz.store.database import Database, Session, open_session
from authz.store.notice_rows import read_delivery

_T = TypeVar("_T")


class StoredOutbox:
    """One session for one thread at a time, opened when it is first needed and anew after a failure."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._opened = contextlib.ExitStack()
        self._session: Session | None = None
        self._closed = False

    async def undirected(self, most: int) -> Sequence[Notice]:
        """See `authz.ports.notices.Outbox.undirected`."""
        rows = await self._use(lambda session: session.fetch(sql.find_undirected(most)))
        return [read_delivery(row).notice for row in rows]

    async def load(self, *, tenant: str, webhook: str, subject_key: str, since_ms: int) -> Load:
        """See `authz.ports.notices.Outbox.load`."""

        def count(session: Session) -> Load:
            ((waiting,),) = session.fetch(sql.count_waiting(tenant, webhook))
            ((told,),) = session.fetch(sql.count_of_subject(tenant, webhook, subject_key, since_ms))
            return Load(waiting=waiting, of_subject=told)

        return await self._use(count)

    async def direct(self, notice: Notice, deliveries: Sequence[Delivery]) -> bool:
        """See `authz.ports.notices.Outbox.direct`."""
        return await self._use(lambda session: _direct(session, notice, deliveries))

    async def claim(
        self, *, tenant: str, webhook: str, now_ms: int, lease_ms: int, most: int
    ) -> Sequence[Delivery]:
        """See `authz.ports.notices.Outbox.claim`."""
        due = sql.find_due(tenant, webhook, now_ms, most)

        def take(session: Session) -> list[Delivery]:
            # Most looks find nothing, and need no lock for it.
            if not session.fetch(due):
                return []
            with session.transaction():
                taken = []
                for row in session.fetch(due):
                    found = read_delivery(row)
                    claimed = replace(found, due_ms=now_ms + lease_ms, version=found.version + 1)
                    session.run(sql.move_delivery(claimed, found.version))
                    taken.append(claimed)
                return taken

        return await self._use(take)

    async def settle(
        self, claimed: Delivery, state: DeliveryState, *, attempts: int, due_ms: int, fault: str
    ) -> bool:
        """See `authz.ports.notices.Outbox.settle`."""
        moved = settled(claimed, state, attempts=attempts, due_ms=due_ms, fault=fault)

        def write(session: Session) -> bool:
            with session.transaction():
                if session.fetch(sql.find_version(claimed.message_id)) != [(claimed.version,)]:
                    return False
                session.run(sql.move_delivery(moved, claimed.version))
                return True

        return await self._use(write)

    async def sweep(self, before_ms: int) -> None:
        """See `authz.ports.notices.Outbox.sweep`."""
        await self._use(lambda session: session.run(sql.forget_delivered(before_ms)))

    async def close(self) -> None:
        """Release the session; everything is refused afterwards. May be called twice."""
        await asyncio.to_thread(self._close)

    async def _use(self, work: Callable[[Session], _T]) -> _T:
        return await asyncio.to_thread(self._use_here, work)

    def _use_here(self, work: Callable[[Session], _T]) -> _T:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed", code="store.closed")
            with self._dropped_on_failure():
                if self._session is None:
                    self._session = self._opened.enter_context(open_session(self._database, "write"))
                return work(self._session)

    @contextlib.contextmanager
    def _dropped_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # It may be lost, or stand in a transaction: the next one is opened anew.
            self._session = None
            with contextlib.suppress(Exception):
                self._opened.close()
            raise

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            self._session = None
            self._opened.close()


def _direct(session: Session, notice: Notice, deliveries: Sequence[Delivery]) -> bool:
    key = notice_key(notice)
    with session.transaction():
        if not session.fetch(sql.find_known([key])):
            return False
        session.run(sql.remove_undirected(key))
        ids = [delivery.message_id for delivery in deliveries]
        known = {str(row[0]) for row in session.fetch(sql.find_known(ids))} if ids else set()
        for delivery in deliveries:
            if delivery.message_id not in known:
                session.run(sql.add_delivery(delivery))
        return True


def settled(claimed: Delivery, state: DeliveryState, *, attempts: int, due_ms: int, fault: str) -> Delivery:
    """The next version of a delivery. What was delivered needs its text no more."""
    notice = replace(claimed.notice, body=b"") if state is DeliveryState.DELIVERED else claimed.notice
    return replace(
        claimed,
        notice=notice,
        state=state,
        attempts=attempts,
        due_ms=due_ms,
        fault=fault,
        version=claimed.version + 1,
    )
