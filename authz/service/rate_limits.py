"""How often somebody may try to sign in: of this process, in bounded memory.

Each replica counts for itself, so many replicas take as many more tries. What is guarded are secrets of 256
bits and signatures: this keeps strangers from filling the log and using up the processor, not from guessing.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from authz.errors import TooManyRequests

MAX_KEYS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A bucket of so many tries, of which one comes back in each `seconds_each`."""

    tries: int
    seconds_each: float


PER_ADDRESS: Final = Rate(tries=60, seconds_each=1.0)
"""Of one client, by its address. Behind a proxy that is not among `trusted_proxies` that is everybody."""
PER_SUBJECT: Final = Rate(tries=10, seconds_each=6.0)
"""Of one account, link, code or passkey."""


class RateLimits:
    """Token buckets by key. The one that was unused for longest makes room; it is full again by then."""

    def __init__(self, monotonic: Callable[[], float], *, max_keys: int = MAX_KEYS) -> None:
        """`monotonic` is a clock in seconds that never goes back."""
        self._monotonic = monotonic
        self._max_keys = max_keys
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def check(self, kind: str, key: str, rate: Rate) -> None:
        """Take one try. Raises `TooManyRequests` (`rate.limited`) where none is left."""
        now = self._monotonic()
        left, at = self._buckets.pop((kind, key), (float(rate.tries), now))
        left = min(float(rate.tries), left + (now - at) / rate.seconds_each)
        allowed = left >= 1
        self._buckets[(kind, key)] = (left - 1 if allowed else left, now)
        while len(self._buckets) > self._max_keys:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooManyRequests("too many tries to sign in, wait a minute", code="rate.limited")

    def __len__(self) -> int:
        return len(self._buckets)


def network_of(address: str) -> str:
    """What of an address is one client's: of IPv6 the /64, all of which a single one may have."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    mapped = found.ipv4_mapped
    return str(mapped or ipaddress.ip_network((found, 64), strict=False))
