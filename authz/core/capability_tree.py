"""Links on record as a tree: what lies beneath which, what stops each, what each hop gave up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from authz_client.capabilities import Budget, Entry, Revocations, parse_entries
from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities.constraints import same_json
from authz_client.capabilities.entries import fit

from authz.core.budget import counter_key
from authz.model.capability import LinkRecord, RevocationKind


def entries_of(link: LinkRecord) -> tuple[Entry, ...]:
    """The entries of a link on record. Raises `LookupError` for one that does not hold what was signed."""
    found = parse_entries(orjson.loads(link.details))
    if isinstance(found, TokenRefusal):
        raise LookupError(f"the record of a link cannot be read: {found.reason}")  # noqa: TRY004 - no type is wrong
    return found


def revoked_by(
    link: LinkRecord, above: Iterable[LinkRecord], revoked: Revocations
) -> tuple[RevocationKind, str, str] | None:
    """(handle, its value, the link that has it) of the first revocation that stops a link, root first."""
    for one in (*above, link):
        for kind, value, named in (
            (RevocationKind.LINK, one.link_hash, revoked.links),
            (RevocationKind.JTI, one.jti, revoked.jtis),
            (RevocationKind.HOLDER, one.holder, revoked.holders),
        ):
            if value in named:
                return kind, value, one.link_hash
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTree:
    """Links of one root, by who is whose parent. Immutable."""

    links: Mapping[str, LinkRecord]
    children: Mapping[str | None, tuple[LinkRecord, ...]]

    @classmethod
    def of(cls, links: Iterable[LinkRecord]) -> "LinkTree":
        """The tree of these links. One whose parent is not among them stands at the top."""
        known = {link.link_hash: link for link in links}
        children: dict[str | None, list[LinkRecord]] = {}
        for link in known.values():
            above = link.parent_hash if link.parent_hash in known else None
            children.setdefault(above, []).append(link)
        return cls(
            links=known,
            children={
                above: tuple(sorted(below, key=lambda link: (link.issued_at_ms, link.link_hash)))
                for above, below in children.items()
            },
        )

    def above(self, link: LinkRecord) -> tuple[LinkRecord, ...]:
        """The links above one, root first."""
        found: list[LinkRecord] = []
        seen = {link.link_hash}
        while link.parent_hash is not None and link.parent_hash in self.links:
            link = self.links[link.parent_hash]
            if link.link_hash in seen:
                break
            seen.add(link.link_hash)
            found.append(link)
        return tuple(reversed(found))

    def beneath(self, *link_hashes: str) -> Iterator[LinkRecord]:
        """Every link under any of these, once, whoever made it; none of these itself."""
        pending = list(link_hashes)
        seen = set(link_hashes)
        while pending:
            for link in self.children.get(pending.pop(), ()):
                if link.link_hash not in seen:
                    seen.add(link.link_hash)
                    pending.append(link.link_hash)
                    yield link


def budgets_of(entries: Sequence[Entry]) -> tuple[Budget, ...]:
    """The budgets of a link: each has counters of its own, however many entries state it."""
    found = {entry.budget.digest: entry.budget for entry in entries if entry.budget is not None}
    return tuple(found.values())


def counters_of(tenant: str, link_hash: str, budget: Budget) -> dict[str, str]:
    """The keys of a budget's counters, by what they count."""
    counted = {
        "calls": budget.calls is not None,
        "rate": budget.rate_calls is not None,
        "cost": budget.cost_micros is not None,
    }
    return {
        what: counter_key(tenant, link_hash, budget, what) for what, is_there in counted.items() if is_there
    }


def gave_up(child: Sequence[Entry], parent: Sequence[Entry]) -> dict[str, Any]:
    """What the link above had and this one has not, by R, O, P and budget; empty where that is nothing.

    In the shape of `authz capabilities show`.
    """
    parents = fit(child, parent)
    if isinstance(parents, TokenRefusal):
        return {"wider": parents.detail}
    changed: dict[str, list[dict[str, Any]]] = {"rights": [], "objects": [], "predicate": [], "budget": []}
    for number, position in enumerate(parents):
        mine, whose = child[number], parent[position]
        before = [right.text for right in whose.rights]
        changed["rights"] += _changed(number, before, [right.text for right in mine.rights])
        before = [place.uri for place in whose.locations]
        changed["objects"] += _changed(number, before, [place.uri for place in mine.locations])
        changed["predicate"] += _conditions(number, mine, whose)
        budgets = [None if one.budget is None else one.budget.as_json for one in (whose, mine)]
        if not same_json(*budgets):
            changed["budget"].append({"entry": number, "from": budgets[0], "to": budgets[1]})
    found: dict[str, Any] = {name: items for name, items in changed.items() if items}
    unused = sorted(set(range(len(parent))) - set(parents))
    if unused:
        found["entries"] = [dict(parent[number].as_json) for number in unused]
    return found


def _changed(number: int, before: list[str], after: list[str]) -> list[dict[str, Any]]:
    if set(before) == set(after):
        return []
    lost = [text for text in before if text not in after]
    instead = [text for text in after if text not in before]
    return [{"entry": number, "from": before, "to": after, "lost": lost, "instead": instead}]


def _conditions(number: int, mine: Entry, whose: Entry) -> Iterator[dict[str, Any]]:
    for pointer, condition in mine.conditions.items():
        before = whose.conditions.get(pointer)
        old = None if before is None else dict(before.members)
        if old is None or not same_json(dict(condition.members), old):
            yield {"entry": number, "pointer": pointer, "from": old, "to": dict(condition.members)}
