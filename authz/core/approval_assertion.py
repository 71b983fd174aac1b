"""A passkey's signature for one approval: what of it is kept, and how it is checked, now and offline."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.digests import base64url, from_base64url
from webauthn import verify_authentication_response

from authz.core.approval_challenge import approval_challenge

_BYTES: Final = (
    *("credential_id", "public_key", "authenticator_data", "client_data_json", "signature", "nonce"),
)
_TEXTS: Final = (*_BYTES, "rp_id", "origin")
NONCE_BYTES: Final = range(16, 129)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAssertion:
    """What a passkey said to one approval. Everything that it takes to check that again is in it."""

    credential_id: str
    """Base64url, as the five that follow."""
    public_key: str
    """The COSE key that was registered."""
    authenticator_data: str
    client_data_json: str
    signature: str
    nonce: str
    rp_id: str
    origin: str
    sign_count: int
    user_verified: bool

    def as_json(self) -> Mapping[str, Any]:
        """What is kept with the vote."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        return {**texts, "sign_count": self.sign_count, "user_verified": self.user_verified}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionRefused:
    """Why an assertion proves nothing."""

    why: str


def verify_approval_assertion(
    stored: Mapping[str, Any],
    *,
    expected_approval_id: str,
    expected_fingerprint: str,
    expected_shown_digest: str,
    expected_rp_id: str,
    expected_origin: str,
) -> VerifiedAssertion | AssertionRefused:
    """Check what `VerifiedAssertion.as_json` once said, without a store, a clock or a network.

    Whose key it is, this cannot say: compare `public_key` with what the log recorded at its registration. The
    id of the credential is no part of what was signed.
    Web Authentication Level 3, 7.2; the user must have been verified.
    """
    read = _read(stored)
    if isinstance(read, AssertionRefused):
        return read
    if not all(from_base64url(getattr(read, name)) for name in _BYTES):
        return AssertionRefused(why="a part of it has another spelling than assertions are kept in")
    nonce = from_base64url(read.nonce) or b""
    if len(nonce) not in NONCE_BYTES:
        return AssertionRefused(why="its nonce is none")
    challenge = approval_challenge(
        approval_id=expected_approval_id,
        fingerprint=expected_fingerprint,
        shown_digest=expected_shown_digest,
        nonce=nonce,
    )
    try:
        verified = verify_authentication_response(
            credential={
                "id": read.credential_id,
                "rawId": read.credential_id,
                "type": "public-key",
                "response": {
                    "authenticatorData": read.authenticator_data,
                    "clientDataJSON": read.client_data_json,
                    "signature": read.signature,
                },
            },
            expected_challenge=challenge,
            expected_rp_id=expected_rp_id,
            expected_origin=expected_origin,
            credential_public_key=from_base64url(read.public_key) or b"",
            # Whether it rose is for whoever keeps the last one: it is compared at the use.
            credential_current_sign_count=max(0, read.sign_count - 1),
            require_user_verification=True,
        )
    except Exception as fault:  # noqa: BLE001 - the library parses bytes of strangers: no fault is a yes
        return AssertionRefused(why=f"it does not verify ({type(fault).__name__})")
    if base64url(verified.credential_id) != read.credential_id or not verified.user_verified:
        return AssertionRefused(why="it is of another credential, or its user was not verified")
    if verified.new_sign_count != read.sign_count or not read.user_verified:
        return AssertionRefused(why="what is told of it is not what was signed")
    if (read.rp_id, read.origin) != (expected_rp_id, expected_origin):
        return AssertionRefused(why="it was made for another place")
    return read


def _read(stored: Mapping[str, Any]) -> VerifiedAssertion | AssertionRefused:
    texts = {name: stored.get(name) for name in _TEXTS}
    count, verified = stored.get("sign_count"), stored.get("user_verified")
    if set(stored) != {*_TEXTS, "sign_count", "user_verified"} or type(count) is not int or count < 0:
        return AssertionRefused(why="it is not in the form in which assertions are kept")
    if type(verified) is not bool or not all(isinstance(text, str) for text in texts.values()):
        return AssertionRefused(why="it is not in the form in which assertions are kept")
    told = {name: str(text) for name, text in texts.items()}
    return VerifiedAssertion(**told, sign_count=count, user_verified=verified)
