"""Revoking: by link, by `jti`, by holder's key. At once here, within the bound on every other replica."""

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
PAGE: Final = 500
MAX_NAMED: Final = 256
"""Links on record that have a handle, of which an answer tells. All are stopped in any case."""
MAX_COUNTED: Final = 2000
"""Links that are looked through to say how many live ones lie beneath."""
MAX_ROOTS: Final = 32
"""Roots among whose links is looked: each is at least one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """What a revocation came to."""

    records: tuple[RevocationRecord, ...]
    already: bool
    """Whether all of it was revoked before."""
    links: tuple[LinkRecord, ...]
    """Links on record that the handle names, the newest of them."""
    live: int
    """How many of those had not ended."""
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

        What it stops is counted afterwards: however many links there are, none of them holds it up.
        Raises `StoreUnavailable` when it is not known to be on disk; then it is to be asked again.
        """
        tenant = caller.tenant
        known = await self._known(tenant, kind, value)
        now_ms = self._clock.now_ms()
        revocations = self._chains.revocations
        records = tuple(
            replace(one, reason=reason, revoked_by=caller.key_id, revoked_at_ms=now_ms)
            for one in self._records(tenant, kind, value, known, now_ms)
        )
        event = revoked_event(
            caller=caller,
            named={kind.value: value},
            reason=reason,
            revoked=records,
            redactor=self._redactor,
            now_ms=now_ms,
        )
        committed = await self._ledger.commit(CommitUnit(event=event, revocations=records))
        if not isinstance(committed, Committed):
            raise StoreUnavailable("the revocation could not be put on record; send it again")
        # Nothing waits between the record and this: from here on this node stops what it names.
        already = all(revocations.holds(one.tenant, one.kind, one.value) for one in records)
        revocations.apply(records)
        self._observer.capability(tenant, EventType.CAPABILITY_REVOKED.value, "")
        try:
            links, live_beneath, complete = await self._counted(tenant, kind, value, known, now_ms)
        except StoreUnavailable:
            # It is in force, which is what was asked for: only what it stops cannot be said.
            links, live_beneath, complete = known, 0, False
        return Revoked(
            records=records,
            already=already,
            links=links,
            live=sum(link.expires_at_ms > now_ms for link in links),
            live_beneath=live_beneath,
            complete=complete,
        )

    async def _known(self, tenant: str, kind: RevocationKind, value: str) -> tuple[LinkRecord, ...]:
        """Links on record whose own hash is revoked, too, a bounded number."""
        if kind is RevocationKind.HOLDER:
            return ()
        if kind is RevocationKind.LINK:
            found = await self._ledger.find_link(tenant, value)
            return () if found is None else (found,)
        # Ours are unguessable, and no other root has one; a child is given whatever its maker likes.
        query = LinkQuery(tenant=tenant, jti=value, only_roots=True, limit=1)
        root = await self._ledger.find_links(query)
        return tuple(root or await self._ledger.find_links(replace(query, only_roots=False, limit=MAX_NAMED)))

    def _records(
        self, tenant: str, kind: RevocationKind, value: str, known: tuple[LinkRecord, ...], now_ms: int
    ) -> tuple[RevocationRecord, ...]:
        if kind is RevocationKind.HOLDER:
            return (RevocationRecord(tenant=tenant, kind=kind, value=value, until_ms=FOR_GOOD_MS),)
        links = tuple(
            RevocationRecord(
                tenant=tenant,
                kind=RevocationKind.LINK,
                value=link.link_hash,
                until_ms=link.expires_at_ms + SKEW_SECONDS * 1000,
            )
            for link in known
        )
        if any(kind is RevocationKind.LINK or link.origin is not LinkOrigin.SEEN for link in known):
            return links
        # Links that were made offline may have the same `jti`, and the one that is meant may not have been
        # seen yet. Whatever has it already ends by then, known here or not.
        until_ms = now_ms + (self._max_lifetime_seconds + 2 * SKEW_SECONDS) * 1000
        return (RevocationRecord(tenant=tenant, kind=kind, value=value, until_ms=until_ms), *links)

    async def _counted(
        self,
        tenant: str,
        kind: RevocationKind,
        value: str,
        known: tuple[LinkRecord, ...],
        now_ms: int,
    ) -> tuple[tuple[LinkRecord, ...], int, bool]:
        """(links on record that the handle names, how many live ones are beneath, whether that is all)."""
        named = known
        if kind is RevocationKind.HOLDER:
            query = LinkQuery(tenant=tenant, holder=value, limit=MAX_NAMED)
            named = tuple(await self._ledger.find_links(query))
        complete = len(named) < MAX_NAMED
        hashes = {link.link_hash for link in named}
        live, left = 0, MAX_COUNTED
        roots = list(dict.fromkeys(link.root_hash for link in named))
        for root in roots[:MAX_ROOTS]:
            links, all_of_them = await self._beneath(tenant, root, left)
            left -= len(links)
            complete = complete and all_of_them
            below = LinkTree.of(links).beneath(*hashes)
            live += sum(link.expires_at_ms > now_ms for link in below)
        return named, live, complete and len(roots) <= MAX_ROOTS

    async def _beneath(self, tenant: str, root: str, most: int) -> tuple[list[LinkRecord], bool]:
        """The newest links of a root, at most so many, and whether those are all."""
        query = LinkQuery(tenant=tenant, root_hash=root, limit=PAGE)
        links: list[LinkRecord] = []
        while (wanted := min(PAGE, most - len(links))) > 0:
            page = await self._ledger.find_links(replace(query, limit=wanted))
            links += page
            if len(page) < wanted:
                return links, True
            query = replace(query, after=(page[-1].issued_at_ms, page[-1].link_hash))
        return links, False
