"""The outbox in memory, for tests: the same claims and leases, and nothing durable."""

from collections.abc import Sequence
from dataclasses import replace

from authz.core.notice import notice_key
from authz.model.approval_writes import Notice
from authz.ports.notices import Delivery, DeliveryState, Load
from authz.store.notice_outbox import settled


class MemoryOutbox:
    """`authz.ports.notices.Outbox` without a disk."""

    def __init__(self) -> None:
        self._undirected: dict[str, Notice] = {}
        self.deliveries: dict[str, Delivery] = {}
        """All that there are, by message id."""

    def write(self, notices: Sequence[Notice]) -> None:
        """What a commit puts there."""
        for notice in notices:
            self._undirected.setdefault(notice_key(notice), notice)

    async def undirected(self, most: int) -> Sequence[Notice]:
        """See `authz.ports.notices.Outbox.undirected`."""
        found = sorted(self._undirected.items(), key=lambda item: (item[1].at_ms, item[0]))
        return [notice for _, notice in found[:most]]

    async def load(self, *, tenant: str, webhook: str, subject_key: str, since_ms: int) -> Load:
        """See `authz.ports.notices.Outbox.load`."""
        own = self._of(tenant, webhook)
        about = [one.notice for one in own if one.notice.subject_key == subject_key]
        return Load(
            waiting=sum(one.state is DeliveryState.WAITING for one in own),
            of_subject=sum(notice.at_ms >= since_ms for notice in about),
        )

    async def direct(self, notice: Notice, deliveries: Sequence[Delivery]) -> bool:
        """See `authz.ports.notices.Outbox.direct`."""
        if self._undirected.pop(notice_key(notice), None) is None:
            return False
        for delivery in deliveries:
            self.deliveries.setdefault(delivery.message_id, delivery)
        return True

    async def claim(
        self, *, tenant: str, webhook: str, now_ms: int, lease_ms: int, most: int
    ) -> Sequence[Delivery]:
        """See `authz.ports.notices.Outbox.claim`."""
        waiting = [one for one in self._of(tenant, webhook) if one.state is DeliveryState.WAITING]
        due = sorted((one.due_ms, one.message_id) for one in waiting if one.due_ms <= now_ms)[:most]
        taken = []
        for _, message_id in due:
            found = self.deliveries[message_id]
            claimed = replace(found, due_ms=now_ms + lease_ms, version=found.version + 1)
            self.deliveries[message_id] = claimed
            taken.append(claimed)
        return taken

    async def settle(
        self, claimed: Delivery, state: DeliveryState, *, attempts: int, due_ms: int, fault: str
    ) -> bool:
        """See `authz.ports.notices.Outbox.settle`."""
        if self.deliveries.get(claimed.message_id) != claimed:
            return False
        moved = settled(claimed, state, attempts=attempts, due_ms=due_ms, fault=fault)
        self.deliveries[claimed.message_id] = moved
        return True

    async def sweep(self, before_ms: int) -> None:
        """See `authz.ports.notices.Outbox.sweep`."""
        for message_id, one in list(self.deliveries.items()):
            if one.state is DeliveryState.DELIVERED and one.notice.at_ms < before_ms:
                del self.deliveries[message_id]

    def _of(self, tenant: str, webhook: str) -> list[Delivery]:
        return [
            one for one in self.deliveries.values() if (one.notice.tenant, one.webhook) == (tenant, webhook)
        ]
