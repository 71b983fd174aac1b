"""Proof of possession: for this leaf, this request, this audience, now, by the leaf's key, once."""

from typing import Any

import pytest
from authz_client.capabilities import (
    Reason,
    Refusal,
    Refused,
    VerifiedProof,
    prove,
    request_digest,
    verify_proof,
)
from authz_client.capabilities.digests import sha256_base64url

from tests.clients.python.capabilities.making import (
    AUDIENCE,
    HOLDERS,
    NOW,
    ROOT,
    accepted,
    child,
    forge,
    opened,
    root,
)

BODY = {
    "subject": {"agent": "sub-1"},
    "tool": {"server": "fs", "name": "file_read"},
    "arguments": {"path": "/srv/work/a"},
}
DIGEST = request_digest(BODY)
CHAIN = child(root())


def proof(**changes: Any) -> str:
    given: dict[str, Any] = {"audience": AUDIENCE, "request_digest": DIGEST, "jti": "p-1", "iat": NOW}
    return prove(CHAIN[-1], HOLDERS[1], **(given | changes))


def check(token: Any, **changes: Any) -> VerifiedProof | Refusal:
    given: dict[str, Any] = {
        "chain": accepted(CHAIN),
        "audience": AUDIENCE,
        "request_digest": DIGEST,
        "now": NOW + 5,
    }
    return verify_proof(token, **(given | changes))


def why(token: Any, **changes: Any) -> Reason:
    found = check(token, **changes)
    assert isinstance(found, Refusal), "the proof was accepted"
    return found.reason


def test_a_proof_and_how_long_its_record_is_kept() -> None:
    found = check(proof())
    assert isinstance(found, VerifiedProof)
    assert found == VerifiedProof(
        jti="p-1", thumbprint=HOLDERS[1].public.thumbprint, iat=NOW, replay_until=NOW + 60
    )


@pytest.mark.parametrize("iat", range(NOW - 130, NOW + 140, 7))
@pytest.mark.parametrize("age", [1, 30, 60])
def test_a_record_is_kept_for_as_long_as_its_proof_is_good(iat: int, age: int) -> None:
    """Otherwise a proof could be replayed after its record was forgotten."""
    token = proof(iat=iat)
    for now in range(NOW - 10, NOW + 10):
        found = check(token, now=now, max_age_seconds=age)
        if isinstance(found, VerifiedProof):
            assert now < found.replay_until
            assert why(token, now=found.replay_until, max_age_seconds=age) is Reason.PROOF_TOO_OLD


def test_only_for_what_it_was_made_for() -> None:
    assert (
        why(proof(), request_digest=request_digest({**BODY, "arguments": {"path": "/etc"}}))
        is Reason.REQUEST_MISMATCH
    )
    assert why(proof(), audience="https://other.example.com") is Reason.AUD_MISMATCH
    assert why(proof(audience="https://other.example.com")) is Reason.AUD_MISMATCH
    assert why(proof(), chain=accepted(child(root(), jti="j-2"))) is Reason.ATH_MISMATCH
    assert why(proof(), chain=accepted(root())) is Reason.SIGNATURE_INVALID
    assert (
        why(prove(CHAIN[0], HOLDERS[1], audience=AUDIENCE, request_digest=DIGEST, jti="p", iat=NOW))
        is Reason.ATH_MISMATCH
    )


@pytest.mark.parametrize("key", [HOLDERS[0], HOLDERS[2], ROOT])
def test_only_by_the_leafs_key(key: Any) -> None:
    stolen = prove(CHAIN[-1], key, audience=AUDIENCE, request_digest=DIGEST, jti="p-1", iat=NOW)
    assert why(stolen) is Reason.SIGNATURE_INVALID


def test_only_now() -> None:
    assert why(proof(iat=NOW - 55)) is Reason.PROOF_TOO_OLD
    assert why(proof(iat=NOW + 66)) is Reason.IAT_IN_FUTURE
    assert isinstance(check(proof(iat=NOW + 65)), VerifiedProof)
    assert why(proof(iat=NOW + 6), skew_seconds=0) is Reason.IAT_IN_FUTURE


CLAIMS = {
    "jti": "p-1",
    "iat": NOW,
    "aud": AUDIENCE,
    "ath": sha256_base64url(CHAIN[-1].encode()),
    "request_digest": DIGEST,
}
HEADER = {"alg": "EdDSA", "typ": "cap-pop+jwt"}


@pytest.mark.parametrize(
    ("header", "claims", "expected"),
    [
        ({"typ": "cap+jwt"}, {}, Reason.TYP_REFUSED),
        ({"typ": "dpop+jwt"}, {}, Reason.TYP_REFUSED),
        ({"alg": "none"}, {}, Reason.ALG_REFUSED),
        ({"jwk": HOLDERS[1].public.jwk}, {}, Reason.HEADER_UNKNOWN),
        ({"kid": "root-1"}, {}, Reason.KID_REFUSED),
        ({}, {"htu": "x"}, Reason.CLAIM_UNKNOWN),
        ({}, {"exp": NOW + 900}, Reason.CLAIM_UNKNOWN),
        ({}, {"jti": ""}, Reason.JTI_INVALID),
        ({}, {"jti": "j" * 257}, Reason.JTI_INVALID),
        ({}, {"iat": True}, Reason.IAT_INVALID),
        ({}, {"iat": float(NOW)}, Reason.IAT_INVALID),
        ({}, {"aud": [AUDIENCE]}, Reason.AUD_INVALID),
        ({}, {"ath": "A" * 43}, Reason.ATH_MISMATCH),
        ({}, {"ath": None}, Reason.ATH_MISMATCH),
        ({}, {"request_digest": None}, Reason.REQUEST_MISMATCH),
        ({}, {"request_digest": DIGEST.upper()}, Reason.REQUEST_MISMATCH),
    ],
)
def test_the_profile(header: Any, claims: Any, expected: Reason) -> None:
    assert isinstance(check(forge(HEADER, CLAIMS, HOLDERS[1])), VerifiedProof)
    assert why(forge(HEADER | header, CLAIMS | claims, HOLDERS[1])) is expected


@pytest.mark.parametrize("missing", CLAIMS)
def test_every_claim_is_required(missing: str) -> None:
    claims = {name: value for name, value in CLAIMS.items() if name != missing}
    assert isinstance(check(forge(HEADER, claims, HOLDERS[1])), Refusal)


@pytest.mark.parametrize("token", [None, 1, [], "", "a.b.c", CHAIN[-1], "x" * 20_000])
def test_what_is_no_proof(token: Any) -> None:
    assert isinstance(check(token), Refusal)


def test_nothing_is_signed_that_would_be_refused() -> None:
    with pytest.raises(Refused, match="jti_invalid"):
        proof(jti="")
    assert opened(proof()) == (HEADER, CLAIMS)
