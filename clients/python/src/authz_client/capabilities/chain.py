"""Verification of a capability: a chain of links, root first, as one pure function.

`verify_structure` does what can be remembered (parse, signatures, narrowing); `recheck` does what cannot
(keys in force, dates, revocations). `verify_chain` is the two. Whoever remembers a `VerifiedChain`, by
`chain_digest` of the presented links, calls `recheck` for every use.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from authz_client.capabilities.claims import MAX_DELEGATIONS, Ancestor, LinkClaims, parse_link
from authz_client.capabilities.entries import fit
from authz_client.capabilities.envelope import LINK_TYP, Envelope, check_signature, key_for, parse_envelope
from authz_client.capabilities.expectations import (
    DEFAULT_MAX_LIFETIME_SECONDS,
    DEFAULT_SKEW_SECONDS,
    check_dates,
    check_expected,
    check_lifetime,
)
from authz_client.capabilities.keys import PublicKey
from authz_client.capabilities.reasons import Component, Reason, Refusal
from authz_client.capabilities.revocations import Revocations, check_revoked
from authz_client.capabilities.verified import VerifiedChain, VerifiedLink


def verify_chain(
    chain: Any,
    *,
    now: int,
    audience: str,
    issuer: str,
    keys: Mapping[str, PublicKey],
    revoked: Revocations,
    max_depth: int = MAX_DELEGATIONS,
    skew_seconds: int = DEFAULT_SKEW_SECONDS,
    max_lifetime_seconds: int = DEFAULT_MAX_LIFETIME_SECONDS,
) -> VerifiedChain | Refusal:
    """Verify `chain`, a list of compact JWS, root first, at `now` (seconds since 1970).

    `keys` are the issuer's, by `kid`. `skew_seconds` forgives clocks for `iat` and `nbf`, never for `exp`.
    """
    found = verify_structure(
        chain,
        audience=audience,
        issuer=issuer,
        keys=keys,
        max_depth=max_depth,
        max_lifetime_seconds=max_lifetime_seconds,
    )
    if isinstance(found, Refusal):
        return found
    refused = recheck(
        found,
        now=now,
        audience=audience,
        issuer=issuer,
        keys=keys,
        revoked=revoked,
        skew_seconds=skew_seconds,
    )
    return refused or found


def verify_structure(
    chain: Any,
    *,
    audience: str,
    issuer: str,
    keys: Mapping[str, PublicKey],
    max_depth: int = MAX_DELEGATIONS,
    max_lifetime_seconds: int = DEFAULT_MAX_LIFETIME_SECONDS,
) -> VerifiedChain | Refusal:
    """All of the profile that does not depend on the time or on revocations."""
    # 1. The list, before anything in it is read.
    if not isinstance(chain, list | tuple) or not all(isinstance(token, str) for token in chain):
        return Refusal(
            reason=Reason.CHAIN_INVALID, detail="a capability is a list of compact JWS, root first"
        )
    if not chain:
        return Refusal(reason=Reason.CHAIN_EMPTY, detail="the chain holds no link")
    if len(chain) > min(max_depth, MAX_DELEGATIONS) + 1:
        return Refusal(reason=Reason.CHAIN_TOO_LONG, detail=f"the chain holds {len(chain)} links")
    # 2. The root, under a key of the issuer.
    root = _verify_root(chain[0], issuer=issuer, audience=audience, keys=keys, seconds=max_lifetime_seconds)
    if isinstance(root, Refusal):
        return replace(root, link=0)
    envelope, claims, key = root
    links = [_verified(envelope, claims, ())]
    # 3. Each link under its parent: first that it is its child, then that it is no wider.
    for index, token in enumerate(chain[1:], start=1):
        child = verify_child(token, envelope, claims, max_depth=max_depth, seconds=max_lifetime_seconds)
        if isinstance(child, Refusal):
            return replace(child, link=index)
        envelope, claims, parents = child
        links.append(_verified(envelope, claims, parents))
    return VerifiedChain(
        issuer=issuer,
        audience=audience,
        subject=claims.token.sub,
        root_kid=root[0].kid or "",
        root_key=key,
        links=tuple(links),
        ancestors=root[1].ancestors,
        leaf_hash=envelope.token_hash,
        max_depth=min(claims.max_depth, max_depth, MAX_DELEGATIONS),
    )


def recheck(
    chain: VerifiedChain,
    *,
    now: int,
    audience: str,
    issuer: str,
    keys: Mapping[str, PublicKey],
    revoked: Revocations,
    skew_seconds: int = DEFAULT_SKEW_SECONDS,
) -> Refusal | None:
    """Whether a chain that was verified before may be used now: for every call, cached or not."""
    # A cache shared by tenants, or older than a key's withdrawal, must not answer for them.
    if chain.issuer != issuer:
        return Refusal(reason=Reason.ISS_MISMATCH, detail="the chain was verified for another issuer", link=0)
    if chain.audience != audience:
        return Refusal(
            reason=Reason.AUD_MISMATCH, detail="the chain was verified for another audience", link=0
        )
    if keys.get(chain.root_kid) != chain.root_key:
        return Refusal(reason=Reason.KID_UNKNOWN, detail="the root's key is no longer loaded", link=0)
    for index, link in enumerate(chain.links):
        if refused := check_dates(
            iat=link.issued_at,
            exp=link.expires_at,
            nbf=link.not_before,
            now=now,
            skew_seconds=skew_seconds,
        ):
            return replace(refused, link=index)
    if refused := check_revoked(chain.ancestors, revoked):
        return replace(refused, link=0, detail="an ancestor of the root is revoked")
    for index, link in enumerate(chain.links):
        if refused := check_revoked((link.handles,), revoked):
            return replace(refused, link=index)
    return None


def _verify_root(
    token: str, *, issuer: str, audience: str, keys: Mapping[str, PublicKey], seconds: int
) -> tuple[Envelope, LinkClaims, PublicKey] | Refusal:
    envelope = parse_envelope(token, typ=LINK_TYP, has_kid=True)
    if isinstance(envelope, Refusal):
        return envelope
    key = key_for(envelope, keys)
    if isinstance(key, Refusal):
        return key
    if refused := check_signature(envelope, key):
        return refused
    claims = parse_link(envelope.unverified_claims, is_root=True)
    if isinstance(claims, Refusal):
        return claims
    if claims.depth != 0:
        return Refusal(reason=Reason.DEPTH_STEP, detail="the depth of a root is 0")
    return check_expected(claims.token, issuer=issuer, audience=audience, seconds=seconds) or (
        envelope,
        claims,
        key,
    )


def verify_child(
    token: str,
    parent: Envelope,
    above: LinkClaims,
    *,
    max_depth: int = MAX_DELEGATIONS,
    seconds: int = DEFAULT_MAX_LIFETIME_SECONDS,
) -> tuple[Envelope, LinkClaims, tuple[int, ...]] | Refusal:
    """A derived link under the one above it, which is taken as verified; with its entries' parents."""
    envelope = parse_envelope(token, typ=LINK_TYP, has_kid=False)
    if isinstance(envelope, Refusal):
        return envelope
    # Nothing of the payload is looked at more closely before the parent's holder has signed it.
    if refused := check_signature(envelope, above.holder):
        return refused
    claims = parse_link(envelope.unverified_claims, is_root=False)
    if isinstance(claims, Refusal):
        return claims
    if claims.token.iss != above.holder.urn:
        return Refusal(reason=Reason.ISS_NOT_PARENT, detail="`iss` is not the thumbprint of the parent's key")
    if claims.par_hash != parent.link_hash:
        return Refusal(reason=Reason.PAR_HASH_MISMATCH, detail="`par_hash` is not that of the link above")
    parents = check_narrower(claims, above, max_depth=max_depth)
    if isinstance(parents, Refusal):
        return parents
    return check_lifetime(claims.token, seconds) or (envelope, claims, parents)


def check_narrower(
    child: LinkClaims, parent: LinkClaims, *, max_depth: int = MAX_DELEGATIONS
) -> tuple[int, ...] | Refusal:
    """For each entry of the child the parent's that it fits under; or what the child changes or widens."""
    if child.token.aud != parent.token.aud:
        return Refusal(reason=Reason.AUD_CHANGED, detail="`aud` is not the parent's")
    if child.token.sub != parent.token.sub:
        return Refusal(reason=Reason.SUB_CHANGED, detail="`sub` is not the parent's")
    if child.depth != parent.depth + 1:
        return Refusal(reason=Reason.DEPTH_STEP, detail="`del_depth` is not the parent's plus 1")
    if child.depth > min(parent.max_depth, max_depth, MAX_DELEGATIONS):
        return Refusal(reason=Reason.DEPTH_EXCEEDED, detail="the parent may not delegate any further")
    if child.max_depth > parent.max_depth:
        return Refusal(reason=Reason.MAX_DEPTH_RAISED, detail="`del_max_depth` is over the parent's")
    if child.token.exp > parent.token.exp:
        return Refusal(
            reason=Reason.EXPIRY_WIDENED,
            detail="`exp` is after the parent's",
            component=Component.EXPIRY,
        )
    return fit(child.entries, parent.entries)


def _verified(envelope: Envelope, claims: LinkClaims, parents: tuple[int, ...]) -> VerifiedLink:
    return VerifiedLink(
        agent=claims.token.agent,
        holder=claims.holder,
        link_hash=envelope.link_hash,
        jti=claims.token.jti,
        issued_at=claims.token.iat,
        expires_at=claims.token.exp,
        not_before=claims.token.nbf,
        entries=claims.entries,
        parents=parents,
        depth=claims.depth,
        handles=Ancestor(
            link=envelope.link_hash,
            jti=claims.token.jti,
            jkt=claims.holder.thumbprint,
            agent=claims.token.agent,
        ),
    )
