"""The bundle's people, groups and agents, and the slice of them that one evaluation needs.

The slice is closed over parents, the user behind the agent, and the literals that conditions look
into (spec section 6: leaving one out could turn a forbid into nothing).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from authz.core.canonical import canonicalize
from authz.model.resource import Base, NotCanonical, Resource

NO_USER: Final = ""
"""Id of the user that an agent acts for when the call names none. No request can assert it."""
CACHED_PRINCIPALS: Final = 1024

Uid = tuple[str, str]
PreparedEntities = Any
"""Entities as the engine has parsed them; opaque to everyone else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonOrGroup:
    """One `Agent`, `User` or `Group` of the bundle."""

    uid: Uid
    parents: tuple[str, ...] = ()
    """Ids of groups."""
    tags: Mapping[str, str] = field(default_factory=dict)


class EntityDirectory:
    """Looks up the entities of a bundle. The cache holds what the bundle alone decides."""

    def __init__(
        self,
        members: Iterable[PersonOrGroup],
        literals: Iterable[Uid],
        prepare: Callable[[str], PreparedEntities],
        tools: Mapping[str, bytes],
    ) -> None:
        """`prepare` parses Cedar JSON once, for use in many evaluations. `tools` are `Tool` entities."""
        self._members = {member.uid: member for member in members}
        self._literals = sorted(literals)
        self._prepare = prepare
        self._tools = tools
        self._cache: OrderedDict[tuple[str, str], PreparedEntities] = OrderedDict()

    def principal(self, agent: str, user: str | None) -> PreparedEntities:
        """Everything besides the resources that an evaluation for this agent and user could look into."""
        key = (agent, user or NO_USER)
        found = self._cache.get(key)
        if found is not None:
            self._cache.move_to_end(key)
        else:
            found = self._prepare(join_documents(self._load(*key)))
            self._cache[key] = found
            if len(self._cache) > CACHED_PRINCIPALS:
                self._cache.popitem(last=False)
        return found

    def _load(self, agent: str, user: str) -> Mapping[Uid, bytes]:
        loaded: dict[Uid, bytes] = {}
        pending: list[Uid] = [("User", user)]
        self._add_agent(loaded, agent, user)
        for uid in self._literals:
            if uid[0] == "Agent" and uid[1] != agent:
                self._add_agent(loaded, uid[1], NO_USER)
            elif uid[0] in ("User", "Group"):
                pending.append(uid)
            elif uid[0] == "Tool" and uid[1] in self._tools:
                loaded[uid] = self._tools[uid[1]]
            else:
                loaded.update(_literal_chain(uid))
        while pending:
            uid = pending.pop()
            if uid in loaded:
                continue
            member = self._members.get(uid, PersonOrGroup(uid=uid))
            loaded[uid] = _document(uid, {}, self._groups(member), member.tags)
        return loaded

    def _groups(self, member: PersonOrGroup) -> list[Uid]:
        """Every group that the member is in, directly or through other groups."""
        found: dict[str, None] = {}
        pending = list(member.parents)
        while pending:
            group = pending.pop()
            if group not in found:
                found[group] = None
                pending += self._members.get(("Group", group), PersonOrGroup(uid=("Group", group))).parents
        return [("Group", group) for group in sorted(found)]

    def _add_agent(self, loaded: dict[Uid, bytes], agent: str, user: str) -> None:
        uid = ("Agent", agent)
        member = self._members.get(uid, PersonOrGroup(uid=uid))
        attributes = {"on_behalf_of": {"__entity": {"type": "User", "id": user}}}
        loaded[uid] = _document(uid, attributes, self._groups(member), member.tags)


def _literal_chain(uid: Uid) -> Mapping[Uid, bytes]:
    """The chain of a resource literal, whose ancestors follow from its own spelling."""
    if uid[0] == "Object":
        object_type, _, value = uid[1].partition(":")
        return _chain_documents(canonicalize("id", value, Base(), object_type=object_type))
    kinds = {"File": "path", "Directory": "path", "Endpoint": "url", "UrlPath": "url", "Host": "host"}
    kind = kinds.get(uid[0]) or {"Domain": "host", "Mailbox": "email"}.get(uid[0])
    if kind is None:
        return {}
    return _chain_documents(canonicalize(kind, uid[1], Base()))


def _chain_documents(found: tuple[Resource, ...] | NotCanonical) -> Mapping[Uid, bytes]:
    if isinstance(found, NotCanonical):
        return {}
    loaded = {}
    for resource in found:
        for index, entity in enumerate(resource.chain):
            parents = [(above.type, above.id) for above in resource.chain[index + 1 :]]
            loaded[(entity.type, entity.id)] = _document(
                (entity.type, entity.id), entity.attributes, parents, None
            )
    return loaded


def resource_document(resource: Resource) -> bytes:
    """A resource as Cedar JSON, with all of its ancestors as parents.

    The ancestors themselves are not handed over: a rule can reach them only as literals, and
    literals that are looked into are loaded by `EntityDirectory`.
    """
    entity, *ancestors = resource.chain
    return _document(
        (entity.type, entity.id), entity.attributes, [(above.type, above.id) for above in ancestors], None
    )


def join_documents(documents: Mapping[Uid, bytes]) -> str:
    """Entities as one Cedar JSON document."""
    return (b"[" + b",".join(documents.values()) + b"]").decode()


def tool_document(tool: str, server: str, name: str) -> bytes:
    """The `Tool` entity of a descriptor as Cedar JSON."""
    return _document(("Tool", tool), {"server": server, "name": name}, [], None)


def _document(
    uid: Uid, attributes: Mapping[str, Any], parents: Iterable[Uid], tags: Mapping[str, str] | None
) -> bytes:
    # Attribute values are strings, numbers and booleans of our own making, or `__entity` from here:
    # nothing that a model wrote is ever an object in this document.
    document: dict[str, Any] = {
        "uid": {"type": uid[0], "id": uid[1]},
        "attrs": attributes,
        "parents": [{"type": kind, "id": name} for kind, name in parents],
    }
    if tags:
        document["tags"] = tags
    return orjson.dumps(document)
