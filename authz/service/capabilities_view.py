"""What is known of capabilities: of a chain that is shown (RFC 7662), and of the links on record."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from authz_client.capabilities import Entry, Reason, VerifiedChain, recheck
from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities.budgets import COST_SCALE

from authz.core.capability import links_seen
from authz.core.capability_tree import LinkTree, budgets_of, counters_of, entries_of, gave_up, revoked_by
from authz.core.cedar_context import rfc3339
from authz.core.redact import Redactor
from authz.errors import NotFound
from authz.model.caller import Caller
from authz.model.capability import LinkOrigin, LinkQuery, LinkRecord, Presented, TokenRules
from authz.ports import Clock, Ledger
from authz.service.capability_chains import CapabilityChains

PAGE: Final = 1000
MAX_TREE: Final = 1000
"""Links of one root that an answer shows."""
MAX_ABOVE: Final = 64
"""Links above one that are looked up, one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLinks:
    """A page of links on record."""

    links: tuple[dict[str, Any], ...]
    next: tuple[int, str] | None


class CapabilityViews:
    """Answers what is known. Reads only; another tenant's links are as if absent."""

    def __init__(self, *, ledger: Ledger, clock: Clock, chains: CapabilityChains, redactor: Redactor) -> None:
        self._redactor = redactor
        self._ledger = ledger
        self._clock = clock
        self._chains = chains

    async def introspect(self, caller: Caller, chain: tuple[str, ...]) -> dict[str, Any]:
        """What a chain is worth now, and what each of its links may. Possession is not asked for.

        Of one whose signatures do not hold nothing is told but why.
        """
        presented = await self._chains.load_chain(caller.tenant, chain)
        rules = self._chains.rules(caller.tenant)
        now_ms = self._clock.now_ms()
        verified = presented.verified
        if isinstance(verified, TokenRefusal):
            return _inactive(verified)
        if presented.root is None:
            return {"active": False, "reason": "root_unknown", "link": 0, "component": None}
        refused = recheck(
            verified,
            now=now_ms // 1000,
            audience=rules.audience,
            issuer=rules.issuer,
            keys=rules.keys,
            revoked=rules.revoked,
            skew_seconds=rules.skew_seconds,
        )
        told = _inactive(refused) if refused is not None else _active(verified)
        links = await self._links_of(caller, verified, presented)
        return {**told, "links": await self._hops(links, rules)}

    async def introspect_link(self, caller: Caller, link_hash: str) -> dict[str, Any]:
        """The same of a link on record. Raises `NotFound`."""
        await self._chains.revocations.confirm()
        link = await self._ledger.find_link(caller.tenant, link_hash)
        if link is None:
            raise NotFound("there is no such link", code="capability.unknown")
        rules = self._chains.rules(caller.tenant)
        links = [*await self._above(link), link]
        hops = await self._hops(links, rules)
        now_ms = self._clock.now_ms()
        ended = [number for number, one in enumerate(links) if one.expires_at_ms <= now_ms]
        stopped = hops[-1]["revoked_by"]
        # As `recheck` of a chain says, and in its order.
        reason = None
        if _is_key_gone(links, rules):
            reason = Reason.KID_UNKNOWN.value
        elif ended:
            reason = Reason.EXPIRED.value
        elif stopped is not None:
            reason = f"revoked_{stopped['kind']}"
        return {"active": reason is None, "reason": reason, "links": hops}

    async def list_links(self, query: LinkQuery) -> ListedLinks:
        """A page of links on record, newest first, each with what stops it."""
        await self._chains.revocations.confirm()
        found = list(await self._ledger.find_links(replace(query, limit=query.limit + 1)))
        rules = self._chains.rules(query.tenant)
        page, more = found[: query.limit], len(found) > query.limit
        shown = []
        known: dict[str, LinkRecord] = {link.link_hash: link for link in found}
        for link in page:
            above = await self._above(link, known)
            shown.append(_link(link, above, rules))
        last = (page[-1].issued_at_ms, page[-1].link_hash) if page and more else None
        return ListedLinks(links=tuple(shown), next=last)

    async def tree(self, tenant: str, link_hash: str) -> dict[str, Any]:
        """Everything that is on record of the root that a link goes back to, as a tree. Raises `NotFound`."""
        await self._chains.revocations.confirm()
        link = await self._ledger.find_link(tenant, link_hash)
        if link is None:
            raise NotFound("there is no such link", code="capability.unknown")
        query = LinkQuery(tenant=tenant, root_hash=link.root_hash, limit=PAGE)
        links: list[LinkRecord] = []
        while (page := await self._ledger.find_links(query)) and len(links) <= MAX_TREE:
            links += page
            query = replace(query, after=(page[-1].issued_at_ms, page[-1].link_hash))
        rules = self._chains.rules(tenant)
        complete = len(links) <= MAX_TREE
        tree = LinkTree.of(links[:MAX_TREE])

        def node(one: LinkRecord) -> dict[str, Any]:
            below = [node(child) for child in tree.children.get(one.link_hash, ())]
            return {**_link(one, tree.above(one), rules), "children": below}

        return {"complete": complete, "roots": [node(root) for root in tree.children.get(None, ())]}

    async def _links_of(
        self, caller: Caller, verified: VerifiedChain, presented: Presented
    ) -> list[LinkRecord]:
        """Every link of a chain, those above a narrowed root included as far as they are on record."""
        assert presented.root is not None  # noqa: S101 - asked before
        above = [
            found
            for ancestor in verified.ancestors
            if (found := await self._ledger.find_link(caller.tenant, ancestor.link)) is not None
        ]
        return [*above, presented.root, *links_seen(verified, presented.root, caller, self._redactor)]

    async def _above(
        self, link: LinkRecord, known: dict[str, LinkRecord] | None = None
    ) -> tuple[LinkRecord, ...]:
        """The links above one, root first. What is found is put among those that are `known`."""
        known = {} if known is None else known
        found: list[LinkRecord] = []
        parent = link.parent_hash
        while parent is not None and len(found) < MAX_ABOVE:
            above = known.get(parent) or await self._ledger.find_link(link.tenant, parent)
            if above is None:
                break
            known[parent] = above
            found.append(above)
            parent = above.parent_hash
        return tuple(reversed(found))

    async def _hops(self, links: Sequence[LinkRecord], rules: TokenRules) -> list[dict[str, Any]]:
        """Each link with its entries, what it gave up, and what of its budgets is used."""
        entries = [entries_of(link) for link in links]
        used = await self._used(links, entries)
        hops = []
        for number, link in enumerate(links):
            above = links[number - 1] if number else None
            lost = None
            if above is not None:
                lost = gave_up(entries[number], entries[number - 1])
                if link.expires_at_ms < above.expires_at_ms:
                    lost["expiry"] = {
                        "from": rfc3339(above.expires_at_ms),
                        "to": rfc3339(link.expires_at_ms),
                    }
            hops.append(
                {
                    **_link(link, links[:number], rules),
                    "gave_up": lost,
                    "budgets": [
                        {"budget": budget.as_json, "used": used.get((link.link_hash, budget.digest), {})}
                        for budget in budgets_of(entries[number])
                    ],
                }
            )
        return hops

    async def _used(
        self, links: Sequence[LinkRecord], entries: Sequence[tuple[Entry, ...]]
    ) -> dict[tuple[str, str], dict[str, Any]]:
        """By link and budget: what is taken of each of its counters."""
        keys: dict[str, tuple[str, str, str]] = {}
        for link, own in zip(links, entries, strict=True):
            for budget in budgets_of(own):
                for what, key in counters_of(link.tenant, link.link_hash, budget).items():
                    keys[key] = (link.link_hash, budget.digest, what)
        found = await self._ledger.counters_used(list(keys)) if keys else {}
        used: dict[tuple[str, str], dict[str, Any]] = {}
        for key, (link_hash, digest, what) in keys.items():
            amount = found.get(key, 0)
            used.setdefault((link_hash, digest), {})[what] = _amount(amount) if what == "cost" else amount
        return used


def _is_key_gone(links: Sequence[LinkRecord], rules: TokenRules) -> bool:
    """Whether the key that signed the root of the last link's chain verifies nothing any more."""
    roots = [link for link in links if link.origin is not LinkOrigin.SEEN]
    # Of roots from before it was kept nothing is known.
    return bool(roots) and roots[-1].kid != "" and roots[-1].kid not in rules.keys


def _amount(micros: int) -> str:
    whole, part = divmod(micros, COST_SCALE)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")


def _active(chain: VerifiedChain) -> dict[str, Any]:
    """The members of RFC 7662 that a capability has: those of its leaf."""
    leaf = chain.leaf
    return {
        "active": True,
        "reason": None,
        "iss": chain.issuer,
        "aud": chain.audience,
        "sub": chain.subject,
        "act": {"sub": leaf.agent},
        "jti": leaf.jti,
        "iat": leaf.issued_at,
        "exp": chain.expires_at,
        "cnf": {"jkt": leaf.holder.thumbprint},
        "authorization_details": [dict(entry.as_json) for entry in leaf.entries],
        "depth": len(chain.handles) - 1,
        "hand_offs_left": max(0, chain.max_depth - chain.depth),
    }


def _inactive(refusal: TokenRefusal) -> dict[str, Any]:
    return {
        "active": False,
        "reason": refusal.reason.value,
        "link": refusal.link,
        "component": None if refusal.component is None else refusal.component.value,
    }


def _link(link: LinkRecord, above: Sequence[LinkRecord], rules: TokenRules) -> dict[str, Any]:
    """One link as answers show it. Nothing of it can be presented."""
    stopped = revoked_by(link, above, rules.revoked)
    return {
        "link": link.link_hash,
        "parent": link.parent_hash,
        "root": link.root_hash,
        "origin": link.origin.value,
        "jti": link.jti,
        "holder": link.holder,
        "agent": link.agent,
        "subject": link.subject,
        "depth": link.depth,
        "issued_at": rfc3339(link.issued_at_ms),
        "expires_at": rfc3339(link.expires_at_ms),
        "authorization_details": [dict(entry.as_json) for entry in entries_of(link)],
        "tools": dict(link.tool_digests),
        "child_trace_id": link.child_trace or None,
        "task": dict(link.task) if link.task is not None else None,
        "issued_by": link.issued_by,
        "revoked_by": None
        if stopped is None
        else {"kind": stopped[0].value, "value": stopped[1], "link": stopped[2]},
    }
