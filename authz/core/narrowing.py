"""Narrowing a chain on the server: what a service-signed root may say that comes out of one (spec section 7).

C_c ⪯ C_p as for a child that a holder signs offline, with the whole chain for a parent. The new root carries
every handle of the chain in `anc`, so that revocation cascades. The counters above each of its entries go on
record with it, so that whoever narrows escapes no budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from authz_client.capabilities import Component, Entry, PublicKey, Reason, VerifiedChain
from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities.entries import fit

from authz.core.capability_entries import shares_of
from authz.core.possession import Held
from authz.core.ruleset import Ruleset
from authz.model.capability import BudgetShare, TokenRules


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowRequest:
    """What a holder asks for in place of its chain."""

    agent: str
    holder: PublicKey
    entries: tuple[Entry, ...] | None
    """`None`: those of the leaf."""
    expires_at: int | None
    """Seconds since 1970; `None`: when the chain ends."""
    max_depth: int | None
    """Hand-offs that the new root may see; `None`: all that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What the new root says, and what is put on record of it."""

    entries: tuple[Entry, ...]
    expires_at: int
    max_depth: int
    inherited: tuple[tuple[BudgetShare, ...], ...]
    tool_digests: Mapping[str, str]


def narrow_held(
    request: NarrowRequest, held: Held, rules: TokenRules, ruleset: Ruleset, now: int
) -> Narrowed | TokenRefusal:
    """Hold what is asked for against the chain; a refusal names which of R, O, P, E would widen."""
    chain = held.chain
    if request.holder.thumbprint in rules.revoked.holders:
        return TokenRefusal(reason=Reason.REVOKED_HOLDER, detail="the key of the new holder is revoked")
    left = remaining_depth(chain, rules)
    if left < 0:
        return TokenRefusal(reason=Reason.DEPTH_EXCEEDED, detail="the chain may not be handed on any further")
    max_depth = left if request.max_depth is None else request.max_depth
    if max_depth > left:
        return TokenRefusal(
            reason=Reason.MAX_DEPTH_RAISED, detail=f"after this one it may be handed on {left} times at most"
        )
    expires_at = chain.expires_at if request.expires_at is None else request.expires_at
    if expires_at > chain.expires_at:
        return TokenRefusal(
            reason=Reason.EXPIRY_WIDENED,
            detail=f"the chain ends at {chain.expires_at}, which is before {expires_at}",
            component=Component.EXPIRY,
        )
    if expires_at <= now:
        return TokenRefusal(
            reason=Reason.EXPIRED, detail="it would have ended already", component=Component.EXPIRY
        )
    entries = chain.entries if request.entries is None else request.entries
    parents = fit(entries, chain.entries)
    if isinstance(parents, TokenRefusal):
        return parents
    return Narrowed(
        entries=entries,
        expires_at=expires_at,
        max_depth=max_depth,
        inherited=tuple(tuple(shares_of(held, parent)) for parent in parents),
        tool_digests=_tool_digests(entries, parents, held, ruleset),
    )


def remaining_depth(chain: VerifiedChain, rules: TokenRules) -> int:
    """How often a root that is narrowed from the chain may be handed on; below 0 it may not be made.

    Hand-offs count from the first agent on, also across roots that were narrowed before.
    """
    own = chain.max_depth - chain.depth - 1
    return min(own, rules.max_depth - len(chain.handles))


def _tool_digests(
    entries: Sequence[Entry], parents: Sequence[int], held: Held, ruleset: Ruleset
) -> dict[str, str]:
    """The digest of every tool that the new rights name: what the first grant was to, never to a later one.

    Where the first grant left the tool open it was to whatever the tools are, so now it is to this one.
    """
    found: dict[str, str] = {}
    current = {
        tool.descriptor.qualified_name: tool.descriptor.digest
        for tool in ruleset.tools.values()
        if any(
            right.name is not None
            and right.server in (None, tool.descriptor.server.alias)
            and right.name == tool.descriptor.name
            for entry in entries
            for right in entry.rights
        )
    }
    pairs = list(zip(entries, parents, strict=True))
    for name, digest in current.items():
        known = held.root.tool_digests.get(name)
        if known is not None:
            found[name] = known
        elif all(_left_open(name, entry, parent, held) for entry, parent in pairs):
            found[name] = digest
    return found


def _left_open(tool: str, entry: Entry, parent: int, held: Held) -> bool:
    """Whether each right of `entry` to this tool goes back to one of the root that names no tool."""
    server, _, name = tool.partition("/")
    for right in entry.rights:
        if right.name != name or right.server not in (None, server):
            continue
        top = held.chain.links[0].entries[held.chain.root_entry(parent)]
        if not any(one.name is None and one.key in right.above for one in top.rights):
            return False
    return True
