"""Signing in by a link, and on the command line by a code. Whoever asks in vain is told one thing alone.

Passkeys are `authz.service.passkeys`, identity providers `authz.service.oidc`.
"""

import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from authz.core.account_event import By, Change
from authz.core.fingerprint import keyed_digest
from authz.errors import Forbidden, Unauthenticated
from authz.model.account import Account, SignedIn, SignInMethod
from authz.model.account_writes import LinkAdd, LinkKind, LinkUse, SignInLink
from authz.ports import Clock, Ledger
from authz.service.people import Opened, PeopleService, digest_secret
from authz.service.rate_limits import PER_ADDRESS, PER_SUBJECT, RateLimits, network_of

CODE_LIFETIME_MS: Final = 5 * 60 * 1000
CODE_PREFIX: Final = "azc_"
LINK_PREFIX: Final = "azl_"
VISITOR_BYTES: Final = 24
_NOT_GOOD: Final = "this link is not good, or not any more; ask for a new one"
_NO_CODE: Final = "this code is not good, or not any more; get a new one on your account page"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFor:
    """A link that may be used now."""

    link: SignInLink
    account: Account


class SignInService:
    """Links and codes. A link is looked at as often as somebody likes and used once."""

    def __init__(
        self, *, people: PeopleService, ledger: Ledger, clock: Clock, limits: RateLimits, key: bytes
    ) -> None:
        """`key` seals the tokens of forms of people who are not signed in yet."""
        self._people = people
        self._ledger = ledger
        self._clock = clock
        self._limits = limits
        self._key = key

    def new_visitor(self) -> str:
        """An id for a browser that is not signed in: what its sign-in forms and challenges are bound to."""
        return secrets.token_urlsafe(VISITOR_BYTES)

    def visitor_token(self, visitor: str) -> str:
        """What every sign-in form of that browser posts back."""
        return keyed_digest(self._key, "visitor", visitor)

    def check_visitor(self, visitor: str, presented: str) -> None:
        """Raise `Forbidden` (`csrf.refused`) unless this browser was given the form (login CSRF)."""
        expected = self.visitor_token(visitor)
        given = presented.encode("utf-8", "replace")
        if not visitor or not hmac.compare_digest(expected.encode(), given):
            raise Forbidden(
                "this page is of another browser or too old, so nothing was done; load it again",
                code="csrf.refused",
            )

    def check_rate(self, address: str) -> None:
        """Count one try from that client address. Raises `TooManyRequests`."""
        self._limits.check("address", network_of(address), PER_ADDRESS)

    async def look_at_link(self, token: str) -> LinkFor:
        """What a link is good for, without using it: programs look at links before people do.

        Raises `Unauthenticated`, in the same words for every link that is not good.
        """
        digest = digest_secret(token)
        self._limits.check("link", digest, PER_SUBJECT)
        link = await self._ledger.find_sign_in_link(digest) if token.startswith(LINK_PREFIX) else None
        if link is None or link.kind is LinkKind.CLI_CODE:
            raise Unauthenticated(_NOT_GOOD, code="sign_in.link")
        account = await self._ledger.find_account(link.tenant, link.account_id)
        why = self._fault_of(link, account)
        if account is None or why:
            await self._people.refuse_sign_in(link.tenant, account, SignInMethod(link.kind.value), why)
            raise Unauthenticated(_NOT_GOOD, code="sign_in.link")
        return LinkFor(link=link, account=account)

    def _fault_of(self, link: SignInLink, account: Account | None) -> str:
        """Why a link that is on record is not good; empty where it is."""
        if self._clock.now_ms() >= link.expires_at_ms:
            return "link_over"
        if link.kind is LinkKind.DEV_LINK and not self._people.dev:
            return "not_a_dev_run"
        if account is None or not self._people.is_in_force(account, SignInMethod(link.kind.value)):
            return "account_not_in_force"
        return ""

    async def sign_in_by_link(self, token: str) -> Opened:
        """Use up a dev link. An invitation is not for this: it registers a passkey.

        Raises `Unauthenticated`, `AccountChanged` for one that somebody used at the same time.
        """
        found = await self.look_at_link(token)
        if found.link.kind is not LinkKind.DEV_LINK:
            raise Unauthenticated(_NOT_GOOD, code="sign_in.link")
        return await self._people.open_session(found.account, SignInMethod.DEV_LINK, use_of(found.link))

    async def new_code(self, person: SignedIn) -> str:
        """A one-time code for `authz sign-in --code`. An earlier one of this person is void."""
        self._limits.check("code of", person.account.account_id, PER_SUBJECT)
        code, now_ms = CODE_PREFIX + secrets.token_urlsafe(24), self._clock.now_ms()
        link = SignInLink(
            digest=digest_secret(code),
            tenant=person.tenant,
            account_id=person.account.account_id,
            kind=LinkKind.CLI_CODE,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + CODE_LIFETIME_MS,
            session_id=person.session_id,
        )
        await self._people.change(person.account, Change.CODE_ISSUED, By.PERSON, LinkAdd(link=link))
        return code

    async def sign_in_by_code(self, code: str) -> Opened:
        """A session of the command line for whoever has the code of a live browser session; it ends no later.

        Raises `Unauthenticated`, in the same words for every code that is not good.
        """
        digest = digest_secret(code)
        self._limits.check("code", digest, PER_SUBJECT)
        link = await self._ledger.find_sign_in_link(digest) if code.startswith(CODE_PREFIX) else None
        if link is None or link.kind is not LinkKind.CLI_CODE or self._clock.now_ms() >= link.expires_at_ms:
            raise Unauthenticated(_NO_CODE, code="sign_in.code")
        above = await self._ledger.find_person_session(link.session_id)
        if above is None or not self._people.is_live(above):
            raise Unauthenticated(_NO_CODE, code="sign_in.code")
        return await self._people.open_session(
            above.account,
            above.session.method,
            use_of(link),
            groups=above.session.groups,
            bearer=True,
            # How long somebody stays signed in counts from when they proved who they are.
            until_ms=above.session.expires_at_ms,
        )


def use_of(link: SignInLink) -> LinkUse:
    """What uses that link up."""
    return LinkUse(tenant=link.tenant, digest=link.digest, kind=link.kind)
