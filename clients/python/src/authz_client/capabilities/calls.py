"""A call against the entries of a capability (stage 6 of a decision, and whoever checks a plan offline)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from authz_client.capabilities.constraints import unmet_member
from authz_client.capabilities.entries import Entry
from authz_client.capabilities.objects import parse_object
from authz_client.capabilities.reasons import Component, Reason, Refusal
from authz_client.capabilities.rights import split_tool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAccess:
    """One access of a call. A tree is judged at its root: what contains that contains what is beneath it."""

    verb: str
    uri: str
    """Canonical. An `opaque:` URI lies in no location."""
    argument: str = ""
    """JSON Pointer of the argument that names the resource; empty where none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What entries are held against: canonical values, as a decision has them."""

    tool: str
    """`server/name`."""
    accesses: tuple[CallAccess, ...]
    arguments: Mapping[str, Any]
    """Canonical, with defaults."""

    def uris_at(self, pointer: str, value: Any) -> Iterable[str] | None:
        """The canonical URIs that the argument at `pointer` names; `None` where it names none.

        Those of the accesses that stand there. An argument that is no access is taken by its own spelling: a
        canonical URI, or an absolute path; of a list every item counts.
        """
        found = [access.uri for access in self.accesses if access.argument == pointer]
        if found:
            return found
        if isinstance(value, list):
            for index, item in enumerate(value):
                inner = self.uris_at(f"{pointer}/{index}", item)
                if inner is None:
                    return None
                found.extend(inner)
            return found
        if not isinstance(value, str):
            return None
        if value.startswith("/"):
            value = "file://" + quote(value, safe="!$&'()*+,;=:@/", errors="surrogatepass")
        return [value] if parse_object(value) is not None else None


def check_access(entry: Entry, call: ToolCall, access: CallAccess) -> Refusal | None:
    """Refuse an access that `entry` does not allow, naming R, O or P."""
    tool = split_tool(call.tool)
    if tool is None or not any(
        right.covers(server=tool[0], name=tool[1], verb=access.verb) for right in entry.rights
    ):
        return Refusal(
            reason=Reason.RIGHT_MISSING,
            component=Component.RIGHTS,
            detail=f"no right to `{access.verb}` with `{call.tool}`",
        )
    item = parse_object(access.uri)
    if item is None or not any(item.lies_in(place) for place in entry.locations):
        return Refusal(
            reason=Reason.OBJECT_OUTSIDE,
            component=Component.OBJECTS,
            detail=f"`{access.uri}` lies in none of the locations",
        )
    for condition in entry.conditions.values():
        if member := unmet_member(condition, call.arguments, call.uris_at):
            return Refusal(
                reason=Reason.CONSTRAINT_UNMET,
                component=Component.PREDICATE,
                detail=f"`{condition.pointer}`: `{member}`",
            )
    return None


def allows(entry: Entry, call: ToolCall) -> bool:
    """Whether one entry alone allows every access of `call`, of which there is at least one."""
    return bool(call.accesses) and all(check_access(entry, call, access) is None for access in call.accesses)


_NEARNESS = {Component.RIGHTS: 0, Component.OBJECTS: 1, Component.PREDICATE: 2, Component.EXPIRY: 3}


def check_call(entries: Sequence[Entry], call: ToolCall) -> tuple[int, ...] | Refusal:
    """For each access of `call` the first entry that allows it; or why the first that none allows is refused.

    The refusal is about the entry that comes nearest, like that of `fit`. Without an access, or without an
    entry, there is nothing that could allow the call.
    """
    used = []
    for access in call.accesses:
        nearest: Refusal | None = None
        for position, entry in enumerate(entries):
            refused = check_access(entry, call, access)
            if refused is None:
                used.append(position)
                break
            if nearest is None or _distance(refused) > _distance(nearest):
                nearest = refused
        else:
            return nearest or _nothing("the capability has no entry")
    return tuple(used) if used else _nothing("the call has no access that a right could cover")


def _distance(refusal: Refusal) -> int:
    return -1 if refusal.component is None else _NEARNESS[refusal.component]


def _nothing(detail: str) -> Refusal:
    return Refusal(reason=Reason.RIGHT_MISSING, component=Component.RIGHTS, detail=detail)
