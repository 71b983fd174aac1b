"""Stage 6: the capability that a call presents, held against the call (spec section 7).

First that it is the caller's, and in force (`possession`); then here, for whom it speaks, how often it was
handed on, and what it allows of this very call (`capability_entries`).
"""

from collections.abc import Iterable
from dataclasses import replace

from authz_client.capabilities import CallAccess, Reason, ToolCall, VerifiedChain, VerifiedProof, chain_digest
from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities.verified import VerifiedLink

from authz.core.budget import budget_digest
from authz.core.capability_entries import choose_entries, shares_of
from authz.core.capability_refusals import OwnReason, refused
from authz.core.capability_told import kept
from authz.core.facts import Facts
from authz.core.fingerprint import canonical_json
from authz.core.possession import Held, leaf_of
from authz.core.redact import Redactor
from authz.core.ruleset import Tool
from authz.core.tools import CanonicalCall
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import NO_CAPABILITY, BudgetShare, CapabilityFacts, LinkOrigin, LinkRecord
from authz.model.decision import Access, Refusal
from authz.model.resource import Scope


def check_capability(
    call: Call, facts: Facts, tool: Tool, canonical: CanonicalCall, held: Held | None
) -> CapabilityFacts | Refusal:
    """What the capability that is `held` allows its holder of this call.

    A tree is judged at its root: a capability only grants, so what contains the root contains everything
    beneath it. What is opaque lies in no location. Each access is allowed by one entry of the leaf whole.
    """
    if held is None:
        return NO_CAPABILITY
    chain = held.chain
    if refusal := _check_subject(call, chain) or _check_depth(facts, chain):
        return refusal
    made = ToolCall(
        tool=tool.descriptor.qualified_name,
        accesses=tuple(map(call_access, canonical.accesses)),
        arguments=canonical.arguments,
    )
    used = choose_entries(facts, tool, made, held)
    if isinstance(used, Refusal):
        return used
    return replace(
        presented_facts(chain, proven=True),
        used=used,
        shares=_distinct(share for entry in dict.fromkeys(used) for share in shares_of(held, entry)),
    )


def presented_facts(chain: VerifiedChain, *, proven: bool) -> CapabilityFacts:
    """What a chain says of itself: for the record also where it is refused. `proven`: by its holder."""
    handles = chain.handles
    agents = tuple(item.agent for item in handles)
    return CapabilityFacts(
        presented=True,
        agents=agents,
        depth=len(agents) - 1,
        holder=chain.leaf.holder.thumbprint if proven else None,
        root=agents[0],
        expires_at_ms=chain.expires_at * 1000,
        handles=handles,
        kid=chain.root_kid,
    )


def known_of(call: Call, facts: Facts, proof: VerifiedProof | None) -> CapabilityFacts:
    """What is known of a capability that is refused: nothing, unless its signatures hold."""
    presented = facts.presented
    if presented is None or presented.digest != chain_digest(call.capability):
        return NO_CAPABILITY
    if isinstance(presented.verified, TokenRefusal):
        return NO_CAPABILITY
    return presented_facts(presented.verified, proven=proof is not None)


def _check_subject(call: Call, chain: VerifiedChain) -> Refusal | None:
    subject = call.subject
    if subject.agent != chain.leaf.agent:
        return refused(OwnReason.AGENT_MISMATCH, f"it was not given to `{subject.agent}`", **leaf_of(chain))
    # A root that is its own subject acts for nobody: not even for a user of that name. And a name that is
    # left out stands for no other.
    user = None if chain.agents[0] == chain.subject else chain.subject
    if subject.on_behalf_of == user:
        return None
    detail = "it is not for the user that the call says, or leaves out"
    return refused(OwnReason.SUBJECT_MISMATCH, detail, link=0, agent=chain.links[0].agent)


def _check_depth(facts: Facts, chain: VerifiedChain) -> Refusal | None:
    """Hand-offs count across narrowed roots, too."""
    most = facts.tokens.max_depth if facts.tokens is not None else 0
    if len(chain.handles) - 1 <= most:
        return None
    return refused(Reason.DEPTH_EXCEEDED, f"at most {most} times is possible", **leaf_of(chain))


def call_access(access: Access) -> CallAccess:
    """The access as entries of a capability are held against it."""
    uri = access.resource.uri
    if access.scope is Scope.TREE:
        # Such a tree is that of the whole folder or repository, and one of its spellings alone is less.
        if access.resource.kind == "url":
            uri = uri.partition("?")[0]
        elif access.resource.kind == "repo":
            uri = uri.partition("#")[0]
    return CallAccess(verb=access.verb.value, uri=uri, argument=access.argument)


def _distinct(shares: Iterable[BudgetShare]) -> tuple[BudgetShare, ...]:
    """Entries of one link that state the same budget share its counter."""
    found: dict[tuple[str, str], BudgetShare] = {}
    for share in shares:
        found.setdefault((share.link_hash, budget_digest(share.budget)), share)
    return tuple(found.values())


def details_of(link: VerifiedLink, redactor: Redactor) -> str:
    """What is kept of a link's entries."""
    return canonical_json(kept([dict(entry.as_json) for entry in link.entries], redactor)).decode()


def links_seen(
    chain: VerifiedChain, root: LinkRecord, caller: Caller, redactor: Redactor
) -> tuple[LinkRecord, ...]:
    """What is to be on record of the links below the root: made offline, and seen now."""
    found = []
    above = root.link_hash
    for index, link in enumerate(chain.links[1:], start=1):
        found.append(
            LinkRecord(
                tenant=caller.tenant,
                link_hash=link.link_hash,
                parent_hash=above,
                root_hash=root.root_hash,
                origin=LinkOrigin.SEEN,
                jti=link.jti,
                holder=link.holder.thumbprint,
                agent=link.agent,
                subject=chain.subject,
                depth=root.depth + index,
                issued_at_ms=link.issued_at * 1000,
                expires_at_ms=link.expires_at * 1000,
                details=details_of(link, redactor),
                issued_by=caller.key_id,
            )
        )
        above = link.link_hash
    return tuple(found)
