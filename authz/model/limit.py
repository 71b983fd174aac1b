"""Limits of the bundle: what they count, and what a decision takes of them (spec sections 2 and 6)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from authz.model.resource import Authority, Verb

COST_SCALE: Final = 1_000_000
"""Costs are counted in millionths of their currency, so that sums are exact."""


class Count(StrEnum):
    """What a limit counts."""

    CALLS = "calls"
    """Allowed calls in a sliding window."""
    CONCURRENCY = "concurrency"
    """Allowed calls whose `expires_at` has not passed."""
    COST = "cost"
    """The sum of the tools' estimated costs in a sliding window."""


class Partition(StrEnum):
    """What has a counter of its own under one limit. The tenant always has."""

    TENANT = "tenant"
    AGENT = "agent"
    USER = "user"
    SESSION = "session"
    TOOL = "tool"
    SERVER = "server"
    DOMAIN = "domain"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitScope:
    """Which calls a limit is about. `None` does not restrict; what is given must all hold."""

    agents: frozenset[str] | None = None
    users: frozenset[str] | None = None
    members: tuple[frozenset[str], frozenset[str]] | None = None
    """Agents and users of the named groups; the call's agent or its user must be one."""
    tools: frozenset[str] | None = None
    """`server/name`."""
    servers: frozenset[str] | None = None
    verbs: frozenset[Verb] | None = None
    levels: frozenset[Authority] | None = None
    resources: "tuple[ResourceScope, ...] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceScope:
    """One canonical URI of a limit, as the entities by which a resource can be seen to lie in it."""

    uri: str
    container: tuple[str, str]
    """(type, id) of what contains it: `Directory`, `UrlPath`, `Host`, `Domain`, `Mailbox`, `Object`."""
    above: frozenset[tuple[str, str]]
    """(type, id) of the container and all that contains it: a tree at one of these reaches down to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit of `limits.yaml`. `id` is the name that decisions report, with file and line."""

    id: str
    reason: str
    count: Count
    cap: int
    """Calls or slots; for cost, millionths of the currency."""
    window_ms: int
    """0 for concurrency, where a slot ends with its decision."""
    currency: str
    per: tuple[Partition, ...]
    where: LimitScope
    file: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one allowed call takes of one counter. Compared and written in the commit's transaction."""

    tenant: str
    limit: str
    key: str
    """Digest of tenant, limit, unit and partition: the counter."""
    partition: tuple[tuple[str, str], ...]
    """What the counter is for, for the record: (`agent`, `coder-1`)."""
    amount: int
    cap: int
    window_ms: int
    """It counts for this long from its commit; 0: until `expires_at_ms`."""
    expires_at_ms: int
    """When the decision ends; of a budget, its link."""
    link_hash: str = ""
    """Of a capability's budget: whose link it is. Empty for a limit of the bundle."""

    def length_ms(self, now_ms: int) -> int:
        """For how long it counts from `now_ms`, when it is recorded; not over 0 when it ended before.

        A length, and not a time: the counter may be judged by a time that is ahead of this clock.
        """
        return self.window_ms or self.expires_at_ms - now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A counter that a reservation did not fit into."""

    key: str
    frees_at_ms: int | None
    """When the same reservation fits if nothing else is allowed; `None` when it never does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """A commit's answer: a reservation did not fit, so nothing of the unit was written."""

    reached: tuple[Reached, ...]
