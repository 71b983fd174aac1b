"""The rule that every bundle gets: what decides is out of every agent's reach, whatever the allow.

Spec section 6, last item. The shipped rules protect well-known places; this one protects where the
bundle, the keys and this service really are in this process.
"""

from dataclasses import dataclass
from typing import Final

from authz.core.canonical.host import LOOPBACK_NAMES
from authz.core.canonical.path import canonical_directory
from authz.model.resource import Volume, escape_cedar

SELF_FILE: Final = "(built in)"
SELF_RULE: Final = "authz.self-protection"
_VOLUMES: Final = tuple(
    Volume(case_sensitive=sensitive, normalization=form)
    for sensitive in (True, False)
    for form in ("none", "nfc")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """Places of this process. Paths are canonical and absolute; ports are on loopback."""

    directories: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    port: int | None = None
    non_global_addresses: bool = False
    """Whether every address that is not global counts as this machine's: for a listener on all of them."""
    public: tuple[str, int] | None = None
    """(id of a `Host`, port) where a proxy may stand before this process."""


def protecting_rules(protected: Protected) -> str:
    """The rule as Cedar text. Without any place it still stands, and never matches."""
    conditions = []
    # Where a volume folds case or composes letters, files are known by their keys.
    paths = sorted(
        key
        for path in protected.directories | protected.files
        for key in {path, *(canonical_directory(path, volume) for volume in _VOLUMES)}
        if isinstance(key, str)
    )
    if paths:
        inside = " || ".join(f'resource in Directory::"{escape_cedar(path)}"' for path in paths)
        conditions.append(f"(resource is File && ({inside}))")
    if protected.port is not None:
        # By class and not by name alone: every loopback address reaches this process.
        here = '["loopback", "unspecified"].contains(resource.class)'
        here += ' || resource.host_class == "localhost-name"'
        if protected.non_global_addresses:
            here += ' || resource.host_class == "non-global-address"'
        here += ' || resource in Domain::"localhost.localdomain"'
        for host in sorted(protected.hosts | LOOPBACK_NAMES):
            here += f' || resource in Host::"{escape_cedar(host)}"'
        port = protected.port
        conditions.append(f"(resource is Endpoint && resource.port == {port} && ({here}))")
        conditions.append(
            f"(resource is Host && (resource.port == {port} || resource.port == 0) && ({here}))"
        )
    if protected.public is not None:
        host, port = protected.public
        there = f'resource in Host::"{escape_cedar(host)}"'
        conditions.append(f"(resource is Endpoint && resource.port == {port} && {there})")
        conditions.append(f"(resource is Host && (resource.port == {port} || resource.port == 0) && {there})")
    return f"""\
@id("{SELF_RULE}")
@reason("This is where authorization is decided; no agent may reach it.")
forbid (principal, action, resource)
when {{ {" || ".join(conditions) or "false"} }};
"""
