"""The Cedar schema, generated from the tool registry (spec section 6).

One action per (tool, verb, level), a member of its verb, its tool and its level. And one per tool for who
approves its calls, a member of `approve` alone: what permits calls of a tool lets nobody approve them.
`context.arguments` is typed from the tool's JSON Schema, so a misspelt argument is an error at load.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from authz.core.cedar_context import (
    APPROVE_FIELDS,
    FIELDS,
    ISSUE_FIELDS,
    Reads,
    context_type,
    record_type,
)
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

// Who acts. An agent acts on behalf of a user; `User::""` stands for no user. Who approves is a User and acts
// for itself: so a rule over every action can speak of `principal.on_behalf_of`.
entity Group in [Group] tags String;
entity User in [Group] = { on_behalf_of: User } tags String;
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
    principal: str = "Agent"
    """The type of who does it: `User` of whoever approves calls of a tool."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The verb, the tool and the level, as action ids; `approve` alone of what a person does."""
        if self.is_approval:
            return (APPROVE,)
        if self.verb is None or self.level is None:
            return ()
        return (self.verb.value, self.tool, self.level.name)

    @property
    def is_approval(self) -> bool:
        """Whether it is to approve calls of a tool."""
        return self.principal == "User"


APPROVE: Final = "approve"
"""The group of the actions by which people approve calls."""
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


def every_action(actions: Iterable[Action]) -> list[Action]:
    """The actions of the tools of a bundle, those of who approves their calls, and `issue`."""
    found = list(actions)
    by_tool: dict[str, list[Action]] = {}
    for action in found:
        by_tool.setdefault(action.tool, []).append(action)
    return [*found, *map(approval_of, by_tool.values()), ISSUE]


def approval_of(actions: Sequence[Action]) -> Action:
    """To approve calls of a tool, of which these are the actions: one, whatever the calls come to."""
    tool = actions[0].tool
    return Action(
        id=approval_id(tool),
        tool=tool,
        verb=None,
        level=None,
        resource_types=tuple(sorted({kind for action in actions for kind in action.resource_types})),
        arguments=actions[0].arguments,
        tool_document=actions[0].tool_document,
        fields=APPROVE_FIELDS,
        principal="User",
    )


def approval_id(tool: str) -> str:
    """The id of the action to approve calls of a tool: `approve:fs/file_edit`.

    No action of a call has it: those begin with the alias of a server, in which no colon can be.
    """
    return f"{APPROVE}:{tool}"


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


_RECORDS: Final = {name: kind for name, kind in APPROVE_FIELDS.items() if not isinstance(kind, str)}
_DECLARED: Final = {name: name.title() for name in _RECORDS}
"""Fields that are records, with the names of their types. Declared once: Cedar reads each as often as it is
written, and a tool has two contexts."""


def generate_schema(actions: Iterable[Action]) -> str:
    """The schema text of a registry, in Cedar's human-readable syntax; the same bytes every time."""
    by_tool: dict[str, list[Action]] = {}
    for action in actions:
        by_tool.setdefault(action.tool, []).append(action)
    groups = [*(verb.value for verb in Verb), *(level.name for level in Authority), APPROVE]
    records = "\n".join(f"type {_DECLARED[name]} = {record_type(kind)};" for name, kind in _RECORDS.items())
    parts = [PRELUDE, f"// Parts of the contexts.\n{records}\n", _group_actions(groups)]
    if by_tool.pop(NO_TOOL, ()):
        context = context_type(ISSUE.arguments, fields=ISSUE.fields, declared=_DECLARED)
        parts.append(
            f"// To give a capability for what lies in a location.\n{_declaration(ISSUE, context)}\n"
        )
    parts += [_tool_part(tool, by_tool[tool]) for tool in sorted(by_tool)]
    return "\n".join(parts)


def _tool_part(tool: str, actions: Sequence[Action]) -> str:
    arguments = _type_name("Arguments", tool)
    lines = [f'action "{escape_cedar(tool)}";', f"type {arguments} = {actions[0].arguments.cedar_type};"]
    for what, chosen in (
        ("Context", [action for action in actions if not action.is_approval]),
        ("Approval", [action for action in actions if action.is_approval]),
    ):
        if chosen:
            name, declared = _type_name(what, tool), {**_DECLARED, "arguments": arguments}
            context = context_type(chosen[0].arguments, fields=chosen[0].fields, declared=declared)
            lines.append(f"type {name} = {context};")
            lines += [_declaration(action, name) for action in chosen]
    return "\n".join(lines) + "\n"


def evaluation_schema(action: Action, reads: Reads) -> str:
    """The schema of one action with the part of the context in `reads`: what requests are held to.

    Smaller than the whole, because Cedar walks it for every request.
    """
    groups = "\n".join(f'action "{escape_cedar(group)}";' for group in action.groups)
    context = context_type(action.arguments, reads, action.fields)
    return f"{PRELUDE}\n{groups}\n{_declaration(action, context)}\n"


def _group_actions(names: Iterable[str]) -> str:
    lines = [
        "// Every action is a member of its verb, its tool and its level.",
        "// To approve calls of a tool is one of `approve` alone.",
    ]
    lines += [f'action "{name}";' for name in names]
    return "\n".join(lines) + "\n"


def _declaration(action: Action, context: str) -> str:
    groups = ", ".join(f'Action::"{escape_cedar(group)}"' for group in action.groups)
    inside = f"in [{groups}] " if groups else ""
    types = ", ".join(action.resource_types)
    return (
        f'action "{escape_cedar(action.id)}" {inside}appliesTo {{\n'
        f"  principal: [{action.principal}], resource: [{types}], context: {context}\n}};"
    )


def _type_name(what: str, tool: str) -> str:
    """A Cedar type name that no two tools share: other characters are written as their code point."""
    return f"{what}_" + re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found.group()):x}_", tool)
