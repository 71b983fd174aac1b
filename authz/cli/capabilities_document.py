"""What a chain says, as a document: each hop, and what it gave up against the one above it.

Told without keys, a chain is a claim and the document says `unverified`; what can be told without keys is
told all the same: a link that its parent's holder did not sign, or that is wider, is `refused`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from authz_client.capabilities import Refusal, VerifiedChain
from authz_client.capabilities.chain import verify_child
from authz_client.capabilities.claims import MAX_DATE, MAX_DELEGATIONS, LinkClaims, parse_link
from authz_client.capabilities.envelope import LINK_TYP, Envelope, parse_envelope

from authz.core.capability_tree import gave_up

Document = dict[str, Any]
_Link = tuple[Envelope, LinkClaims]


def describe(chain: Sequence[str], verified: VerifiedChain | Refusal | None, *, now: int) -> Document:
    """The document of `chain`; `verified` is what verification said, `None` where there was none."""
    links: list[Document] = []
    refusals = [verified] if isinstance(verified, Refusal) else []
    above: _Link | None = None
    for index, token in enumerate(chain):
        found = _read(token, above, index)
        if isinstance(found, Refusal):
            found = replace(found, link=index)
            refusals.append(found)
            # What it claims is shown all the same, as what it is.
            alone = _alone(token, is_root=index == 0)
            above = None if isinstance(alone, Refusal) else alone
            claims = {} if above is None else _hop(above, now)
            links.append({"link": index, **claims, "gave_up": None, "refused": _refused(found)})
        else:
            lost = _given_up(found[1], above[1]) if above is not None else None
            above = found
            links.append({"link": index, **_hop(found, now), "gave_up": lost, "refused": None})
    if not chain or refusals:
        verdict = "refused"
    else:
        verdict = "unverified" if verified is None else "verified"
    root = links[0] if links else {}
    return {
        "verdict": verdict,
        "refusal": _refused(refusals[0]) if refusals else None,
        "now": now,
        "issuer": root.get("issuer"),
        "audience": root.get("audience"),
        "subject": root.get("subject"),
        "ancestors": root.get("ancestors", []),
        "links": links,
    }


def _read(token: str, above: _Link | None, index: int) -> _Link | Refusal:
    """A link, under the one above where that could be read."""
    if index == 0 or above is None:
        return _alone(token, is_root=index == 0)
    # The longest lifetime is a verifier's to bound.
    found = verify_child(token, *above, seconds=MAX_DATE)
    return found if isinstance(found, Refusal) else found[:2]


def _alone(token: str, *, is_root: bool) -> _Link | Refusal:
    envelope = parse_envelope(token, typ=LINK_TYP, has_kid=is_root)
    if isinstance(envelope, Refusal):
        return envelope
    claims = parse_link(envelope.unverified_claims, is_root=is_root)
    return claims if isinstance(claims, Refusal) else (envelope, claims)


def _hop(link: _Link, now: int) -> Document:
    envelope, claims = link
    token = claims.token
    return {
        "agent": token.agent,
        "issuer": token.iss,
        "audience": token.aud,
        "subject": token.sub,
        "holder": claims.holder.thumbprint,
        "link_hash": envelope.link_hash,
        "jti": token.jti,
        "issued_at": token.iat,
        "not_before": token.nbf,
        "expires_at": token.exp,
        "seconds_left": token.exp - now,
        "depth": claims.depth,
        "max_depth": claims.max_depth,
        "hand_offs_left": max(0, min(claims.max_depth, MAX_DELEGATIONS) - claims.depth),
        "ancestors": [item.as_json for item in claims.ancestors],
        "authorization_details": [dict(entry.as_json) for entry in claims.entries],
    }


def _given_up(child: LinkClaims, parent: LinkClaims) -> Document:
    """What the link above had and this one has not, by R, O, P, E, budget and depth; empty where nothing."""
    found = gave_up(child.entries, parent.entries)
    if child.token.exp < parent.token.exp:
        found["expiry"] = {"from": parent.token.exp, "to": child.token.exp}
    if child.max_depth < parent.max_depth:
        found["depth"] = {"from": parent.max_depth, "to": child.max_depth}
    return found


def _refused(refusal: Refusal) -> Document:
    return {
        "reason": refusal.reason,
        "link": refusal.link,
        "component": refusal.component,
        "detail": refusal.detail,
    }
