"""What is read of people, as SQL without a driver, and the reading itself for both databases."""

import abc
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Select, Update, bindparam, select, update

from authz.model.account import Account
from authz.model.account_writes import (
    OidcIdentity,
    Passkey,
    PersonOrder,
    PersonSession,
    SignInLink,
    StoredSession,
)
from authz.store.account_rows import (
    read_account,
    read_identity,
    read_link,
    read_order,
    read_passkey,
    read_session,
    read_stored_session,
)
from authz.store.account_tables import (
    ACCOUNTS,
    OIDC_IDENTITIES,
    PASSKEYS,
    PERSON_ORDERS,
    PERSON_SESSIONS,
    SIGN_IN_LINKS,
)
from authz.store.write_connection import SqlValue


class AccountReader(abc.ABC):
    """`authz.ports.accounts.AccountReads` over one way to fetch rows."""

    @abc.abstractmethod
    async def _fetch_people(self, statement: Select[Any]) -> Sequence[Sequence[Any]]:
        """All rows. No text in it may hold a NUL: nothing is found under one. Raises `StoreUnavailable`."""

    @abc.abstractmethod
    async def _write_beside(self, statement: Update) -> None:
        """Run it in a transaction of its own. Raises `StoreUnavailable`."""

    async def find_account(self, tenant: str, account_id: str) -> Account | None:
        """See `AccountReads.find_account`."""
        rows = await self._people(
            select(*ACCOUNTS.c).where(ACCOUNTS.c.tenant == tenant, ACCOUNTS.c.account_id == account_id),
            *(tenant, account_id),
        )
        return read_account(rows[0]) if rows else None

    async def find_account_of(self, tenant: str, person: str) -> Account | None:
        """See `AccountReads.find_account_of`."""
        rows = await self._people(
            select(*ACCOUNTS.c).where(ACCOUNTS.c.tenant == tenant, ACCOUNTS.c.person == person),
            *(tenant, person),
        )
        return read_account(rows[0]) if rows else None

    async def find_accounts(self, tenant: str) -> Sequence[Account]:
        """See `AccountReads.find_accounts`."""
        found = select(*ACCOUNTS.c).where(ACCOUNTS.c.tenant == tenant).order_by(ACCOUNTS.c.person)
        return [read_account(row) for row in await self._people(found, tenant)]

    async def find_person_session(self, session_id: str) -> StoredSession | None:
        """See `AccountReads.find_person_session`."""
        session = PERSON_SESSIONS.c
        found = (
            select(*ACCOUNTS.c, *session)
            .join_from(
                PERSON_SESSIONS,
                ACCOUNTS,
                (session.account_id == ACCOUNTS.c.account_id) & (session.tenant == ACCOUNTS.c.tenant),
            )
            .where(session.session_id == session_id)
        )
        rows = await self._people(found, session_id)
        return read_stored_session(rows[0]) if rows else None

    async def find_person_sessions(self, tenant: str, account_id: str) -> Sequence[PersonSession]:
        """See `AccountReads.find_person_sessions`."""
        session = PERSON_SESSIONS.c
        found = select(*session).where(session.tenant == tenant, session.account_id == account_id)
        found = found.order_by(session.created_at_ms, session.session_id)
        return [read_session(row) for row in await self._people(found, tenant, account_id)]

    async def find_passkey(self, credential_id: str) -> Passkey | None:
        """See `AccountReads.find_passkey`."""
        rows = await self._people(
            select(*PASSKEYS.c).where(PASSKEYS.c.credential_id == credential_id), credential_id
        )
        return read_passkey(rows[0]) if rows else None

    async def find_passkeys(self, tenant: str, account_id: str) -> Sequence[Passkey]:
        """See `AccountReads.find_passkeys`."""
        keys = PASSKEYS.c
        found = select(*keys).where(keys.tenant == tenant, keys.account_id == account_id)
        found = found.order_by(keys.created_at_ms, keys.credential_id)
        return [read_passkey(row) for row in await self._people(found, tenant, account_id)]

    async def find_sign_in_link(self, digest: str) -> SignInLink | None:
        """See `AccountReads.find_sign_in_link`."""
        rows = await self._people(select(*SIGN_IN_LINKS.c).where(SIGN_IN_LINKS.c.digest == digest), digest)
        return read_link(rows[0]) if rows else None

    async def find_identity(self, tenant: str, issuer: str, subject: str) -> OidcIdentity | None:
        """See `AccountReads.find_identity`."""
        known = OIDC_IDENTITIES.c
        found = select(*known).where(known.tenant == tenant, known.issuer == issuer, known.subject == subject)
        rows = await self._people(found, tenant, issuer, subject)
        return read_identity(rows[0]) if rows else None

    async def has_identity(self, tenant: str, account_id: str) -> bool:
        """See `AccountReads.has_identity`."""
        known = OIDC_IDENTITIES.c
        found = select(known.issuer).where(known.tenant == tenant, known.account_id == account_id)
        return bool(await self._people(found, tenant, account_id))

    async def open_orders(self, most: int) -> Sequence[PersonOrder]:
        """See `AccountReads.open_orders`."""
        orders = PERSON_ORDERS.c
        found = select(*orders).where(orders.outcome == "").order_by(orders.at_ms, orders.order_id)
        return [read_order(row) for row in await self._people(found.limit(most))]

    async def note_session_seen(self, session_id: str, seen_at_ms: int) -> None:
        """See `AccountReads.note_session_seen`."""
        session = PERSON_SESSIONS.c
        await self._write_beside(
            update(PERSON_SESSIONS)
            # Never back: of two requests the later one counts, whichever comes to be written last.
            .where(session.session_id == session_id, session.seen_at_ms < seen_at_ms)
            .values(seen_at_ms=bindparam("seen", seen_at_ms, type_=BigInteger))
        )

    async def _people(self, statement: Select[Any], *texts: SqlValue) -> Sequence[Sequence[Any]]:
        # No text of PostgreSQL holds a NUL, so nothing is found under one that does; nor under no UTF-8.
        for text in texts:
            if isinstance(text, str) and ("\0" in text or not _is_utf8(text)):
                return []
        return await self._fetch_people(statement)


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
