"""A call against the entries of a capability (stage 6 of a decision, and whoever checks a plan offline)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from urllib.parse import quote

from authz_client.capabilities.constraints import unmet_member
from authz_client.capabilities.entries import Entry
from authz_client.capabilities.objects import Object, parse_object
from authz_client.capabilities.reasons import Component, Reason, Refusal, nearness
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


class CallCheck:
    """One call, held against entries: whatever does not depend on both is found once.

    A holder chooses how many entries and conditions there are, and the call how many accesses: so a
    condition, which is about the arguments alone, is looked at once for each entry and not for each access.
    """

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        tool = split_tool(call.tool)
        self._rights = {
            verb: frozenset(product((None, tool[0]), (None, tool[1]), (None, verb)))
            for verb in {access.verb for access in call.accesses}
            if tool is not None
        }
        """By verb: the keys of all rights that cover it."""
        self._uris: dict[str, list[str]] = {}
        """By the argument that names them."""
        for access in call.accesses:
            self._uris.setdefault(access.argument, []).append(access.uri)
        self._objects: dict[str, Object | None] = {}
        self._unmet: dict[int, tuple[Entry, Refusal | None]] = {}
        """By entry, which is kept so that no other one is taken for it."""

    def refusal(self, entry: Entry, access: CallAccess) -> Refusal | None:
        """Refuse an access that `entry` does not allow, naming R, O or P."""
        covering = self._rights.get(access.verb)
        if covering is None or entry.right_keys.isdisjoint(covering):
            return Refusal(
                reason=Reason.RIGHT_MISSING,
                component=Component.RIGHTS,
                detail=f"no right to `{access.verb}` with `{self.call.tool}`",
            )
        item = self._object(access.uri)
        if item is None or entry.location_keys.isdisjoint(item.above):
            return Refusal(
                reason=Reason.OBJECT_OUTSIDE,
                component=Component.OBJECTS,
                detail=f"`{access.uri}` lies in none of the locations",
            )
        found = self._unmet.get(id(entry))
        if found is None:
            found = self._unmet[id(entry)] = (entry, self._unmet_condition(entry))
        return found[1]

    def _unmet_condition(self, entry: Entry) -> Refusal | None:
        for condition in entry.conditions.values():
            if member := unmet_member(condition, self.call.arguments, self._uris_at):
                return Refusal(
                    reason=Reason.CONSTRAINT_UNMET,
                    component=Component.PREDICATE,
                    detail=f"`{condition.pointer}`: `{member}`",
                )
        return None

    def _uris_at(self, pointer: str, value: Any) -> Iterable[str] | None:
        """The canonical URIs that the argument at `pointer` names; `None` where it names none.

        Those of the accesses that stand there. An argument that is no access is taken by its own spelling: a
        canonical URI, or an absolute path; of a list every item counts.
        """
        if known := self._uris.get(pointer):
            return known
        if isinstance(value, list):
            found: list[str] = []
            for index, item in enumerate(value):
                inner = self._uris_at(f"{pointer}/{index}", item)
                if inner is None:
                    return None
                found.extend(inner)
            return found
        if not isinstance(value, str):
            return None
        if value.startswith("/"):
            value = "file://" + quote(value, safe="!$&'()*+,;=:@/", errors="surrogatepass")
        return [value] if parse_object(value) is not None else None

    def _object(self, uri: str) -> Object | None:
        if uri not in self._objects:
            self._objects[uri] = parse_object(uri)
        return self._objects[uri]


def check_access(entry: Entry, call: ToolCall, access: CallAccess) -> Refusal | None:
    """Refuse one access that `entry` does not allow. For several of a call: `CallCheck`."""
    return CallCheck(call).refusal(entry, access)


def allows(entry: Entry, call: ToolCall) -> bool:
    """Whether one entry alone allows every access of `call`, of which there is at least one."""
    check = CallCheck(call)
    return bool(call.accesses) and all(check.refusal(entry, access) is None for access in call.accesses)


def check_call(entries: Sequence[Entry], call: ToolCall) -> tuple[int, ...] | Refusal:
    """For each access of `call` the first entry that allows it; or why the first that none allows is refused.

    The refusal is about the entry that comes nearest, like that of `fit`. Without an access, or without an
    entry, there is nothing that could allow the call.
    """
    used = []
    check = CallCheck(call)
    for access in call.accesses:
        nearest: Refusal | None = None
        for position, entry in enumerate(entries):
            refused = check.refusal(entry, access)
            if refused is None:
                used.append(position)
                break
            if nearest is None or nearness(refused.component) > nearness(nearest.component):
                nearest = refused
        else:
            return nearest or _nothing("the capability has no entry")
    return tuple(used) if used else _nothing("the call has no access that a right could cover")


def _nothing(detail: str) -> Refusal:
    return Refusal(reason=Reason.RIGHT_MISSING, component=Component.RIGHTS, detail=detail)
