"""Stage 9: what a call takes of the bundle's limits, and the refusal when one is reached.

A limit counts calls, slots or cost. Every kind is one counter of reservations that end: after the window
for calls and cost (a sliding window: never more than the cap in any span of that length), with the
decision for concurrency. The store compares and writes them in the commit's transaction, so here nothing
is known of a counter but what a commit has just found: `Facts.reached`.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import islice, product
from typing import Final

from authz.core.facts import Facts
from authz.core.fingerprint import digest
from authz.core.ruleset import Tool
from authz.core.tools import possible_accesses
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY, CapabilityFacts
from authz.model.decision import Access, Code, Next, Refusal, RuleKind, RuleMatch, Stage
from authz.model.limit import COST_SCALE, Count, Limit, LimitScope, Partition, Reservation, ResourceScope
from authz.model.resource import Resource, Scope
from authz.model.tool import Cost, Descriptor

CODES: Final = {
    Count.CALLS: Code.LIMIT_RATE,
    Count.CONCURRENCY: Code.LIMIT_CONCURRENCY,
    Count.COST: Code.LIMIT_COST,
}
CLOCK_HOLD_MS: Final = 5 * 60_000
"""How far a clock may go back before the time that was seen first is taken for the fault."""

MAX_RESERVATIONS: Final = 64
"""Counters that one call may take of. One transaction locks those of many calls, and others wait for it."""


def counter_time(now_ms: int, seen_ms: int) -> int:
    """The time at which a counter is judged: it does not go back with a clock that does.

    A clock set back by a little, or a replica's that is behind, would make new reservations end early, so
    time stands still until it has caught up. Beyond `CLOCK_HOLD_MS` the clock was ahead before, and to
    wait for it would refuse calls for as long as it was.
    """
    return seen_ms if now_ms < seen_ms <= now_ms + CLOCK_HOLD_MS else now_ms


def limits_by_tool(
    limits: Iterable[Limit], tools: Mapping[tuple[str, str], Tool]
) -> Mapping[tuple[str, str], tuple[Limit, ...]]:
    """The limits that a call of each tool can fall under; tools without any are left out."""
    limits = tuple(limits)
    found = {
        key: tuple(limit for limit in limits if may_apply(limit, tool.descriptor))
        for key, tool in tools.items()
    }
    return {key: applying for key, applying in found.items() if applying}


def may_apply(limit: Limit, descriptor: Descriptor) -> bool:
    """Whether any call of this tool can fall under the limit, whoever makes it and on whatever."""
    where = limit.where
    if where.tools is not None and descriptor.qualified_name not in where.tools:
        return False
    if where.servers is not None and descriptor.server.alias not in where.servers:
        return False
    return any(
        (where.verbs is None or verb in where.verbs) and (where.levels is None or bool(where.levels & levels))
        for spec in descriptor.accesses
        for verb, _, levels in possible_accesses(descriptor, spec)
    )


def cost_units(cost: Cost) -> int:
    """A cost in millionths of its currency. Descriptors have at most six decimals."""
    return int(cost.amount * COST_SCALE)


def reservations_of(
    call: Call,
    facts: Facts,
    tool: Tool,
    accesses: tuple[Access, ...],
    capability: CapabilityFacts = NO_CAPABILITY,
) -> tuple[Reservation, ...]:
    """What an allow of this call takes: of each limit that it falls under, once for each partition.

    Where that is more than `MAX_RESERVATIONS` only one more than those, which `check_limits` refuses.
    """
    limits = facts.ruleset.limits_by_tool.get((call.server, call.tool), ())
    agents = capability.agents or (call.subject.agent,)
    found = (
        reservation
        for limit in limits
        if _about_subject(limit.where, agents, call.subject.on_behalf_of)
        if (counted := [access for access in accesses if _about_access(limit.where, access)])
        for reservation in _reserve(limit, call, facts, tool, counted, capability)
    )
    return tuple(islice(found, MAX_RESERVATIONS + 1))


def ends_at_ms(facts: Facts, capability: CapabilityFacts) -> int:
    """When an allow, and the lease that comes with it, ends: never after the capability that it rests on."""
    ends = facts.now_ms + facts.ttl_ms
    return ends if capability.expires_at_ms is None else min(ends, capability.expires_at_ms)


def _reserve(
    limit: Limit,
    call: Call,
    facts: Facts,
    tool: Tool,
    counted: list[Access],
    capability: CapabilityFacts,
) -> Iterator[Reservation]:
    amount = 1
    if limit.count is Count.COST:
        # The loader refuses a tool without this cost; one that came by all the same fits no limit.
        cost = tool.descriptor.cost
        known = cost is not None and cost.currency == limit.currency
        amount = cost_units(cost) if cost is not None and known else limit.cap + 1
        if amount == 0:
            return
    subject = call.subject
    values: dict[Partition, tuple[str, ...]] = {
        Partition.AGENT: tuple(dict.fromkeys(capability.agents or (subject.agent,))),
        # Calls that name no user or no session share one counter: leaving a name out escapes nothing.
        Partition.USER: (subject.on_behalf_of or "",),
        Partition.SESSION: (subject.session or "",),
        Partition.TOOL: (tool.descriptor.qualified_name,),
        Partition.SERVER: (tool.descriptor.server.alias,),
    }
    if Partition.DOMAIN in limit.per:
        values[Partition.DOMAIN] = tuple(dict.fromkeys(_domains(limit.where, counted)))
    parts = [part for part in limit.per if part is not Partition.TENANT]
    for chosen in product(*(values[part] for part in parts)):
        partition = tuple(zip((part.value for part in parts), chosen, strict=True))
        yield Reservation(
            tenant=facts.caller.tenant,
            limit=limit.id,
            key=counter_key(facts.caller.tenant, limit, partition),
            partition=partition,
            amount=amount,
            cap=limit.cap,
            window_ms=limit.window_ms,
            expires_at_ms=ends_at_ms(facts, capability),
        )


def counter_key(tenant: str, limit: Limit, partition: tuple[tuple[str, str], ...]) -> str:
    """The counter's name. Cap and window are no part of it: a reload that changes them keeps the count."""
    return _counter_key(tenant, limit.id, limit.count.value, limit.currency, partition)


@lru_cache(maxsize=4096)
def _counter_key(
    tenant: str, name: str, count: str, currency: str, partition: tuple[tuple[str, str], ...]
) -> str:
    return digest([tenant, name, count, currency, [list(part) for part in partition]])


def _about_subject(where: LimitScope, agents: tuple[str, ...], user: str | None) -> bool:
    """Whether any agent of the chain, or its user, is one that the limit is about."""
    if where.agents is not None and where.agents.isdisjoint(agents):
        return False
    if where.users is not None and user not in where.users:
        return False
    if where.members is None:
        return True
    group_agents, group_users = where.members
    return not group_agents.isdisjoint(agents) or user in group_users


def _about_access(where: LimitScope, access: Access) -> bool:
    return (
        (where.verbs is None or access.verb in where.verbs)
        and (where.levels is None or access.authority in where.levels)
        and (where.resources is None or any(_is_in(access, scope) for scope in where.resources))
    )


def _is_in(access: Access, scope: ResourceScope) -> bool:
    """Whether the access touches what `scope` names: in it, or a tree above it."""
    resource = access.resource
    if resource.kind == "opaque":
        return True  # nobody can say where it lies, so it may lie here
    if _contains(scope, resource):
        return True
    # A tree is named by the container of the same spelling, where its kind has one.
    return access.scope is Scope.TREE and any(
        (entity.type, entity.id) in scope.above for entity in resource.chain[:2]
    )


def _contains(scope: ResourceScope, resource: Resource) -> bool:
    return any((entity.type, entity.id) == scope.container for entity in resource.chain)


def _domains(where: LimitScope, accesses: Iterable[Access]) -> Iterator[str]:
    """What counts as the domain: each declared one that contains the resource, else its own host.

    A resource with neither (a file) has no domain and takes nothing; an opaque one may have any, and
    all of those share one counter.
    """
    declared = [scope for scope in where.resources or () if scope.container[0] == "Domain"]
    for access in accesses:
        chain = access.resource.chain
        if access.resource.kind == "opaque":
            yield ""
            continue
        found = [scope.container[1] for scope in declared if _contains(scope, access.resource)]
        # The last host is the one without its port.
        hosts = [entity.id for entity in chain if entity.type == "Host"][-1:]
        yield from found or hosts or [entity.id for entity in chain if entity.type == "Domain"][:1]


def check_limits(reservations: tuple[Reservation, ...], facts: Facts) -> Refusal | None:
    """The refusal when a commit has just found that one of these does not fit; `None` when none did.

    And when they are too many: no store is asked for so much.
    """
    if len(reservations) > MAX_RESERVATIONS:
        return _too_many(reservations, facts)
    found = {reached.key: reached for reached in facts.reached}
    over = [(found[taken.key], taken) for taken in reservations if taken.key in found]
    if not over:
        return None
    limits = {limit.id: limit for limit in facts.ruleset.limits}
    never = [taken for reached, taken in over if reached.frees_at_ms is None]
    # What holds longest decides when to come back, and names the code.
    last_reached, last = max(over, key=lambda pair: _frees_at(pair[0].frees_at_ms))
    names = list(dict.fromkeys(taken.limit for _, taken in over))
    told = " ".join(_describe(limits[name]) for name in names)
    if never:
        return Refusal(
            stage=Stage.RESERVATION,
            code=CODES[limits[never[0].limit].count],
            message=f"{told} this call is more than the limit ever lets through",
            next=(Next.ESCALATE, Next.STOP),
            matched=tuple(_match(limits[name]) for name in names),
        )
    wait_ms = max(1, _frees_at(last_reached.frees_at_ms) - facts.now_ms)
    return Refusal(
        stage=Stage.RESERVATION,
        code=CODES[limits[last.limit].count],
        message=f"{told} wait {-(-wait_ms // 1000)} s, then send the call again as it is",
        next=(Next.WAIT, Next.STOP),
        retry_unchanged=True,
        retry_after_ms=wait_ms,
        matched=tuple(_match(limits[name]) for name in names),
    )


def _too_many(reservations: tuple[Reservation, ...], facts: Facts) -> Refusal:
    limits = {limit.id: limit for limit in facts.ruleset.limits}
    names = list(dict.fromkeys(taken.limit for taken in reservations))
    told = ", ".join(f"`{name}`" for name in names)
    return Refusal(
        stage=Stage.RESERVATION,
        code=CODES[limits[names[-1]].count],
        message=f"one call may count against at most {MAX_RESERVATIONS} counters of limits, and this one "
        f"counts against more ({told}); send calls with fewer accesses",
        next=(Next.CHANGE_ARGUMENTS, Next.STOP),
        matched=tuple(_match(limits[name]) for name in names),
    )


def _frees_at(frees_at_ms: int | None) -> int:
    return 2**63 if frees_at_ms is None else frees_at_ms


def _match(limit: Limit) -> RuleMatch:
    return RuleMatch(
        rule=limit.id, kind=RuleKind.LIMIT, file=limit.file, line=limit.line, reason=limit.reason
    )


def _describe(limit: Limit) -> str:
    per = ", ".join(part.value for part in limit.per if part is not Partition.TENANT)
    of_each = f" for one {per}" if per else ""
    seconds = f"{Decimal(limit.window_ms) / 1000:f}"
    if limit.count is Count.CONCURRENCY:
        most = f"{limit.cap} calls at a time"
    elif limit.count is Count.CALLS:
        most = f"{limit.cap} calls in {seconds} s"
    else:
        most = f"{(Decimal(limit.cap) / COST_SCALE).normalize():f} {limit.currency} in {seconds} s"
    reason = f" {limit.reason.rstrip('.')}." if limit.reason else ""
    return f"the limit `{limit.id}` is reached: at most {most}{of_each}.{reason}"
