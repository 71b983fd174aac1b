"""The statements over notices, one for each thing that is asked of them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Insert, Select, Update, delete, func, insert, literal_column, select, update
from sqlalchemy.sql.dml import Delete

from authz.ports.notices import Delivery, DeliveryState
from authz.store.notice_rows import UNDIRECTED, delivery_row
from authz.store.notice_tables import NOTICES
from authz.store.sql_parts import NO_OFFSET

_N = NOTICES.c
# Written out: SQLite takes an index over some rows only for a query that says so itself.
_WAITING = _N.state == literal_column(f"'{DeliveryState.WAITING.value}'")
_DEAD = _N.state == literal_column(f"'{DeliveryState.DEAD.value}'")
# The index on what waits begins with the tenant, and there are few tenants: so it serves here, too.
_UNDIRECTED = (_WAITING, _N.webhook == UNDIRECTED)


def find_undirected(most: int) -> Select[Any]:
    """The oldest notices for which no webhook is chosen yet."""
    return select(NOTICES).where(*_UNDIRECTED).order_by(_N.at_ms, _N.message_id).limit(most).offset(NO_OFFSET)


def find_known(message_ids: Sequence[str]) -> Select[Any]:
    """Which of these are on record."""
    return select(_N.message_id).where(_N.message_id.in_(message_ids))


def count_waiting(tenant: str, webhook: str) -> Select[Any]:
    """Deliveries that wait for a webhook."""
    return select(func.count()).where(_WAITING, _N.tenant == tenant, _N.webhook == webhook)


def count_of_subject(tenant: str, webhook: str, subject_key: str, since_ms: int) -> Select[Any]:
    """Deliveries to a webhook about one subject since a time."""
    return select(func.count()).where(
        _N.tenant == tenant, _N.webhook == webhook, _N.subject_key == subject_key, _N.at_ms >= since_ms
    )


def remove_undirected(message_id: str) -> Delete:
    """Take a notice away that has its deliveries now."""
    return delete(NOTICES).where(_N.message_id == message_id, *_UNDIRECTED)


def add_delivery(delivery: Delivery) -> Insert:
    """Put a delivery on record."""
    return insert(NOTICES).values(dict(zip(NOTICES.columns.keys(), delivery_row(delivery), strict=True)))


def find_due(tenant: str, webhook: str, now_ms: int, most: int) -> Select[Any]:
    """Deliveries that may be tried now, the oldest first."""
    return (
        select(NOTICES)
        .where(_WAITING, _N.tenant == tenant, _N.webhook == webhook, _N.due_ms <= now_ms)
        .order_by(_N.due_ms, _N.message_id)
        .limit(most)
        .offset(NO_OFFSET)
    )


def find_version(message_id: str) -> Select[Any]:
    """The version of a delivery that waits."""
    return select(_N.version).where(_N.message_id == message_id, _WAITING)


def move_delivery(moved: Delivery, from_version: int) -> Update:
    """Write a delivery's next version."""
    return (
        update(NOTICES)
        .where(_N.message_id == moved.message_id, _N.version == from_version)
        .values(
            body=moved.notice.body.decode(),
            state=moved.state.value,
            attempts=moved.attempts,
            due_ms=moved.due_ms,
            fault=moved.fault,
            version=moved.version,
        )
    )


def forget_delivered(before_ms: int) -> Delete:
    """What was delivered, of notices from before that time."""
    return delete(NOTICES).where(_N.state == DeliveryState.DELIVERED.value, _N.at_ms < before_ms)


def find_dead(tenant: str | None, message_id: str | None, most: int) -> Select[Any]:
    """Dead letters, the newest first; of one tenant, or the one of that id, where one is given."""
    found = select(NOTICES).where(_DEAD)
    if tenant is not None:
        found = found.where(_N.tenant == tenant)
    if message_id is not None:
        found = found.where(_N.message_id == message_id)
    return found.order_by(_N.at_ms.desc(), _N.message_id).limit(most).offset(NO_OFFSET)


def remove_dead(message_id: str) -> Delete:
    """Take a dead letter away."""
    return delete(NOTICES).where(_N.message_id == message_id, _DEAD)
