"""What browsers and passkeys say, verified by the library; every fault in it is one refusal."""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from authz_client.capabilities.digests import base64url, from_base64url
from webauthn import verify_authentication_response, verify_registration_response
from webauthn.helpers.structs import PublicKeyCredentialDescriptor
from webauthn.registration.verify_registration_response import VerifiedRegistration

from authz.errors import Unauthenticated
from authz.model.account import Account
from authz.model.account_writes import Passkey

REFUSED: Final = "this passkey was not accepted; try again, or another one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where passkeys are bound to, by `public_url`."""

    rp_id: str
    origin: str

    @classmethod
    def of(cls, public_url: str) -> "Place | None":
        """`None` where browsers have no passkeys: at an address; without TLS but at `localhost`."""
        url = urlsplit(public_url)
        host = url.hostname or ""
        if _is_address(host) or (url.scheme != "https" and host != "localhost"):
            return None
        return cls(rp_id=host, origin=f"{url.scheme}://{url.netloc}")


class PasskeyRefused(Unauthenticated):
    """What a passkey said does not hold. Whoever tries is told no more than that."""

    code = "passkey.refused"


def registered(place: Place, credential: Mapping[str, Any], challenge: bytes) -> VerifiedRegistration:
    """A new passkey, by the procedure of 7.1. Raises `PasskeyRefused`."""
    try:
        return verify_registration_response(
            credential=dict(credential),
            expected_challenge=challenge,
            expected_rp_id=place.rp_id,
            expected_origin=place.origin,
            require_user_verification=True,
        )
    except Exception as fault:
        raise PasskeyRefused(REFUSED) from fault


def asserted(place: Place, passkey: Passkey, credential: Mapping[str, Any], challenge: bytes) -> int:
    """The sign count after what it signed, by the procedure of 7.2. Raises `PasskeyRefused`.

    A count that does not rise, where the passkey counts, is a copied key.
    """
    try:
        verified = verify_authentication_response(
            credential=dict(credential),
            expected_challenge=challenge,
            expected_rp_id=place.rp_id,
            expected_origin=place.origin,
            credential_public_key=from_base64url(passkey.public_key) or b"",
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    except Exception as fault:
        raise PasskeyRefused(REFUSED, code="passkey.not_verified") from fault
    if base64url(verified.credential_id) != passkey.credential_id or not verified.user_verified:
        raise PasskeyRefused(REFUSED, code="passkey.not_verified")
    return verified.new_sign_count


def challenge_of(credential: Mapping[str, Any]) -> bytes:
    """The challenge that a browser says it answered: only to find out whether it is one of ours."""
    response = credential.get("response")
    data = from_base64url(text_of(response, "clientDataJSON")) if isinstance(response, Mapping) else None
    try:
        said = json.loads(data or b"")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("challenge"), str):
        raise PasskeyRefused(REFUSED)
    return from_base64url(said["challenge"]) or b""


def check_handle(credential: Mapping[str, Any], account: Account) -> None:
    """The user handle that the passkey has, where it tells one, is this account's (7.2, step 6)."""
    told = credential["response"].get("userHandle")
    if told is not None and (not isinstance(told, str) or from_base64url(told) != user_handle(account)):
        raise PasskeyRefused(REFUSED, code="passkey.handle")


def user_handle(account: Account) -> bytes:
    return account.account_id.encode()


def text_of(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value.isascii():
        raise PasskeyRefused(REFUSED)
    return value


def descriptor(passkey: Passkey) -> PublicKeyCredentialDescriptor:
    return PublicKeyCredentialDescriptor(id=from_base64url(passkey.credential_id) or b"")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
