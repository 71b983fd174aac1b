"""The Cedar schema, generated from the tool registry (spec section 6).

One action per (tool, verb, level), a member of its verb, its tool and its level. `context.arguments`
is typed from the tool's JSON Schema, so a misspelt argument is an error at load.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from authz.core.cedar_context import FIELDS, ISSUE_FIELDS, Reads, context_type
from authz.core.cedar_values import Encoder, argument_encoder
from authz.core.entities import tool_document
from authz.core.tools import RESOURCE_TYPES, possible_accesses
from authz.model.resource import Authority, Verb, escape_cedar
from authz.model.tool import Descriptor

ALL_RESOURCE_TYPES: Final = frozenset().union(
    *RESOURCE_TYPES.values(), ("Program", "Table", "Schema", "Database", "Opaque")
)
"""Every type that a resource can be of."""
WITHIN: Final[Mapping[str, frozenset[str]]] = {
    "Directory": frozenset({"File"}),
    "UrlPath": frozenset({"Endpoint"}),
    "Host": frozenset({"Host", "Endpoint", "Repo", "Branch"}),
    "Domain": frozenset({"Host", "Endpoint", "Mailbox", "Repo", "Branch"}),
    "ObjectType": frozenset({"Object"}),
    "Repo": frozenset({"Repo", "Branch"}),
    "Schema": frozenset({"Schema", "Table"}),
    "Database": frozenset({"Database", "Schema", "Table"}),
}
"""The types of resources that can be in an entity of each type; of itself for a type that is not here."""

PRELUDE: Final = """\
// Generated from the tool descriptors by `authz schema`. Do not edit: `make check` compares.

// Who acts. An agent acts on behalf of a user; `User::""` stands for no user.
entity Group in [Group] tags String;
entity User in [Group] tags String;
entity Agent in [Group] = { on_behalf_of: User } tags String;
entity Tool = { server: String, name: String };

// What is acted on. A File is in the Directory of the same path, so that a rule on a folder also
// covers the folder itself; likewise Endpoint, UrlPath, Host and Domain. A host with a port is in the
// host without one.
entity Directory in [Directory];
// `names` are the components of its whole path in folded case: `.secrets` at any depth, in any case.
entity File in [Directory] = { name: String, extension: String, names: Set<String> };
entity Domain in [Domain];
entity Host in [Host, Domain] = { class: String, host_class: String, is_ip: Bool, port: Long };
entity UrlPath in [UrlPath, Host, Domain];
entity Endpoint in [UrlPath, Host, Domain] = {
  scheme: String, host: String, port: Long, class: String, host_class: String, path: String, has_query: Bool,
};
entity Mailbox in [Domain] = { local: String, domain: String };
entity ObjectType;
entity Object in [ObjectType] = { type: String, value: String };
// A subcommand is in its program. One that is not `known` may do more than its accesses say.
entity Program in [Program] = { name: String, known: Bool };
// A repository is in its folders, a branch in its repository, and both in who serves them.
entity Repo in [Repo, Host, Domain] = { host: String, class: String };
entity Branch in [Repo, Host, Domain] = { name: String, host: String, class: String };
entity Database;
entity Schema in [Database];
entity Table in [Schema, Database];
entity Opaque = { kind: String, reason: String };
"""


ENTITY_ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    found[1]: dict(re.findall(r"(\w+)\??: ([\w<>]+)", found[2] or ""))
    for found in re.finditer(r"(?ms)^entity (\w+)[^={;]*(?:= \{(.*?)\})?", PRELUDE)
}
"""The attributes of each entity type with their types, read off the schema above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action: what Cedar is asked about, and the groups it is a member of."""

    id: str
    tool: str
    """`server/name`; empty for `ISSUE`, which is no tool's."""
    verb: Verb | None
    level: Authority | None
    resource_types: tuple[str, ...]
    arguments: Encoder
    tool_document: bytes
    """The `Tool` entity as Cedar JSON: what `context.tool` leads to."""
    fields: Mapping[str, str | Mapping[str, str]] = field(default_factory=lambda: FIELDS, repr=False)
    """The fields of its context besides `arguments`, with their types."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The verb, the tool and the level, as action ids."""
        if self.verb is None or self.level is None:
            return ()
        return (self.verb.value, self.tool, self.level.name)


NO_TOOL: Final = ""
"""Id of the `Tool` that `context.tool` leads to where no tool is called. No request can name it."""
ISSUE: Final = Action(
    id="issue",
    tool=NO_TOOL,
    verb=None,
    level=None,
    resource_types=tuple(sorted((ALL_RESOURCE_TYPES | {"Domain"}) - {"Opaque"})),
    arguments=argument_encoder({"type": "object", "properties": {}, "additionalProperties": False}),
    tool_document=tool_document(NO_TOOL, "", ""),
    fields=ISSUE_FIELDS,
)
"""To give a capability for what lies in a location: an action of every bundle, in no group."""


def with_issue(actions: Iterable[Action]) -> list[Action]:
    """The actions of the tools of a bundle, and the one that is in every bundle."""
    return [*actions, ISSUE]


def action_id(tool: str, verb: Verb, level: Authority) -> str:
    """The id of an action: `fs/file_edit:write:A1`."""
    return f"{tool}:{verb.value}:{level.name}"


def actions_of(descriptor: Descriptor, arguments: Encoder) -> tuple[Action, ...]:
    """Every action that calls of this tool can come to."""
    tool = descriptor.qualified_name
    document = tool_document(tool, descriptor.server.alias, descriptor.name)
    levels: set[tuple[Verb, Authority]] = set()
    # Any kind may come out as something that was not understood.
    types: dict[Verb, set[str]] = {}
    for spec in descriptor.accesses:
        for verb, kinds, possible in possible_accesses(descriptor, spec):
            levels |= {(verb, level) for level in possible}
            types.setdefault(verb, {"Opaque"}).update(kinds)
    return tuple(
        Action(
            id=action_id(tool, verb, level),
            tool=tool,
            verb=verb,
            level=level,
            resource_types=tuple(sorted(types[verb])),
            arguments=arguments,
            tool_document=document,
        )
        for verb, level in sorted(levels)
    )


def generate_schema(actions: Iterable[Action]) -> str:
    """The schema text of a registry, in Cedar's human-readable syntax; the same bytes every time."""
    by_tool: dict[str, list[Action]] = {}
    for action in actions:
        by_tool.setdefault(action.tool, []).append(action)
    parts = [PRELUDE, _group_actions([*(verb.value for verb in Verb), *(level.name for level in Authority)])]
    if by_tool.pop(NO_TOOL, ()):
        context = context_type(ISSUE.arguments, fields=ISSUE.fields)
        parts.append(
            f"// To give a capability for what lies in a location.\n{_declaration(ISSUE, context)}\n"
        )
    for tool in sorted(by_tool):
        name = _type_name(tool)
        context = context_type(by_tool[tool][0].arguments)
        lines = [f'action "{escape_cedar(tool)}";', f"type {name} = {context};"]
        lines += [_declaration(action, name) for action in by_tool[tool]]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def evaluation_schema(action: Action, reads: Reads) -> str:
    """The schema of one action with the part of the context in `reads`: what requests are held to.

    Smaller than the whole, because Cedar walks it for every request.
    """
    groups = "\n".join(f'action "{escape_cedar(group)}";' for group in action.groups)
    context = context_type(action.arguments, reads, action.fields)
    return f"{PRELUDE}\n{groups}\n{_declaration(action, context)}\n"


def _group_actions(names: Iterable[str]) -> str:
    lines = ["// Every action is a member of its verb, its tool and its level."]
    lines += [f'action "{name}";' for name in names]
    return "\n".join(lines) + "\n"


def _declaration(action: Action, context: str) -> str:
    groups = ", ".join(f'Action::"{escape_cedar(group)}"' for group in action.groups)
    inside = f"in [{groups}] " if groups else ""
    return (
        f'action "{escape_cedar(action.id)}" {inside}appliesTo {{\n'
        f"  principal: [Agent], resource: [{', '.join(action.resource_types)}], context: {context}\n}};"
    )


def _type_name(tool: str) -> str:
    """A Cedar type name that no two tools share: other characters are written as their code point."""
    return "Context_" + re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found.group()):x}_", tool)
