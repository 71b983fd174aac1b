"""`tools/*.yaml` as the core reads them: reviewed descriptors, compiled and checked."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from authz.bundle.format import AccessSection, FieldReturnSection, ReturnSection, ToolFile, ToolSection
from authz.bundle.tool_names import alias_key, is_action_like, wire_name
from authz.bundle.yaml_source import Path, YamlDocument
from authz.core.arguments import ArgumentSchema
from authz.core.canonical import KINDS, canonicalize
from authz.core.cedar_schema import actions_of
from authz.core.cedar_values import UnencodableSchema, argument_encoder
from authz.core.entities import tool_document
from authz.core.fingerprint import digest
from authz.core.json_schema import SchemaUnusable, resolve_reference, steps_of
from authz.core.pointer import WILDCARD, Tokens, parse_pointer
from authz.core.provenance import RoleTable
from authz.core.ruleset import Tool
from authz.core.schema_keywords import unknown_keywords
from authz.core.schema_places import Undeclared, check_declared
from authz.core.tools import READING
from authz.errors import BundleProblem
from authz.model.resource import Authority, Base, NotCanonical, Scope, Verb
from authz.model.tool import (
    AccessSpec,
    Cost,
    Descriptor,
    Probe,
    ReturnSpec,
    Role,
    Server,
    Settlement,
    SideEffect,
    Trust,
    Undo,
)

Parsed = tuple[YamlDocument, ToolFile]


def compile_tools(
    files: list[Parsed], profiles: frozenset[str] | None, problems: list[BundleProblem]
) -> tuple[dict[str, Server], dict[tuple[str, str], Tool]]:
    """Servers by alias, and tools by (alias, name); faults are added to `problems`.

    `profiles` are the declared ones, or `None` when nobody could read which those are.
    """
    servers: dict[str, Server] = {}
    identities: dict[str, str] = {}
    tools: dict[tuple[str, str], Tool] = {}
    names: dict[str, str] = {}
    for document, file in files:
        server = _server(document, file, profiles, problems)
        if server.alias in servers:
            problems.append(
                document.problem(
                    ("server", "alias"), f"the alias `{server.alias}` is taken", code="server.duplicate"
                )
            )
            continue
        if server.identity in identities:
            # Two aliases for one server would be two names for one tool, with two sets of rules.
            other = identities[server.identity]
            problems.append(
                document.problem(
                    ("server", "identity"),
                    f"the alias `{other}` already stands for this server",
                    f"describe its tools under `{other}`",
                    "server.duplicate",
                )
            )
        for other in servers:
            if alias_key(other) == alias_key(server.alias):
                problems.append(
                    document.problem(
                        ("server", "alias"),
                        f"the alias `{server.alias}` differs from `{other}` in case or punctuation only",
                        "give one of the two another name",
                        "server.ambiguous",
                    )
                )
        servers[server.alias] = server
        identities[server.identity] = server.alias
        for index, section in enumerate(file.tools):
            key = (server.alias, section.name)
            if key in tools:
                problems.append(
                    document.problem(
                        ("tools", index), f"`{section.name}` is described twice", code="tool.duplicate"
                    )
                )
                continue
            name = f"{server.alias}/{section.name}"
            other = names.setdefault(wire_name(server.alias, section.name), name)
            if other != name:
                problems.append(
                    document.problem(
                        ("tools", index),
                        f"`{name}` and `{other}` are one name where runtimes write it into a word",
                        "describe only one of the two",
                        "tool.ambiguous",
                    )
                )
            tool = _tool(document, ("tools", index), server, section, problems)
            if tool is not None:
                tools[key] = tool
    _check_references(files, tools, problems)
    return servers, tools


def _server(
    document: YamlDocument, file: ToolFile, profiles: frozenset[str] | None, problems: list[BundleProblem]
) -> Server:
    section = file.server
    for index, profile in enumerate(section.profiles):
        if profiles is not None and profile not in profiles:
            problems.append(
                document.problem(
                    ("server", "profiles", index),
                    f"the credential profile `{profile}` is not declared",
                    "add it to credentials.yaml",
                    "server.unknown-profile",
                )
            )
    return Server(
        alias=section.alias,
        identity=section.identity,
        local=section.local,
        profiles=frozenset(section.profiles),
    )


def _tool(
    document: YamlDocument, at: Path, server: Server, section: ToolSection, problems: list[BundleProblem]
) -> Tool | None:
    before = len(problems)
    if is_action_like(section.name):
        problems.append(
            document.problem(
                at,
                f"`{section.name}` ends like the id of an action, so rules could not tell the two apart",
                "leave the tool out",
                "tool.ambiguous",
            )
        )
    if section.advertised_digest is None and not server.local:
        problems.append(
            document.problem(
                at,
                f"`{section.name}` pins no `advertised_digest`, and its server is not local",
                "pin the digest of its tools/list entry",
                "tool.unpinned",
            )
        )
    try:
        schema = ArgumentSchema(section.input_schema)
        encoder = argument_encoder(section.input_schema)
    except (SchemaUnusable, UnencodableSchema) as error:
        problems.append(
            document.problem((*at, "input_schema"), f"`{section.name}`: {error}", code="tool.schema-unusable")
        )
        return None
    if section.reviewed:
        # A draft keeps its server's schema as it is: lint tells its reviewer, whose word is still to come.
        problems += _unknown_keywords(document, (*at, "input_schema"), section)
    roles = _roles(document, at, section, problems)
    accesses = tuple(
        access
        for index, entry in enumerate(section.accesses)
        if (access := _access(document, (*at, "accesses", index), section, entry, problems)) is not None
    )
    for index, text in enumerate(section.may_start_with_dash):
        _check_pointer(document, (*at, "may_start_with_dash", index), section, text, problems)
    _check_kinds(document, at, section, problems)
    _check_side_effect(document, at, section, problems)
    key_at = section.settlement.idempotency_key_at
    if key_at is not None:
        _check_pointer(document, (*at, "settlement", "idempotency_key_at"), section, key_at, problems)
    if len(problems) > before:
        return None
    descriptor = Descriptor(
        server=server,
        name=section.name,
        description=section.description,
        advertised_digest=section.advertised_digest,
        input_schema=section.input_schema,
        roles=roles,
        accesses=accesses,
        side_effect=SideEffect(section.side_effect),
        leaves_sandbox=section.leaves_sandbox,
        reviewed=section.reviewed,
        may_start_with_dash=tuple(map(parse_pointer, section.may_start_with_dash))
        if section.reviewed
        else (),
        undo=_undo(section),
        compensator=section.compensator if section.reviewed else None,
        settlement=_settlement(section) if section.reviewed else Settlement(),
        returns=_returns(section.returns) if section.reviewed else _unreviewed_returns(section.returns),
        cost=Cost(amount=section.cost.decimal, currency=section.cost.currency) if section.cost else None,
        digest=digest({"server": server.identity, "tool": section.model_dump(mode="json", exclude={"lint"})}),
    )
    name = descriptor.qualified_name
    return Tool(
        descriptor=descriptor,
        schema=schema,
        encoder=encoder,
        actions=actions_of(descriptor, encoder),
        roles=RoleTable(roles),
        document=tool_document(name, server.alias, descriptor.name),
    )


def _unknown_keywords(document: YamlDocument, at: Path, section: ToolSection) -> Iterator[BundleProblem]:
    """A misspelt keyword would be a constraint that silently is not there."""
    for found in unknown_keywords(section.input_schema):
        place = (*at, *steps_of(section.input_schema, found.pointer))
        yield document.problem(place, f"`{section.name}`: {found.says}", found.hint, "tool.unknown-keyword")


def _roles(
    document: YamlDocument, at: Path, section: ToolSection, problems: list[BundleProblem]
) -> Mapping[Tokens, Role]:
    roles: dict[Tokens, Role] = {}
    for text, role in section.roles.items():
        roles[parse_pointer(text)] = Role(role)
        _check_pointer(document, (*at, "roles", text), section, text, problems)
    declared = (resolve_reference(section.input_schema, section.input_schema) or {}).get("properties", {})
    for name in declared:
        if not any(pattern[0] == name for pattern in roles):
            problems.append(
                document.problem(
                    (*at, "roles"),
                    f"the argument `{name}` of `{section.name}` has no role",
                    f"add `/{name}:` with one of {', '.join(Role)}",
                    "tool.no-role",
                )
            )
    return roles


def _access(
    document: YamlDocument,
    at: Path,
    section: ToolSection,
    entry: AccessSection,
    problems: list[BundleProblem],
) -> AccessSpec | None:
    def wrong(message: str, hint: str = "") -> None:
        problems.append(document.problem(at, f"`{section.name}`: {message}", hint, "tool.access"))

    if (entry.at is None) == (entry.resource is None):
        wrong("an access names its resource either by `at` or by `resource`")
        return None
    if entry.kind == "id" and entry.type is None:
        wrong("an access of kind `id` needs a `type`", "for example `type: account`")
        return None
    if (entry.kind == "sql") != (entry.dialect is not None and entry.database is not None):
        wrong("`database` and `dialect` belong to an access of kind `sql`, and it needs both")
        return None
    if entry.ref_at is not None and (entry.kind != "repo" or "*" in parse_pointer(entry.ref_at)):
        wrong("`ref_at` belongs to an access of kind `repo`, and names one argument, without `*`")
        return None
    for key, text in (("at", entry.at), ("tree_if", entry.tree_if), ("ref_at", entry.ref_at)):
        if text is not None:
            _check_pointer(document, (*at, key), section, text, problems)
    for fixed in (entry.resource, entry.when_absent):
        # Relative to the caller's directory is fine for a default (`.`); nothing else is.
        if fixed is not None and entry.kind in KINDS:
            found = canonicalize(entry.kind, fixed, Base(cwd="/"), object_type=entry.type)
            if isinstance(found, NotCanonical):
                wrong(f"`{fixed}` is no {entry.kind}: {found.message}")
    return AccessSpec(
        verb=Verb(entry.verb),
        kind=entry.kind,
        object_type=entry.type,
        at=parse_pointer(entry.at) if entry.at is not None else None,
        fixed=entry.resource,
        when_absent=entry.when_absent,
        scope=Scope(entry.scope),
        tree_if=parse_pointer(entry.tree_if) if entry.tree_if is not None else None,
        ref_at=parse_pointer(entry.ref_at) if entry.ref_at is not None else None,
        database=entry.database,
        dialect=entry.dialect,
        default_schema=entry.default_schema,
        # Nobody has said yet what the tool does, so a draft is at A3 whatever could be derived for it.
        raised_authority=Authority[entry.authority] if section.reviewed else Authority.A3,
    )


def _check_pointer(
    document: YamlDocument, at: Path, section: ToolSection, text: str, problems: list[BundleProblem]
) -> None:
    """A pointer that names nothing would be a role or an access that silently is not there."""
    try:
        check_declared(section.input_schema, parse_pointer(text))
    except Undeclared as error:
        problems.append(
            document.problem(at, f"`{section.name}`: {error}", error.hint, "tool.pointer-undeclared")
        )


def _check_kinds(
    document: YamlDocument, at: Path, section: ToolSection, problems: list[BundleProblem]
) -> None:
    """One value has one kind: its canonical form of one kind would replace that of the other."""
    for index, entry in enumerate(section.accesses):
        for other in section.accesses[:index]:
            if entry.at is None or other.at is None or entry.kind == other.kind:
                continue
            if _may_meet(parse_pointer(entry.at), parse_pointer(other.at)):
                problems.append(
                    document.problem(
                        (*at, "accesses", index, "at"),
                        f"`{section.name}`: `{entry.at}` is a {entry.kind} here, and `{other.at}` of another "
                        f"access, which may name the same value, is a {other.kind}",
                        "give both the same kind",
                        "tool.kinds-clash",
                    )
                )
                break


def _may_meet(one: Tokens, other: Tokens) -> bool:
    """True when two patterns can name the same value; one that ends at an array names its items."""
    return abs(len(one) - len(other)) <= 1 and all(
        left == right or WILDCARD in (left, right) for left, right in zip(one, other, strict=False)
    )


def _check_side_effect(
    document: YamlDocument, at: Path, section: ToolSection, problems: list[BundleProblem]
) -> None:
    changes = any(Verb(entry.verb) not in READING for entry in section.accesses)
    if changes and section.side_effect == "none":
        problems.append(
            document.problem(
                (*at, "side_effect"),
                f"`{section.name}` changes something, so its side effect is not `none`",
                "write `idempotent` or `cumulative`",
                "tool.side-effect",
            )
        )
    if not changes and section.side_effect != "none":
        problems.append(
            document.problem(
                (*at, "side_effect"),
                f"`{section.name}` only reads and connects, but has a side effect",
                "add the access that it changes, or write `side_effect: none`",
                "tool.side-effect",
            )
        )


def _undo(section: ToolSection) -> Undo | None:
    if section.undo is None or not section.reviewed:
        return None
    return Undo(reviewed_by=section.undo.reviewed_by, how=section.undo.how)


def _settlement(section: ToolSection) -> Settlement:
    settlement = section.settlement
    return Settlement(
        idempotency_key_at=(
            parse_pointer(settlement.idempotency_key_at) if settlement.idempotency_key_at else None
        ),
        retention_seconds=settlement.retention_seconds,
        probe=Probe(tool=settlement.probe.tool, when=settlement.probe.when) if settlement.probe else None,
    )


def _returns(section: FieldReturnSection) -> ReturnSpec:
    fields = section.fields if isinstance(section, ReturnSection) else {}
    return ReturnSpec(
        trust=Trust(section.trust),
        labels=frozenset(section.labels),
        fields={pointer: _returns(field) for pointer, field in fields.items()},
    )


def _unreviewed_returns(section: ReturnSection) -> ReturnSpec:
    """A draft's results: its labels hold, and nothing in them is trusted."""
    labels = [label for part in (section, *section.fields.values()) for label in part.labels]
    return ReturnSpec(trust=Trust.UNTRUSTED, labels=frozenset(labels))


def _nearest_tool(name: str, file: ToolFile) -> str:
    close = get_close_matches(name, [section.name for section in file.tools], n=1)
    return f"did you mean `{close[0]}`?" if close else "name a tool of the same server"


def _check_references(
    files: list[Parsed], tools: Mapping[tuple[str, str], Tool], problems: list[BundleProblem]
) -> None:
    """Compensators and probes must be tools of the same server that really exist."""
    for document, file in files:
        for index, section in enumerate(file.tools):
            named = [("compensator", section.compensator)]
            if section.settlement.probe is not None:
                named.append(("settlement", section.settlement.probe.tool))
            for key, name in named:
                if name is not None and (file.server.alias, name) not in tools and not problems:
                    problems.append(
                        document.problem(
                            ("tools", index, key),
                            f"`{section.name}` names the tool `{name}`, which is not here",
                            _nearest_tool(name, file),
                            "tool.unknown-reference",
                        )
                    )
