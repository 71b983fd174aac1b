"""What a stranger can do with real chains: cut, mix, repeat, alter, re-sign, re-label, and wait."""

import copy
import hashlib
import hmac
import itertools
import json
from typing import Any

import pytest
from authz_client.capabilities import (
    Reason,
    Refusal,
    Refused,
    VerifiedChain,
    VerifiedProof,
    check_line,
    narrow,
    prove,
    request_digest,
    verify_proof,
)
from authz_client.capabilities.digests import base64url
from authz_client.capabilities.envelope import MAX_TOKEN_CHARACTERS
from authz_client.capabilities.objects import parse_object
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clients.python.capabilities.golden import vectors as golden
from tests.clients.python.capabilities.making import (
    AUDIENCE,
    HOLDERS,
    KID,
    NOW,
    ROOT,
    accepted,
    child,
    entry,
    forge,
    opened,
    reason,
    reforged,
    root,
    verify,
)

LONG = child(child(child(root(jti="a"))))
TWIN = child(child(root(jti="b")), jti="twin")
FORK = child(LONG[:2], agent="fork", jti="fork")
CHAINS = (LONG, TWIN, FORK)
GOOD = {chain[:length] for chain in CHAINS for length in range(1, len(chain) + 1)}
POOL = sorted({token for chain in CHAINS for token in chain})


def test_only_beginnings_of_real_chains_verify() -> None:
    """Spliced, reordered, cut out of the middle, repeated: of all lists of real links no other one does."""
    tried = [
        *(chain for length in (0, 1, 2, 3) for chain in itertools.product(POOL, repeat=length)),
        *itertools.permutations(POOL, 4),
        *(chain + (token,) for chain in CHAINS for token in POOL),
        *(chain[::-1] for chain in CHAINS),
    ]
    assert {chain for chain in tried if isinstance(verify(chain), VerifiedChain)} == GOOD


def test_a_shorter_chain_is_its_own_holders_alone() -> None:
    """To cut the leaf off is to claim what the parent holds: that takes the parent's key, for each call."""
    digest = request_digest({})
    for length in range(1, len(LONG) + 1):
        found = accepted(LONG[:length])
        for number, key in enumerate(HOLDERS[:5]):
            proof = prove(LONG[length - 1], key, audience=AUDIENCE, request_digest=digest, jti="p", iat=NOW)
            answer = verify_proof(proof, chain=found, audience=AUDIENCE, request_digest=digest, now=NOW)
            assert isinstance(answer, VerifiedProof) == (number == length - 1)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_change_of_any_character_is_refused(data: st.DataObject) -> None:
    """Also one that decodes to the same bytes: a link, and so its place in a cache, has one spelling."""
    link = data.draw(st.integers(0, len(LONG) - 1))
    token = LONG[link]
    at = data.draw(st.integers(0, len(token)))
    other = data.draw(st.sampled_from("AQgwZ09_-.=+/ \n\u0435\ud800"))
    cut = data.draw(st.integers(0, 1))
    changed = token[:at] + other + token[at + cut :]
    if changed != token:
        assert isinstance(verify((*LONG[:link], changed, *LONG[link + 1 :])), Refusal)


def _hmac_forged(header: dict[str, Any], secret: bytes) -> str:
    claims = opened(LONG[0])[1]
    text = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{base64url(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


@pytest.mark.parametrize("alg", ["HS256", "none", "EdDSA", "Ed25519", "eddsa", "ES256"])
def test_a_public_key_is_no_shared_secret(alg: str) -> None:
    x = ROOT.public.x
    for secret in (x.encode(), ROOT.public.key.public_bytes_raw(), json.dumps(ROOT.public.jwk).encode(), b""):
        expected = Reason.SIGNATURE_INVALID if alg == "EdDSA" else Reason.ALG_REFUSED
        assert reason((_hmac_forged({"alg": alg, "typ": "cap+jwt", "kid": KID}, secret),)) is expected


@pytest.mark.parametrize("typ", ["cap-pop+jwt", "cap-ticket+jwt", "cap-approval+jwt", "JWT", "CAP+JWT", None])
def test_a_token_of_another_type_is_no_link(typ: str | None) -> None:
    """Under the right key: an endpoint's ticket, a proof or a receipt gives nothing."""
    for position in range(2):
        header, _ = opened(LONG[position])
        assert reason(reforged(LONG[: position + 1], header=header | {"typ": typ})) is Reason.TYP_REFUSED


def test_a_child_cannot_pass_for_a_root() -> None:
    """Its holder signs what it likes, with any header: only the issuer's key makes a root."""
    header, claims = opened(LONG[0])
    own = opened(LONG[1])[1]
    for signer in HOLDERS[:3]:
        for body in (claims, own, {**claims, "cnf": {"jwk": signer.public.jwk}}, {**claims, "jti": "new"}):
            for kid in (KID, signer.public.thumbprint, signer.public.urn, "../" + KID):
                found = reason((forge({**header, "kid": kid}, body, signer),))
                assert found in (Reason.SIGNATURE_INVALID, Reason.KID_UNKNOWN)
    # Nor where a verifier trusts the holder's own key: what is written as a child is none.
    keys = {KID: HOLDERS[0].public}
    found_with = verify((forge(header, own, HOLDERS[0]),), keys=keys)
    assert isinstance(found_with, Refusal)
    assert found_with.reason is Reason.PAR_HASH_ON_ROOT


def test_time_moves_one_way() -> None:
    """Valid from `iat` less the skew until the earliest `exp` of the chain, whose end no skew moves."""
    chain = child(child(root(), exp=NOW + 400), exp=NOW + 300)
    for skew in (0, 30, 60):
        for now in [*range(NOW - 70, NOW + 10), *range(NOW + 295, NOW + 305), NOW + 10_000]:
            found = isinstance(verify(chain, now=now, skew_seconds=skew), VerifiedChain)
            assert found == (NOW + 2 - skew <= now < NOW + 300)


def test_a_token_of_the_greatest_size_and_one_over() -> None:
    def padded(characters: int) -> tuple[str]:
        constraints = {"x": {"equals": "a" * characters}}
        return root([entry(constraints=constraints)])

    least = len(padded(0)[0])
    most = (MAX_TOKEN_CHARACTERS - least) * 3 // 4 - 3
    accepted(padded(most))
    with pytest.raises(Refused, match="token_too_large"):
        padded(most + 8)


@pytest.mark.parametrize("depth", [70, 2_000, 100_000])
def test_deep_nesting_is_a_refusal_and_no_crash(depth: int) -> None:
    header, claims = opened(LONG[0])
    text = json.dumps(claims)
    deep = "[" * depth + "]" * depth
    for raw in (
        text.replace('"file:///srv/work"', deep),
        text.replace('"ada"', '{"a":' * depth + "1" + "}" * depth),
        deep,
    ):
        found = reason((forge(header, raw, ROOT),))
        assert found in (Reason.TOKEN_JSON, Reason.TOKEN_TOO_LARGE)
        assert check_line(raw)["reason"] == "line_invalid"
    if depth <= 2_000:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        with pytest.raises(Refused):
            root([entry(constraints={"x": {"equals": value}})])


@pytest.mark.parametrize("sub", ["\u0430da", "ada\u200b", "a\u0301da", "ADA", "ada ", "\u2066ada"])
def test_look_alikes_are_others(sub: str) -> None:
    """Nothing is folded or normalized: who looks like the subject is somebody else."""
    assert reason(reforged(child(root()), sub=sub)) is Reason.SUB_CHANGED
    assert accepted(root(subject=sub)).subject == sub


@pytest.mark.parametrize(
    "uri",
    [
        "file:///srv/w\u043erk",
        "file:///srv/work/%2e%2e/etc",
        "file:///srv/work/%c0%ae%c0%ae/etc",
        "file:///srv/work/%ef%bc%8e%ef%bc%8e/../etc",
        "file:///srv/work/..",
        "file:///srv/%77ork",
        "FILE:///srv/work",
        "file:///srv/work\u2044a",
        "https://ex\u0430mple.com/",
        "https://example.com\uff0fa",
        "https://example.com:443/",
        "https://user@example.com/",
        "https://EXAMPLE.com/",
        "https://[::ffff:127.0.0.1]/",
        "https://0x7f.1/",
        "domain:*.example.com",
        "domain:example.com.",
        "domain:",
        "*",
        "",
    ],
)
def test_a_location_has_one_spelling(uri: str) -> None:
    assert parse_object(uri) is None
    with pytest.raises(Refused, match="location_invalid"):
        root([entry(locations=[uri])])
    assert reason(reforged(root(), authorization_details=[entry(locations=[uri])])) is Reason.LOCATION_INVALID


def test_composed_and_decomposed_names_are_two_files() -> None:
    composed, decomposed = parse_object("file:///srv/caf%C3%A9"), parse_object("file:///srv/cafe%CC%81")
    assert composed is not None
    assert decomposed is not None
    assert not composed.lies_in(decomposed)
    assert not decomposed.lies_in(composed)


def test_a_stolen_chain_narrows_for_nobody_else() -> None:
    for thief in (HOLDERS[0], HOLDERS[2], HOLDERS[9], ROOT):
        with pytest.raises(Refused, match="holder_mismatch"):
            narrow(LONG[:2], thief, holder=thief.public, jti="x", iat=NOW)


ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**53, "", "x", "\ud800", "\u202e", [], [[]], {}, {"": None}, "a.b.c", 10**30]
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, member in members:
        found += _paths(member, (*path, name))
    return found


QUESTIONS = [case["input"] for case in golden() if case["expected"]["result"] == "accept"]


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_line_stops_the_verifier(data: st.DataObject) -> None:
    """Whatever stands in a good question's place: a verdict of the two, with a reason of the contract."""
    question = copy.deepcopy(data.draw(st.sampled_from(QUESTIONS)))
    path = data.draw(st.sampled_from(_paths(question)))
    odd = data.draw(ODD)
    if not path:
        question = odd
    else:
        place = question
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = odd
    answer = check_line(json.dumps(question))
    assert answer["result"] in ("accept", "reject")
    assert (answer["reason"] == "ok") == (answer["result"] == "accept")
    assert answer["reason"] in {"ok", *Reason}


@given(st.data(), ODD)
@settings(max_examples=300, deadline=None)
def test_no_signed_claim_stops_the_verifier(data: st.DataObject, odd: Any) -> None:
    """The same behind a good signature: an issuer's or a holder's own tokens are as little trusted."""
    chain = data.draw(st.sampled_from([LONG[:1], LONG[:2]]))
    header, claims = opened(chain[-1])
    path = data.draw(st.sampled_from(_paths(claims)[1:]))
    place = claims
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = odd
    signer = ROOT if len(chain) == 1 else HOLDERS[0]
    found = verify((*chain[:-1], forge(header, claims, signer)))
    assert isinstance(found, VerifiedChain | Refusal)
    if path == ("exp",) or path[0] in ("cnf", "par_hash", "iss", "aud"):
        assert isinstance(found, Refusal), (path, odd)
