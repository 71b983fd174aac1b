"""Filtering advertised catalogues: list and call agree (spec section 3, `POST /tools/visible`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from authz.core.fingerprint import advertised_digest
from authz.core.ruleset import Ruleset, Tool
from authz.core.visibility import hidden_because
from authz.model.call import Subject
from authz.model.caller import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleEntry:
    """One entry of a catalogue that the subject may see."""

    name: str
    entry: Mapping[str, Any]
    digest: str
    """The advertised digest, to be sent with each call of the tool."""


def visible_entries(
    ruleset: Ruleset,
    profile: Profile,
    subject: Subject,
    alias: str,
    advertised: Sequence[Mapping[str, Any]] | None,
) -> list[VisibleEntry]:
    """The entries that this subject could ever be allowed, in the order they were sent."""
    server = ruleset.servers.get(alias)
    if server is None or profile.name not in server.profiles:
        return []
    if advertised is None:
        if not server.local:
            return []
        advertised = [
            _reviewed_entry(tool) for tool in ruleset.tools.values() if tool.descriptor.server is server
        ]
    repeated = _repeated(entry.get("name") for entry in advertised)
    found = []
    for entry in advertised:
        name = entry.get("name")
        # A name that stands twice is ambiguous: neither of the two can be called.
        if not isinstance(name, str) or name in repeated:
            continue
        tool = ruleset.tools.get((alias, name))
        if tool is None:
            continue
        digest = advertised_digest(entry)
        pinned = tool.descriptor.advertised_digest
        if pinned is not None and digest != pinned:
            continue
        if hidden_because(ruleset, tool, subject.agent, subject.on_behalf_of) is None:
            found.append(VisibleEntry(name=name, entry=entry, digest=digest))
    return found


def _repeated(names: Iterable[Any]) -> set[Any]:
    seen: set[Any] = set()
    twice: set[Any] = set()
    for name in names:
        if isinstance(name, str):
            (twice if name in seen else seen).add(name)
    return twice


def _reviewed_entry(tool: Tool) -> dict[str, Any]:
    """A local tool as its server would advertise it, from the reviewed descriptor."""
    descriptor = tool.descriptor
    return {
        "name": descriptor.name,
        "description": descriptor.description,
        "inputSchema": descriptor.input_schema,
    }
