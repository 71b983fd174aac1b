"""A key that stays elsewhere signs what a key in hand would, and is not taken at its word."""

from collections.abc import Callable
from typing import Any

import pytest
from authz_client.capabilities import (
    NOTHING_REVOKED,
    BadKey,
    PublicKey,
    Signer,
    SigningKey,
    VerifiedChain,
    issue_root,
    narrow,
    sign_ticket,
    verify_chain,
)
from authz_client.capabilities.digests import canonical_json
from authz_client.capabilities.envelope import LINK_TYP, sign
from jwt.api_jws import PyJWS

from tests.clients.python.capabilities.making import AUDIENCE, HOLDERS, ISSUER, NOW, ROOT, entry

OTHER = HOLDERS[5]


class Elsewhere:
    """As in a KMS: there is no private part to take."""

    def __init__(self, answer: Callable[[bytes], bytes], *, kid: str = "kms-1") -> None:
        self.answer = answer
        self.kid = kid

    @property
    def public(self) -> PublicKey:
        return ROOT.public

    def sign(self, signing_input: bytes) -> bytes:
        return self.answer(signing_input)


def root(key: Signer, **changes: Any) -> str:
    given: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "subject": "ada",
        "holder": HOLDERS[0].public,
        "entries": [entry()],
        "jti": "j-1",
        "iat": NOW,
        "exp": NOW + 60,
        "max_depth": 2,
    }
    return issue_root(key, **(given | changes))


def ticket(key: Signer) -> str:
    return sign_ticket(
        key,
        issuer=ISSUER,
        audience="https://files.example.com",
        subject="ada",
        agent=None,
        tool="fs/file_read",
        fingerprint="f",
        arguments={},
        decision_id="d",
        holder_thumbprint=None,
        ancestors=(),
        jti="t",
        iat=NOW,
        exp=NOW + 60,
    )


@pytest.mark.parametrize("make", [root, ticket])
def test_what_it_signs_is_what_a_key_in_hand_signs(make: Callable[[Signer], str]) -> None:
    assert make(Elsewhere(ROOT.sign, kid=ROOT.kid)) == make(ROOT)


def test_its_own_name_stands_in_the_header() -> None:
    chain = narrow((root(Elsewhere(ROOT.sign)),), HOLDERS[0], holder=HOLDERS[1].public, jti="j-2", iat=NOW)
    found = verify_chain(
        chain,
        now=NOW,
        audience=AUDIENCE,
        issuer=ISSUER,
        keys={"kms-1": ROOT.public},
        revoked=NOTHING_REVOKED,
    )
    assert isinstance(found, VerifiedChain)
    assert root(Elsewhere(ROOT.sign), kid="given") != root(Elsewhere(ROOT.sign))


@pytest.mark.parametrize(
    "answer",
    [
        OTHER.sign,
        lambda data: ROOT.sign(data + b" "),
        lambda data: ROOT.sign(data)[:-1],
        lambda data: ROOT.sign(data) + b"\0",
        lambda _: b"",
    ],
    ids=["another key's", "over another text", "short", "long", "nothing"],
)
@pytest.mark.parametrize("make", [root, ticket])
def test_a_signature_that_is_not_its_keys_is_never_handed_on(
    make: Callable[[Signer], str], answer: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(BadKey, match="not its key's"):
        make(Elsewhere(answer))


@pytest.mark.parametrize("kid", [None, "k-1", 'quote " and ü'])
def test_the_bytes_are_those_of_the_jwt_library(kid: str | None) -> None:
    claims = {"b": 1, "a": "ü", "c": {"z": [1, 2], "y": None}}
    headers = {"typ": LINK_TYP} if kid is None else {"typ": LINK_TYP, "kid": kid}
    token = sign(claims, ROOT, typ=LINK_TYP, kid=kid)
    jws = PyJWS(algorithms=["EdDSA"])
    decoded = jws.decode_complete(token, ROOT.public.key, algorithms=["EdDSA"])
    assert decoded["payload"] == canonical_json(claims)
    assert decoded["header"] == {"alg": "EdDSA", **headers}
    assert token == jws.encode(canonical_json(claims), ROOT.private, algorithm="EdDSA", headers=headers)


def test_a_key_in_hand_is_named_by_its_thumbprint() -> None:
    key: Signer = ROOT
    assert isinstance(ROOT, SigningKey)
    assert key.kid == ROOT.public.thumbprint
