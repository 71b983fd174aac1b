"""Revoking: by link, by `jti`, by holder's key. At once here, within the bound on every other replica."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from authz.core.capability_event import revoked_event
from authz.core.capability_tree import LinkTree
from authz.core.redact import Redactor
from authz.errors import StoreUnavailable
from authz.model.caller import Caller
from authz.model.capability import LinkOrigin, LinkQuery, LinkRecord, RevocationKind, RevocationRecord
from authz.model.record import Committed, EventType
from authz.ports import CapabilityObserver, Clock, CommitUnit, Ledger
from authz.service.capability_chains import SKEW_SECONDS, CapabilityChains

FOR_GOOD_MS: Final = 253_402_300_799_000
"""The end of the year 9999: links for a key can be made at any time, so it is never good again."""
PAGE: Final = 1000
MAX_COUNTED: Final = 10_000
"""Links that are looked through to say how many live ones lie beneath. All are stopped in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """What a revocation came to."""

    records: tuple[RevocationRecord, ...]
    already: bool
    """Whether all of it was revoked before."""
    links: tuple[LinkRecord, ...]
    """Those of them that are links on record."""
    live_beneath: int
    """Links on record beneath that had not ended. Those made offline and never seen are not known."""
    complete: bool
    """Whether all of those were counted."""


class CapabilityRevoker:
    """Takes revocations. Nothing is answered before the revocation is on disk and in force here."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        chains: CapabilityChains,
        redactor: Redactor,
        observer: CapabilityObserver,
        max_lifetime_seconds: int,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._chains = chains
        self._redactor = redactor
        self._observer = observer
        self._max_lifetime_seconds = max_lifetime_seconds

    async def revoke(self, caller: Caller, kind: RevocationKind, value: str, reason: str) -> Revoked:
        """Revoke what one handle names, and everything beneath. Doing it again changes nothing.

        Raises `StoreUnavailable` when it is not known to be on disk; then it is to be asked again.
        """
        named = await self._named(caller.tenant, kind, value)
        now_ms = self._clock.now_ms()
        revocations = self._chains.revocations
        records = tuple(
            replace(one, reason=reason, revoked_by=caller.key_id, revoked_at_ms=now_ms)
            for one in self._records(caller.tenant, kind, value, named, now_ms)
        )
        live, complete = await self._live_beneath(caller.tenant, named, now_ms)
        event = revoked_event(
            caller=caller,
            named={kind.value: value},
            reason=reason,
            revoked=records,
            beneath=live,
            redactor=self._redactor,
            now_ms=now_ms,
        )
        committed = await self._ledger.commit(CommitUnit(event=event, revocations=records))
        if not isinstance(committed, Committed):
            raise StoreUnavailable("the revocation could not be put on record; send it again")
        # Nothing waits between the record and this: from here on this node stops what it names.
        already = all(revocations.holds(one.tenant, one.kind, one.value) for one in records)
        revocations.apply(records)
        self._observer.capability(caller.tenant, EventType.CAPABILITY_REVOKED.value, "")
        return Revoked(
            records=records,
            already=already,
            links=named,
            live_beneath=live,
            complete=complete,
        )

    async def _named(self, tenant: str, kind: RevocationKind, value: str) -> tuple[LinkRecord, ...]:
        """The links on record that a handle names."""
        if kind is RevocationKind.LINK:
            found = await self._ledger.find_link(tenant, value)
            return () if found is None else (found,)
        if kind is RevocationKind.HOLDER:
            query = LinkQuery(tenant=tenant, holder=value, limit=PAGE)
            return tuple([link async for link in self._all(query)])
        derived = []
        async for link in self._all(LinkQuery(tenant=tenant, jti=value, limit=PAGE)):
            # Ours are unguessable, and no other root has one; a child is given whatever its maker likes.
            if link.origin is not LinkOrigin.SEEN:
                return (link,)
            derived.append(link)
        return tuple(derived)

    def _records(
        self, tenant: str, kind: RevocationKind, value: str, named: tuple[LinkRecord, ...], now_ms: int
    ) -> tuple[RevocationRecord, ...]:
        if kind is RevocationKind.HOLDER:
            return (RevocationRecord(tenant=tenant, kind=kind, value=value, until_ms=FOR_GOOD_MS),)
        if named:
            return tuple(
                RevocationRecord(
                    tenant=tenant,
                    kind=RevocationKind.LINK,
                    value=link.link_hash,
                    until_ms=link.expires_at_ms + SKEW_SECONDS * 1000,
                )
                for link in named
            )
        # Whatever has it already ends by then, known here or not.
        until_ms = now_ms + (self._max_lifetime_seconds + 2 * SKEW_SECONDS) * 1000
        return (RevocationRecord(tenant=tenant, kind=kind, value=value, until_ms=until_ms),)

    async def _live_beneath(
        self, tenant: str, named: tuple[LinkRecord, ...], now_ms: int
    ) -> tuple[int, bool]:
        live: set[str] = set()
        seen = 0
        for root in dict.fromkeys(link.root_hash for link in named):
            links: list[LinkRecord] = []
            async for link in self._all(LinkQuery(tenant=tenant, root_hash=root, limit=PAGE)):
                links.append(link)
                seen += 1
                if seen > MAX_COUNTED:
                    return len(live), False
            tree = LinkTree.of(links)
            for link in named:
                if link.root_hash == root:
                    below = tree.beneath(link.link_hash)
                    live |= {one.link_hash for one in below if one.expires_at_ms > now_ms}
        return len(live - {link.link_hash for link in named}), True

    async def _all(self, query: LinkQuery) -> AsyncIterator[LinkRecord]:
        while page := await self._ledger.find_links(query):
            for link in page:
                yield link
            last = page[-1]
            query = replace(query, after=(last.issued_at_ms, last.link_hash))
