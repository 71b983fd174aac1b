"""R, O and P: by which entries of the leaf a call is allowed, and which counters it is then debited from.

A capability only grants, so a call is allowed where some entry allows each of its accesses. One entry allows
an access whole or not at all.
"""

from collections.abc import Iterator

from authz_client.capabilities import (
    CallAccess,
    Component,
    Entry,
    Reason,
    ToolCall,
    VerifiedChain,
)
from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities.calls import CallCheck
from authz_client.capabilities.reasons import nearness

from authz.core.budget import cost_units_of, is_open, place_of
from authz.core.capability_refusals import OwnReason, refused
from authz.core.facts import Facts
from authz.core.possession import Held, leaf_of
from authz.core.ruleset import Tool
from authz.model.capability import BudgetShare
from authz.model.decision import Refusal


def choose_entries(facts: Facts, tool: Tool, made: ToolCall, held: Held) -> tuple[int, ...] | Refusal:
    """For each access the entry of the leaf that allows it."""
    used = []
    check = CallCheck(made)
    voided: dict[tuple[int, str], Refusal | None] = {}
    for access in made.accesses:
        entry = _choose_entry(facts, tool, check, access, held, voided)
        if isinstance(entry, Refusal):
            return entry
        used.append(entry)
    if not used:
        return refused(
            Reason.RIGHT_MISSING,
            "the call has no access that a right could cover",
            component=Component.RIGHTS,
            **leaf_of(held.chain),
        )
    return tuple(used)


def _choose_entry(
    facts: Facts,
    tool: Tool,
    check: CallCheck,
    access: CallAccess,
    held: Held,
    voided: dict[tuple[int, str], Refusal | None],
) -> int | Refusal:
    """The first entry that allows the access and has something left; if none has, the first that allows it.

    So whatever one entry allows is allowed, also where another one allows it too and is void or spent.
    `voided` keeps, by entry and verb, what is the same for every access.
    """
    spent: int | None = None
    refusal: Refusal | None = None
    for position, entry in enumerate(held.chain.entries):
        if check.refusal(entry, access) is not None:
            continue
        key = (position, access.verb)
        if key not in voided:
            voided[key] = _check_tool(held, position, access, tool) or _check_cost(held, position, tool)
        void = voided[key]
        if void is not None:
            refusal = refusal or void
        elif not facts.reached or is_open(shares_of(held, position), tool, facts):
            return position
        elif spent is None:
            spent = position
    if spent is not None:
        return spent
    return refusal or _not_allowed(check, access, held.chain)


def _not_allowed(check: CallCheck, access: CallAccess, chain: VerifiedChain) -> Refusal:
    """Why no entry allows an access: by the first link, from the root on, that does not."""
    for index, link in enumerate(chain.links):
        nearest = _nearest(link.entries, check, access)
        if nearest is None:
            continue
        return refused(
            nearest.reason,
            _words(nearest, check.call, access),
            link=index,
            agent=link.agent,
            component=nearest.component,
        )
    raise AssertionError("the leaf does not allow the access")


def _nearest(entries: tuple[Entry, ...], check: CallCheck, access: CallAccess) -> TokenRefusal | None:
    """Why the entry that comes nearest does not allow the access; `None` when one does."""
    found: list[TokenRefusal] = []
    for entry in entries:
        refusal = check.refusal(entry, access)
        if refusal is None:
            return None
        found.append(refusal)
    return max(found, key=lambda refusal: nearness(refusal.component))


def _words(refusal: TokenRefusal, made: ToolCall, access: CallAccess) -> str:
    # The resource itself may be a secret, and the message is recorded.
    if refusal.component is Component.RIGHTS:
        return f"no right to `{access.verb}` with `{made.tool}`"
    if refusal.component is Component.OBJECTS:
        named = (
            f"what `{access.argument}` names" if access.argument else f"what the call is to `{access.verb}`"
        )
        return f"{named} lies in none of its locations"
    return f"its constraint {refusal.detail} is not met"


def _check_tool(held: Held, entry: int, access: CallAccess, tool: Tool) -> Refusal | None:
    """Refuse where the root names the tool and it was reviewed anew since: that grant was to another one.

    A right that leaves the tool open was given whatever the tools are, so it is not void.
    """
    descriptor = tool.descriptor
    top = held.chain.links[0].entries[held.chain.root_entry(entry)]
    covering = [
        right
        for right in top.rights
        if right.covers(server=descriptor.server.alias, name=descriptor.name, verb=access.verb)
    ]
    if any(right.name is None for right in covering):
        return None
    if held.root.tool_digests.get(descriptor.qualified_name) == descriptor.digest:
        return None
    return refused(
        OwnReason.TOOL_CHANGED,
        f"`{descriptor.qualified_name}` was reviewed anew since",
        link=0,
        agent=held.chain.links[0].agent,
        component=Component.RIGHTS,
    )


def _check_cost(held: Held, entry: int, tool: Tool) -> Refusal | None:
    """Refuse where a budget counts cost and that of the call is not known in its currency."""
    for share in shares_of(held, entry):
        if cost_units_of(share.budget, tool) is not None:
            continue
        link, agent = place_of(held.chain.handles, len(held.chain.links), share.link_hash)
        return refused(
            OwnReason.COST_UNKNOWN,
            f"its `cost` is in {share.budget.currency}, and `{tool.descriptor.qualified_name}` has no "
            "estimate in it",
            link=link,
            agent=agent,
            component=Component.PREDICATE,
        )
    return None


def shares_of(held: Held, entry: int) -> Iterator[BudgetShare]:
    """The counters that a call under an entry of the leaf is debited from, root first."""
    chain, inherited = held.chain, held.root.inherited
    if inherited:
        yield from inherited[chain.root_entry(entry)]
    for debit in chain.debits(entry):
        yield BudgetShare(
            link_hash=debit.link_hash,
            budget=debit.budget,
            expires_at_ms=chain.links[debit.link].expires_at * 1000,
        )
