"""Callers: an API key in `Authorization: Bearer`, or the session of a person (spec section 11)."""

from collections.abc import Iterable
from typing import Final

from authz.core.credentials import digest_api_key, read_key
from authz.errors import Forbidden, Unauthenticated
from authz.model.account import SignedIn
from authz.model.caller import Caller, Profile
from authz.ports import Bundles, CredentialSource
from authz.ports.accounts import PersonSource
from authz.service.bundles import Admitted

SESSION_PREFIX: Final = "azs_"
"""How the token of a person's session begins, which the command line sends as others send a key."""


class Authenticator:
    """Finds the caller behind a request."""

    def __init__(
        self,
        credentials: CredentialSource,
        bundles: Bundles,
        *,
        people: PersonSource | None = None,
        dev: bool = False,
    ) -> None:
        """`dev` says that this process runs with `--dev`: nowhere else is a dev key one."""
        self._credentials = credentials
        self._bundles = bundles
        self._people = people
        self._dev = dev

    async def admit_anyone(self, headers: Iterable[tuple[bytes, bytes]]) -> Admitted | SignedIn:
        """The caller as `admit` has it, or the person whose session of the command line this is.

        A token that a browser holds is none here: it comes with a cookie, and forms that prove their origin.
        """
        headers = list(headers)
        token = _presented(headers)
        if not token.startswith(SESSION_PREFIX):
            return await self.admit(headers)
        found = await self._people.session_of(token) if self._people is not None else None
        if found is None or not found.bearer or self._bundles.in_force(found.tenant) is None:
            raise Unauthenticated("the session is unknown or over; sign in again")
        return found

    async def admit(self, headers: Iterable[tuple[bytes, bytes]]) -> Admitted:
        """The caller, if its credential is live, and the ruleset in force.

        Who awaits anything that a client can draw out, such as a body, asks again afterwards: what a request
        is answered by is what was true when all of it was there. What the caller may do here, `check_role`
        tells.

        Raises `Unauthenticated` for a missing, malformed, unknown or revoked key, all alike.
        """
        key = _presented(headers)
        credential = await self._credentials.find_credential(digest_api_key(key))
        # Read here, after everything that waits, so that caller and ruleset are of one moment.
        ruleset = self._bundles.in_force(credential.tenant) if credential is not None else None
        if credential is None or ruleset is None or (credential.dev and not self._dev):
            raise Unauthenticated("the API key is unknown or revoked")
        caller = Caller(
            key_id=credential.key_id,
            tenant=credential.tenant,
            roles=credential.roles,
            # A profile that the bundle does not have may assert nothing.
            profile=ruleset.profiles.get(credential.profile) or Profile(name=credential.profile),
            dev=credential.dev,
        )
        return Admitted(caller=caller, ruleset=ruleset)


def _presented(headers: Iterable[tuple[bytes, bytes]]) -> str:
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        raise Unauthenticated("send one `Authorization: Bearer` header with an API key")
    scheme, _, presented = values[0].partition(b" ")
    key = read_key(presented.strip(b" \t"))
    if scheme.lower() != b"bearer" or key is None:
        raise Unauthenticated("send `Authorization: Bearer` with an API key")
    return key


def check_role(admitted: Admitted, *roles: str) -> None:
    """Raise `Forbidden` for a known caller without any of `roles`.

    Nor does a caller decide whose credential profile is not in the bundle, as after a reload: it would
    be refused every subject, and never told why. Apart from `Authenticator.admit`, so that whoever
    refuses knows whom, and can record it.
    """
    caller = admitted.caller
    if caller.roles.isdisjoint(roles):
        named = " or ".join(f"`{role}`" for role in roles)
        raise Forbidden(f"the API key does not have the role {named}", code="caller.role_missing")
    if roles == ("decide",) and caller.profile.name not in admitted.ruleset.profiles:
        raise Forbidden(
            "the credential profile of this API key is not in the policy bundle in force; "
            "put it back into `credentials.yaml`, or use a key of another profile",
            code="caller.profile_absent",
        )
