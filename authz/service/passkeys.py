"""Passkeys: registering, signing in, and signing for an approval (Web Authentication Level 3).

The user must have been verified each time. Challenges are `authz.service.one_time`'s: bound to what they are
for, over in five minutes, used up by the commit that rests on them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from authz_client.capabilities.digests import base64url, from_base64url
from webauthn import generate_authentication_options, generate_registration_options
from webauthn.helpers import options_to_json_dict
from webauthn.helpers.structs import (
    AttestationConveyancePreference,
    AuthenticatorSelectionCriteria,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from authz.core.account_event import By, Change, RecordedPasskey, Told
from authz.core.approval_assertion import AssertionRefused, VerifiedAssertion, verify_approval_assertion
from authz.core.approval_challenge import approval_challenge
from authz.errors import Forbidden, MalformedInput, NotFound, Unauthenticated
from authz.model.account import Account, SignedIn, SignInMethod
from authz.model.account_writes import (
    AccountPut,
    AccountWrite,
    LinkKind,
    Passkey,
    PasskeyAdd,
    PasskeyRemove,
    PasskeyUse,
)
from authz.model.approval_request import ApprovalRequest
from authz.model.capability import ProofUse
from authz.ports import Clock, Ledger
from authz.service.one_time import LIFETIME_MS, Challenges, Purpose
from authz.service.passkey_ceremony import (
    REFUSED,
    PasskeyRefused,
    Place,
    asserted,
    challenge_of,
    check_handle,
    descriptor,
    registered,
    text_of,
    user_handle,
)
from authz.service.people import Opened, PeopleService
from authz.service.rate_limits import PER_SUBJECT, RateLimits
from authz.service.sign_in import LinkFor, SignInService, use_of

MAX_LABEL: Final = 64
MAX_PASSKEYS: Final = 20
RP_NAME: Final = "authz"
_PROVIDER: Final = "passkey.provider"
_ELSEWHERE: Final = "sign in with your organization; your passkey signs approvals only"
_VERIFIED: Final = UserVerificationRequirement.REQUIRED


class PasskeyService:
    """Ceremonies with passkeys. What it answers is on disk."""

    def __init__(
        self,
        *,
        people: PeopleService,
        sign_in: SignInService,
        ledger: Ledger,
        clock: Clock,
        challenges: Challenges,
        limits: RateLimits,
        public_url: str,
        provided: frozenset[str] = frozenset(),
    ) -> None:
        """`provided`: tenants that have an identity provider."""
        self._people = people
        self._sign_in = sign_in
        self._ledger = ledger
        self._clock = clock
        self._challenges = challenges
        self._limits = limits
        self._place = Place.of(public_url)
        self._provided = provided

    @property
    def is_possible(self) -> bool:
        """Whether browsers have passkeys at `public_url`."""
        return self._place is not None

    @property
    def place(self) -> Place:
        """Where passkeys are bound to. Raises `Forbidden` (`passkey.no_place`) where there can be none."""
        if self._place is None:
            raise Forbidden(
                "passkeys need a host name and https, or `localhost`: set `public_url` accordingly",
                code="passkey.no_place",
            )
        return self._place

    async def begin_invited(self, token: str) -> Mapping[str, Any]:
        """Options for registering a passkey by an invitation. Raises `Unauthenticated`."""
        account = (await self._invited(token)).account
        return await self._registration(account, Purpose.INVITATION, token)

    async def register_invited(self, token: str, credential: Mapping[str, Any], label: str) -> Opened:
        """Use the invitation up for this passkey, and sign in with it.

        Raises `Unauthenticated`, `AccountChanged`, `MalformedInput`.
        """
        found = await self._invited(token)
        passkey, proof = self._registered(found.account, credential, label, Purpose.INVITATION, token)
        writes = (use_of(found.link), *self._adding(found.account, passkey))
        return await self._people.open_session(
            found.account,
            SignInMethod.PASSKEY,
            *writes,
            proof=proof,
            told=Told(passkey=_told(passkey), why="invitation"),
        )

    async def begin_registration(self, person: SignedIn) -> Mapping[str, Any]:
        """Options for another passkey of somebody who has just signed in in a browser."""
        _check_browser(person)
        self._people.check_fresh(person)
        return await self._registration(person.account, Purpose.REGISTRATION, person.session_id)

    async def register(self, person: SignedIn, credential: Mapping[str, Any], label: str) -> None:
        """Add it. Raises `PasskeyRefused`, `AccountChanged`, `MalformedInput`, `Forbidden`."""
        _check_browser(person)
        self._people.check_fresh(person)
        passkey, proof = self._registered(
            person.account, credential, label, Purpose.REGISTRATION, person.session_id
        )
        writes = self._adding(person.account, passkey)
        told = Told(passkey=_told(passkey))
        await self._people.change(
            person.account, Change.PASSKEY_ADDED, By.PERSON, *writes, told=told, proof=proof
        )

    async def begin_sign_in(self, visitor: str) -> Mapping[str, Any]:
        """Options for signing in with whatever passkey there is: nobody is named, and so found out."""
        challenge = self._challenges.make(Purpose.SIGN_IN, visitor, now_ms=self._clock.now_ms())
        options = generate_authentication_options(
            rp_id=self.place.rp_id, challenge=challenge, timeout=LIFETIME_MS, user_verification=_VERIFIED
        )
        return options_to_json_dict(options)

    async def sign_in(self, visitor: str, credential: Mapping[str, Any]) -> Opened:
        """Sign in. Raises `PasskeyRefused`, in the same words for every reason."""
        challenge = challenge_of(credential)
        proof = self._challenges.check(challenge, Purpose.SIGN_IN, visitor, now_ms=self._clock.now_ms())
        passkey = await self._find(credential)
        if proof is None or passkey is None:
            raise PasskeyRefused(REFUSED)
        account = await self._ledger.find_account(passkey.tenant, passkey.account_id)
        if account is None:
            raise PasskeyRefused(REFUSED)
        try:
            use = self._used(passkey, credential, challenge)
            check_handle(credential, account)
            if not self._people.is_in_force(account, SignInMethod.PASSKEY):
                raise PasskeyRefused(REFUSED, code="passkey.account")
            if await self._is_vouched_for(account):
                raise PasskeyRefused(REFUSED, code=_PROVIDER)
        except PasskeyRefused as refused:
            # Only what fails is counted: whoever knows the id of a passkey must not keep its person out.
            self._limits.check("passkey", passkey.credential_id, PER_SUBJECT)
            await self._people.refuse_sign_in(account.tenant, account, SignInMethod.PASSKEY, refused.code)
            # Who has just proven to be its person may be told the way in.
            raise PasskeyRefused(_ELSEWHERE if refused.code == _PROVIDER else REFUSED) from refused
        return await self._people.open_session(account, SignInMethod.PASSKEY, use, proof=proof)

    async def begin_approval(self, person: SignedIn, request: ApprovalRequest) -> Mapping[str, Any]:
        """Options for signing for this request as it was shown. Its member `nonce` comes back, too.

        The nonce is sealed over person, session and request, and is used up by `check_approval`.
        """
        _check_browser(person)
        nonce = self._challenges.make(Purpose.APPROVAL, *_bound(person, request), now_ms=self._clock.now_ms())
        mine = await self._ledger.find_passkeys(person.tenant, person.account.account_id)
        if not mine:
            raise Forbidden("you have no passkey; add one on your account page", code="passkey.none")
        options = generate_authentication_options(
            rp_id=self.place.rp_id,
            challenge=_approval_challenge(request, nonce),
            timeout=LIFETIME_MS,
            allow_credentials=[descriptor(passkey) for passkey in mine],
            user_verification=_VERIFIED,
        )
        return {**options_to_json_dict(options), "nonce": base64url(nonce)}

    async def check_approval(
        self, person: SignedIn, request: ApprovalRequest, assertion: Mapping[str, Any]
    ) -> VerifiedAssertion:
        """What a passkey of this person signed for this request, used up. Raises `PasskeyRefused`."""
        _check_browser(person)
        self._limits.check("approval by", person.account.account_id, PER_SUBJECT)
        nonce = from_base64url(text_of(assertion, "nonce")) or b""
        proof = self._challenges.check(
            nonce, Purpose.APPROVAL, *_bound(person, request), now_ms=self._clock.now_ms()
        )
        passkey = await self._find(assertion)
        if proof is None or passkey is None or passkey.account_id != person.account.account_id:
            raise PasskeyRefused(REFUSED)
        use = self._used(passkey, assertion, _approval_challenge(request, nonce))
        verified = self._kept(passkey, assertion, request, use.sign_count)
        told = Told(passkey=_told(passkey), approval_id=request.id)
        await self._people.change(person.account, Change.PASSKEY_USED, By.PERSON, use, told=told, proof=proof)
        return verified

    async def passkeys_of(self, person: SignedIn) -> Sequence[Passkey]:
        """All of this person, the oldest first."""
        return await self._ledger.find_passkeys(person.tenant, person.account.account_id)

    async def remove(self, person: SignedIn, credential_id: str) -> None:
        """Take one away, but not the last one of somebody who signs in by passkey alone.

        Raises `NotFound`, `Forbidden` (`passkey.last`), `AccountChanged`.
        """
        _check_browser(person)
        self._people.check_fresh(person)
        mine = await self.passkeys_of(person)
        gone = next((passkey for passkey in mine if passkey.credential_id == credential_id), None)
        if gone is None:
            raise NotFound("you have no such passkey")
        elsewhere = await self._ledger.has_identity(person.tenant, person.account.account_id)
        if len(mine) == 1 and not elsewhere:
            raise Forbidden(
                "this is your last passkey, and you could not sign in again; add another one first",
                code="passkey.last",
            )
        writes = (
            # So that of two that are removed at once only one is.
            AccountPut(account=person.account),
            PasskeyRemove(
                tenant=person.tenant, account_id=person.account.account_id, credential_id=credential_id
            ),
        )
        told = Told(passkey=_told(gone))
        await self._people.change(person.account, Change.PASSKEY_REMOVED, By.PERSON, *writes, told=told)

    async def _is_vouched_for(self, account: Account) -> bool:
        """Whether a provider says what the account may do: whom it turns away is not let in beside it."""
        if account.tenant not in self._provided:
            return False
        return await self._ledger.has_identity(account.tenant, account.account_id)

    async def _invited(self, token: str) -> LinkFor:
        found = await self._sign_in.look_at_link(token)
        if found.link.kind is not LinkKind.INVITATION:
            raise Unauthenticated("this link registers no passkey", code="sign_in.link")
        return found

    async def _registration(self, account: Account, purpose: Purpose, bound: str) -> Mapping[str, Any]:
        held = await self._ledger.find_passkeys(account.tenant, account.account_id)
        if len(held) >= MAX_PASSKEYS:
            raise Forbidden("you have as many passkeys as there may be; remove one", code="passkey.many")
        challenge = self._challenges.make(purpose, account.account_id, bound, now_ms=self._clock.now_ms())
        options = generate_registration_options(
            rp_id=self.place.rp_id,
            rp_name=RP_NAME,
            user_name=account.person,
            user_id=user_handle(account),
            user_display_name=account.display_name or account.person,
            challenge=challenge,
            timeout=LIFETIME_MS,
            attestation=AttestationConveyancePreference.NONE,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.PREFERRED, user_verification=_VERIFIED
            ),
            exclude_credentials=[descriptor(passkey) for passkey in held],
        )
        return options_to_json_dict(options)

    def _registered(
        self, account: Account, credential: Mapping[str, Any], label: str, purpose: Purpose, bound: str
    ) -> tuple[Passkey, ProofUse]:
        """What a browser says it made, verified (7.1)."""
        label = label.strip() or "passkey"
        if len(label) > MAX_LABEL or not label.isprintable():
            raise MalformedInput(
                f"a name is at most {MAX_LABEL} printable characters", code="input.invalid", pointer="/label"
            )
        challenge, now_ms = challenge_of(credential), self._clock.now_ms()
        proof = self._challenges.check(challenge, purpose, account.account_id, bound, now_ms=now_ms)
        if proof is None:
            raise PasskeyRefused(REFUSED)
        verified = registered(self.place, credential, challenge)
        passkey = Passkey(
            credential_id=base64url(verified.credential_id),
            tenant=account.tenant,
            account_id=account.account_id,
            public_key=base64url(verified.credential_public_key),
            sign_count=verified.sign_count,
            label=label,
            created_at_ms=now_ms,
        )
        return passkey, proof

    def _adding(self, account: Account, passkey: Passkey) -> tuple[AccountWrite, ...]:
        # The account by its version: one that is changed meanwhile gets no passkey of before.
        return (AccountPut(account=account), PasskeyAdd(passkey=passkey))

    async def _find(self, credential: Mapping[str, Any]) -> Passkey | None:
        return await self._ledger.find_passkey(text_of(credential, "id"))

    def _used(self, passkey: Passkey, credential: Mapping[str, Any], challenge: bytes) -> PasskeyUse:
        """What a browser says was signed, verified (7.2). A count that does not rise is a copied key."""
        sign_count = asserted(self.place, passkey, credential, challenge)
        return PasskeyUse(
            tenant=passkey.tenant,
            credential_id=passkey.credential_id,
            from_sign_count=passkey.sign_count,
            sign_count=sign_count,
            used_at_ms=self._clock.now_ms(),
        )

    def _kept(
        self, passkey: Passkey, assertion: Mapping[str, Any], request: ApprovalRequest, sign_count: int
    ) -> VerifiedAssertion:
        """What is kept with the vote, checked once more as anybody will check it later."""
        response = assertion["response"]
        stored = VerifiedAssertion(
            credential_id=passkey.credential_id,
            public_key=passkey.public_key,
            authenticator_data=response["authenticatorData"],
            client_data_json=response["clientDataJSON"],
            signature=response["signature"],
            nonce=text_of(assertion, "nonce"),
            rp_id=self.place.rp_id,
            origin=self.place.origin,
            sign_count=sign_count,
            user_verified=True,
        )
        verified = verify_approval_assertion(
            stored.as_json(),
            expected_approval_id=request.id,
            expected_fingerprint=request.asked.fingerprint,
            expected_shown_digest=request.shown_digest,
            expected_rp_id=self.place.rp_id,
            expected_origin=self.place.origin,
        )
        if isinstance(verified, AssertionRefused):
            raise PasskeyRefused(REFUSED)
        return verified


def _approval_challenge(request: ApprovalRequest, nonce: bytes) -> bytes:
    return approval_challenge(
        approval_id=request.id,
        fingerprint=request.asked.fingerprint,
        shown_digest=request.shown_digest,
        nonce=nonce,
    )


def _bound(person: SignedIn, request: ApprovalRequest) -> tuple[str, ...]:
    asked = (request.id, request.asked.fingerprint, request.shown_digest)
    return (person.tenant, person.account.account_id, person.session_id, *asked)


def _check_browser(person: SignedIn) -> None:
    if person.bearer:
        raise Forbidden(
            "passkeys are of a browser; this is a session of the command line", code="passkey.browser"
        )


def _told(passkey: Passkey) -> RecordedPasskey:
    return RecordedPasskey(
        credential_id=passkey.credential_id, public_key=passkey.public_key, label=passkey.label
    )
