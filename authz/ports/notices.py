"""The outbox: notices that were written with what they tell of, and are delivered by whoever claims them.

A notice is first undirected: it has been committed, and no webhook is chosen yet. Directing it puts one
delivery for each webhook in its place. A claim is a compare-and-set that moves the delivery's due time to the
end of a lease: whoever holds it tries, and where it dies somebody else tries after that time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from authz.model.approval_writes import Notice


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    """Kept for a while, without its body: by these the notices of a subject are counted."""
    DEAD = "dead"
    """Nobody took it: an operator may have it tried again, or drop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One notice for one webhook, as the store has it."""

    message_id: str
    """`webhook-id`."""
    webhook: str
    notice: Notice
    state: DeliveryState
    attempts: int
    due_ms: int
    """When it may be claimed: of a claimed one the end of the lease."""
    fault: str
    """Why the last attempt failed, in this service's words."""
    version: int
    """Rises by one with every write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much a webhook has to take already."""

    waiting: int
    of_subject: int
    """Deliveries about one subject since a time, however they ended."""


class Outbox(Protocol):
    """Notices as the durable store has them. Every method raises `StoreUnavailable`."""

    async def undirected(self, most: int) -> Sequence[Notice]:
        """Notices for which no webhook is chosen yet, the oldest first."""
        ...

    async def load(self, *, tenant: str, webhook: str, subject_key: str, since_ms: int) -> Load:
        """What waits for that webhook, and what there is about that subject since then."""
        ...

    async def direct(self, notice: Notice, deliveries: Sequence[Delivery]) -> bool:
        """Put these in its place; whether they were put. Not where somebody did so already."""
        ...

    async def claim(
        self, *, tenant: str, webhook: str, now_ms: int, lease_ms: int, most: int
    ) -> Sequence[Delivery]:
        """Deliveries that are due, the oldest first, each for whoever asked first, until its lease ends."""
        ...

    async def settle(
        self, claimed: Delivery, state: DeliveryState, *, attempts: int, due_ms: int, fault: str
    ) -> bool:
        """Write how an attempt ended; whether it was written. Not where the claim is over."""
        ...

    async def sweep(self, before_ms: int) -> None:
        """Forget what was delivered, of notices from before that time."""
        ...


class NoticeObserver(Protocol):
    """Is told what becomes of deliveries: metrics."""

    def notice(self, tenant: str, webhook: str, outcome: str) -> None:
        """An attempt ended. All texts are from closed sets: `delivered`, `failed`, `dead`, `held_back`."""
        ...
