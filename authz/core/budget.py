"""Stage 9: what a call takes of the budgets of its capability, and the refusal when one is spent.

Nothing can be counted offline: N children each carry the whole of their parent's budget. So every call is
debited here from that of every link above its entry. A budget's calls and cost are for the life of its link
and never come back by waiting; its rate is a sliding window, like the limits of a bundle.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

from authz_client.capabilities import Ancestor, Budget, Component

from authz.core.capability_refusals import OwnReason, refused
from authz.core.facts import Facts
from authz.core.fingerprint import digest
from authz.core.limits import MAX_RESERVATIONS, cost_units
from authz.core.ruleset import Tool
from authz.model.call import Call
from authz.model.capability import BudgetShare, CapabilityFacts
from authz.model.decision import Refusal, RuleKind, RuleMatch, Stage
from authz.model.limit import COST_SCALE, Reached, Reservation

CALLS: Final = "calls"
RATE: Final = "rate"
COST: Final = "cost"


@lru_cache(maxsize=4096)
def budget_digest(budget: Budget) -> str:
    """What, with the hash of its link, a budget's counters are keyed by."""
    return budget.digest


@lru_cache(maxsize=4096)
def counter_key(tenant: str, link_hash: str, budget: Budget, what: str) -> str:
    """The name of a budget's counter of calls, rate or cost."""
    return digest(["capability", tenant, link_hash, budget_digest(budget), what])


def cost_units_of(budget: Budget, tool: Tool) -> int | None:
    """Millionths of the budget's currency that a call takes; `None` where that is not known.

    Without an estimate, or with one in another currency, nothing can be counted. Nothing is nothing in any
    currency, and a budget without a cost counts none.
    """
    cost = tool.descriptor.cost
    if budget.cost_micros is None:
        return 0
    if cost is None:
        return None
    return cost_units(cost) if cost.currency == budget.currency or not cost.amount else None


def budget_reservations(facts: Facts, tool: Tool, capability: CapabilityFacts) -> tuple[Reservation, ...]:
    """What an allow of this call takes: of every budget above the entries that it uses, once."""
    if not capability.shares:
        return ()
    return tuple(_reservations(capability.shares, facts.caller.tenant, tool))


def _reservations(shares: Iterable[BudgetShare], tenant: str, tool: Tool) -> Iterator[Reservation]:
    for share in shares:
        for what, amount, cap, window_ms in _counted(share.budget, tool):
            yield Reservation(
                tenant=tenant,
                limit=f"capability:{share.link_hash}",
                key=counter_key(tenant, share.link_hash, share.budget, what),
                partition=(("budget", what),),
                amount=amount,
                cap=cap,
                window_ms=window_ms,
                expires_at_ms=share.expires_at_ms,
                link_hash=share.link_hash,
            )


def _counted(budget: Budget, tool: Tool) -> Iterator[tuple[str, int, int, int]]:
    """(what, amount, cap, window in ms) of each counter. Without a window it counts while the link lives."""
    if budget.calls is not None:
        yield CALLS, 1, budget.calls, 0
    if budget.rate_calls is not None and budget.rate_seconds is not None:
        yield RATE, 1, budget.rate_calls, budget.rate_seconds * 1000
    if budget.cost_micros is not None:
        units = cost_units_of(budget, tool)
        # Stage 6 has refused what cannot be counted; what came by all the same fits no budget.
        amount = budget.cost_micros + 1 if units is None else units
        if amount:
            yield COST, amount, budget.cost_micros, 0


def is_open(shares: Iterable[BudgetShare], tool: Tool, facts: Facts) -> bool:
    """Whether a commit has found none of these counters full."""
    full = {reached.key for reached in facts.reached}
    return all(taken.key not in full for taken in _reservations(shares, facts.caller.tenant, tool))


def check_budgets(
    reservations: tuple[Reservation, ...],
    facts: Facts,
    call: Call,
    capability: CapabilityFacts,
    *,
    beside: int,
) -> Refusal | None:
    """The refusal when a commit has just found that one of these does not fit; `None` when none did.

    And when they are too many, with those of limits that are taken `beside` them.
    """
    if not reservations:
        return None
    if beside + len(reservations) > MAX_RESERVATIONS:
        return refused(
            OwnReason.COUNTERS_TOO_MANY,
            f"one call may count against at most {MAX_RESERVATIONS} counters of limits and budgets",
            stage=Stage.RESERVATION,
        )
    found = {reached.key: reached for reached in facts.reached}
    over = [(found[taken.key], taken) for taken in reservations if taken.key in found]
    if not over:
        return None
    spent = [pair for pair in over if _what(pair[1]) != RATE]
    # What holds longest decides, and what is for life holds for ever.
    reached, taken = spent[0] if spent else max(over, key=lambda pair: _frees_at(pair[0]))
    link, agent = place_of(capability.handles, len(call.capability), taken.link_hash)
    refusal = refused(
        OwnReason.BUDGET_SPENT if spent else OwnReason.RATE_REACHED,
        f"at most {_most(taken, capability)}",
        stage=Stage.RESERVATION,
        link=link,
        agent=agent,
        component=Component.PREDICATE,
        wait_ms=None if spent else _wait_ms(reached, facts, capability),
    )
    return replace(refusal, matched=tuple(_match(each, capability) for _, each in over))


def _what(taken: Reservation) -> str:
    return taken.partition[0][1]


def _frees_at(reached: Reached) -> int:
    return 2**63 if reached.frees_at_ms is None else reached.frees_at_ms


def _wait_ms(reached: Reached, facts: Facts, capability: CapabilityFacts) -> int | None:
    """How long until a rate lets the call through; `None` when the capability is over by then."""
    frees_at_ms = _frees_at(reached)
    if capability.expires_at_ms is None or frees_at_ms >= capability.expires_at_ms:
        return None
    return max(1, frees_at_ms - facts.now_ms)


def _most(taken: Reservation, capability: CapabilityFacts) -> str:
    what = _what(taken)
    if what == CALLS:
        return f"{taken.cap} calls"
    if what == RATE:
        return f"{taken.cap} calls in {taken.window_ms // 1000} s"
    currency = next(
        share.budget.currency
        for share in capability.shares
        if counter_key(taken.tenant, share.link_hash, share.budget, COST) == taken.key
    )
    return f"{(Decimal(taken.cap) / COST_SCALE).normalize():f} {currency}"


def _match(taken: Reservation, capability: CapabilityFacts) -> RuleMatch:
    return RuleMatch(rule=taken.limit, kind=RuleKind.BUDGET, reason=f"at most {_most(taken, capability)}")


def place_of(handles: tuple[Ancestor, ...], presented: int, link_hash: str) -> tuple[int | None, str | None]:
    """(which link of the presented chain, who holds it). One above a narrowed root is none of them."""
    above = len(handles) - presented
    for position, item in enumerate(handles):
        if item.link == link_hash:
            return (position - above if position >= above else None), item.agent
    return None, None
