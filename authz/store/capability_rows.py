"""Links and revocations as rows of the store, and back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from authz_client.capabilities import parse_budget

from authz.errors import StoreUnavailable
from authz.model.capability import BudgetShare, LinkOrigin, LinkRecord, RevocationKind, RevocationRecord
from authz.store.write_connection import SqlValue

Inherited = tuple[tuple[BudgetShare, ...], ...]
_SHARE: Final = ("link", "budget", "expires_at_ms")


def link_row(link: LinkRecord) -> tuple[SqlValue, ...]:
    """The columns of `capability_links`, in table order. Raises `ValueError`, `TypeError` for no JSON."""
    inherited = [[_write_share(share) for share in shares] for shares in link.inherited]
    return (
        *(link.link_hash, link.tenant, link.parent_hash, link.root_hash, link.origin.value, link.jti),
        *(link.holder, link.agent, link.subject, link.depth, link.issued_at_ms, link.expires_at_ms),
        *(link.details, _write_json(inherited), _write_json(dict(link.tool_digests)), link.child_trace),
        *(None if link.task is None else _write_json(link.task), link.issued_by, link.kid),
    )


def read_link(row: Sequence[Any]) -> LinkRecord:
    """A row of `capability_links`. Raises `StoreUnavailable` for one that this program did not write."""
    link_hash, tenant, parent_hash, root_hash, origin, jti, holder, agent, subject, depth, *rest = row
    issued_at_ms, expires_at_ms, details, inherited, tool_digests, child_trace, task, *last = rest
    issued_by, kid = last
    try:
        return LinkRecord(
            tenant=tenant,
            link_hash=link_hash,
            parent_hash=parent_hash,
            root_hash=root_hash,
            origin=LinkOrigin(origin),
            jti=jti,
            holder=holder,
            agent=agent,
            subject=subject,
            depth=depth,
            issued_at_ms=issued_at_ms,
            expires_at_ms=expires_at_ms,
            details=details,
            inherited=_read_inherited(inherited),
            tool_digests=_read_object(tool_digests),
            child_trace=child_trace,
            task=None if task is None else _read_object(task),
            issued_by=issued_by,
            kid=kid,
        )
    except (ValueError, TypeError, KeyError) as fault:
        # To leave out a part of it, a budget for one, would give more than was given.
        raise StoreUnavailable("a capability on record cannot be read") from fault


def revocation_row(revoked: RevocationRecord, sequence: int) -> tuple[SqlValue, ...]:
    """The columns of `revocations`, in table order."""
    return (
        *(revoked.tenant, revoked.kind.value, revoked.value, revoked.until_ms, revoked.reason),
        *(revoked.revoked_by, revoked.revoked_at_ms, sequence),
    )


def read_revocation(row: Sequence[Any]) -> RevocationRecord:
    """A row of `revocations`. Raises `StoreUnavailable` for one that this program does not know."""
    tenant, kind, value, until_ms, reason, revoked_by, revoked_at_ms, sequence = row
    try:
        known_kind = RevocationKind(kind)
    except ValueError as fault:
        # Written by a newer program: to skip it would let through what is revoked.
        raise StoreUnavailable(f"something is revoked by the unknown kind `{kind}`") from fault
    return RevocationRecord(
        tenant=tenant,
        kind=known_kind,
        value=value,
        until_ms=until_ms,
        reason=reason,
        revoked_by=revoked_by,
        revoked_at_ms=revoked_at_ms,
        sequence=sequence,
    )


def _write_json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _read_object(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    return found


def _write_share(share: BudgetShare) -> dict[str, Any]:
    budget = share.budget.as_json
    if parse_budget(budget) != share.budget:
        raise ValueError("a budget would be read as another")
    return dict(zip(_SHARE, (share.link_hash, budget, share.expires_at_ms), strict=True))


def _read_inherited(text: str) -> Inherited:
    return tuple(tuple(_read_share(share) for share in shares) for shares in json.loads(text))


def _read_share(share: Mapping[str, Any]) -> BudgetShare:
    link_hash, budget, expires_at_ms = (share[name] for name in _SHARE)
    return BudgetShare(link_hash=link_hash, budget=parse_budget(budget), expires_at_ms=expires_at_ms)
