"""What the caller says about itself is believed only within what the bundle lets it declare.

Spec sections 1 and 2 (stage 0 and "claim"). Beyond that, changes are A3 and values are untrusted.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from authz.core.canonical import canonicalize
from authz.model.call import Call, Claims, Subject
from authz.model.caller import Profile
from authz.model.resource import Base, NotCanonical, Resource, Volume

ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class BelievedClaims:
    """The part of `Claims` that this credential may declare."""

    base: Base
    sandbox_root: str | None
    """Entity id of the believed sandbox directory, to be looked for among a file's ancestors."""
    resolved: bool
    """Whether this credential's word counts on where paths really lie. Both forms are judged anyway."""
    disbelieved: tuple[str, ...]
    """Names of claims that were made and not believed."""
    confined: bool = False
    """Whether programs run in the believed sandbox, and cannot leave it."""


def check_subject(call: Call, profile: Profile) -> str | None:
    """Why the credential may not assert the call's subject, or `None` when it may (stage 0)."""
    return check_subject_of(call.subject, profile)


def check_subject_of(subject: Subject, profile: Profile) -> str | None:
    """Why the credential may not assert this subject, or `None` when it may."""
    if not _permits(profile.agents, subject.agent):
        return "this credential may not act as that agent"
    if subject.on_behalf_of is not None and not _permits(profile.users, subject.on_behalf_of):
        return "this credential may not act on behalf of that user"
    return None


def _permits(listed: frozenset[str], name: str) -> bool:
    return ANY in listed or name in listed


def check_claims(claims: Claims, profile: Profile) -> BelievedClaims:
    """What of `claims` is believed. An unbelieved directory is unknown, not a default."""
    volume = profile.volume
    disbelieved: list[str] = []

    def believe(name: str, value: str | None) -> Resource | None:
        if value is None:
            return None
        path = _within(value, profile.sandboxes, volume)
        if path is None:
            disbelieved.append(name)
        return path

    cwd = believe("cwd", claims.cwd)
    root = believe("sandbox_root", claims.sandbox_root)
    return BelievedClaims(
        base=Base(
            cwd=cwd.value if cwd else None,
            root=root.value if root else None,
            home=profile.home,
            volume=volume,
        ),
        sandbox_root=root.entity.id if root else None,
        resolved=profile.resolves,
        disbelieved=tuple(disbelieved),
        confined=profile.confines and root is not None,
    )


_REMEMBERED_CHARACTERS: Final = 128
_REMEMBERED_DEPTH: Final = 24
"""Longer and deeper directories are not remembered, so that nobody can fill memory with what they lie in: of
1,024, at most 26 entities each, which is some 8 MB."""


def _within(value: str, directories: tuple[str, ...], volume: Volume) -> Resource | None:
    small = len(value) <= _REMEMBERED_CHARACTERS and value.count("/") <= _REMEMBERED_DEPTH
    return (_known_within if small else _look_within)(value, directories, volume)


def _look_within(value: str, directories: tuple[str, ...], volume: Volume) -> Resource | None:
    found = canonicalize("path", value, Base(volume=volume))
    if isinstance(found, NotCanonical) or len(found) != 1:
        return None
    allowed = set(directories)
    if any(entity.type == "Directory" and entity.id in allowed for entity in found[0].chain):
        return found[0]
    return None


_known_within = lru_cache(maxsize=1024)(_look_within)
