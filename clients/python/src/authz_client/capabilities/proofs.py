"""Proof of possession: one per call, by the key of the leaf (names of RFC 9449, DPoP).

Claims, all required and no others: `jti`, `iat`, `aud` (the decision point), `ath` (SHA-256 over the leaf
token) and `request_digest` (of the body as sent, see `request_digest`). Verification is pure: whoever calls
it inserts (thumbprint, `jti`) into a replay store, atomically, and keeps it until `replay_until`.
"""

from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.claims import is_date, is_hash, is_name
from authz_client.capabilities.digests import sha256_base64url
from authz_client.capabilities.envelope import PROOF_TYP, check_signature, parse_envelope, sign
from authz_client.capabilities.expectations import DEFAULT_SKEW_SECONDS
from authz_client.capabilities.keys import SigningKey
from authz_client.capabilities.reasons import Reason, Refusal, Refused
from authz_client.capabilities.verified import VerifiedChain

DEFAULT_PROOF_SECONDS: Final = 60
_CLAIMS: Final = frozenset({"jti", "iat", "aud", "ath", "request_digest"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedProof:
    """A proof that holds. It is good once: see `replay_until`."""

    jti: str
    thumbprint: str
    """Of the key that signed it."""
    iat: int
    replay_until: int
    """Seconds since 1970: from here on the proof is too old, and its record may be forgotten."""


def prove(leaf_token: str, key: SigningKey, *, audience: str, request_digest: str, jti: str, iat: int) -> str:
    """A proof for one request. Raises `Refused` for claims that no verifier would take."""
    claims = {
        "jti": jti,
        "iat": iat,
        "aud": audience,
        "ath": sha256_base64url(leaf_token.encode("utf-8", "surrogatepass")),
        "request_digest": request_digest,
    }
    if refused := _check_claims(claims):
        raise Refused(refused)
    return sign(claims, key, typ=PROOF_TYP)


def verify_proof(
    token: Any,
    *,
    chain: VerifiedChain,
    audience: str,
    request_digest: str,
    now: int,
    max_age_seconds: int = DEFAULT_PROOF_SECONDS,
    skew_seconds: int = DEFAULT_SKEW_SECONDS,
) -> VerifiedProof | Refusal:
    """Verify that the holder of the leaf of `chain` signed this request, now, for this audience."""
    envelope = parse_envelope(token, typ=PROOF_TYP, has_kid=False)
    if isinstance(envelope, Refusal):
        return envelope
    if refused := check_signature(envelope, chain.leaf.holder):
        return refused
    claims = envelope.unverified_claims
    if refused := _check_claims(claims):
        return refused
    if claims["aud"] != audience:
        return Refusal(reason=Reason.AUD_MISMATCH, detail="the proof is for another audience")
    if claims["ath"] != chain.leaf_hash:
        return Refusal(reason=Reason.ATH_MISMATCH, detail="the proof is for another leaf")
    if claims["request_digest"] != request_digest:
        return Refusal(reason=Reason.REQUEST_MISMATCH, detail="the proof is for another request")
    if claims["iat"] > now + skew_seconds:
        return Refusal(reason=Reason.IAT_IN_FUTURE, detail="the proof is from the future")
    replay_until = claims["iat"] + max_age_seconds
    if now >= replay_until:
        return Refusal(reason=Reason.PROOF_TOO_OLD, detail=f"the proof is over {max_age_seconds} seconds old")
    return VerifiedProof(
        jti=claims["jti"],
        thumbprint=chain.leaf.holder.thumbprint,
        iat=claims["iat"],
        replay_until=replay_until,
    )


def _check_claims(claims: Any) -> Refusal | None:
    if claims.keys() - _CLAIMS:
        return Refusal(
            reason=Reason.CLAIM_UNKNOWN, detail="a proof has `jti iat aud ath request_digest` only"
        )
    if not is_name(claims.get("jti")):
        return Refusal(reason=Reason.JTI_INVALID, detail="`jti` is a string")
    if not is_date(claims.get("iat")):
        return Refusal(reason=Reason.IAT_INVALID, detail="`iat` is an integer, seconds since 1970")
    if not is_name(claims.get("aud"), 2048):
        return Refusal(reason=Reason.AUD_INVALID, detail="`aud` is one string")
    if not is_hash(claims.get("ath")):
        return Refusal(reason=Reason.ATH_MISMATCH, detail="`ath` is a SHA-256 in base64url")
    if not is_name(claims.get("request_digest")):
        return Refusal(reason=Reason.REQUEST_MISMATCH, detail="`request_digest` is a string")
    return None
