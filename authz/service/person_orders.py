"""What operators with access to the data order about people, carried out by a running service.

The command line cannot write the log beside a service that runs, and nothing about people changes without its
record. So it leaves an order, which changes nothing by itself; a service takes it within a moment.
"""

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import Iterable
from typing import Final

from authz.core.account_event import By, Change, order_refused_event
from authz.core.redact import Redactor
from authz.errors import StoreUnavailable
from authz.model.account import PERSON_ROLES, Account
from authz.model.account_writes import (
    DONE,
    AccountPut,
    AccountWrite,
    LinkAdd,
    LinkKind,
    OrderDone,
    OrderKind,
    PasskeyRemove,
    PersonOrder,
    SessionsEnd,
    SignInLink,
)
from authz.ports import Bundles, Clock, Ledger
from authz.service.people import AccountChanged, PeopleService

EVERY_SECONDS: Final = 0.25
"""Well within the second in which a disabled account is out everywhere."""
AT_ONCE: Final = 20
_log = logging.getLogger("authz.people")


class PersonOrders:
    """Takes orders, each once however many replicas there are."""

    def __init__(
        self, *, people: PeopleService, ledger: Ledger, bundles: Bundles, clock: Clock, redactor: Redactor
    ) -> None:
        self._people = people
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock
        self._redactor = redactor

    async def run(self) -> None:
        """Take orders for as long as the service runs."""
        while True:
            try:
                await self.take()
            except StoreUnavailable as fault:
                _log.error("orders about people could not be read", extra={"why": fault.internal})
                await asyncio.sleep(1)
            except Exception:  # noqa: BLE001 - logged, with its trace
                # The next one may be good; and without this task none would be taken any more.
                _log.exception("an order about people failed, which is a fault of this program")
                await asyncio.sleep(1)
            await asyncio.sleep(EVERY_SECONDS)

    async def take(self) -> None:
        """Carry out, or refuse, what was ordered since the last time. Raises `StoreUnavailable`."""
        for order in await self._ledger.open_orders(AT_ONCE):
            if self._bundles.in_force(order.tenant) is None:
                continue  # of a tenant that another service has
            try:
                await self._take(order)
            except AccountChanged:
                continue  # another replica was faster, or the account moved: it is looked at again

    async def end_dev_accounts(self, tenants: Iterable[str]) -> None:
        """Void what runs with `--dev` let in; for a run without. Raises `StoreUnavailable`."""
        for tenant in tenants:
            for account in await self._ledger.find_accounts(tenant):
                if not account.dev or not account.roles:
                    continue
                # Without a role nobody is let in, and a later dev run gives it some again.
                void = dataclasses.replace(account, roles=frozenset())
                await self._people.change(
                    void,
                    Change.DEV_ENDED,
                    By.SERVICE,
                    AccountPut(account=void),
                    SessionsEnd(tenant=tenant, account_id=account.account_id),
                    *await self._without_passkeys(account),
                )

    async def _take(self, order: PersonOrder) -> None:
        now_ms = self._clock.now_ms()
        account = await self._ledger.find_account_of(order.tenant, order.person)
        refused = self._fault_of(order, account, now_ms)
        if refused:
            event = order_refused_event(
                *(order.tenant, order.person, order.kind.value, refused),
                redactor=self._redactor,
                now_ms=now_ms,
            )
            done = OrderDone(order_id=order.order_id, outcome=refused, at_ms=now_ms)
            await self._people.commit(event, done)
            return
        changed, change = _ordered(order, account, now_ms)
        writes: list[AccountWrite] = [AccountPut(account=changed)]
        if account is not None and _ends_sessions(account, changed):
            writes.append(SessionsEnd(tenant=order.tenant, account_id=changed.account_id))
        if account is not None and account.dev and not changed.dev:
            # What a dev run let in is worth nothing to the account that it becomes.
            writes += await self._without_passkeys(account)
        if order.kind in (OrderKind.INVITE, OrderKind.DEV_LINK):
            writes.append(LinkAdd(link=_link(order, changed, now_ms)))
        writes.append(OrderDone(order_id=order.order_id, outcome=DONE, at_ms=now_ms))
        await self._people.change(changed, change, By.OPERATOR, *writes)

    async def _without_passkeys(self, account: Account) -> list[AccountWrite]:
        held = await self._ledger.find_passkeys(account.tenant, account.account_id)
        mine = {"tenant": account.tenant, "account_id": account.account_id}
        return [PasskeyRemove(**mine, credential_id=passkey.credential_id) for passkey in held]

    def _fault_of(self, order: PersonOrder, account: Account | None, now_ms: int) -> str:
        """Why an order is not carried out; empty where it is."""
        if order.kind in (OrderKind.DISABLE, OrderKind.ENABLE):
            return "" if account is not None else "there is no account of that person"
        faults = {
            "sign-in links are of a service with `--dev` alone; use `authz people invite`": (
                order.kind is OrderKind.DEV_LINK and not self._people.dev
            ),
            f"people have roles from {', '.join(sorted(PERSON_ROLES))}": (
                not order.roles or bool(order.roles - PERSON_ROLES)
            ),
            "the policy bundle in force has no user of that id; add it to `entities.yaml`": (
                not self._people.is_in_bundle(order.tenant, order.person)
            ),
            "the account is disabled; enable it first": account is not None and account.disabled_at_ms > 0,
            "the person has an account that is not of a dev run": (
                order.kind is OrderKind.DEV_LINK and account is not None and not account.dev
            ),
            "the link is over already": now_ms >= order.link_expires_at_ms,
        }
        return next((fault for fault, holds in faults.items() if holds), "")


def _ends_sessions(before: Account, after: Account) -> bool:
    return (
        bool(before.roles - after.roles)
        or before.dev != after.dev
        # Also at enabling: what was opened in the moment of disabling must not come back to life.
        or before.disabled_at_ms != after.disabled_at_ms
    )


def _ordered(order: PersonOrder, account: Account | None, now_ms: int) -> tuple[Account, Change]:
    """The account as the order wants it, and what that is."""
    if account is not None and order.kind is OrderKind.DISABLE:
        return dataclasses.replace(account, disabled_at_ms=now_ms), Change.DISABLED
    if account is not None and order.kind is OrderKind.ENABLE:
        return dataclasses.replace(account, disabled_at_ms=0), Change.ENABLED
    dev = order.kind is OrderKind.DEV_LINK
    base = account or Account(
        account_id=secrets.token_hex(8),
        tenant=order.tenant,
        person=order.person,
        display_name=order.display_name,
        roles=order.roles,
        created_at_ms=now_ms,
    )
    name = order.display_name or base.display_name
    changed = dataclasses.replace(base, roles=order.roles, display_name=name, dev=dev)
    return changed, Change.DEV_ACCOUNT if dev else Change.INVITED


def _link(order: PersonOrder, account: Account, now_ms: int) -> SignInLink:
    return SignInLink(
        digest=order.link_digest,
        tenant=order.tenant,
        account_id=account.account_id,
        kind=LinkKind.DEV_LINK if order.kind is OrderKind.DEV_LINK else LinkKind.INVITATION,
        created_at_ms=now_ms,
        expires_at_ms=order.link_expires_at_ms,
    )
