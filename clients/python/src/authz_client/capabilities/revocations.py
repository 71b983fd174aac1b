"""What has been revoked, as a value: by link hash, by `jti`, by holder's key (`GET /revocations`).

A child chooses its own `jti`, which may equal a victim's, so the service resolves a revoked `jti` to link
hashes where it can. By `jti` here it stops any link that has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.claims import Ancestor, is_hash, is_name
from authz_client.capabilities.reasons import Reason, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocations:
    """Three sets; whatever one of them names is refused, with everything beneath it."""

    links: frozenset[str] = frozenset()
    """Link hashes."""
    jtis: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    """Thumbprints of holders' keys: the handle for children that were made offline."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is revoked."""
        return not (self.links or self.jtis or self.holders)


NOTHING_REVOKED: Final = Revocations()


def parse_revocations(value: Any) -> Revocations:
    """The list as `GET /revocations` gives it: `{"links": […], "jtis": […], "holders": […]}`.

    Raises `ValueError` for anything else: a list that is not understood must not read as an empty one.
    """
    if not isinstance(value, dict) or value.keys() != {"links", "jtis", "holders"}:
        raise ValueError("a revocation list has exactly `links`, `jtis` and `holders`")
    for name, is_one in (("links", is_hash), ("jtis", is_name), ("holders", is_hash)):
        if not isinstance(value[name], list) or not all(map(is_one, value[name])):
            raise ValueError(f"`{name}` of a revocation list holds something else than its identifiers")
    return Revocations(
        links=frozenset(value["links"]), jtis=frozenset(value["jtis"]), holders=frozenset(value["holders"])
    )


def check_revoked(ancestors: Iterable[Ancestor], revoked: Revocations) -> Refusal | None:
    """Refuse if any of these is revoked by any handle."""
    if revoked.is_empty:
        return None
    for item in ancestors:
        if item.link in revoked.links:
            return Refusal(reason=Reason.REVOKED_LINK, detail="a link of the chain is revoked")
        if item.jti in revoked.jtis:
            return Refusal(reason=Reason.REVOKED_JTI, detail="a link of the chain is revoked by its `jti`")
        if item.jkt in revoked.holders:
            return Refusal(reason=Reason.REVOKED_HOLDER, detail="the key of a link's holder is revoked")
    return None
