"""Callers: an API key in `Authorization: Bearer` (spec section 11)."""

from collections.abc import Iterable, Mapping

from authz.core.credentials import digest_api_key, read_key
from authz.core.ruleset import Ruleset
from authz.errors import Forbidden, Unauthenticated
from authz.model.caller import Caller, Profile
from authz.ports import CredentialSource


class Authenticator:
    """Finds the caller behind a request."""

    def __init__(
        self, credentials: CredentialSource, rulesets: Mapping[str, Ruleset], *, dev: bool = False
    ) -> None:
        """`dev` says that this process runs with `--dev`: nowhere else is a dev key one."""
        self._credentials = credentials
        self._rulesets = rulesets
        self._dev = dev

    async def caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        """The caller, if its credential is live. What it may do here, `check_role` tells.

        Raises `Unauthenticated` for a missing, malformed, unknown or revoked key, all alike.
        """
        values = [value for name, value in headers if name == b"authorization"]
        if len(values) != 1:
            raise Unauthenticated("send one `Authorization: Bearer` header with an API key")
        scheme, _, presented = values[0].partition(b" ")
        key = read_key(presented.strip(b" \t"))
        if scheme.lower() != b"bearer" or key is None:
            raise Unauthenticated("send `Authorization: Bearer` with an API key")
        credential = await self._credentials.find_credential(digest_api_key(key))
        if (
            credential is None
            or credential.tenant not in self._rulesets
            or (credential.dev and not self._dev)
        ):
            raise Unauthenticated("the API key is unknown or revoked")
        # A profile that the bundle does not have may assert nothing.
        profiles = self._rulesets[credential.tenant].profiles
        return Caller(
            key_id=credential.key_id,
            tenant=credential.tenant,
            roles=credential.roles,
            profile=profiles.get(credential.profile) or Profile(name=credential.profile),
            dev=credential.dev,
        )


def check_role(caller: Caller, *roles: str) -> None:
    """Raise `Forbidden` for a known caller without any of `roles`.

    Apart from `Authenticator.caller`, so that whoever refuses knows whom, and can record it.
    """
    if caller.roles.isdisjoint(roles):
        named = " or ".join(f"`{role}`" for role in roles)
        raise Forbidden(f"the API key does not have the role {named}", code="caller.role_missing")
