"""Challenges that need no place in the store: sealed, bound, over in minutes, and used up by a commit.

A challenge says until when it lasts and is sealed over everything that it is for, so nothing is written when
one is handed out, however many strangers ask. Its use is a `ProofUse`: inserted once, or the unit is refused.
"""

import hmac
import secrets
from enum import StrEnum
from typing import Final

from authz_client.capabilities.digests import base64url

from authz.core.fingerprint import digest, keyed_digest
from authz.model.capability import ProofUse

LIFETIME_MS: Final = 5 * 60 * 1000
_RANDOM_BYTES: Final = 24
_TIME_BYTES: Final = 8
_SEAL_BYTES: Final = 32
_LENGTH: Final = _TIME_BYTES + _RANDOM_BYTES + _SEAL_BYTES


class Purpose(StrEnum):
    """What a challenge is for, and that alone."""

    SIGN_IN = "sign_in"
    INVITATION = "invitation"
    REGISTRATION = "registration"
    APPROVAL = "approval"
    OIDC = "oidc"


class Challenges:
    """Makes and checks them under one key, which all replicas have."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, purpose: Purpose, *bound: str, now_ms: int) -> bytes:
        """64 bytes for this purpose and for what it is bound to, good for `LIFETIME_MS`."""
        head = (now_ms + LIFETIME_MS).to_bytes(_TIME_BYTES) + secrets.token_bytes(_RANDOM_BYTES)
        return head + self._seal(head, purpose, bound)

    def check(self, challenge: bytes, purpose: Purpose, *bound: str, now_ms: int) -> ProofUse | None:
        """What a commit must use up, if it was made here for this and is not over; else `None`."""
        head, seal = challenge[:-_SEAL_BYTES], challenge[-_SEAL_BYTES:]
        if len(challenge) != _LENGTH or not hmac.compare_digest(seal, self._seal(head, purpose, bound)):
            return None
        until_ms = int.from_bytes(head[:_TIME_BYTES])
        # Nor one from a future that this process does not know: its clock was set back.
        if not now_ms < until_ms <= now_ms + LIFETIME_MS * 2:
            return None
        return ProofUse(key=digest(["challenge", base64url(challenge)]), until_ms=until_ms)

    def derive(self, purpose: Purpose, name: str, of: str) -> str:
        """A value that follows from a secret of the browser's, and that nobody else can know."""
        return keyed_digest(self._key, f"one-time {purpose.value} {name}", of)

    def _seal(self, head: bytes, purpose: Purpose, bound: tuple[str, ...]) -> bytes:
        return bytes.fromhex(keyed_digest(self._key, f"challenge {purpose.value}", head.hex(), *bound))
