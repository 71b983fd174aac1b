"""What every kind of token is held against: issuer, audience, lifetime and dates."""

from typing import Final

from authz_client.capabilities.claims import TokenClaims
from authz_client.capabilities.reasons import Reason, Refusal

DEFAULT_MAX_LIFETIME_SECONDS: Final = 86_400
DEFAULT_SKEW_SECONDS: Final = 60


def check_expected(token: TokenClaims, *, issuer: str, audience: str, seconds: int) -> Refusal | None:
    """What an issuer signed against what its verifier expects, character by character."""
    if token.iss != issuer:
        return Refusal(reason=Reason.ISS_MISMATCH, detail="`iss` is not the expected issuer")
    if token.aud != audience:
        return Refusal(reason=Reason.AUD_MISMATCH, detail="`aud` is not this audience")
    return check_lifetime(token, seconds)


def check_dates(*, iat: int, exp: int, nbf: int | None, now: int, skew_seconds: int) -> Refusal | None:
    """The dates of a token at `now`. Skew forgives a clock that is behind; it never extends a life."""
    if now >= exp:  # RFC 7519, section 4.1.4: "on or after"
        return Refusal(reason=Reason.EXPIRED, detail=f"it expired at {exp}")
    if nbf is not None and nbf > now + skew_seconds:
        return Refusal(reason=Reason.NOT_YET_VALID, detail=f"it is valid from {nbf}")
    if iat > now + skew_seconds:
        return Refusal(reason=Reason.IAT_IN_FUTURE, detail=f"it was issued at {iat}")
    return None


def check_lifetime(token: TokenClaims, seconds: int) -> Refusal | None:
    """Refuse a token that lives for longer than the configured longest lifetime, whoever signed it."""
    if token.exp - token.iat > seconds:
        return Refusal(reason=Reason.LIFETIME_TOO_LONG, detail=f"it lives for over {seconds} seconds")
    return None
