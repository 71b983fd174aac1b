"""People as rows, in table order, and back."""

import json
from collections.abc import Sequence
from typing import Any

from authz.errors import StoreUnavailable
from authz.model.account import Account, SignInMethod
from authz.model.account_writes import (
    LinkKind,
    OidcIdentity,
    OrderKind,
    Passkey,
    PersonOrder,
    PersonSession,
    SignInLink,
    StoredSession,
)
from authz.store.write_connection import SqlValue

Row = Sequence[Any]
ACCOUNT_WIDTH = 9
"""Columns of an account, where another row follows it."""


def account_row(account: Account, version: int) -> Sequence[SqlValue]:
    """All columns of `accounts`."""
    return (
        *(account.account_id, account.tenant, account.person, account.display_name),
        *(_join(account.roles), account.created_at_ms, account.disabled_at_ms, int(account.dev), version),
    )


def read_account(row: Row) -> Account:
    """Raises `StoreUnavailable` for what is none."""
    return Account(
        account_id=str(row[0]),
        tenant=str(row[1]),
        person=str(row[2]),
        display_name=str(row[3]),
        roles=_split(row[4]),
        created_at_ms=int(row[5]),
        disabled_at_ms=int(row[6]),
        dev=bool(row[7]),
        version=int(row[8]),
    )


def passkey_row(passkey: Passkey) -> Sequence[SqlValue]:
    """All columns of `passkeys`."""
    return (
        *(passkey.credential_id, passkey.tenant, passkey.account_id, passkey.public_key),
        *(passkey.sign_count, passkey.label, passkey.created_at_ms, passkey.used_at_ms),
    )


def read_passkey(row: Row) -> Passkey:
    return Passkey(
        credential_id=str(row[0]),
        tenant=str(row[1]),
        account_id=str(row[2]),
        public_key=str(row[3]),
        sign_count=int(row[4]),
        label=str(row[5]),
        created_at_ms=int(row[6]),
        used_at_ms=int(row[7]),
    )


def session_row(session: PersonSession) -> Sequence[SqlValue]:
    """All columns of `person_sessions`."""
    return (
        *(session.session_id, session.tenant, session.account_id, session.method.value),
        *(json.dumps(sorted(session.groups)), session.created_at_ms, session.expires_at_ms),
        *(session.seen_at_ms, int(session.bearer), int(session.dev)),
    )


def read_session(row: Row) -> PersonSession:
    """Raises `StoreUnavailable` for what is none."""
    try:
        return PersonSession(
            session_id=str(row[0]),
            tenant=str(row[1]),
            account_id=str(row[2]),
            method=SignInMethod(row[3]),
            groups=_groups(row[4]),
            created_at_ms=int(row[5]),
            expires_at_ms=int(row[6]),
            seen_at_ms=int(row[7]),
            bearer=bool(row[8]),
            dev=bool(row[9]),
        )
    except ValueError as fault:
        raise StoreUnavailable("the row of a session is none of this program") from fault


def read_stored_session(row: Row) -> StoredSession:
    """An account and its session, in one row."""
    return StoredSession(account=read_account(row[:ACCOUNT_WIDTH]), session=read_session(row[ACCOUNT_WIDTH:]))


def link_row(link: SignInLink) -> Sequence[SqlValue]:
    """All columns of `sign_in_links`."""
    return (
        *(link.digest, link.tenant, link.account_id, link.kind.value),
        *(link.created_at_ms, link.expires_at_ms, link.session_id),
    )


def read_link(row: Row) -> SignInLink:
    """Raises `StoreUnavailable` for what is none."""
    try:
        return SignInLink(
            digest=str(row[0]),
            tenant=str(row[1]),
            account_id=str(row[2]),
            kind=LinkKind(row[3]),
            created_at_ms=int(row[4]),
            expires_at_ms=int(row[5]),
            session_id=str(row[6]),
        )
    except ValueError as fault:
        raise StoreUnavailable("the row of a link is none of this program") from fault


def identity_row(identity: OidcIdentity) -> Sequence[SqlValue]:
    """All columns of `oidc_identities`."""
    return (identity.tenant, identity.issuer, identity.subject, identity.account_id)


def read_identity(row: Row) -> OidcIdentity:
    return OidcIdentity(tenant=str(row[0]), issuer=str(row[1]), subject=str(row[2]), account_id=str(row[3]))


def order_row(order: PersonOrder) -> Sequence[SqlValue]:
    """All columns of `person_orders`."""
    return (
        *(order.order_id, order.tenant, order.kind.value, order.person, order.display_name),
        *(_join(order.roles), order.link_digest, order.link_expires_at_ms, order.at_ms, order.outcome),
    )


def read_order(row: Row) -> PersonOrder:
    """Raises `StoreUnavailable` for what is none."""
    try:
        return PersonOrder(
            order_id=str(row[0]),
            tenant=str(row[1]),
            kind=OrderKind(row[2]),
            person=str(row[3]),
            display_name=str(row[4]),
            roles=_split(row[5]),
            link_digest=str(row[6]),
            link_expires_at_ms=int(row[7]),
            at_ms=int(row[8]),
            outcome=str(row[9]),
        )
    except ValueError as fault:
        raise StoreUnavailable("the row of an order is none of this program") from fault


def _join(roles: frozenset[str]) -> str:
    return ",".join(sorted(roles))


def _split(text: object) -> frozenset[str]:
    return frozenset(filter(None, str(text).split(",")))


def _groups(text: object) -> frozenset[str]:
    parsed = json.loads(str(text))
    if not isinstance(parsed, list) or not all(isinstance(group, str) for group in parsed):
        raise ValueError("no list of groups")
    return frozenset(parsed)
