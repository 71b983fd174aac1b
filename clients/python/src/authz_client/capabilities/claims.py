"""The claims of a link, each by itself: an allow-list for roots and one for derived links.

Types are exact: JSON `true` is not `1`, and a float is no date (RFC 7519 would take one; here it is a second
spelling of an instant).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.entries import Entry, parse_entries
from authz_client.capabilities.keys import BadKey, PublicKey, public_key
from authz_client.capabilities.reasons import Reason, Refusal

MAX_DELEGATIONS: Final = 8
"""The cap on `del_depth` that no token can raise."""
MAX_ANCESTORS: Final = 64
MAX_DATE: Final = 253_402_300_799
"""The end of the year 9999."""
_ENVELOPE: Final = frozenset({"iss", "aud", "sub", "act", "jti", "iat", "exp", "nbf"})
_LINK: Final = _ENVELOPE | {"cnf", "authorization_details", "del_depth", "del_max_depth"}
ROOT_CLAIMS: Final = _LINK | {"anc"}
DERIVED_CLAIMS: Final = _LINK | {"par_hash"}
_HASH: Final = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
"""32 bytes in unpadded base64url, unused bits zero."""
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MAX_NAME_CHARACTERS: Final = 256
_MAX_URI_CHARACTERS: Final = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """One link above a root that came out of a server-side narrowing: `{"link", "jti", "jkt", "sub"}`."""

    link: str
    """Link hash."""
    jti: str
    jkt: str
    """Thumbprint of its holder's key (the member is named as in RFC 9449)."""
    agent: str
    """Who held it: policy is evaluated for the agents above a narrowed root, too."""

    @property
    def as_json(self) -> dict[str, str]:
        """One element of `anc`."""
        return {"link": self.link, "jti": self.jti, "jkt": self.jkt, "sub": self.agent}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClaims:
    """What every token of the profile says. Dates are seconds since 1970, in UTC."""

    iss: str
    aud: str
    sub: str
    agent: str
    """`act.sub`, or `sub` where there is none."""
    jti: str
    iat: int
    exp: int
    nbf: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClaims:
    """What one link says."""

    token: TokenClaims
    holder: PublicKey
    entries: tuple[Entry, ...]
    depth: int
    max_depth: int
    par_hash: str | None
    ancestors: tuple[Ancestor, ...]


def parse_link(claims: Mapping[str, Any], *, is_root: bool) -> LinkClaims | Refusal:
    """The claims of a link of a chain."""
    if refused := _check_names(claims, is_root=is_root):
        return refused
    token = parse_token_claims(claims)
    if isinstance(token, Refusal):
        return token
    holder = parse_holder(claims.get("cnf"))
    if isinstance(holder, Refusal):
        return holder
    depth, max_depth = claims.get("del_depth"), claims.get("del_max_depth")
    if type(depth) is not int or type(max_depth) is not int or depth < 0 or max_depth < 0:
        return Refusal(
            reason=Reason.DEPTH_INVALID, detail="`del_depth` and `del_max_depth` are integers of at least 0"
        )
    par_hash = claims.get("par_hash")
    if not is_root and not is_hash(par_hash):
        return Refusal(reason=Reason.PAR_HASH_INVALID, detail="`par_hash` is a SHA-256 in base64url")
    ancestors = parse_ancestors(claims["anc"]) if "anc" in claims else ()
    if isinstance(ancestors, Refusal):
        return ancestors
    # Last: it is by far the most work.
    entries = parse_entries(claims.get("authorization_details"))
    if isinstance(entries, Refusal):
        return entries
    return LinkClaims(
        token=token,
        holder=holder,
        entries=entries,
        depth=depth,
        max_depth=max_depth,
        par_hash=par_hash,
        ancestors=ancestors,
    )


def _check_names(claims: Mapping[str, Any], *, is_root: bool) -> Refusal | None:
    if is_root and "par_hash" in claims:
        return Refusal(reason=Reason.PAR_HASH_ON_ROOT, detail="a root has no parent, and so no `par_hash`")
    if not is_root and "anc" in claims:
        return Refusal(reason=Reason.ANC_ON_DERIVED, detail="only a root carries `anc`")
    if unknown := claims.keys() - (ROOT_CLAIMS if is_root else DERIVED_CLAIMS):
        return Refusal(reason=Reason.CLAIM_UNKNOWN, detail=f"{len(unknown)} claim(s) are not of the profile")
    return None


def parse_token_claims(claims: Mapping[str, Any]) -> TokenClaims | Refusal:
    """`iss aud sub act jti iat exp nbf`, by themselves."""
    for name, reason, most in _TEXTS:
        if not is_name(claims.get(name), most):
            return Refusal(
                reason=reason, detail=f"`{name}` is one string of 1 to {most} characters without controls"
            )
    agent = claims["sub"]
    if "act" in claims:
        act = claims["act"]
        if not isinstance(act, dict) or act.keys() != {"sub"} or not is_name(act["sub"]):
            return Refusal(reason=Reason.ACT_INVALID, detail="`act` has exactly `sub`, a string")
        agent = act["sub"]
    for name, reason in (("iat", Reason.IAT_INVALID), ("exp", Reason.EXP_INVALID)):
        if not is_date(claims.get(name)):
            return Refusal(reason=reason, detail=f"`{name}` is an integer, seconds since 1970")
    if "nbf" in claims and not is_date(claims["nbf"]):
        return Refusal(reason=Reason.NBF_INVALID, detail="`nbf` is an integer, seconds since 1970")
    return TokenClaims(
        iss=claims["iss"],
        aud=claims["aud"],
        sub=claims["sub"],
        agent=agent,
        jti=claims["jti"],
        iat=claims["iat"],
        exp=claims["exp"],
        nbf=claims.get("nbf"),
    )


_TEXTS: Final = (
    ("iss", Reason.ISS_INVALID, _MAX_URI_CHARACTERS),
    ("aud", Reason.AUD_INVALID, _MAX_URI_CHARACTERS),
    ("sub", Reason.SUB_INVALID, _MAX_NAME_CHARACTERS),
    ("jti", Reason.JTI_INVALID, _MAX_NAME_CHARACTERS),
)


def parse_holder(cnf: Any) -> PublicKey | Refusal:
    """`cnf.jwk` (RFC 7800): a key itself; one by name could not be checked offline."""
    if not isinstance(cnf, dict) or cnf.keys() != {"jwk"}:
        return Refusal(reason=Reason.CNF_INVALID, detail="`cnf` has exactly `jwk`")
    try:
        return public_key(cnf["jwk"])
    except BadKey as error:
        return Refusal(reason=Reason.CNF_INVALID, detail=str(error))


def parse_ancestors(anc: Any) -> tuple[Ancestor, ...] | Refusal:
    """The elements of `anc`, in a root or a ticket."""
    if not isinstance(anc, list) or not 0 < len(anc) <= MAX_ANCESTORS:
        return Refusal(reason=Reason.ANC_INVALID, detail=f"`anc` is a list of 1 to {MAX_ANCESTORS} ancestors")
    found = []
    for item in anc:
        if (
            not isinstance(item, dict)
            or item.keys() != {"link", "jti", "jkt", "sub"}
            or not is_hash(item["link"])
            or not is_hash(item["jkt"])
            or not is_name(item["jti"])
            or not is_name(item["sub"])
        ):
            return Refusal(reason=Reason.ANC_INVALID, detail="an ancestor has exactly `link jti jkt sub`")
        found.append(Ancestor(link=item["link"], jti=item["jti"], jkt=item["jkt"], agent=item["sub"]))
    return tuple(found)


def is_date(value: Any) -> bool:
    """Whether `value` is an integer (not `true`) that can be a date."""
    return type(value) is int and 0 <= value <= MAX_DATE


def is_name(value: Any, most: int = _MAX_NAME_CHARACTERS) -> bool:
    """Whether `value` is a string that a log line, a header and a C string can hold."""
    return isinstance(value, str) and 0 < len(value) <= most and _CONTROL.search(value) is None


def is_hash(value: Any) -> bool:
    """Whether `value` is a SHA-256 in base64url, in its one spelling."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None
