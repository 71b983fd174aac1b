"""The `budget` of an entry: how much may be spent, how often, how fast.

`{"cost": {"amount": "12.50", "currency": "EUR"}, "calls": 100, "rate": {"calls": 10, "seconds": 60}}`, each
optional, at least one. Nothing here counts: N children made offline each carry the whole of it, so the
service debits every call against the budget of every link above, in the decision's transaction.

**One counter for one link and one budget.** Entries of a link that state the same budget share its counter;
it is keyed by the link's hash and `Budget.digest`, so a task that needs several entries is not given several
times its budget.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.digests import json_digest

COST_SCALE: Final = 1_000_000
"""Costs are counted in millionths of their currency, so that sums are exact."""
_AMOUNT: Final = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Z]{3,8}")
_MAX_CALLS: Final = 2**53 - 1
_MAX_SECONDS: Final = 366 * 86_400


class BadBudget(ValueError):
    """A budget that is not understood, and so refuses the whole capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """`None` bounds nothing."""

    cost_micros: int | None = None
    """Millionths of `currency`, for the whole life of the link."""
    currency: str | None = None
    """ISO 4217 code, or a unit that the bundle uses."""
    calls: int | None = None
    """Calls, for the whole life of the link."""
    rate_calls: int | None = None
    """Calls in any `rate_seconds`."""
    rate_seconds: int | None = None

    @property
    def as_json(self) -> dict[str, Any]:
        """The one spelling of this budget in `authorization_details`."""
        found: dict[str, Any] = {}
        if self.cost_micros is not None:
            whole, part = divmod(self.cost_micros, COST_SCALE)
            amount = f"{whole}.{part:06d}".rstrip("0").rstrip(".")
            found["cost"] = {"amount": amount, "currency": self.currency}
        if self.calls is not None:
            found["calls"] = self.calls
        if self.rate_calls is not None:
            found["rate"] = {"calls": self.rate_calls, "seconds": self.rate_seconds}
        return found

    @property
    def digest(self) -> str:
        """What, with the link's hash, its counters are keyed by."""
        return json_digest(self.as_json)


def parse_budget(value: Any) -> Budget:
    """The budget of an entry. Raises `BadBudget`; an unknown member is not skipped."""
    if not isinstance(value, dict) or not value or value.keys() - {"cost", "calls", "rate"}:
        raise BadBudget("a budget has at least one of `cost`, `calls` and `rate`, and nothing else")
    micros, currency = _cost(value["cost"]) if "cost" in value else (None, None)
    calls = _integer("`calls`", value["calls"], 0, _MAX_CALLS) if "calls" in value else None
    rate_calls = rate_seconds = None
    if "rate" in value:
        rate = value["rate"]
        if not isinstance(rate, dict) or rate.keys() != {"calls", "seconds"}:
            raise BadBudget("`rate` has exactly `calls` and `seconds`")
        rate_calls = _integer("`calls` of `rate`", rate["calls"], 0, _MAX_CALLS)
        rate_seconds = _integer("`seconds` of `rate`", rate["seconds"], 1, _MAX_SECONDS)
    return Budget(
        cost_micros=micros,
        currency=currency,
        calls=calls,
        rate_calls=rate_calls,
        rate_seconds=rate_seconds,
    )


def _cost(value: Any) -> tuple[int, str]:
    if not isinstance(value, dict) or value.keys() != {"amount", "currency"}:
        raise BadBudget("`cost` has exactly `amount` and `currency`")
    amount, currency = value["amount"], value["currency"]
    if not isinstance(currency, str) or _CURRENCY.fullmatch(currency) is None:
        raise BadBudget("`currency` is three to eight capital letters")
    # Not a fraction of JSON: readers round those differently, and money is compared exactly.
    text = str(amount) if type(amount) is int and 0 <= amount < 10**12 else amount
    found = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BadBudget("`amount` is a decimal string with at most six decimals, or an integer")
    return int(found[1]) * COST_SCALE + int((found[2] or "").ljust(6, "0")), currency


def _integer(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise BadBudget(f"{name} is an integer from {least} to {most}")
    return value


def widened_budget(child: Budget | None, parent: Budget | None) -> str | None:
    """The first member of `parent` that `child` leaves out or raises; `None` when it implies them all.

    A rate is tighter with no more calls in no less time: then whatever keeps it keeps the other.
    """
    if parent is None:
        return None
    mine = child or Budget()
    if parent.cost_micros is not None and (
        mine.cost_micros is None or mine.currency != parent.currency or mine.cost_micros > parent.cost_micros
    ):
        return "cost"
    if parent.calls is not None and (mine.calls is None or mine.calls > parent.calls):
        return "calls"
    if parent.rate_calls is not None and parent.rate_seconds is not None:
        tighter = (
            mine.rate_calls is not None
            and mine.rate_seconds is not None
            and mine.rate_calls <= parent.rate_calls
            and mine.rate_seconds >= parent.rate_seconds
        )
        return None if tighter else "rate"
    return None
