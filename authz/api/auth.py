"""Callers: an API key in `Authorization: Bearer` (spec section 11)."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from authz.core.ruleset import Ruleset
from authz.errors import Forbidden, Unauthenticated
from authz.model.caller import Caller, Profile
from authz.ports import CredentialSource

MAX_KEY_LENGTH: Final = 512
ROLES: Final = frozenset({"decide", "issue", "approve", "policy", "audit"})


def digest_key(key: str) -> str:
    """What is stored of a key. Keys are long and random, so a plain hash cannot be guessed back."""
    return hashlib.sha256(key.encode("utf-8")).hexdigest()


class Authenticator:
    """Finds the caller behind a request."""

    def __init__(self, credentials: CredentialSource, rulesets: Mapping[str, Ruleset]) -> None:
        self._credentials = credentials
        self._rulesets = rulesets

    async def caller(self, headers: Iterable[tuple[bytes, bytes]], *roles: str) -> Caller:
        """The caller, if its credential is live and has one of `roles`.

        Raises `Unauthenticated` for a missing, malformed, unknown or revoked key, all alike, and
        `Forbidden` for a known caller without any of the roles.
        """
        values = [value for name, value in headers if name == b"authorization"]
        if len(values) != 1:
            raise Unauthenticated("send one `Authorization: Bearer` header with an API key")
        scheme, _, key = values[0].partition(b" ")
        key = key.strip()
        if scheme.lower() != b"bearer" or not key or len(key) > MAX_KEY_LENGTH or not key.isascii():
            raise Unauthenticated("send `Authorization: Bearer` with an API key")
        credential = await self._credentials.find_credential(digest_key(key.decode("ascii")))
        if credential is None or credential.tenant not in self._rulesets:
            raise Unauthenticated("the API key is unknown or revoked")
        # A profile that the bundle does not have may assert nothing.
        profiles = self._rulesets[credential.tenant].profiles
        caller = Caller(
            key_id=credential.key_id,
            tenant=credential.tenant,
            roles=credential.roles,
            profile=profiles.get(credential.profile) or Profile(name=credential.profile),
            dev=credential.dev,
        )
        if not caller.roles.intersection(roles):
            named = " or ".join(f"`{role}`" for role in roles)
            raise Forbidden(f"the API key does not have the role {named}", code="caller.role_missing")
        return caller
