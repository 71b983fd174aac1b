"""`authz capabilities verify`: one line of JSON in, one verdict out.

In: `{"chain": […], "verify_at": seconds, "aud": …, "iss": …, "keys": {kid: jwk}, "revoked_jti": […]}`, or
`"token"` instead of `"chain"` for one link's envelope alone: strict JWS, header, signature, and `iss aud sub
jti iat exp nbf`. `revoked_jti` may be absent; `revoked_link` and `revoked_holder` may be there. Out:
`{"result": "accept", "reason": "ok"}` or `{"result": "reject", "reason": code}`. A bad line is a reject.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from authz_client.capabilities.chain import verify_chain
from authz_client.capabilities.claims import (
    ROOT_CLAIMS,
    is_date,
    is_hash,
    is_name,
    parse_ancestors,
    parse_holder,
    parse_token_claims,
)
from authz_client.capabilities.entries import parse_entries
from authz_client.capabilities.envelope import LINK_TYP, check_signature, key_for, parse_envelope
from authz_client.capabilities.expectations import (
    DEFAULT_MAX_LIFETIME_SECONDS,
    DEFAULT_SKEW_SECONDS,
    check_dates,
    check_expected,
)
from authz_client.capabilities.keys import BadKey, PublicKey, published_key
from authz_client.capabilities.reasons import Reason, Refusal
from authz_client.capabilities.revocations import Revocations
from authz_client.capabilities.strict_json import NotStrictJson, loads

MAX_LINE_BYTES: Final = 1_048_576
ACCEPTED: Final = "ok"
_REQUIRED: Final = frozenset({"verify_at", "aud", "iss", "keys"})
_REVOKED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "revoked_jti": is_name,
    "revoked_link": is_hash,
    "revoked_holder": is_hash,
}
_MAX_LISTED: Final = 4_096


class _BadLine(ValueError):
    """The line is no question that could be answered."""


def check_line(line: bytes | str) -> dict[str, str]:
    """The verdict on one line; never raises for what the line holds."""
    refusal = explain_line(line)
    if refusal is None:
        return {"result": "accept", "reason": ACCEPTED}
    return {"result": "reject", "reason": refusal.reason.value}


def explain_line(line: bytes | str) -> Refusal | None:
    """Why `line` is refused, with the link and in words; `None` when it is accepted."""
    try:
        data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
        question = _question(data)
        published = {kid: published_key(jwk) for kid, jwk in question["keys"].items()}
    except (_BadLine, NotStrictJson, BadKey) as error:
        return Refusal(reason=Reason.LINE_INVALID, detail=str(error))
    keys = {kid: key for kid, key in published.items() if key is not None}
    revoked = Revocations(
        jtis=frozenset(question.get("revoked_jti", ())),
        links=frozenset(question.get("revoked_link", ())),
        holders=frozenset(question.get("revoked_holder", ())),
    )
    if "token" in question:
        return _check_token(question, keys, revoked)
    found = verify_chain(
        question["chain"],
        now=question["verify_at"],
        audience=question["aud"],
        issuer=question["iss"],
        keys=keys,
        revoked=revoked,
    )
    return found if isinstance(found, Refusal) else None


def _question(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_LINE_BYTES:
        raise _BadLine(f"the line is over {MAX_LINE_BYTES} bytes")
    question = loads(data)
    if not isinstance(question, dict) or not question.keys() >= _REQUIRED:
        raise _BadLine("a line is an object with `verify_at`, `aud`, `iss` and `keys`")
    if ("chain" in question) == ("token" in question):
        raise _BadLine("a line has either `chain` or `token`")
    if question.keys() - _REQUIRED - _REVOKED.keys() - {"chain", "token"}:
        raise _BadLine("the line has an unknown member")
    if not is_date(question["verify_at"]) or not is_name(question["aud"], 2048):
        raise _BadLine("`verify_at` is an integer, seconds since 1970, and `aud` a string")
    if not is_name(question["iss"], 2048) or not isinstance(question["keys"], dict):
        raise _BadLine("`iss` is a string and `keys` an object")
    for name, is_one in _REVOKED.items():
        listed = question.get(name, [])
        if not isinstance(listed, list) or len(listed) > _MAX_LISTED or not all(map(is_one, listed)):
            raise _BadLine(f"`{name}` is a list of identifiers")
    return question


def _check_token(
    question: Mapping[str, Any], keys: Mapping[str, PublicKey], revoked: Revocations
) -> Refusal | None:
    """One root's envelope alone. Claims of links may be absent; those that are there are checked."""
    envelope = parse_envelope(question["token"], typ=LINK_TYP, has_kid=True)
    if isinstance(envelope, Refusal):
        return envelope
    key = key_for(envelope, keys)
    if isinstance(key, Refusal):
        return key
    if refused := check_signature(envelope, key):
        return refused
    claims = envelope.unverified_claims
    if claims.keys() - ROOT_CLAIMS:
        return Refusal(reason=Reason.CLAIM_UNKNOWN, detail="a claim is not of the profile")
    token = parse_token_claims(claims)
    if isinstance(token, Refusal):
        return token
    for name, parse in _OF_LINKS.items():
        if name in claims and isinstance(found := parse(claims[name]), Refusal):
            return found
    return (
        check_expected(
            token, issuer=question["iss"], audience=question["aud"], seconds=DEFAULT_MAX_LIFETIME_SECONDS
        )
        or check_dates(
            iat=token.iat,
            exp=token.exp,
            nbf=token.nbf,
            now=question["verify_at"],
            skew_seconds=DEFAULT_SKEW_SECONDS,
        )
        or _check_revoked(token.jti, envelope.link_hash, revoked)
    )


def _check_revoked(jti: str, link_hash: str, revoked: Revocations) -> Refusal | None:
    if jti in revoked.jtis:
        return Refusal(reason=Reason.REVOKED_JTI, detail="revoked by its `jti`")
    if link_hash in revoked.links:
        return Refusal(reason=Reason.REVOKED_LINK, detail="the link is revoked")
    return None


def _check_depth(value: Any) -> Refusal | None:
    if type(value) is int and value >= 0:
        return None
    return Refusal(reason=Reason.DEPTH_INVALID, detail="a depth is an integer of at least 0")


_OF_LINKS: Final[Mapping[str, Callable[[Any], object]]] = {
    "cnf": parse_holder,
    "authorization_details": parse_entries,
    "anc": parse_ancestors,
    "del_depth": _check_depth,
    "del_max_depth": _check_depth,
}
