"""People: their accounts and sessions (spec section 11).

A session is looked up in the store for every request and never remembered: what ends it in one process has
ended it in all. Every change is committed with its record.
"""

import dataclasses
import hashlib
import hmac
import secrets
from typing import Final

from authz.core.account_event import (
    By,
    Change,
    Told,
    changed_event,
    sign_in_refused_event,
    signed_in_event,
    signed_out_event,
)
from authz.core.fingerprint import keyed_digest
from authz.core.redact import Redactor
from authz.errors import AuthzError, Forbidden
from authz.model.account import Account, SignedIn, SignInMethod
from authz.model.account_writes import (
    AccountWrite,
    PersonSession,
    SessionEnd,
    SessionOpen,
    StoredSession,
)
from authz.model.capability import ProofUse
from authz.model.record import Committed, Event
from authz.ports import Bundles, Clock, CommitUnit, Ledger

BROWSER_PREFIX: Final = "azw_"
BEARER_PREFIX: Final = "azs_"
"""Of the tokens of the command line. By its beginning a token of one kind is none of the other."""
SEEN_EVERY_MS: Final = 60_000
FRESH_MS: Final = 10 * 60_000
"""How long after signing in somebody may change what signs in, and what signs approvals."""


class AccountChanged(AuthzError):
    """Somebody changed the account at the same time: nothing was written, and a repeat is safe."""

    code = "account.changed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """How long sessions last."""

    lifetime_ms: int
    idle_ms: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A new session. `token` is told to its person now or never."""

    token: str = dataclasses.field(repr=False)
    account: Account
    expires_at_ms: int


def digest_secret(secret: str) -> str:
    """What the store knows a token, link or code by. They are long and random: a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class PeopleService:
    """Accounts and sessions. What it answers is on disk."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        bundles: Bundles,
        clock: Clock,
        redactor: Redactor,
        key: bytes,
        terms: SessionTerms,
        dev: bool = False,
    ) -> None:
        """`key` seals CSRF tokens. `dev`: this run has `--dev`. Nowhere else is a dev account one."""
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock
        self._redactor = redactor
        self._key = key
        self._terms = terms
        self.dev: Final = dev

    async def session_of(self, token: str, *, in_use: bool = True) -> SignedIn | None:
        """Whose session that token is, if it is live at this moment. Raises `StoreUnavailable`.

        `in_use`: somebody does something. What a page asks for by itself keeps no session alive.
        """
        if not token.startswith((BROWSER_PREFIX, BEARER_PREFIX)):
            return None
        found = await self._ledger.find_person_session(digest_secret(token))
        if found is None:
            return None
        session, account, now_ms = found.session, found.account, self._clock.now_ms()
        if session.bearer != token.startswith(BEARER_PREFIX) or not self.is_live(found):
            return None
        if in_use and now_ms >= session.seen_at_ms + SEEN_EVERY_MS:
            await self._ledger.note_session_seen(session.session_id, now_ms)
        return SignedIn(
            session_id=session.session_id,
            account=account,
            method=session.method,
            groups=session.groups,
            created_at_ms=session.created_at_ms,
            expires_at_ms=session.expires_at_ms,
            csrf_token=self._csrf_token(session.session_id),
            bearer=session.bearer,
        )

    def is_live(self, found: StoredSession) -> bool:
        """Whether a session on record counts now: neither over nor idle, and of an account that may act."""
        session, now_ms = found.session, self._clock.now_ms()
        if now_ms >= session.expires_at_ms or now_ms >= session.seen_at_ms + self._terms.idle_ms:
            return False
        return self.is_in_force(found.account, session.method) and (self.dev or not session.dev)

    def check_fresh(self, person: SignedIn) -> None:
        """Raise `Forbidden` (`session.not_fresh`) unless the person has just signed in.

        Whoever comes upon a session that was left open must not make it worth more than it is.
        """
        if self._clock.now_ms() >= person.created_at_ms + FRESH_MS:
            raise Forbidden(
                "you signed in a while ago: sign out and in again first, and do this within "
                f"{FRESH_MS // 60_000} minutes",
                code="session.not_fresh",
            )

    def check_csrf(self, person: SignedIn, presented: str) -> None:
        """Raise `Forbidden` (`csrf.refused`) unless a form of this very session was posted."""
        expected = self._csrf_token(person.session_id)
        if not hmac.compare_digest(expected.encode(), presented.encode("utf-8", "replace")):
            raise Forbidden(
                "this page is of another session, so nothing was done; reload it and try again",
                code="csrf.refused",
            )

    def _csrf_token(self, session_id: str) -> str:
        return keyed_digest(self._key, "csrf", session_id)

    def is_in_force(self, account: Account, method: SignInMethod) -> bool:
        """Whether the account may act: not disabled, of this run, with a role, and a person of the bundle.

        Whom a provider vouches for needs not be in the bundle: policies then know it by its groups alone.
        """
        if account.disabled_at_ms or (account.dev and not self.dev) or not account.roles:
            return False
        return method is SignInMethod.OIDC or self.is_in_bundle(account.tenant, account.person)

    def is_in_bundle(self, tenant: str, person: str) -> bool:
        """Whether the tenant's bundle has a `User` of that id."""
        ruleset = self._bundles.in_force(tenant)
        return ruleset is not None and ("User", person) in ruleset.entities.members

    async def open_session(
        self,
        account: Account,
        method: SignInMethod,
        *writes: AccountWrite,
        groups: frozenset[str] = frozenset(),
        bearer: bool = False,
        until_ms: int | None = None,
        proof: ProofUse | None = None,
        told: Told | None = None,
    ) -> Opened:
        """Sign somebody in whose proof was checked, together with `writes`, or not at all.

        Always under a new token: one that was there before the sign-in is nobody's (session fixation). It
        ends at `until_ms` at the latest.
        Raises `AccountChanged`, `Forbidden` for an account that may not act, `StoreUnavailable`.
        """
        if not self.is_in_force(account, method):
            raise Forbidden("this account cannot be signed in to", code="sign_in.refused")
        token = (BEARER_PREFIX if bearer else BROWSER_PREFIX) + secrets.token_urlsafe(32)
        now_ms = self._clock.now_ms()
        ends_at_ms = now_ms + self._terms.lifetime_ms
        session = PersonSession(
            session_id=digest_secret(token),
            tenant=account.tenant,
            account_id=account.account_id,
            method=method,
            groups=groups,
            created_at_ms=now_ms,
            expires_at_ms=ends_at_ms if until_ms is None else min(ends_at_ms, until_ms),
            seen_at_ms=now_ms,
            bearer=bearer,
            dev=account.dev or method is SignInMethod.DEV_LINK,
        )
        event = signed_in_event(
            account,
            method,
            redactor=self._redactor,
            now_ms=now_ms,
            expires_at_ms=session.expires_at_ms,
            told=dataclasses.replace(told or Told(), groups=groups, bearer=bearer),
        )
        await self.commit(event, *writes, SessionOpen(session=session), proof=proof)
        return Opened(token=token, account=account, expires_at_ms=session.expires_at_ms)

    async def sign_out(self, person: SignedIn) -> None:
        """End this session. One that has ended meanwhile has ended."""
        event = signed_out_event(person, now_ms=self._clock.now_ms())
        try:
            await self.commit(event, SessionEnd(tenant=person.tenant, session_id=person.session_id))
        except AccountChanged:
            return

    async def refuse_sign_in(
        self, tenant: str, account: Account | None, method: SignInMethod, why: str
    ) -> None:
        """Put on record that somebody was not let in."""
        event = sign_in_refused_event(
            tenant, account, method, why, redactor=self._redactor, now_ms=self._clock.now_ms()
        )
        await self.commit(event)

    async def change(
        self,
        account: Account,
        change: Change,
        by: By,
        *writes: AccountWrite,
        told: Told | None = None,
        proof: ProofUse | None = None,
    ) -> None:
        """Commit `writes` with the record of a change. `account` is as it is afterwards."""
        event = changed_event(
            account, change, by, redactor=self._redactor, now_ms=self._clock.now_ms(), told=told
        )
        await self.commit(event, *writes, proof=proof)

    async def commit(self, event: Event, *writes: AccountWrite, proof: ProofUse | None = None) -> None:
        """Write it all with its record. Raises `AccountChanged` where something of it holds no more."""
        outcome = await self._ledger.commit(CommitUnit(event=event, accounts=writes, proof=proof))
        if not isinstance(outcome, Committed):
            raise AccountChanged("this was used or changed meanwhile, start again")
