"""`limits.yaml` as the core reads it. A limit that could never hold, or would let calls past, is a fault."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from authz.bundle.format import LimitFile, LimitScopeSection, LimitSection
from authz.bundle.yaml_source import Path, YamlDocument
from authz.core.canonical import canonical_literal, canonical_uri
from authz.core.entities import PersonOrGroup
from authz.core.limits import cost_units, may_apply
from authz.core.ruleset import Tool
from authz.errors import BundleProblem
from authz.model.limit import COST_SCALE, Count, Limit, LimitScope, Partition, ResourceScope
from authz.model.resource import Authority, NotCanonical, Resource, Verb, Volume

_CONTAINERS = ("Directory", "UrlPath", "Host", "Domain", "Mailbox", "Object")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitContext:
    """The rest of the bundle, as far as it could be read."""

    tools: Mapping[tuple[str, str], Tool]
    declared: frozenset[str] | None
    """`server/name` of every tool, also of those with faults; `None` when a file could not be read."""
    members: Sequence[PersonOrGroup] | None
    rules: frozenset[str]
    """Every rule's `@id`: decisions report both, so no limit may have the same."""
    volumes: Sequence[Volume]


def compile_limits(
    parsed: tuple[YamlDocument, LimitFile], context: LimitContext, problems: list[BundleProblem]
) -> tuple[Limit, ...]:
    """The limits in file order; faults are added to `problems`."""
    document, file = parsed
    limits: list[Limit] = []
    seen: set[str] = set()
    for index, section in enumerate(file.limits):
        at: Path = ("limits", index)
        before = len(problems)
        problems += _name_problems(document, at, section, seen, context.rules)
        problems += _count_problems(document, at, section)
        problems += _per_problems(document, at, section)
        problems += _scope_problems(document, at, section.where, context)
        seen.add(section.id)
        resources = _resources(document, (*at, "where", "resources"), section.where, context, problems)
        if len(problems) > before:
            continue
        limit = _limit(document, at, section, _scope(section.where, resources, context))
        problems += _reach_problems(document, at, limit, context)
        limits.append(limit)
    return tuple(limits)


def _limit(document: YamlDocument, at: Path, section: LimitSection, where: LimitScope) -> Limit:
    if section.calls is not None:
        count, cap = Count.CALLS, section.calls
    elif section.concurrency is not None:
        count, cap = Count.CONCURRENCY, section.concurrency
    else:
        count, cap = Count.COST, int(section.cost.decimal * COST_SCALE) if section.cost else 0
    return Limit(
        id=section.id,
        reason=section.reason,
        count=count,
        cap=cap,
        window_ms=(section.seconds or 0) * 1000,
        currency=section.cost.currency if section.cost else "",
        per=tuple(part for part in Partition if part in section.per),
        where=where,
        file=document.file,
        line=document.line(at),
    )


def _name_problems(
    document: YamlDocument, at: Path, section: LimitSection, seen: set[str], rules: frozenset[str]
) -> Iterator[BundleProblem]:
    hint = "decisions report this name, so it must be the only one"
    if section.id in seen:
        yield document.problem((*at, "id"), f"there are two limits `{section.id}`", hint, "limit.id-twice")
    if section.id in rules:
        yield document.problem((*at, "id"), f"a rule is called `{section.id}` too", hint, "limit.id-twice")


def _count_problems(document: YamlDocument, at: Path, section: LimitSection) -> Iterator[BundleProblem]:
    name = section.id
    kinds = [kind for kind in Count if getattr(section, kind.value) is not None]
    if len(kinds) != 1:
        said = "none of them" if not kinds else " and ".join(f"`{kind.value}`" for kind in kinds)
        yield document.problem(
            at,
            f"`{name}` counts one of `calls`, `concurrency` and `cost`, and has {said}",
            "write one limit for each",
            "limit.count",
        )
        return
    if kinds == [Count.CONCURRENCY] and section.seconds is not None:
        yield document.problem(
            (*at, "seconds"),
            f"`{name}`: a slot ends with its decision, so `concurrency` has no `seconds`",
            "delete `seconds`, or write `calls`",
            "limit.count",
        )
    if kinds != [Count.CONCURRENCY] and section.seconds is None:
        yield document.problem(
            at, f"`{name}`: `{kinds[0].value}` needs `seconds`", "for example `seconds: 3600`", "limit.count"
        )
    if section.cost is not None and section.cost.decimal == 0:
        yield document.problem(
            (*at, "cost"), f"`{name}` would allow nothing", "write a forbid rule for that", "limit.count"
        )


def _per_problems(document: YamlDocument, at: Path, section: LimitSection) -> Iterator[BundleProblem]:
    per = section.per
    if len(set(per)) != len(per):
        yield document.problem((*at, "per"), f"`{section.id}`: `per` names one twice", "", "limit.per")
    if "tenant" in per and len(per) > 1:
        yield document.problem(
            (*at, "per"),
            f"`{section.id}`: every counter is of one tenant, so `tenant` stands alone",
            "`per: [tenant]` is one counter for all calls; otherwise leave it out",
            "limit.per",
        )


def _scope_problems(
    document: YamlDocument, at: Path, where: LimitScopeSection, context: LimitContext
) -> Iterator[BundleProblem]:
    groups = {member.uid[1] for member in context.members or () if member.uid[0] == "Group"}
    servers = {name.partition("/")[0] for name in context.declared or ()}
    known: tuple[tuple[str, list[str] | None, set[str] | frozenset[str] | None, str], ...] = (
        ("groups", where.groups, groups if context.members is not None else None, "entities.yaml"),
        ("tools", where.tools, context.declared, "tools/*.yaml"),
        ("servers", where.servers, servers if context.declared is not None else None, "tools/*.yaml"),
    )
    for key, names, declared, file in known:
        for index, name in enumerate(names or ()):
            if declared is None or name in declared:
                continue
            close = get_close_matches(name, sorted(declared), n=1)
            some = ", ".join(sorted(declared)[:8])
            yield document.problem(
                (*at, "where", key, index),
                f"`{name}` is not in {file}, so the limit would never hold",
                f"did you mean `{close[0]}`?" if close else f"there are {some}" if some else "there are none",
                f"limit.unknown-{key[:-1]}",
            )


def _resources(
    document: YamlDocument,
    at: Path,
    where: LimitScopeSection,
    context: LimitContext,
    problems: list[BundleProblem],
) -> tuple[ResourceScope, ...] | None:
    if where.resources is None:
        return None
    scopes = []
    for index, text in enumerate(where.resources):
        found = _resource(text, context.volumes)
        if isinstance(found, str):
            problems.append(
                document.problem((*at, index), *_not_canonical(text, found), code="limit.not-canonical")
            )
        else:
            scopes.append(found)
    return tuple(scopes)


def _not_canonical(text: str, found: str) -> tuple[str, str]:
    if found.startswith("write "):
        return f"`{text}` is not canonical and can never match", found
    return f"`{text}` can never match: {found}", "write a canonical URI, such as `domain:example.com`"


def _resource(text: str, volumes: Iterable[Volume]) -> ResourceScope | str:
    """What the URI names, or what is wrong with it. By the same functions as requests and rules."""
    resource = canonical_uri(text)
    if isinstance(resource, NotCanonical):
        return resource.message
    if resource.uri != text:
        return f"write {resource.uri}"
    container = next((each for each in resource.chain if each.type in _CONTAINERS), None)
    if container is None or (resource.kind == "url" and _has_query(resource)):
        return "a limit names a place, and this is no place"
    for volume in volumes:
        spelled = canonical_literal(container.type, container.id, volume=volume)
        if isinstance(spelled, NotCanonical):
            return spelled.message
        if spelled != container.id:
            return f"write file://{spelled}"
    chain = resource.chain[resource.chain.index(container) :]
    return ResourceScope(
        uri=text,
        container=(container.type, container.id),
        above=frozenset((entity.type, entity.id) for entity in chain),
    )


def _has_query(resource: Resource) -> bool:
    """A query is no component of a path: the place that contains it would be wider than what is written."""
    return resource.entity.attributes.get("has_query") is True


def _scope(
    where: LimitScopeSection, resources: tuple[ResourceScope, ...] | None, context: LimitContext
) -> LimitScope:
    return LimitScope(
        agents=frozenset(where.agents) if where.agents is not None else None,
        users=frozenset(where.users) if where.users is not None else None,
        members=_members(where.groups, context.members or ()) if where.groups is not None else None,
        tools=frozenset(where.tools) if where.tools is not None else None,
        servers=frozenset(where.servers) if where.servers is not None else None,
        verbs=frozenset(map(Verb, where.verbs)) if where.verbs is not None else None,
        levels=frozenset(Authority[level] for level in where.levels) if where.levels is not None else None,
        resources=resources,
    )


def _members(
    groups: Iterable[str], members: Sequence[PersonOrGroup]
) -> tuple[frozenset[str], frozenset[str]]:
    """Agents and users of these groups, directly or through other groups."""
    parents = {member.uid[1]: member.parents for member in members if member.uid[0] == "Group"}
    wanted = set(groups)

    def is_in(member: PersonOrGroup) -> bool:
        seen: set[str] = set()
        pending = list(member.parents)
        while pending:
            group = pending.pop()
            if group not in seen:
                seen.add(group)
                pending += parents.get(group, ())
        return not wanted.isdisjoint(seen)

    inside = [member.uid for member in members if member.uid[0] != "Group" and is_in(member)]
    return (
        frozenset(name for kind, name in inside if kind == "Agent"),
        frozenset(name for kind, name in inside if kind == "User"),
    )


def _reach_problems(
    document: YamlDocument, at: Path, limit: Limit, context: LimitContext
) -> Iterator[BundleProblem]:
    """A limit that no tool can fall under, and tools whose cost a cost limit could not count."""
    under = [tool.descriptor for tool in context.tools.values() if may_apply(limit, tool.descriptor)]
    whole = context.declared is not None and len(context.declared) == len(context.tools)
    if not under and whole:
        yield document.problem(
            (*at, "where"),
            f"`{limit.id}`: no tool makes such an access, so the limit would never hold",
            "see the verbs and levels of `accesses` in tools/*.yaml",
            "limit.never-holds",
        )
    if limit.count is not Count.COST:
        return
    for descriptor in under:
        cost = descriptor.cost
        if cost is not None and cost.currency == limit.currency:
            if cost_units(cost) > limit.cap:
                yield document.problem(
                    (*at, "cost"),
                    f"`{limit.id}`: one call of `{descriptor.qualified_name}` costs more than the limit",
                    "raise the limit, or write a forbid rule for the tool",
                    "limit.cost-over",
                )
            continue
        has = "declares no cost" if cost is None else f"has its cost in {cost.currency}"
        yield document.problem(
            (*at, "where" if document.line((*at, "where")) else "cost"),
            f"`{limit.id}`: `{descriptor.qualified_name}` falls under it and {has}, which it cannot count",
            f"give the tool a `cost` in {limit.currency} (`0` if it has none), or narrow `where`",
            "limit.cost-unknown",
        )
