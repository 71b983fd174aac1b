"""What verification comes to: values that say who acts, for whom, with what, and under which handles."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from authz_client.capabilities.budgets import Budget
from authz_client.capabilities.claims import Ancestor
from authz_client.capabilities.entries import Entry
from authz_client.capabilities.keys import PublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLink:
    """One link whose signature, and whose fit under its parent, were checked."""

    agent: str
    holder: PublicKey
    link_hash: str
    jti: str
    issued_at: int
    expires_at: int
    not_before: int | None
    entries: tuple[Entry, ...]
    parents: tuple[int, ...]
    """For each entry the index of the parent's entry that it fits under; empty for the root."""
    depth: int

    handles: Ancestor
    """What it can be revoked by, and what a root that is narrowed from it carries in `anc`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debit:
    """One counter that a call is debited from: that of `budget` of the link, see `budgets`."""

    link: int
    link_hash: str
    budget: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedChain:
    """What a chain comes to. Valid at no time in particular: `recheck` says whether it is now."""

    issuer: str
    audience: str
    subject: str
    """On whose behalf: `sub`, the same along the chain."""
    root_kid: str
    root_key: PublicKey
    links: tuple[VerifiedLink, ...]
    """Root first."""
    ancestors: tuple[Ancestor, ...]
    """`anc` of the root."""
    leaf_hash: str
    """What a proof's `ath` is: SHA-256 over the whole leaf token."""
    max_depth: int
    """The deepest `del_depth` that a descendant may have."""

    @property
    def leaf(self) -> VerifiedLink:
        """The link that acts."""
        return self.links[-1]

    @property
    def agents(self) -> tuple[str, ...]:
        """Every agent of the chain, first those of `anc`: policy is evaluated for each, the meet taken."""
        return tuple(item.agent for item in self.handles)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What the leaf allows."""
        return self.leaf.entries

    @property
    def expires_at(self) -> int:
        """Seconds since 1970: the leaf's `exp`, which is the earliest of the chain."""
        return min(link.expires_at for link in self.links)

    @property
    def depth(self) -> int:
        """`del_depth` of the leaf."""
        return self.leaf.depth

    @property
    def handles(self) -> tuple[Ancestor, ...]:
        """By what any part of the chain can be revoked: `anc`, then every link."""
        return (*self.ancestors, *(link.handles for link in self.links))

    def root_entry(self, entry: int) -> int:
        """The entry of the root that the leaf's entry `entry` fits under."""
        for link in reversed(self.links):
            entry = link.parents[entry] if link.parents else entry
        return entry

    def debits(self, entry: int) -> tuple[Debit, ...]:
        """The budgets that a call under the leaf's entry `entry` is debited from, root first."""
        found = []
        for index in range(len(self.links) - 1, -1, -1):
            link = self.links[index]
            budget = link.entries[entry].budget
            if budget is not None:
                found.append(Debit(link=index, link_hash=link.link_hash, budget=budget))
            entry = link.parents[entry] if link.parents else 0
        return tuple(reversed(found))


def chain_digest(chain: Sequence[str]) -> str:
    """What a verified chain is remembered by: SHA-256 over the presented bytes, each link length-prefixed."""
    digest = hashlib.sha256()
    for token in chain:
        data = token.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
