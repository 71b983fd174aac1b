"""Signing in by a tenant's identity provider: authorization code with PKCE, state and nonce.

What belongs together is held together by a cookie of the browser that began: state, nonce and verifier follow
from it, so nothing is stored for those who only begin, and nobody can finish in another's browser.
"""

import dataclasses
import json
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final

from authz_client.capabilities.digests import base64url, from_base64url

from authz.core.account_event import By, Change, Told
from authz.errors import NotFound
from authz.model.account import Account, SignInMethod
from authz.model.account_writes import AccountPut, AccountWrite, IdentityAdd, OidcIdentity, SessionsEnd
from authz.model.oidc import OidcProvider
from authz.ports import Clock, Ledger
from authz.service.oidc_provider import OidcRefused, OidcUnavailable, ProviderClient
from authz.service.one_time import Challenges, Purpose
from authz.service.people import Opened, PeopleService

__all__ = ["Begun", "Finished", "OidcRefused", "OidcService", "OidcUnavailable"]

CALLBACK_PATH: Final = "/ui/oidc/callback/"
"""Before the tenant. Each provider sends browsers back to a place of its own, so that none is given a code of
another's (mix-up, RFC 9700, 4.4.2), whether or not it says `iss`."""
MAX_PERSON: Final = 256
MAX_GROUPS: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Where the browser goes, and the cookie that it comes back with."""

    url: str
    cookie: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Somebody is signed in, and wanted to go there."""

    opened: Opened
    next_path: str


class OidcService:
    """Sign-in by the providers that are configured, one a tenant."""

    def __init__(
        self,
        *,
        providers: Iterable[OidcProvider],
        people: PeopleService,
        ledger: Ledger,
        clock: Clock,
        challenges: Challenges,
        public_url: str,
    ) -> None:
        self._clients = {
            each.tenant: ProviderClient(each, public_url + CALLBACK_PATH + each.tenant) for each in providers
        }
        self._people = people
        self._ledger = ledger
        self._clock = clock
        self._challenges = challenges

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenants that have a provider."""
        return tuple(self._clients)

    async def begin(self, tenant: str, next_path: str) -> Begun:
        """Raises `NotFound`, `OidcUnavailable`, `OidcRefused`."""
        client = self._clients.get(tenant)
        if client is None:
            raise NotFound("that tenant has no identity provider")
        endpoints = await client.discover()
        browser = secrets.token_urlsafe(32)
        state = self._challenges.make(Purpose.OIDC, tenant, next_path, browser, now_ms=self._clock.now_ms())
        url = client.authorization_url(
            endpoints, state=base64url(state), nonce=self._nonce(browser), verifier=self._verifier(browser)
        )
        said = json.dumps([tenant, next_path, browser]).encode()
        return Begun(url=url, cookie=base64url(said))

    async def finish(self, place: str, cookie: str, answer: Mapping[str, str]) -> Finished:
        """What the browser came back with to `place`, the tenant of the address that its provider knows.

        Raises `OidcRefused`, `OidcUnavailable`, `AccountChanged`.
        """
        tenant, next_path, browser = _read_cookie(cookie)
        client = self._clients.get(tenant)
        state = from_base64url(answer.get("state", "")) or b""
        now_ms = self._clock.now_ms()
        proof = self._challenges.check(state, Purpose.OIDC, tenant, next_path, browser, now_ms=now_ms)
        if client is None or proof is None or place != tenant:
            raise OidcRefused("this sign-in was not begun in this browser, or is over; begin again")
        try:
            account, groups = await self._identified(client, answer, browser)
            opened = await self._people.open_session(
                account, SignInMethod.OIDC, groups=groups, proof=proof, told=Told(why=client.provider.issuer)
            )
        except OidcRefused as refused:
            await self._people.refuse_sign_in(tenant, None, SignInMethod.OIDC, refused.message)
            raise
        return Finished(opened=opened, next_path=next_path)

    async def _identified(
        self, client: ProviderClient, answer: Mapping[str, str], browser: str
    ) -> tuple[Account, frozenset[str]]:
        """The account of whoever the provider says it is, as it is to be from now on, and its groups."""
        if answer.get("error"):
            raise OidcRefused("the identity provider did not sign you in, or you turned back")
        endpoints = await client.discover()
        issuer = answer.get("iss")
        if (issuer is not None or endpoints.tells_issuer) and issuer != client.provider.issuer:
            raise OidcRefused("the answer is of another identity provider")
        if not answer.get("code"):
            raise OidcRefused("the identity provider sent no code")
        claims = await client.redeem(
            endpoints,
            code=answer["code"],
            nonce=self._nonce(browser),
            verifier=self._verifier(browser),
            now_ms=self._clock.now_ms(),
        )
        provider = client.provider
        named = _groups(claims, provider.groups_claim)
        roles: frozenset[str] = frozenset().union(*(provider.roles.get(group, ()) for group in named))
        groups: frozenset[str] = frozenset().union(*(provider.groups.get(group, ()) for group in named))
        account = await self._account_of(provider, claims, roles, groups)
        return account, groups

    async def _account_of(
        self,
        provider: OidcProvider,
        claims: Mapping[str, Any],
        roles: frozenset[str],
        groups: frozenset[str],
    ) -> Account:
        person = _person(claims, provider.person_claim)
        identity = await self._ledger.find_identity(provider.tenant, provider.issuer, claims["sub"])
        known = await self._ledger.find_account_of(provider.tenant, person)
        writes: list[AccountWrite] = []
        if identity is None:
            # The claim says who it is, at the first time. Whoever was somebody else's stays so.
            if known is not None and await self._ledger.has_identity(provider.tenant, known.account_id):
                raise OidcRefused("that person is somebody else at the identity provider")
            if known is not None and known.dev:
                raise OidcRefused("that person has an account of a dev run")
        elif known is None or known.account_id != identity.account_id:
            raise OidcRefused("the identity provider calls you another person than before")
        if known is not None and known.disabled_at_ms:
            raise OidcRefused("your account is disabled")
        if not roles:
            if known is not None and identity is not None:
                await self._end(known)
            raise OidcRefused("none of your groups at the identity provider has a role here")
        account = _changed(known, provider, person, claims, roles, self._clock.now_ms())
        if identity is None:
            bound = OidcIdentity(
                tenant=provider.tenant,
                issuer=provider.issuer,
                subject=claims["sub"],
                account_id=account.account_id,
            )
            writes.append(IdentityAdd(identity=bound))
        if known is not None and (known.roles - roles or await self._was_in_others(known, groups)):
            writes.append(SessionsEnd(tenant=provider.tenant, account_id=account.account_id))
        if not writes and account == known:
            return account
        await self._people.change(
            account, Change.FROM_PROVIDER, By.PROVIDER, AccountPut(account=account), *writes
        )
        return dataclasses.replace(account, version=account.version + 1)

    async def _was_in_others(self, account: Account, groups: frozenset[str]) -> bool:
        """Whether a session goes on with a group that the person is not in any more."""
        sessions = await self._ledger.find_person_sessions(account.tenant, account.account_id)
        return any(session.groups - groups for session in sessions)

    async def _end(self, account: Account) -> None:
        """Whom the provider gives no role has none, also where it came in before."""
        if account.roles:
            void = dataclasses.replace(account, roles=frozenset())
            over = SessionsEnd(tenant=account.tenant, account_id=account.account_id)
            await self._people.change(void, Change.FROM_PROVIDER, By.PROVIDER, AccountPut(account=void), over)

    def _nonce(self, browser: str) -> str:
        return self._challenges.derive(Purpose.OIDC, "nonce", browser)

    def _verifier(self, browser: str) -> str:
        """64 hex digits: a code verifier (RFC 7636, 4.1)."""
        return self._challenges.derive(Purpose.OIDC, "verifier", browser)


def _changed(
    known: Account | None,
    provider: OidcProvider,
    person: str,
    claims: Mapping[str, Any],
    roles: frozenset[str],
    now_ms: int,
) -> Account:
    if known is not None:
        return dataclasses.replace(known, roles=roles)
    name = claims.get("name")
    return Account(
        account_id=secrets.token_hex(8),
        tenant=provider.tenant,
        person=person,
        display_name=name[:MAX_PERSON] if isinstance(name, str) and name.isprintable() else "",
        roles=roles,
        created_at_ms=now_ms,
    )


def _person(claims: Mapping[str, Any], name: str) -> str:
    person = claims.get(name)
    if not isinstance(person, str) or not 0 < len(person) <= MAX_PERSON or not _is_plain(person):
        raise OidcRefused(f"the identity provider says no usable `{name}` of you")
    if name == "email" and claims.get("email_verified") is not True:
        raise OidcRefused("the identity provider has not verified your `email`")
    return person


def _is_plain(person: str) -> bool:
    """Whether it is spelled as names are: nobody is somebody else by a space or another form of a letter."""
    return person.isprintable() and person == person.strip() and unicodedata.is_normalized("NFKC", person)


def _groups(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """The provider's groups. What is no list of texts is no group at all."""
    listed = claims.get(name, [])
    if not isinstance(listed, list) or len(listed) > MAX_GROUPS:
        return frozenset()
    return frozenset(group for group in listed if isinstance(group, str))


def _read_cookie(cookie: str) -> tuple[str, str, str]:
    try:
        said = json.loads(from_base64url(cookie) or b"") if cookie.isascii() else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, list) or len(said) != 3 or not all(isinstance(each, str) for each in said):
        raise OidcRefused("this sign-in was not begun in this browser, or is over; begin again")
    return said[0], said[1], said[2]
