"""Proofs, links and revocations in memory, for tests."""

import dataclasses
from collections.abc import Sequence

from authz.model.capability import LinkOrigin, LinkQuery, LinkRecord, ProofUse, RevocationRecord
from authz.model.record import Replayed
from authz.ports import CommitUnit
from authz.store.capability_reads import REVOCATIONS_AT_ONCE, clamp_links
from authz.store.capability_rows import link_row, read_link


class MemoryCapabilities:
    """All of them. Nothing here gives way, so a check and the writing after it are one step."""

    def __init__(self) -> None:
        self._proofs: set[str] = set()
        self._links: dict[tuple[str, str], LinkRecord] = {}
        self._revocations: dict[tuple[str, str, str], RevocationRecord] = {}
        self._sequence = 0

    def check(self, proof: ProofUse) -> Replayed | None:
        """Whether it was used before; `None` when it was not."""
        return Replayed(key=proof.key) if proof.key in self._proofs else None

    def write(self, unit: CommitUnit) -> None:
        """What a unit adds that goes through."""
        if unit.proof is not None:
            self._proofs.add(unit.proof.key)
        for link in unit.links:
            # By way of a row, so that it is found as any other store has it.
            self._links.setdefault((link.tenant, link.link_hash), read_link(link_row(link)))
        for revoked in unit.revocations:
            self._sequence += 1
            key = (revoked.tenant, revoked.kind.value, revoked.value)
            known = self._revocations.get(key, revoked)
            until_ms = max(known.until_ms, revoked.until_ms)
            self._revocations[key] = dataclasses.replace(known, until_ms=until_ms, sequence=self._sequence)

    def find_link(self, tenant: str, link_hash: str) -> LinkRecord | None:
        """The link of that hash, in this tenant."""
        return self._links.get((tenant, link_hash))

    def find_links(self, query: LinkQuery) -> Sequence[LinkRecord]:
        """Links on record, newest first."""
        found = [link for link in self._links.values() if _is_match(link, query)]
        found.sort(key=_position, reverse=True)
        return found[: clamp_links(query.limit)]

    def revocations_since(self, sequence: int) -> Sequence[RevocationRecord]:
        """Those that came after, in that order, a bounded number."""
        later = [revoked for revoked in self._revocations.values() if revoked.sequence > sequence]
        later.sort(key=lambda revoked: revoked.sequence)
        return later[:REVOCATIONS_AT_ONCE]


def _position(link: LinkRecord) -> tuple[int, str]:
    return (link.issued_at_ms, link.link_hash)


def _is_match(link: LinkRecord, query: LinkQuery) -> bool:
    equal = ("link_hash", "root_hash", "jti", "holder", "agent", "subject")
    return (
        link.tenant == query.tenant
        and all(getattr(query, name) in ("", getattr(link, name)) for name in equal)
        and not (query.only_roots and link.origin is LinkOrigin.SEEN)
        and (query.live_at_ms is None or link.expires_at_ms > query.live_at_ms)
        and (query.after is None or _position(link) < query.after)
    )
