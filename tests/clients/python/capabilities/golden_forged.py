"""Golden chains that must be refused: spliced and forged ones, and wrong claims, headers and envelopes."""

from typing import Any

from authz_client.capabilities import VerifiedChain, verify_structure

from tests.clients.python.capabilities.golden_lines import Case, down_to, line, token
from tests.clients.python.capabilities.golden_tables import CLAIMS, HEADERS, WIDE
from tests.clients.python.capabilities.making import (
    AUDIENCE,
    HOLDERS,
    ISSUER,
    KEYS,
    KID,
    NOW,
    ROOT,
    child,
    forge,
    key,
    opened,
    reforged,
    root,
)


def forged() -> list[Case]:
    """Chains whose links, claims or envelopes nobody should have signed."""
    return [*_spliced(), *_claims(), *_envelopes()]


def _spliced() -> list[Case]:
    first, second = root([WIDE]), root([WIDE], jti="j-other")
    two, three = child(first), child(child(first))
    own = opened(two[1])
    thief = key("thief")
    return [
        ("spliced-other-parent", line((second[0], two[1])), "par_hash_mismatch"),
        ("spliced-middle-cut-out", line((three[0], three[2])), "signature_invalid"),
        ("reordered", line((three[0], three[2], three[1])), "signature_invalid"),
        ("reversed", line(two[::-1]), "kid_missing"),
        ("child-alone", line(two[1:]), "kid_missing"),
        ("link-twice", line((two[0], two[1], two[1])), "signature_invalid"),
        ("root-twice", line((two[0], two[0])), "kid_refused"),
        ("signed-by-stranger", line((two[0], forge(*own, thief))), "signature_invalid"),
        ("signed-by-issuer", line((two[0], forge(*own, ROOT))), "signature_invalid"),
        ("signed-by-its-own-key", line((two[0], forge(*own, HOLDERS[1]))), "signature_invalid"),
        (
            "child-dressed-as-root",
            line((forge(opened(first[0])[0], own[1], HOLDERS[0]),)),
            "signature_invalid",
        ),
        (
            "child-signed-by-issuer-as-root",
            line((forge(opened(first[0])[0], own[1], ROOT),)),
            "par_hash_on_root",
        ),
        ("payload-of-another", line((_grafted(first[0], second[0]),)), "signature_invalid"),
        ("issuer-of-another-tenant", line(root(issuer="https://other.example.com")), "iss_mismatch"),
        ("wrong-iss-right-signature", line(reforged(two, iss=thief.public.urn)), "iss_not_parent"),
        ("iss-by-kid", line(reforged(two, iss=HOLDERS[0].public.thumbprint)), "iss_not_parent"),
        ("empty", line([]), "chain_empty"),
        ("ten-links", line((*down_to(8), down_to(8)[-1])), "chain_too_long"),
        ("not-strings", line([1]), "chain_invalid"),
        ("not-a-list", line([]) | {"chain": "x"}, "chain_invalid"),
    ]


def _grafted(one: str, other: str) -> str:
    head, _, tail = one.split(".")
    return ".".join((head, other.split(".")[1], tail))


def _claims() -> list[Case]:
    one, two = root(), child(root())
    cases = [
        (f"claim-{name}", line(reforged(one, **changes)), why) for name, (changes, why) in CLAIMS.items()
    ]
    missing = {
        "iss": "iss",
        "aud": "aud",
        "sub": "sub",
        "jti": "jti",
        "iat": "iat",
        "exp": "exp",
        "cnf": "cnf",
        "del_depth": "depth",
        "del_max_depth": "depth",
    }
    cases += [
        (f"claim-missing-{name}", line(reforged(two, drop=[name])), f"{why}_invalid")
        for name, why in missing.items()
    ]
    cases += [
        ("child-par-hash-missing", line(reforged(two, drop=["par_hash"])), "par_hash_invalid"),
        ("child-par-hash-loose-bits", line(reforged(two, par_hash="A" * 42 + "B")), "par_hash_invalid"),
        ("child-anc", line(reforged(two, anc=[])), "anc_on_derived"),
        ("child-aud", line(reforged(two, aud="https://other.example.com")), "aud_changed"),
        ("child-sub", line(reforged(two, sub="eve")), "sub_changed"),
        ("child-sub-look-alike", line(reforged(two, sub="\u0430da")), "sub_changed"),
        ("child-depth-kept", line(reforged(two, del_depth=0)), "depth_step"),
        ("child-depth-skipped", line(reforged(two, del_depth=2)), "depth_step"),
        ("child-max-raised", line(reforged(two, del_max_depth=9)), "max_depth_raised"),
        (
            "child-of-terminal",
            line(reforged(child(root(max_depth=1)), at=0, del_max_depth=0) + _orphan()),
            "depth_exceeded",
        ),
        ("child-lifetime", line(reforged(two, iat=NOW - 90_000)), "lifetime_too_long"),
    ]
    return cases


def _orphan() -> tuple[str]:
    """A child of a root that may not delegate."""
    above = reforged(root(), del_max_depth=0)
    header, claims = opened(child(root())[1])
    par_hash = verify_structure(above, audience=AUDIENCE, issuer=ISSUER, keys=KEYS)
    assert isinstance(par_hash, VerifiedChain)
    return (forge(header, claims | {"par_hash": par_hash.leaf.link_hash, "del_max_depth": 0}, HOLDERS[0]),)


def _envelopes() -> list[Case]:
    good = root()[0]
    header, claims = opened(good)
    head, body, signature = good.split(".")
    derived = child(root())
    cases = [
        (f"header-{n}", line((forge({**header, **changes}, claims, ROOT),)), why)
        for n, (changes, why) in HEADERS.items()
    ]
    raw: list[tuple[str, Any, str]] = [
        ("empty", "", "token_parts"),
        ("two-parts", f"{head}.{body}", "token_parts"),
        ("four-parts", f"{good}.x", "token_parts"),
        ("no-signature", f"{head}.{body}.", "token_parts"),
        ("padded", good + "==", "token_encoding"),
        ("newline", good + "\n", "token_encoding"),
        ("loose-bits", good[:-1] + ("B" if good[-1] == "A" else chr(ord(good[-1]) + 1)), "token_encoding"),
        ("look-alike", good.replace("e", "\u0435", 1), "token_encoding"),
        ("short-signature", f"{head}.{body}.{signature[:-4]}", "signature_invalid"),
        ("zero-signature", f"{head}.{body}.{'A' * 86}", "signature_invalid"),
        ("header-array", forge([], claims, ROOT), "token_json"),
        ("payload-array", forge(header, [1], ROOT), "token_json"),
        ("payload-jwt", forge(header, good, ROOT), "token_json"),
        ("payload-not-utf8", forge(header, b'{"iss":"\xff"}', ROOT), "token_json"),
        ("payload-bom", forge(header, b"\xef\xbb\xbf{}", ROOT), "token_json"),
        ("name-twice", forge(header, '{"exp":1,"exp":1800000600}', ROOT), "token_json"),
        ("name-twice-escaped", forge(header, '{"exp":1,"\\u0065xp":1800000600}', ROOT), "token_json"),
        (
            "header-name-twice",
            forge('{"alg":"none","alg":"EdDSA","typ":"cap+jwt","kid":"root-1"}', claims, ROOT),
            "token_json",
        ),
        ("huge-integer", forge(header, '{"exp":1' + "0" * 400 + "}", ROOT), "token_json"),
        ("nan", forge(header, '{"exp":NaN}', ROOT), "token_json"),
        ("lone-surrogate", forge(header, '{"sub":"\\ud800"}', ROOT), "token_json"),
        ("deep", forge(header, "[" * 5000 + "]" * 5000, ROOT), "token_json"),
        ("large", forge(header, {**claims, "jti": "j" * 20_000}, ROOT), "token_too_large"),
        ("large-header", forge({**header, "kid": "k" * 2_000}, claims, ROOT), "token_too_large"),
    ]
    cases += [(f"envelope-{n}", line((text,)), why) for n, text, why in raw]
    cases += [
        (
            "child-kid",
            line(reforged(derived, header={"alg": "EdDSA", "typ": "cap+jwt", "kid": KID})),
            "kid_refused",
        ),
        (
            "child-jwk",
            line(reforged(derived, header={"alg": "EdDSA", "typ": "cap+jwt", "jwk": HOLDERS[0].public.jwk})),
            "header_unknown",
        ),
        ("root-without-kid", line((forge({"alg": "EdDSA", "typ": "cap+jwt"}, claims, ROOT),)), "kid_missing"),
        ("token-number", token(7), "token_invalid"),
        ("token-cnf", token(reforged(root(), cnf={"jwk": {}})[0]), "cnf_invalid"),
        ("token-unknown-claim", token(reforged(root(), x=1)[0]), "claim_unknown"),
        ("token-expired", token(good, verify_at=NOW + 600), "expired"),
        ("token-revoked", token(good, revoked_jti=["j-0"]), "revoked_jti"),
        ("line-both", line((good,)) | {"token": good}, "line_invalid"),
        ("line-neither", {k: v for k, v in line(()).items() if k != "chain"}, "line_invalid"),
        ("line-unknown-member", line((good,), x=1), "line_invalid"),
        ("line-time-true", line((good,), verify_at=True), "line_invalid"),
        ("line-key-malformed", line((good,), keys={KID: {**ROOT.public.jwk, "x": "AA"}}), "line_invalid"),
        (
            "line-key-of-other-type",
            line((good,), keys={KID: {"kty": "RSA", "n": "AQAB", "e": "AQAB"}}),
            "kid_unknown",
        ),
        (
            "line-key-for-encryption",
            line((good,), keys={KID: {**ROOT.public.jwk, "use": "enc"}}),
            "kid_unknown",
        ),
    ]
    return cases
