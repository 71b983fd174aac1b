"""The strict parser of one compact JWS, in front of the JWT library (RFC 7515, RFC 8725).

A library that decodes tokens for everybody takes duplicate names, padding, unknown header members and other
types than a capability's. Here a token has one spelling, and its header is an allow-list. Nothing is believed
before `check_signature`: until then it only says which key to look up.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from jwt.algorithms import OKPAlgorithm

from authz_client.capabilities.digests import base64url, canonical_json, from_base64url, sha256_base64url
from authz_client.capabilities.keys import BadKey, PublicKey, Signer, SigningKey
from authz_client.capabilities.reasons import Reason, Refusal
from authz_client.capabilities.strict_json import NotStrictJson, loads

ALG: Final = "EdDSA"
"""The one algorithm. RFC 9864 renames it `Ed25519`; the JWT library has no such name yet."""
LINK_TYP: Final = "cap+jwt"
PROOF_TYP: Final = "cap-pop+jwt"
APPROVAL_TYP: Final = "cap-approval+jwt"
TICKET_TYP: Final = "cap-ticket+jwt"
MAX_TOKEN_CHARACTERS: Final = 16_384
_MAX_HEADER_CHARACTERS: Final = 1_024
_SIGNATURE_CHARACTERS: Final = 86
"""64 bytes in base64url."""
_HEADER_MEMBERS: Final = frozenset({"alg", "typ", "kid"})
_MAX_KID_CHARACTERS: Final = 256

_eddsa = OKPAlgorithm()


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """One token, parsed. Its claims are unverified until `check_signature` has passed."""

    kid: str | None
    unverified_claims: Mapping[str, Any]
    signing_input: bytes
    signature: bytes
    token: str

    @cached_property
    def link_hash(self) -> str:
        """SHA-256 over the signing input: what a child's `par_hash`, budgets and revocations go by.

        Not over the signature, so that a second signature of the same link is the same link.
        """
        return sha256_base64url(self.signing_input)

    @cached_property
    def token_hash(self) -> str:
        """SHA-256 over the whole token: what a proof's `ath` is (RFC 9449, section 4.2)."""
        return sha256_base64url(self.token.encode("ascii"))


def parse_envelope(token: Any, *, typ: str, has_kid: bool) -> Envelope | Refusal:
    """Parse a compact JWS of type `typ`. `has_kid`: whether a `kid` is required, or refused."""
    if not isinstance(token, str):
        return Refusal(reason=Reason.TOKEN_INVALID, detail="a token is a string")
    if len(token) > MAX_TOKEN_CHARACTERS:
        return Refusal(
            reason=Reason.TOKEN_TOO_LARGE, detail=f"the token is over {MAX_TOKEN_CHARACTERS} characters"
        )
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        return Refusal(reason=Reason.TOKEN_PARTS, detail="a token has a header, a payload and a signature")
    if len(parts[0]) > _MAX_HEADER_CHARACTERS:
        return Refusal(reason=Reason.TOKEN_TOO_LARGE, detail="the header is too large")
    header_bytes, claims_bytes, signature = map(from_base64url, parts)
    if header_bytes is None or claims_bytes is None or signature is None:
        return Refusal(
            reason=Reason.TOKEN_ENCODING, detail="a part is not unpadded base64url in one spelling"
        )
    try:
        header, claims = loads(header_bytes), loads(claims_bytes)
    except NotStrictJson as error:
        return Refusal(reason=Reason.TOKEN_JSON, detail=str(error))
    if not isinstance(header, dict) or not isinstance(claims, dict):
        return Refusal(reason=Reason.TOKEN_JSON, detail="header and payload are JSON objects")
    if refused := _check_header(header, typ=typ, has_kid=has_kid):
        return refused
    if len(parts[2]) != _SIGNATURE_CHARACTERS:
        return Refusal(reason=Reason.SIGNATURE_INVALID, detail="a signature has 64 bytes")
    return Envelope(
        kid=header.get("kid"),
        unverified_claims=claims,
        signing_input=token[: -_SIGNATURE_CHARACTERS - 1].encode("ascii"),
        signature=signature,
        token=token,
    )


def _check_header(header: Mapping[str, Any], *, typ: str, has_kid: bool) -> Refusal | None:
    """`alg`, `typ` and `kid`: no `jwk`, `jku`, `x5*`, `crit`, `zip`, `b64`, `cty` or anything else."""
    if header.get("alg") != ALG:
        return Refusal(reason=Reason.ALG_REFUSED, detail=f"`alg` is exactly `{ALG}`")
    # RFC 8725, section 3.11. Media types ignore case; a token of ours is written in one way.
    if header.get("typ") != typ:
        return Refusal(reason=Reason.TYP_REFUSED, detail=f"`typ` is exactly `{typ}`")
    if header.keys() - _HEADER_MEMBERS:
        return Refusal(reason=Reason.HEADER_UNKNOWN, detail="the header holds other members than allowed")
    if "kid" not in header:
        return Refusal(reason=Reason.KID_MISSING, detail="the header has no `kid`") if has_kid else None
    if not has_kid:
        return Refusal(
            reason=Reason.KID_REFUSED, detail="the key is known from elsewhere, and the header names one"
        )
    kid = header["kid"]
    if not isinstance(kid, str) or not 0 < len(kid) <= _MAX_KID_CHARACTERS:
        return Refusal(reason=Reason.KID_INVALID, detail="`kid` is a short string")
    return None


def key_for(envelope: Envelope, keys: Mapping[str, PublicKey]) -> PublicKey | Refusal:
    """The key that `kid` names: an exact look-up in the loaded map, never a path, a URL or a query."""
    if envelope.kid is None:
        return Refusal(reason=Reason.KID_MISSING, detail="the header has no `kid`")
    key = keys.get(envelope.kid)
    if key is None:
        return Refusal(reason=Reason.KID_UNKNOWN, detail="no loaded key has this `kid`")
    return key


def check_signature(envelope: Envelope, key: PublicKey) -> Refusal | None:
    """Refuse a signature that is not `key`'s over exactly the bytes that were parsed."""
    # The library's algorithm over our own parts, not its decoder: a second parser could read a second token.
    if not _eddsa.verify(envelope.signing_input, key.key, envelope.signature):
        return Refusal(reason=Reason.SIGNATURE_INVALID, detail="the signature is not this key's")
    return None


def sign(claims: Mapping[str, Any], key: Signer, *, typ: str, kid: str | None = None) -> str:
    """The compact JWS of `claims`. Raises `ValueError` for what is not JSON.

    And `BadKey`, which is one, for a signature that is not the key's.
    """
    header = {"alg": ALG, "typ": typ} if kid is None else {"alg": ALG, "typ": typ, "kid": kid}
    # RFC 7515, section 5.1. Not by the library, which only signs with a key that it is given.
    head = json.dumps(header, separators=(",", ":"), sort_keys=True).encode("ascii")
    text = f"{base64url(head)}.{base64url(canonical_json(dict(claims)))}"
    signing_input = text.encode("ascii")
    signature = key.sign(signing_input)
    # What a key elsewhere answers is taken as little on trust as a token: it could have been swapped there.
    if not isinstance(key, SigningKey) and not _eddsa.verify(signing_input, key.public.key, signature):
        raise BadKey("the signer returned a signature that is not its key's")
    return f"{text}.{base64url(signature)}"


__all__ = [
    "ALG",
    "APPROVAL_TYP",
    "LINK_TYP",
    "MAX_TOKEN_CHARACTERS",
    "PROOF_TYP",
    "TICKET_TYP",
    "Envelope",
    "check_signature",
    "key_for",
    "parse_envelope",
    "sign",
]
