"""What is read of people. It is written by `authz.ports.CommitUnit` alone, but for session use."""

from collections.abc import Sequence
from typing import Protocol

from authz.model.account import Account, SignedIn
from authz.model.account_writes import (
    OidcIdentity,
    Passkey,
    PersonOrder,
    PersonSession,
    SignInLink,
    StoredSession,
)


class AccountReads(Protocol):
    """People as the durable store has them, never cached: what one process ends has ended in all of them.

    Every method raises `StoreUnavailable`. Nothing here leaves out dev accounts: the service does.
    """

    async def find_account(self, tenant: str, account_id: str) -> Account | None:
        """The account of that id, in this tenant."""
        ...

    async def find_account_of(self, tenant: str, person: str) -> Account | None:
        """The account of that person, in this tenant."""
        ...

    async def find_accounts(self, tenant: str) -> Sequence[Account]:
        """All of this tenant, by person."""
        ...

    async def find_person_session(self, session_id: str) -> StoredSession | None:
        """The session of that digest, over or not, with its account."""
        ...

    async def find_person_sessions(self, tenant: str, account_id: str) -> Sequence[PersonSession]:
        """All sessions of one account, over or not, the oldest first."""
        ...

    async def find_passkey(self, credential_id: str) -> Passkey | None:
        """The passkey of that id, of whichever tenant: the account says which it is."""
        ...

    async def find_passkeys(self, tenant: str, account_id: str) -> Sequence[Passkey]:
        """All of one account, the oldest first."""
        ...

    async def find_sign_in_link(self, digest: str) -> SignInLink | None:
        """The link of that digest, over or not, unless it was used."""
        ...

    async def find_identity(self, tenant: str, issuer: str, subject: str) -> OidcIdentity | None:
        """Whose account that is at the provider."""
        ...

    async def has_identity(self, tenant: str, account_id: str) -> bool:
        """Whether the account is known at a provider, so that it is not signed in to by passkey alone."""
        ...

    async def open_orders(self, most: int) -> Sequence[PersonOrder]:
        """Orders that nobody has carried out yet, the oldest first."""
        ...

    async def note_session_seen(self, session_id: str, seen_at_ms: int) -> None:
        """The session was used. No change of anything, so it has no record; it never brings one back."""
        ...


class PersonSource(Protocol):
    """Finds the person behind a session's token."""

    async def session_of(self, token: str) -> SignedIn | None:
        """The live session of that token, with its account as it is now; `None` for any other text.

        Raises `StoreUnavailable`.
        """
        ...
