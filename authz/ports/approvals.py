"""What is read of approvals and of the vault. They are written by `authz.ports.CommitUnit` alone."""

from collections.abc import Sequence
from typing import Protocol

from authz.core.approval_limits import AskCounts
from authz.model.approval_writes import ApprovalFacts, ApprovalQuery, ApprovalStanding


class ApprovalReads(Protocol):
    """Approvals as the durable store has them. Each answer is one consistent reading, never cached."""

    async def approval_facts(
        self, *, tenant: str, fingerprint: str, session: str | None, server: str, tool: str
    ) -> ApprovalFacts:
        """What a decision needs to know. `server` is the identity of the tool's server."""
        ...

    async def ask_counts(
        self, *, tenant: str, subject_key: str, resources: frozenset[str], since_ms: int, now_ms: int
    ) -> AskCounts:
        """How much the subject has asked, and how often in vain about one of these resources."""
        ...

    async def find_approval(self, tenant: str, approval_id: str) -> ApprovalStanding | None:
        """One request of this tenant, with all that became of it."""
        ...

    async def find_approvals(self, query: ApprovalQuery) -> Sequence[ApprovalStanding]:
        """Requests of one tenant, newest first."""
        ...

    async def due_approvals(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        """(tenant, id) of requests that are written down as pending and are over, the oldest first."""
        ...

    async def approvals_since(self, tenant: str, change: int) -> tuple[int, Sequence[str]]:
        """(latest change, ids of requests that were written after `change`), a bounded number.

        Every write of a request or its grant takes a higher number; none can come later with a smaller one.
        With a negative `change`: only the latest number.
        """
        ...

    async def find_kept(self, tenant: str, ref: str, now_ms: int) -> bytes | None:
        """What the vault has under that name, in the clear; `None` where it is not there or is over.

        Raises `StoreUnavailable` where it is there and cannot be opened.
        """
        ...


class ApprovalObserver(Protocol):
    """Is told what becomes of approvals, once it is durable: metrics."""

    def approval(self, tenant: str, outcome: str) -> None:
        """An answer, or an end, is on record. `outcome` is the record's type, or the code of a refusal."""
        ...
