"""The context of an evaluation: its fields, and the part of them that the rules of an action read.

Cedar's cost grows with the context it is handed, so only what some candidate rule reads is told
(spec section 6: what Cedar is handed is sliced, and the slice is sound). A rule can read the
context only through `context.name` or `context has name`; where one uses `context` as a whole,
everything is told. The rules themselves are validated against the whole context at load.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from authz.core.cedar_values import Encoder
from authz.core.claims import BelievedClaims
from authz.core.provenance import UNDECLARED, ArgumentProvenance
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import Access
from authz.model.tool import Descriptor, Role

Reads = Mapping[str, frozenset[str] | None]
"""Top-level names that rules read, each with the members they read; `None` is the whole value."""

ROLE_NAMES: Final = (*(role.value for role in Role), UNDECLARED)
_STRINGS: Final = "Set<String>"
FIELDS: Final[Mapping[str, str | Mapping[str, str]]] = {
    "tool": "Tool",
    "scope": "String",
    "role": "String",
    "resolved": "Bool",
    "sandboxed": "Bool",
    "side_effect": "String",
    "undoable": "Bool",
    "untrusted": _STRINGS,
    "secret": _STRINGS,
    "sources": dict.fromkeys((*(role.value for role in Role), UNDECLARED), _STRINGS),
    "session": {"id": "String", "delegated": "Bool", "exposed": _STRINGS},
    "capability": {
        "presented": "Bool",
        "depth?": "Long",
        "holder?": "String",
        "root?": "String",
        "expires_at?": "datetime",
    },
    "now": "datetime",
}
"""Every field of the context of a call besides `arguments`, with its Cedar type."""
ISSUE_ONLY_FIELDS: Final[Mapping[str, str | Mapping[str, str]]] = {
    "verbs": _STRINGS,
    "tools": _STRINGS,
    "lifetime_seconds": "Long",
    "max_depth": "Long",
    "has_budget": "Bool",
    "profile": "String",
}
"""What a rule about issuing capabilities sees besides: what is asked for, and by whom."""
ISSUE_FIELDS: Final[Mapping[str, str | Mapping[str, str]]] = {**FIELDS, **ISSUE_ONLY_FIELDS}
"""Every field of the context of `issue`. Those of a call are there too, saying that nothing is known, so that
a rule about every action can be asked about this one as well."""
APPROVE_ONLY_FIELDS: Final[Mapping[str, str | Mapping[str, str]]] = {
    "requester": {"agent": "Agent", "on_behalf_of": "User", "agents": "Set<Agent>"},
    "verb": "String",
    "authority": "String",
    "asked_by": _STRINGS,
}
"""What a rule about approving sees besides: who asks (`agents` are all that have a part in the call), for
what, at which level, and by which rules."""
APPROVE_FIELDS: Final[Mapping[str, str | Mapping[str, str]]] = {**FIELDS, **APPROVE_ONLY_FIELDS}
"""Every field of the context in which somebody approves a call: that of the call, and who asks for what."""
EVERY_FIELD: Final = frozenset({"arguments", *ISSUE_FIELDS, *APPROVE_FIELDS})
"""The names of all that a context can hold."""


def rfc3339(at_ms: int) -> str:
    """`2026-11-30T10:00:00.123Z`: RFC 3339 in UTC with milliseconds."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{_rfc3339_seconds(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def _rfc3339_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def cedar_datetime(at_ms: int) -> dict[str, Any]:
    """A Cedar `datetime`. Only this form is accepted by Cedar: UTC, milliseconds, `Z`."""
    return {"__extn": {"fn": "datetime", "arg": rfc3339(at_ms)}}


def context_type(
    arguments: Encoder,
    reads: Reads | None = None,
    fields: Mapping[str, str | Mapping[str, str]] = FIELDS,
    declared: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The Cedar type of the context, or of the part of it in `reads`.

    `declared` are the names of fields whose types are declared elsewhere, each with that of its type.
    """
    parts = []
    if reads is None or "arguments" in reads:
        names = reads["arguments"] if reads is not None else None
        parts.append(f"arguments: {declared.get('arguments') or arguments.only(names).cedar_type}")
    for name, kind in fields.items():
        if reads is not None and name not in reads:
            continue
        chosen = reads[name] if reads is not None else None
        told = declared.get(name) or (kind if isinstance(kind, str) else record_type(kind, chosen))
        parts.append(f"{name}: {told}")
    return "{" + ", ".join(parts) + "}"


def record_type(members: Mapping[str, str], chosen: frozenset[str] | None = None) -> str:
    """The Cedar type of a record, or of the `chosen` of its members."""
    told = (
        f"{name}: {kind}" for name, kind in members.items() if chosen is None or name.rstrip("?") in chosen
    )
    return "{" + ", ".join(told) + "}"


def told_part(values: Mapping[str, Any], reads: Reads) -> dict[str, Any]:
    """The part of a whole context, as Cedar's JSON, that is in `reads`."""
    found: dict[str, Any] = {}
    for name, members in reads.items():
        # What no schema has can only stand where no evaluation gets to, so nothing is told of it.
        if name in values:
            value = values[name]
            is_record = isinstance(value, dict) and not value.keys() & {"__entity", "__extn"}
            if members is not None and is_record:
                value = {key: value[key] for key in value if key in members}
            found[name] = value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFacts:
    """Everything that the contexts of one call's accesses are made of."""

    call: Call
    descriptor: Descriptor
    arguments: Mapping[str, Any]
    provenance: ArgumentProvenance
    believed: BelievedClaims
    capability: CapabilityFacts
    exposed: frozenset[str]
    delegated: bool
    """See `authz.core.delegation`."""
    now_ms: int


def context_values(
    facts: ContextFacts, access: Access, arguments: Encoder, reads: Reads | None
) -> dict[str, Any]:
    """The context of one access in Cedar's JSON.

    Raises `TypeError` when an argument does not fit its schema type, which validation has ruled out.
    """
    values: dict[str, Any] = {}
    if reads is None or "arguments" in reads:
        names = reads["arguments"] if reads is not None else None
        values["arguments"] = arguments.only(names).encode(facts.arguments)
    for name in FIELDS if reads is None else reads:
        # What no schema has can only stand where no evaluation gets to, so nothing is told of it.
        if name not in FIELDS:
            continue
        value = _PRODUCERS[name](facts, access)
        chosen = reads[name] if reads is not None else None
        if chosen is not None and not isinstance(FIELDS[name], str):
            value = {member: item for member, item in value.items() if member in chosen}
        values[name] = value
    return values


def _capability(facts: ContextFacts, access: Access) -> dict[str, Any]:
    capability = facts.capability
    told: dict[str, Any] = {"presented": capability.presented}
    for name in ("depth", "holder", "root"):
        value = getattr(capability, name)
        if value is not None:
            told[name] = value
    if capability.expires_at_ms is not None:
        told["expires_at"] = cedar_datetime(capability.expires_at_ms)
    return told


_PRODUCERS: Final[Mapping[str, Callable[[ContextFacts, Access], Any]]] = {
    "tool": lambda facts, _: {"__entity": {"type": "Tool", "id": facts.descriptor.qualified_name}},
    "scope": lambda _, access: access.scope.value,
    "role": lambda _, access: access.role,
    "resolved": lambda _, access: access.resolved,
    "sandboxed": lambda facts, _: facts.believed.sandbox_root is not None,
    "side_effect": lambda facts, _: facts.descriptor.side_effect.value,
    "undoable": lambda facts, _: facts.descriptor.is_undoable,
    "untrusted": lambda facts, _: sorted(facts.provenance.untrusted),
    "secret": lambda facts, _: sorted(facts.provenance.secret),
    "sources": lambda facts, _: {role: sorted(facts.provenance.sources.get(role, ())) for role in ROLE_NAMES},
    "session": lambda facts, _: {
        "id": facts.call.subject.session or "",
        "delegated": facts.delegated,
        "exposed": sorted(facts.exposed),
    },
    "capability": _capability,
    "now": lambda facts, _: cedar_datetime(facts.now_ms),
}
