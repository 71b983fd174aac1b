"""What a passkey signs when a person approves: this request, this call, this shown document, once.

The challenge is the SHA-256 of an RFC 8785 form with a domain of its own. The nonce is random and is kept
with the signature, so that anybody can compute the challenge again and check the signature offline.
"""

import hashlib
from typing import Final

from authz_client.capabilities.digests import base64url

from authz.core.fingerprint import canonical_json

DOMAIN: Final = "authz/approval-challenge/1"


def approval_challenge(*, approval_id: str, fingerprint: str, shown_digest: str, nonce: bytes) -> bytes:
    """32 bytes, for `PublicKeyCredentialRequestOptions.challenge` (Web Authentication Level 3, 5.5)."""
    said = {
        "domain": DOMAIN,
        "approval_id": approval_id,
        "fingerprint": fingerprint,
        "shown_digest": shown_digest,
        "nonce": base64url(nonce),
    }
    return hashlib.sha256(canonical_json(said)).digest()
