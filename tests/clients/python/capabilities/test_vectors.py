"""Public vectors, read from beside the checkout."""

import json
from typing import Any, Final

import pytest
from authz_client.capabilities import BadKey, Refusal, check_line, public_key, published_keys
from authz_client.capabilities.digests import base64url
from authz_client.capabilities.envelope import LINK_TYP, Envelope, check_signature, parse_envelope

from tests.clients.python.capabilities.golden import vectors as golden
from tests.support.shared import vectors

pytestmark = pytest.mark.external

POLICY: Final = {
    # Where either answer is allowed, the strict one is given.
    "chain-signed-by-root": "signature_invalid",  # a narrowing by the server is a new root
    "jwt-ok-ed25519-alg": "alg_refused",  # one configured constant, `EdDSA`
    "jwt-typ-case": "typ_refused",  # one spelling
    "jwt-exp-float": "exp_invalid",  # integers only
    "jwt-aud-list-1": "aud_invalid",  # one string
}


@pytest.mark.parametrize(("name", "count"), [("delegation_chains", 32), ("jwt_attacks", 71)])
def test_chains_and_tokens(name: str, count: int) -> None:
    deviating, policy = {}, {}
    cases = vectors(name)
    for case in cases:
        answer = check_line(json.dumps(case["input"]))
        wanted = case["expected"]["result"]
        if wanted == "policy":
            policy[case["id"]] = answer["reason"]
        elif answer["result"] != wanted:
            deviating[case["id"]] = answer
    assert deviating == {}
    assert policy == {
        key: why for key, why in POLICY.items() if key.startswith(("chain", "jwt")) and key in policy
    }
    assert len(cases) >= count


def test_as_many_of_our_own_are_accepted_as_theirs_are_refused() -> None:
    theirs = [case for name in ("delegation_chains", "jwt_attacks") for case in vectors(name)]
    refused = [case for case in theirs if case["expected"]["result"] == "reject"]
    accepted = [case for case in golden() if case["expected"]["result"] == "accept"]
    assert len(accepted) >= len(refused) > 90


def test_wycheproof_ed25519() -> None:
    """Signatures by our own way to the library: the public key as a JWK, the message as a signing input."""
    deviating = {}
    cases = vectors("wycheproof_ed25519")
    for case in cases:
        given = {name: bytes.fromhex(case["input"][f"{name}_hex"]) for name in ("pk", "msg", "sig")}
        envelope = Envelope(
            kid=None, unverified_claims={}, signing_input=given["msg"], signature=given["sig"], token=""
        )
        try:
            key = public_key({"kty": "OKP", "crv": "Ed25519", "x": base64url(given["pk"])})
            answer = "invalid" if check_signature(envelope, key) else "valid"
        except BadKey:
            answer = "invalid"
        if answer != case["expected"]["result"]:
            deviating[case["id"]] = answer
    assert deviating == {}
    assert len(cases) >= 151


def test_wycheproof_jws_has_nothing_for_us() -> None:
    """No EdDSA there: a verifier that is pinned to it refuses all of them, valid ones too."""
    cases = vectors("wycheproof_jws")
    for case in cases:
        for has_kid in (True, False):
            assert isinstance(parse_envelope(case["input"]["jws"], typ=LINK_TYP, has_kid=has_kid), Refusal), (
                case["id"]
            )
    assert len(cases) >= 200


def test_wycheproof_jwk_has_no_key_for_us() -> None:
    cases = vectors("wycheproof_jwk")
    loaded: dict[str, Any] = {}
    for case in cases:
        try:
            loaded |= published_keys(case["input"]["jwks"])
        except BadKey:
            continue
    assert loaded == {}
    assert len(cases) >= 26
