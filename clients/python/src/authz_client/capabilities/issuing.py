"""Signing links: an issuer's roots, and children that a holder narrows offline.

Identifiers and times are arguments. Whatever is signed has been through the verifier's own parser, and a
child through its comparison with the parent, so a token that no verifier would take is never made: `Refused`
says which rule, or which of R, O, P, E, stands against it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from authz_client.capabilities.chain import check_narrower
from authz_client.capabilities.claims import Ancestor, LinkClaims, parse_link
from authz_client.capabilities.digests import canonical_json
from authz_client.capabilities.envelope import LINK_TYP, MAX_TOKEN_CHARACTERS, Envelope, parse_envelope, sign
from authz_client.capabilities.keys import PublicKey, Signer, SigningKey
from authz_client.capabilities.reasons import Reason, Refusal, Refused
from authz_client.capabilities.strict_json import NotStrictJson, loads


def issue_root(
    key: Signer,
    *,
    kid: str | None = None,
    issuer: str,
    audience: str,
    subject: str,
    agent: str | None = None,
    holder: PublicKey,
    entries: Sequence[Mapping[str, Any]],
    jti: str,
    iat: int,
    exp: int,
    nbf: int | None = None,
    max_depth: int,
    ancestors: Sequence[Ancestor] = (),
) -> str:
    """A root for `holder`. Raises `Refused` for claims that no verifier would take.

    `kid` is the key's own where none is given. `entries` are elements of `authorization_details`;
    `ancestors` are the `handles` of the chain that a server-side narrowing started from.
    """
    claims = _claims(
        iss=issuer,
        aud=audience,
        sub=subject,
        act=None if agent is None else {"sub": agent},
        jti=jti,
        iat=iat,
        exp=exp,
        nbf=nbf,
        cnf={"jwk": holder.jwk},
        authorization_details=list(entries),
        del_depth=0,
        del_max_depth=max_depth,
        anc=[item.as_json for item in ancestors] or None,
    )
    _parsed(claims, is_root=True)
    return _signed(claims, key, kid=kid or key.kid)


def narrow(
    chain: Sequence[str],
    key: SigningKey,
    *,
    holder: PublicKey,
    entries: Sequence[Mapping[str, Any]] | None = None,
    agent: str | None = None,
    jti: str,
    iat: int,
    exp: int | None = None,
    nbf: int | None = None,
    max_depth: int | None = None,
) -> tuple[str, ...]:
    """`chain` with one more link, for `holder`, signed by `key` of the leaf's holder. Needs no network.

    What is not given is the parent's: its entries, its expiry, its remaining depth. `agent` is the child's
    own name; without one it acts as `sub`. Raises `Refused`, naming the component, for anything wider. The
    chain above the leaf is taken as it is: it was the holder's to verify when it came.
    """
    parent, above = _leaf(chain)
    if above.holder != key.public:
        raise Refused(
            Refusal(reason=Reason.HOLDER_MISMATCH, detail="the key is not that of the holder of the leaf")
        )
    details = [entry.as_json for entry in above.entries] if entries is None else list(entries)
    claims = _claims(
        iss=key.public.urn,
        aud=above.token.aud,
        sub=above.token.sub,
        act=None if agent is None else {"sub": agent},
        jti=jti,
        iat=iat,
        exp=above.token.exp if exp is None else exp,
        nbf=nbf,
        cnf={"jwk": holder.jwk},
        authorization_details=details,
        del_depth=above.depth + 1,
        del_max_depth=above.max_depth if max_depth is None else max_depth,
        par_hash=parent.link_hash,
    )
    refused = check_narrower(_parsed(claims, is_root=False), above)
    if isinstance(refused, Refusal):
        raise Refused(refused)
    return (*chain, _signed(claims, key))


def _leaf(chain: Sequence[str]) -> tuple[Envelope, LinkClaims]:
    if not chain:
        raise Refused(Refusal(reason=Reason.CHAIN_EMPTY, detail="there is no link to narrow"))
    is_root = len(chain) == 1
    envelope = parse_envelope(chain[-1], typ=LINK_TYP, has_kid=is_root)
    if isinstance(envelope, Refusal):
        raise Refused(envelope)
    claims = parse_link(envelope.unverified_claims, is_root=is_root)
    if isinstance(claims, Refusal):
        raise Refused(claims)
    return envelope, claims


def _claims(**claims: Any) -> dict[str, Any]:
    """The claims that are there, as they will be read back from the token."""
    present = {name: value for name, value in claims.items() if value is not None}
    try:
        read: dict[str, Any] = loads(canonical_json(present))
    except (ValueError, NotStrictJson) as error:
        raise Refused(Refusal(reason=Reason.TOKEN_JSON, detail=str(error))) from None
    return read


def _parsed(claims: Mapping[str, Any], *, is_root: bool) -> LinkClaims:
    found = parse_link(claims, is_root=is_root)
    if isinstance(found, Refusal):
        raise Refused(found)
    return found


def _signed(claims: Mapping[str, Any], key: Signer, *, kid: str | None = None) -> str:
    token = sign(claims, key, typ=LINK_TYP, kid=kid)
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise Refused(Refusal(reason=Reason.TOKEN_TOO_LARGE, detail="the link would be too large"))
    return token
