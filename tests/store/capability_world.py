"""What the store's tests of capabilities are made of: proofs, links, revocations and reservations."""

import json
from collections.abc import Mapping
from typing import Any

from authz_client.capabilities import Budget

from authz.model.capability import (
    DELEGATED,
    BudgetShare,
    LinkOrigin,
    LinkRecord,
    ProofUse,
    RevocationKind,
    RevocationRecord,
)
from authz.model.limit import Reservation
from authz.ports import CommitUnit, ExposureWrite
from tests.store.world import START_MS, event

DAY_MS = 24 * 3_600_000
HOLD_MS = 5 * 60_000
TASK: Mapping[str, Any] = {"objective": "mend “ü”", "inputs": [{"path": "/a"}], "budget": None, "n": 1.5}


def proof(key: str = "p", *, until_ms: int = START_MS + 120_000) -> ProofUse:
    return ProofUse(key=key, until_ms=until_ms)


def link(
    link_hash: str,
    *,
    tenant: str = "default",
    parent_hash: str | None = None,
    root_hash: str = "",
    origin: LinkOrigin = LinkOrigin.SEEN,
    jti: str = "",
    holder: str = "holder-1",
    agent: str = "coder-1",
    subject: str = "ada",
    issued_at_ms: int = START_MS,
    lives_ms: int = DAY_MS,
) -> LinkRecord:
    return LinkRecord(
        tenant=tenant,
        link_hash=link_hash,
        parent_hash=parent_hash,
        root_hash=root_hash or link_hash,
        origin=origin,
        jti=jti or f"jti-{link_hash}",
        holder=holder,
        agent=agent,
        subject=subject,
        depth=0 if parent_hash is None else 1,
        issued_at_ms=issued_at_ms,
        expires_at_ms=issued_at_ms + lives_ms,
        details=json.dumps([{"type": "agent_tool_call", "actions": ["read"]}]),
    )


def narrowed_root() -> LinkRecord:
    """A link with everything that one can have."""
    share = BudgetShare(
        link_hash="above",
        budget=Budget(cost_micros=2_500_000, currency="EUR", calls=7, rate_calls=3, rate_seconds=60),
        expires_at_ms=START_MS + DAY_MS,
    )
    only_calls = BudgetShare(link_hash="higher", budget=Budget(calls=0), expires_at_ms=START_MS)
    return LinkRecord(
        tenant="default",
        link_hash="whole",
        parent_hash="above",
        root_hash="first",
        origin=LinkOrigin.NARROWED,
        jti="jti-whole",
        holder="holder-2",
        agent="coder-1/sub",
        subject="ada",
        depth=3,
        issued_at_ms=START_MS,
        expires_at_ms=START_MS + DAY_MS,
        details='[{"type":"agent_tool_call"}]',
        inherited=((share, only_calls), ()),
        tool_digests={"fs/edit": "sha256:d"},
        child_trace="t-child",
        task=TASK,
        issued_by="key-1",
    )


def revoked(
    value: str,
    *,
    tenant: str = "default",
    kind: RevocationKind = RevocationKind.LINK,
    until_ms: int = START_MS + DAY_MS,
    reason: str = "lost",
    revoked_by: str = "key-1",
) -> RevocationRecord:
    return RevocationRecord(
        tenant=tenant,
        kind=kind,
        value=value,
        until_ms=until_ms,
        reason=reason,
        revoked_by=revoked_by,
        revoked_at_ms=START_MS,
    )


def spending(
    key: str = "budget", *, amount: int = 1, cap: int = 3, ends_ms: int = START_MS + DAY_MS
) -> Reservation:
    """What a call takes of a budget for the whole life of a link that ends then."""
    return Reservation(
        tenant="default",
        limit="capability",
        key=key,
        partition=(),
        amount=amount,
        cap=cap,
        window_ms=0,
        expires_at_ms=ends_ms,
    )


def calling(number: int, *reservations: Reservation, used: ProofUse | None = None) -> CommitUnit:
    """A decision with the id `d-{number}`."""
    return CommitUnit(event=event(number), reservations=reservations, proof=used)


def releasing(number: int, decision: int) -> CommitUnit:
    """What gives back the reservations of the decision of that number."""
    return CommitUnit(event=event(number), releases=f"d-{decision}")


def delegated(*keys: str) -> tuple[ExposureWrite, ...]:
    return tuple(ExposureWrite(session_key=key, labels=frozenset({f"{DELEGATED}:sub"})) for key in keys)
