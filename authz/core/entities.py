"""The bundle's people, groups and agents, and the slice of them that one evaluation needs.

The slice is closed over parents, attribute values (the user behind an agent), and the literals that
conditions look into (spec section 6: leaving one out could turn a forbid into nothing).
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from authz.core.canonical import literal_resource
from authz.model.resource import Entity, Resource

NO_USER: Final = ""
"""Id of the user that an agent acts for when the call names none. No request can assert it."""
CACHED_PRINCIPALS: Final = 1024

_UNLOADED: Final = frozenset({"Action", "ObjectType", "Opaque", "Tool"})
"""Types of literals of which nothing is loaded here: their entities come with the schema, have nothing that
could be looked into, or are known only to the call that names them, or to nobody."""

Uid = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonOrGroup:
    """One `Agent`, `User` or `Group` of the bundle."""

    uid: Uid
    parents: tuple[str, ...] = ()
    """Ids of groups."""
    tags: Mapping[str, str] = field(default_factory=dict)


class PreparedEntities:
    """A principal and who else has a part in a question, with everything that is in the bundle around them.

    Compared by identity: the engine keeps what it has parsed of one.
    """

    __slots__ = ("_around", "_directory", "names", "uid")

    def __init__(self, directory: "EntityDirectory", uid: Uid, around: "_Around") -> None:
        self._directory = directory
        self._around = around
        self.uid: Final = uid
        """The principal."""
        groups = directory.groups(uid, around.person_groups if uid == ("User", around.person) else ())
        self.names: frozenset[Uid] = frozenset({uid, *groups})
        """What `principal in` holds for: the principal itself and all of its groups."""

    def documents(self, literals: Iterable[Uid]) -> Mapping[Uid, bytes]:
        """What conditions over the principal and these literals can look into, as Cedar JSON."""
        return self._directory.load(self._around, literals)


@dataclass(frozen=True, slots=True)
class _Around:
    """Who has a part in a question: the agents of a call with their user, and the person who approves it."""

    agents: tuple[str, ...]
    user: str
    person: str | None = None
    person_groups: frozenset[str] = frozenset()
    """Groups that the person is in besides those of the bundle."""


class EntityDirectory:
    """Looks up the entities of a bundle. The cache holds what the bundle alone decides."""

    def __init__(self, members: Iterable[PersonOrGroup], tools: Mapping[str, bytes]) -> None:
        """`tools` are `Tool` entities as Cedar JSON, by qualified name."""
        self._members = {member.uid: member for member in members}
        self._tools = tools
        self._cache: OrderedDict[_Around, PreparedEntities] = OrderedDict()

    @property
    def members(self) -> Mapping[Uid, PersonOrGroup]:
        """Every agent, user and group that the bundle declares."""
        return self._members

    def with_groups(self, groups: Mapping[Uid, tuple[str, ...]]) -> "EntityDirectory":
        """The same directory, in which these agents and users are in these groups instead."""
        changed = dict(self._members)
        for uid, parents in groups.items():
            tags = changed[uid].tags if uid in changed else {}
            changed[uid] = PersonOrGroup(uid=uid, parents=parents, tags=tags)
        return EntityDirectory(changed.values(), self._tools)

    def principal(self, agent: str, user: str | None) -> PreparedEntities:
        """Everything besides the resources that an evaluation for this agent and user could look into."""
        return self._prepared(("Agent", agent), _Around((agent,), user or NO_USER))

    def approver(
        self, person: str, groups: frozenset[str], agents: Sequence[str], user: str | None
    ) -> PreparedEntities:
        """The same for a person who would approve a call of these agents for this user.

        `groups` are those that its sign-in says; one that the bundle does not have is a group in no other.
        """
        return self._prepared(("User", person), _Around(tuple(agents), user or NO_USER, person, groups))

    def _prepared(self, uid: Uid, around: _Around) -> PreparedEntities:
        found = self._cache.get(around)
        if found is not None:
            self._cache.move_to_end(around)
        else:
            found = self._cache[around] = PreparedEntities(self, uid, around)
            if len(self._cache) > CACHED_PRINCIPALS:
                self._cache.popitem(last=False)
        return found

    def forget(self) -> None:
        """Drop what was prepared, once the bundle decides no more: all of it refers back to this object."""
        self._cache.clear()

    def load(self, around: _Around, literals: Iterable[Uid]) -> Mapping[Uid, bytes]:
        """Who has a part in a question and these literals, closed over what they lead to, as Cedar JSON."""
        loaded: dict[Uid, bytes] = {}
        pending: list[Uid] = []
        for agent in around.agents:
            self._add_agent(loaded, pending, agent, around.user)
        if around.person is not None:
            pending.append(("User", around.person))
        for uid in sorted(literals):
            if uid[0] == "Agent":
                if uid not in loaded:
                    self._add_agent(loaded, pending, uid[1], NO_USER)
            elif uid[0] in ("User", "Group"):
                pending.append(uid)
            elif uid[0] == "Tool" and uid[1] in self._tools:
                loaded[uid] = self._tools[uid[1]]
            elif uid[0] not in _UNLOADED:
                loaded[uid] = _literal_document(uid)
        while pending:
            uid = pending.pop()
            if uid in loaded:
                continue
            member = self._members.get(uid, PersonOrGroup(uid=uid))
            also = around.person_groups if uid == ("User", around.person) else ()
            attributes = {"on_behalf_of": _reference(uid)} if uid[0] == "User" else {}
            loaded[uid] = _document(uid, attributes, self.groups(uid, also), member.tags)
        return loaded

    def groups(self, uid: Uid, also: Iterable[str] = ()) -> list[Uid]:
        """Every group that an agent, a user or a group is in, directly or through other groups.

        `also` are groups that it is in besides those of the bundle.
        """
        member = self._members.get(uid)
        found: dict[str, None] = {}
        pending = [*(member.parents if member is not None else ()), *also]
        while pending:
            group = pending.pop()
            if group not in found:
                found[group] = None
                above = self._members.get(("Group", group))
                pending += above.parents if above is not None else ()
        return [("Group", group) for group in sorted(found)]

    def _add_agent(self, loaded: dict[Uid, bytes], pending: list[Uid], agent: str, user: str) -> None:
        """An agent; the user that its attribute leads to is then to be loaded too."""
        uid = ("Agent", agent)
        member = self._members.get(uid, PersonOrGroup(uid=uid))
        attributes = {"on_behalf_of": _reference(("User", user))}
        loaded[uid] = _document(uid, attributes, self.groups(uid), member.tags)
        pending.append(("User", user))


def _reference(uid: Uid) -> dict[str, Any]:
    return {"__entity": {"type": uid[0], "id": uid[1]}}


def _literal_document(uid: Uid) -> bytes:
    """A resource literal as Cedar JSON, with all that it lies in, which follows from its own spelling.

    Raises `ValueError` for a literal that stands for nothing: without its ancestors a forbid that looks into
    it would be no forbid. The loader lets no such literal through.
    """
    resource = literal_resource(*uid)
    for index, entity in enumerate(() if resource is None else resource.chain):
        if resource is not None and (entity.type, entity.id) == uid:
            return _chain_document(resource.chain[index:])
    raise ValueError("a literal of the policies has no canonical form")


def resource_document(resource: Resource) -> bytes:
    """A resource as Cedar JSON, with all of its ancestors as parents.

    The ancestors themselves are not handed over: a rule can reach them only as literals, and
    literals that are looked into are loaded by `EntityDirectory`.
    """
    return _chain_document(resource.chain)


def _chain_document(chain: Sequence[Entity]) -> bytes:
    entity, *ancestors = chain
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
