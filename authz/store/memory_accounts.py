"""People in memory, for tests: what `authz.store.account_writes` and `account_reads` do in a database."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from authz.model.account import Account
from authz.model.account_writes import (
    AccountMoved,
    AccountPut,
    AccountWrite,
    IdentityAdd,
    LinkAdd,
    LinkUse,
    OidcIdentity,
    OrderDone,
    Passkey,
    PasskeyAdd,
    PasskeyRemove,
    PasskeyUse,
    PersonOrder,
    PersonSession,
    SessionEnd,
    SessionOpen,
    SessionsEnd,
    SignInLink,
    StoredSession,
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclasses.dataclass
class _People:
    accounts: dict[str, Account] = dataclasses.field(default_factory=dict)
    passkeys: dict[str, Passkey] = dataclasses.field(default_factory=dict)
    sessions: dict[str, PersonSession] = dataclasses.field(default_factory=dict)
    links: dict[str, SignInLink] = dataclasses.field(default_factory=dict)
    identities: dict[tuple[str, str, str], OidcIdentity] = dataclasses.field(default_factory=dict)
    orders: dict[str, PersonOrder] = dataclasses.field(default_factory=dict)

    def copy(self) -> "_People":
        return _People(**{field.name: dict(getattr(self, field.name)) for field in dataclasses.fields(self)})


class MemoryAccounts:
    """All of them. Nothing here gives way, so a check and the writing after it are one step."""

    def _start_accounts(self) -> None:
        self._people = _People()

    def _check_available(self) -> None:
        """Raise `StoreUnavailable` when the store is to fail."""
        raise NotImplementedError

    def write_accounts(self, writes: Sequence[AccountWrite]) -> AccountMoved | None:
        """Write all of them, or nothing."""
        people = self._people.copy()
        for write in writes:
            if not _write(people, write):
                return AccountMoved(what=type(write).__name__)
        self._people = people
        return None

    def add_order(self, order: PersonOrder) -> None:
        """What the command line writes beside a service."""
        self._people.orders[order.order_id] = order

    async def find_account(self, tenant: str, account_id: str) -> Account | None:
        self._check_available()
        account = self._people.accounts.get(account_id)
        return account if account is not None and account.tenant == tenant else None

    async def find_account_of(self, tenant: str, person: str) -> Account | None:
        return next((found for found in await self.find_accounts(tenant) if found.person == person), None)

    async def find_accounts(self, tenant: str) -> Sequence[Account]:
        self._check_available()
        found = [account for account in self._people.accounts.values() if account.tenant == tenant]
        return sorted(found, key=lambda account: account.person)

    async def find_person_session(self, session_id: str) -> StoredSession | None:
        self._check_available()
        session = self._people.sessions.get(session_id)
        if session is None:
            return None
        return StoredSession(session=session, account=self._people.accounts[session.account_id])

    async def find_person_sessions(self, tenant: str, account_id: str) -> Sequence[PersonSession]:
        self._check_available()
        found = [
            each
            for each in self._people.sessions.values()
            if (each.tenant, each.account_id) == (tenant, account_id)
        ]
        return sorted(found, key=lambda each: (each.created_at_ms, each.session_id))

    async def find_passkey(self, credential_id: str) -> Passkey | None:
        self._check_available()
        return self._people.passkeys.get(credential_id)

    async def find_passkeys(self, tenant: str, account_id: str) -> Sequence[Passkey]:
        self._check_available()
        found = [
            key
            for key in self._people.passkeys.values()
            if (key.tenant, key.account_id) == (tenant, account_id)
        ]
        return sorted(found, key=lambda key: (key.created_at_ms, key.credential_id))

    async def find_sign_in_link(self, digest: str) -> SignInLink | None:
        self._check_available()
        return self._people.links.get(digest)

    async def find_identity(self, tenant: str, issuer: str, subject: str) -> OidcIdentity | None:
        self._check_available()
        return self._people.identities.get((tenant, issuer, subject))

    async def has_identity(self, tenant: str, account_id: str) -> bool:
        self._check_available()
        known = self._people.identities.values()
        return any((each.tenant, each.account_id) == (tenant, account_id) for each in known)

    async def open_orders(self, most: int) -> Sequence[PersonOrder]:
        self._check_available()
        found = [order for order in self._people.orders.values() if not order.outcome]
        return sorted(found, key=lambda order: (order.at_ms, order.order_id))[:most]

    async def note_session_seen(self, session_id: str, seen_at_ms: int) -> None:
        self._check_available()
        session = self._people.sessions.get(session_id)
        if session is not None and session.seen_at_ms < seen_at_ms:
            self._people.sessions[session_id] = dataclasses.replace(session, seen_at_ms=seen_at_ms)


def _write(people: _People, write: AccountWrite) -> bool:
    match write:
        case AccountPut(account=account):
            return _put(people, account)
        case PasskeyAdd(passkey=passkey):
            return _add(people.passkeys, passkey.credential_id, passkey)
        case PasskeyUse():
            key = people.passkeys.get(write.credential_id)
            if key is None or (key.tenant, key.sign_count) != (write.tenant, write.from_sign_count):
                return False
            used = dataclasses.replace(key, sign_count=write.sign_count, used_at_ms=write.used_at_ms)
            people.passkeys[write.credential_id] = used
            return True
        case PasskeyRemove():
            key = people.passkeys.get(write.credential_id)
            if key is None or (key.tenant, key.account_id) != (write.tenant, write.account_id):
                return False
            del people.passkeys[write.credential_id]
            return True
        case SessionOpen(session=session):
            now_ms = session.created_at_ms
            people.sessions = {k: each for k, each in people.sessions.items() if each.expires_at_ms > now_ms}
            return _add(people.sessions, session.session_id, session)
        case SessionEnd():
            _drop_links(
                people, lambda link: (link.tenant, link.session_id) == (write.tenant, write.session_id)
            )
            found = people.sessions.get(write.session_id)
            if found is None or found.tenant != write.tenant:
                return False
            del people.sessions[write.session_id]
            return True
        case _:
            return _write_rest(people, write)


def _write_rest(people: _People, write: AccountWrite) -> bool:
    match write:
        case SessionsEnd():
            mine = (write.tenant, write.account_id)
            _drop_links(people, lambda link: (link.tenant, link.account_id) == mine)
            people.sessions = {
                k: each for k, each in people.sessions.items() if (each.tenant, each.account_id) != mine
            }
            return True
        case LinkAdd(link=link):
            same = (link.tenant, link.account_id, link.kind)
            _drop_links(
                people,
                lambda old: (
                    old.expires_at_ms <= link.created_at_ms or (old.tenant, old.account_id, old.kind) == same
                ),
            )
            return _add(people.links, link.digest, link)
        case LinkUse():
            link_found = people.links.get(write.digest)
            if link_found is None or (link_found.tenant, link_found.kind) != (write.tenant, write.kind):
                return False
            del people.links[write.digest]
            return True
        case IdentityAdd(identity=identity):
            place = (identity.tenant, identity.issuer, identity.subject)
            return _add(people.identities, place, identity)
        case OrderDone():
            order = people.orders.get(write.order_id)
            if order is None or order.outcome:
                return False
            people.orders[write.order_id] = dataclasses.replace(order, outcome=write.outcome)
            return True
        case _:
            raise AssertionError(write)


def _put(people: _People, account: Account) -> bool:
    stored = people.accounts.get(account.account_id)
    if account.version == 0:
        taken = any(
            (each.tenant, each.person) == (account.tenant, account.person)
            for each in people.accounts.values()
        )
        if stored is not None or taken:
            return False
    elif stored is None or (stored.tenant, stored.version) != (account.tenant, account.version):
        return False
    people.accounts[account.account_id] = dataclasses.replace(account, version=account.version + 1)
    return True


def _add(known: dict[_Key, _Value], key: _Key, value: _Value) -> bool:
    if key in known:
        return False
    known[key] = value
    return True


def _drop_links(people: _People, is_over: Callable[[SignInLink], bool]) -> None:
    people.links = {digest: link for digest, link in people.links.items() if not is_over(link)}
