"""Dead letters, for commands: what nobody took, tried again or dropped."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from authz.errors import NotFound
from authz.ports.notices import Delivery, DeliveryState
from authz.store import notice_statements as sql
from authz.store.database import Database, Session, open_session
from authz.store.notice_rows import read_delivery

MOST_LETTERS: Final = 1000
"""That are listed, tried again or dropped at once."""


def list_letters(database: Database, *, tenant: str | None = None) -> Sequence[Delivery]:
    """Dead letters, the newest first; of one tenant when given. Raises `StoreUnavailable`."""
    with open_session(database, "read") as session:
        return _find(session, tenant, None)


def retry_letters(
    database: Database, *, now_ms: int, tenant: str | None, message_id: str | None
) -> Sequence[str]:
    """Have them tried again from now on, as if for the first time; the ids of those that are.

    Raises `NotFound` when there is none of that id, and `StoreUnavailable`.
    """
    with open_session(database, "write") as session, session.transaction():
        found = _find(session, tenant, message_id)
        for letter in found:
            again = replace(
                letter,
                state=DeliveryState.WAITING,
                attempts=0,
                due_ms=now_ms,
                fault="",
                version=letter.version + 1,
            )
            session.run(sql.move_delivery(again, letter.version))
    return [letter.message_id for letter in found]


def drop_letters(database: Database, *, tenant: str | None, message_id: str | None) -> Sequence[str]:
    """Take them away for good; the ids of those that are gone. Raises as `retry_letters`."""
    with open_session(database, "write") as session, session.transaction():
        found = _find(session, tenant, message_id)
        for letter in found:
            session.run(sql.remove_dead(letter.message_id))
    return [letter.message_id for letter in found]


def _find(session: Session, tenant: str | None, message_id: str | None) -> Sequence[Delivery]:
    letters = [read_delivery(row) for row in session.fetch(sql.find_dead(tenant, message_id, MOST_LETTERS))]
    if message_id is not None and not letters:
        raise NotFound(f"there is no dead letter `{message_id[:80]}`; `authz webhooks list` shows them")
    return letters
