"""How much one look at approvals returns, and what is told of how often somebody asked in vain."""

from collections.abc import Iterable
from typing import Final

from authz.core.approval_limits import AskCounts

MAX_APPROVALS: Final = 500
"""Requests that one search returns at most, whatever it asks for."""
CHANGES_AT_ONCE: Final = 500
"""Changed requests that one look returns at most."""


def clamp_approvals(limit: int) -> int:
    """How many requests a search that asks for `limit` returns at most."""
    return max(1, min(limit, MAX_APPROVALS))


def most_refused(
    refused: Iterable[tuple[int, int]], of_subject: int, of_tenant: int, vain: tuple[int, int | None]
) -> AskCounts:
    """The counts, of (number, when the earliest ended) for each resource. Of equals the one that lasts.

    `vain` are the subject's requests that came to no yes: (number, when the earliest was made).
    """
    number, oldest_ms = max(refused, default=(0, 0))
    return AskCounts(
        pending_of_subject=of_subject,
        pending_of_tenant=of_tenant,
        refused_on_resource=number,
        vain_of_subject=vain[0],
        oldest_vain_at_ms=vain[1],
        oldest_refused_at_ms=oldest_ms if number else None,
    )
