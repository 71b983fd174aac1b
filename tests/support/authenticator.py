"""A passkey in software: what a browser and its authenticator answer to a challenge (WebAuthn, section 6)."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import cbor2
from authz_client.capabilities.digests import base64url, from_base64url
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

USER_PRESENT: Final = 0x01
USER_VERIFIED: Final = 0x04
ATTESTED: Final = 0x40
GOOD: Final = USER_PRESENT | USER_VERIFIED


@dataclass
class SoftPasskey:
    """One credential at one place. `sign_count` rises with each use unless it is held."""

    origin: str
    rp_id: str
    counts: bool = True
    sign_count: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    user_handle: bytes = b""
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def create(self, options: Mapping[str, Any], *, flags: int = GOOD) -> dict[str, Any]:
        """What a browser answers to options for registering."""
        self.user_handle = from_base64url(options["user"]["id"]) or b""
        numbers = self._key.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        attested = bytes(16) + len(self.credential_id).to_bytes(2) + self.credential_id + cbor2.dumps(key)
        data = self._authenticator_data(flags | ATTESTED) + attested
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        return self._credential(
            {
                "clientDataJSON": self._client_data("webauthn.create", options["challenge"]),
                "attestationObject": base64url(attestation),
            }
        )

    def get(self, options: Mapping[str, Any], *, flags: int = GOOD) -> dict[str, Any]:
        """What a browser answers to options for signing in or for approving."""
        self.sign_count += self.counts
        client_data = self._client_data("webauthn.get", options["challenge"])
        data = self._authenticator_data(flags)
        signed = data + hashlib.sha256(from_base64url(client_data) or b"").digest()
        response = {
            "clientDataJSON": client_data,
            "authenticatorData": base64url(data),
            "signature": base64url(self._key.sign(signed, ec.ECDSA(hashes.SHA256()))),
            "userHandle": base64url(self.user_handle),
        }
        nonce = {"nonce": options["nonce"]} if "nonce" in options else {}
        return self._credential(response) | nonce

    def _authenticator_data(self, flags: int) -> bytes:
        rp_id_hash = hashlib.sha256(self.rp_id.encode()).digest()
        return rp_id_hash + bytes([flags]) + self.sign_count.to_bytes(4)

    def _client_data(self, kind: str, challenge: str) -> str:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return base64url(json.dumps(said).encode())

    def _credential(self, response: Mapping[str, Any]) -> dict[str, Any]:
        named = base64url(self.credential_id)
        return {"id": named, "rawId": named, "type": "public-key", "response": dict(response)}
