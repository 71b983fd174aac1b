"""The vault: what is kept sealed for a time, so that neither the database nor a backup of it tells it.

AES-256-GCM (NIST SP 800-38D) under a key of its own for every entry, derived from the vault's key and a
random salt (HKDF, RFC 5869): under one key alone the random nonces of many entries would meet some day. Where
an entry belongs and when it ends is bound to it, so neither can be changed without the key.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authz.errors import StoreUnavailable
from authz.model.approval_writes import VaultWrite

KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_PURPOSE: Final = "authz vault entry v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedEntry:
    """An entry as it is written."""

    tenant: str
    ref: str
    until_ms: int
    nonce: bytes
    """Salt of the entry's key, and nonce."""
    sealed: bytes


class Vault:
    """Seals and opens. Without a key it does neither."""

    def __init__(self, key: bytes | None) -> None:
        """`key`: 32 secret bytes for this alone. Raises `ValueError` for any other number of bytes."""
        if key is not None and len(key) != KEY_BYTES:
            raise ValueError(f"the key of the vault has {KEY_BYTES} bytes")
        self._key = key

    def check_can_keep(self, kept: Sequence[VaultWrite]) -> None:
        """Refuse (`StoreUnavailable`, `store.vault`) what is to be kept where there is no key."""
        if kept:
            self._check_key()

    def seal(self, write: VaultWrite) -> SealedEntry:
        """What may be written down of it. Raises `StoreUnavailable` without a key."""
        nonce = secrets.token_bytes(_SALT_BYTES + _NONCE_BYTES)
        bound = _bound(write.tenant, write.ref, write.until_ms)
        sealed = self._cipher(nonce).encrypt(nonce[_SALT_BYTES:], write.content, bound)
        return SealedEntry(
            tenant=write.tenant, ref=write.ref, until_ms=write.until_ms, nonce=nonce, sealed=sealed
        )

    def open(self, entry: SealedEntry) -> bytes:
        """In the clear. Raises `StoreUnavailable` where the key, or anything of the entry, is another."""
        if len(entry.nonce) != _SALT_BYTES + _NONCE_BYTES:
            raise StoreUnavailable("an entry of the vault has no nonce", code="store.vault")
        bound = _bound(entry.tenant, entry.ref, entry.until_ms)
        try:
            return self._cipher(entry.nonce).decrypt(entry.nonce[_SALT_BYTES:], entry.sealed, bound)
        except InvalidTag as fault:
            raise StoreUnavailable(
                "an entry of the vault cannot be opened: it was changed, or sealed by another key",
                code="store.vault",
            ) from fault

    def _cipher(self, nonce: bytes) -> AESGCM:
        derived = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=nonce[:_SALT_BYTES], info=_PURPOSE.encode())
        return AESGCM(derived.derive(self._check_key()))

    def _check_key(self) -> bytes:
        if self._key is None:
            raise StoreUnavailable("the store was opened without a key for its vault", code="store.vault")
        return self._key


def _bound(tenant: str, ref: str, until_ms: int) -> bytes:
    return json.dumps([_PURPOSE, tenant, ref, until_ms]).encode()
