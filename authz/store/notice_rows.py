"""Notices and their deliveries as rows of the store, and back."""

from collections.abc import Sequence
from typing import Any, Final

from authz.core.notice import notice_key
from authz.errors import StoreUnavailable
from authz.model.approval_writes import Notice
from authz.ports.notices import Delivery, DeliveryState
from authz.store.write_connection import SqlValue

UNDIRECTED: Final = ""
"""In place of a webhook's name."""


def notice_row(notice: Notice) -> tuple[SqlValue, ...]:
    """The columns of `notices`, in table order, of a notice for which no webhook is chosen yet.

    Raises `ValueError` for a body that is no UTF-8.
    """
    return (
        *(notice_key(notice), notice.tenant, UNDIRECTED, notice.kind, notice.subject_key),
        *(notice.approval_id, notice.body.decode(), notice.at_ms, DeliveryState.WAITING.value),
        *(0, 0, "", 0),
    )


def delivery_row(delivery: Delivery) -> tuple[SqlValue, ...]:
    """The same of a delivery."""
    notice = delivery.notice
    return (
        *(delivery.message_id, notice.tenant, delivery.webhook, notice.kind, notice.subject_key),
        *(notice.approval_id, notice.body.decode(), notice.at_ms, delivery.state.value),
        *(delivery.attempts, delivery.due_ms, delivery.fault, delivery.version),
    )


def read_delivery(row: Sequence[Any]) -> Delivery:
    """A row of `notices`. Raises `StoreUnavailable` for one that this program did not write."""
    message_id, tenant, webhook, kind, subject_key, approval_id, body, at_ms, state, *rest = row
    attempts, due_ms, fault, version = rest
    try:
        known_state = DeliveryState(state)
    except ValueError as unknown:
        raise StoreUnavailable(f"a notice has the unknown state `{state}`") from unknown
    return Delivery(
        message_id=message_id,
        webhook=webhook,
        notice=Notice(
            tenant=tenant,
            kind=kind,
            subject_key=subject_key,
            approval_id=approval_id,
            body=body.encode(),
            at_ms=at_ms,
        ),
        state=known_state,
        attempts=attempts,
        due_ms=due_ms,
        fault=fault,
        version=version,
    )
