"""The first half of stage 6: whose capability it is, and whether it is one now.

What can be told of a chain without the service is `authz_client.capabilities`; one that has passed there once
may be remembered. What is checked here is checked for every call: that the facts are those of this very
chain, that its root is on record, dates, keys and revocations, and the proof.
"""

from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities import (
    Component,
    Reason,
    VerifiedChain,
    VerifiedProof,
    chain_digest,
    recheck,
    verify_proof,
)
from authz_client.capabilities import Refusal as TokenRefusal

from authz.core.capability_refusals import CODES, OwnReason, refused
from authz.core.facts import Facts
from authz.model.call import Call
from authz.model.capability import LinkOrigin, LinkRecord, TokenRules
from authz.model.decision import Code, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A chain that is in force now, and that its holder presents for this very request."""

    chain: VerifiedChain
    root: LinkRecord
    proof: VerifiedProof
    """To be used up with whatever is decided."""


def check_possession(call: Call, facts: Facts) -> Held | Refusal | None:
    """Prove that the caller holds what it presents. `None` for a call that presents nothing.

    What cannot be verified is refused, never ignored: ignoring it could widen the call.
    """
    if not call.capability:
        if call.proof is None:
            return None
        return refused(Reason.CHAIN_EMPTY, "a proof came without one")
    if call.proof is None:
        return refused(OwnReason.PROOF_MISSING, "there is no `proof`")
    presented, rules = facts.presented, facts.tokens
    # The facts were loaded by what the call claims; they count for no other chain.
    if presented is None or rules is None or presented.digest != chain_digest(call.capability):
        return refused(OwnReason.NOT_LOADED, "it could not be verified here")
    chain = presented.verified
    if isinstance(chain, TokenRefusal):
        return _of_token(chain)
    root = presented.root
    if root is None or not _agrees(root, chain, facts.caller.tenant):
        return refused(OwnReason.ROOT_UNKNOWN, "its root is on no record", link=0, agent=chain.links[0].agent)
    now = facts.now_ms // 1000
    out_of_force = recheck(
        chain,
        now=now,
        audience=rules.audience,
        issuer=rules.issuer,
        keys=rules.keys,
        revoked=rules.revoked,
        skew_seconds=rules.skew_seconds,
    )
    if out_of_force is not None:
        return _out_of_force(out_of_force, chain, rules, facts.now_ms)
    proof = verify_proof(
        call.proof,
        chain=chain,
        audience=rules.audience,
        request_digest=call.request_digest,
        now=now,
        skew_seconds=rules.skew_seconds,
    )
    if isinstance(proof, TokenRefusal):
        return _of_token(proof, chain, code=Code.CAPABILITY_PROOF)
    if presented.replayed:
        return refused(OwnReason.PROOF_REPLAYED, "the proof was used before", **leaf_of(chain))
    return Held(chain=chain, root=root, proof=proof)


def _agrees(root: LinkRecord, chain: VerifiedChain, tenant: str) -> bool:
    """Whether `root` is this tenant's own record of the chain's root, issued or narrowed by the service."""
    link = chain.links[0]
    narrowed = root.origin is LinkOrigin.NARROWED
    return (
        root.tenant == tenant
        and root.link_hash == link.link_hash
        and root.origin in (LinkOrigin.ISSUED, LinkOrigin.NARROWED)
        and narrowed == bool(chain.ancestors)
        and len(root.inherited) == (len(link.entries) if narrowed else 0)
        and root.jti == link.jti
        and root.holder == link.holder.thumbprint
        and root.agent == link.agent
        and root.subject == chain.subject
        and root.expires_at_ms == link.expires_at * 1000
    )


def _of_token(
    refusal: TokenRefusal,
    chain: VerifiedChain | None = None,
    *,
    code: Code | None = None,
    wait_ms: int | None = None,
) -> Refusal:
    """A refusal of the token profile. Who holds a link is only said of a chain whose signatures hold."""
    link = refusal.link
    if link is None and chain is not None:
        link = len(chain.links) - 1
    agent = chain.links[link].agent if chain is not None and link is not None else None
    return refused(
        refusal.reason,
        refusal.detail,
        code=code,
        link=link,
        agent=agent,
        component=refusal.component or _COMPONENTS.get(refusal.reason),
        wait_ms=wait_ms,
    )


_COMPONENTS: Final = {Reason.EXPIRED: Component.EXPIRY, Reason.NOT_YET_VALID: Component.EXPIRY}


def _out_of_force(refusal: TokenRefusal, chain: VerifiedChain, rules: TokenRules, now_ms: int) -> Refusal:
    wait_ms = None
    if refusal.link is not None and CODES[refusal.reason] is Code.CAPABILITY_NOT_YET_VALID:
        link = chain.links[refusal.link]
        begins_ms = (max(link.issued_at, link.not_before or 0) - rules.skew_seconds) * 1000
        wait_ms = max(1, begins_ms - now_ms)
    return _of_token(refusal, chain, wait_ms=wait_ms)


def leaf_of(chain: VerifiedChain) -> dict[str, Any]:
    """The link that acts, as `refused` names one."""
    return {"link": len(chain.links) - 1, "agent": chain.leaf.agent}
