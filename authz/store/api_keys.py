"""API keys: made once, shown once, stored as a SHA-256 digest only.

The keys hold 256 random bits, so a plain digest cannot be guessed back; a slow hash would only slow
down every request.
"""

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, select, update

from authz.core import credentials
from authz.errors import ConfigError, NotFound
from authz.store.database import Database, open_session
from authz.store.tables import API_KEYS

ROLES = credentials.ROLES
digest_api_key = credentials.digest_api_key
KEY_PREFIX = "azk_"
_SECRET_BYTES = 32
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""As the configuration allows."""
_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""As a bundle allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as the store lists it. The key itself is not known to anyone but its holder."""

    key_id: str
    tenant: str
    name: str
    roles: frozenset[str]
    profile: str
    dev: bool
    created_at_ms: int
    revoked_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedApiKey:
    """A new key. `secret` is what the caller presents; it is shown now or never."""

    key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"CreatedApiKey(key_id={self.key_id!r}, secret=…)"


def create_api_key(
    database: Database,
    *,
    name: str,
    roles: Iterable[str],
    profile: str,
    now_ms: int,
    tenant: str = "default",
    dev: bool = False,
) -> CreatedApiKey:
    """Make a key and store its digest. Raises `ConfigError` for what it may not be, `StoreUnavailable`."""
    wanted = frozenset(roles)
    check_key(name=name, roles=wanted, profile=profile, tenant=tenant, dev=dev)
    secret = KEY_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    key_id = secrets.token_hex(6)
    values = {
        "key_id": key_id,
        "tenant": tenant,
        "name": name,
        "key_digest": digest_api_key(secret),
        "roles": ",".join(sorted(wanted)),
        "profile": profile,
        "dev": dev,
        "created_at_ms": now_ms,
        "revoked_at_ms": None,
    }
    with open_session(database, "create") as session:
        session.run(insert(API_KEYS).values(values))
    return CreatedApiKey(key_id=key_id, secret=secret)


def replace_dev_key(
    database: Database, *, key_digest: str, roles: Iterable[str], profile: str, tenant: str, now_ms: int
) -> None:
    """Make the key of that digest the tenant's only dev key: those of earlier runs are revoked."""
    wanted = frozenset(roles)
    check_key(name="dev", roles=wanted, profile=profile, tenant=tenant, dev=True)
    values = {
        "key_id": secrets.token_hex(6),
        "tenant": tenant,
        "name": "dev",
        "key_digest": key_digest,
        "roles": ",".join(sorted(wanted)),
        "profile": profile,
        "dev": True,
        "created_at_ms": now_ms,
        "revoked_at_ms": None,
    }
    others = (
        update(API_KEYS)
        .where(API_KEYS.c.dev.is_(True), API_KEYS.c.revoked_at_ms.is_(None), API_KEYS.c.tenant == tenant)
        .values(revoked_at_ms=now_ms)
    )
    known = select(API_KEYS.c.dev, API_KEYS.c.tenant).where(API_KEYS.c.key_digest == key_digest)
    with open_session(database, "create") as session, session.transaction():
        found = session.fetch(known)
        if found and not (found[0][0] and found[0][1] == tenant):
            raise ConfigError("the dev key is already the key of another caller; choose another")
        session.run(others)
        if not found:
            session.run(insert(API_KEYS).values(values))
        else:
            renewed = {name: values[name] for name in ("roles", "profile", "revoked_at_ms")}
            session.run(update(API_KEYS).where(API_KEYS.c.key_digest == key_digest).values(renewed))


def check_key(*, name: str, roles: frozenset[str], profile: str, tenant: str, dev: bool) -> None:
    """Refuse (`ConfigError`) malformed names, no or unknown roles, or a dev key that approves.

    Whether the tenant and its profile exist is not known here: bundles come and go without the store.
    """
    if not name or not name.isprintable():
        raise ConfigError("the name of a key must be printable text that is not empty")
    if _TENANT.fullmatch(tenant) is None:
        raise ConfigError("a tenant is 1 to 63 of `a-z`, `0-9` and `-`, and starts with no `-`")
    if _PROFILE.fullmatch(profile) is None:
        raise ConfigError(
            "a profile is 1 to 64 of letters, digits, `.`, `_` and `-`, and starts with a letter or digit"
        )
    if not roles:
        raise ConfigError("a key needs at least one role")
    if unknown := sorted(roles - ROLES):
        raise ConfigError(f"`{unknown[0]}` is not a role; choose from {', '.join(sorted(ROLES))}")
    if dev and "approve" in roles:
        raise ConfigError("a dev key never approves (it stands in for agents and runtimes)")


def list_api_keys(database: Database, *, tenant: str | None = None) -> Sequence[ApiKey]:
    """All keys, also revoked ones, oldest first; of one tenant when given. Raises `StoreUnavailable`."""
    statement = select(API_KEYS).order_by(API_KEYS.c.created_at_ms, API_KEYS.c.key_id)
    if tenant is not None:
        statement = statement.where(API_KEYS.c.tenant == tenant)
    with open_session(database, "read") as session:
        rows = session.fetch(statement)
    return [_read_key(row) for row in rows]


def revoke_api_key(database: Database, key_id: str, *, now_ms: int, tenant: str | None = None) -> None:
    """Revoke a key; revoking it again changes nothing. Raises `NotFound`, `StoreUnavailable`.

    A database that is not there is not made: it would only hide that the path is wrong.
    Running servers notice within one second.
    """
    known = select(API_KEYS.c.key_id).where(API_KEYS.c.key_id == key_id)
    if tenant is not None:
        known = known.where(API_KEYS.c.tenant == tenant)
    revoke = (
        update(API_KEYS)
        .where(API_KEYS.c.key_id.in_(known))
        .where(API_KEYS.c.revoked_at_ms.is_(None))
        .values(revoked_at_ms=now_ms)
    )
    with open_session(database, "write") as session:
        if not session.fetch(known):
            raise NotFound(f"there is no key `{key_id}`; `authz keys list` shows them")
        session.run(revoke)


def _read_key(row: tuple[Any, ...]) -> ApiKey:
    values = dict(zip(API_KEYS.columns.keys(), row, strict=True))
    return ApiKey(
        key_id=values["key_id"],
        tenant=values["tenant"],
        name=values["name"],
        roles=frozenset(filter(None, values["roles"].split(","))),
        profile=values["profile"],
        dev=bool(values["dev"]),
        created_at_ms=values["created_at_ms"],
        revoked_at_ms=values["revoked_at_ms"],
    )
