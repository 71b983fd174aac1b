"""Table models of people: accounts, passkeys, sessions, links, who they are elsewhere, operators' orders.

No secret is in them: digests of tokens, public keys of passkeys.
"""

from sqlalchemy import BigInteger, Index, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from authz.store.tables import METADATA


class _Table(SQLModel):
    metadata = METADATA


_ONE_TREE = {"sqlite_with_rowid": False}


class AccountRow(_Table, table=True):
    """`authz.model.account.Account`."""

    __tablename__ = "accounts"
    __table_args__ = (UniqueConstraint("tenant", "person"), _ONE_TREE)

    account_id: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text)
    person: str = Field(sa_type=Text)
    display_name: str = Field(sa_type=Text)
    roles: str = Field(sa_type=Text)
    """Joined by commas, sorted."""
    created_at_ms: int = Field(sa_type=BigInteger)
    disabled_at_ms: int = Field(sa_type=BigInteger)
    dev: int = Field(sa_type=BigInteger)
    version: int = Field(sa_type=BigInteger)


class PasskeyRow(_Table, table=True):
    """`authz.model.account_writes.Passkey`."""

    __tablename__ = "passkeys"
    __table_args__ = (Index("passkeys_by_account", "tenant", "account_id"), _ONE_TREE)

    credential_id: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text)
    account_id: str = Field(sa_type=Text)
    public_key: str = Field(sa_type=Text)
    sign_count: int = Field(sa_type=BigInteger)
    label: str = Field(sa_type=Text)
    created_at_ms: int = Field(sa_type=BigInteger)
    used_at_ms: int = Field(sa_type=BigInteger)


class PersonSessionRow(_Table, table=True):
    """`authz.model.account_writes.PersonSession`. Swept away when it is over."""

    __tablename__ = "person_sessions"
    __table_args__ = (
        Index("person_sessions_by_account", "tenant", "account_id"),
        Index("person_sessions_by_end", "expires_at_ms"),
        _ONE_TREE,
    )

    session_id: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text)
    account_id: str = Field(sa_type=Text)
    method: str = Field(sa_type=Text)
    groups: str = Field(sa_type=Text)
    """JSON array, sorted."""
    created_at_ms: int = Field(sa_type=BigInteger)
    expires_at_ms: int = Field(sa_type=BigInteger)
    seen_at_ms: int = Field(sa_type=BigInteger)
    bearer: int = Field(sa_type=BigInteger)
    dev: int = Field(sa_type=BigInteger)


class SignInLinkRow(_Table, table=True):
    """`authz.model.account_writes.SignInLink`. Gone when it was used; swept away when it is over."""

    __tablename__ = "sign_in_links"
    __table_args__ = (Index("sign_in_links_by_account", "tenant", "account_id"), _ONE_TREE)

    digest: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text)
    account_id: str = Field(sa_type=Text)
    kind: str = Field(sa_type=Text)
    created_at_ms: int = Field(sa_type=BigInteger)
    expires_at_ms: int = Field(sa_type=BigInteger)
    session_id: str = Field(sa_type=Text)


class OidcIdentityRow(_Table, table=True):
    """`authz.model.account_writes.OidcIdentity`."""

    __tablename__ = "oidc_identities"
    __table_args__ = (Index("oidc_identities_by_account", "tenant", "account_id"), _ONE_TREE)

    tenant: str = Field(sa_type=Text, primary_key=True)
    issuer: str = Field(sa_type=Text, primary_key=True)
    subject: str = Field(sa_type=Text, primary_key=True)
    account_id: str = Field(sa_type=Text)


class PersonOrderRow(_Table, table=True):
    """`authz.model.account_writes.PersonOrder`. Written by the command line, beside the service."""

    __tablename__ = "person_orders"
    __table_args__ = (Index("person_orders_by_outcome", "outcome", "at_ms"), _ONE_TREE)

    order_id: str = Field(sa_type=Text, primary_key=True)
    tenant: str = Field(sa_type=Text)
    kind: str = Field(sa_type=Text)
    person: str = Field(sa_type=Text)
    display_name: str = Field(sa_type=Text)
    roles: str = Field(sa_type=Text)
    link_digest: str = Field(sa_type=Text)
    link_expires_at_ms: int = Field(sa_type=BigInteger)
    at_ms: int = Field(sa_type=BigInteger)
    outcome: str = Field(sa_type=Text)


ACCOUNTS = METADATA.tables["accounts"]
PASSKEYS = METADATA.tables["passkeys"]
PERSON_SESSIONS = METADATA.tables["person_sessions"]
SIGN_IN_LINKS = METADATA.tables["sign_in_links"]
OIDC_IDENTITIES = METADATA.tables["oidc_identities"]
PERSON_ORDERS = METADATA.tables["person_orders"]
ACCOUNT_TABLES = (
    *("accounts", "passkeys", "person_sessions", "sign_in_links", "oidc_identities", "person_orders"),
)
