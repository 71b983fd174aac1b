"""Who may approve a call, by Cedar (spec section 8): the rules about `action in Action::"approve"`.

What there is to ask is kept as it was when the call was made, in full and not only as far as rules read it
then: `approve_questions`. It is asked when somebody looks at the request and when somebody answers it, by the
bundle that is in force at that time: `may_approve`. Every access must be permitted; rules that ask are not
asked again. Whatever is not a clean permit refuses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from authz.core.cedar_context import (
    ContextFacts,
    Reads,
    cedar_datetime,
    context_values,
    told_part,
)
from authz.core.cedar_schema import approval_id
from authz.core.decide import Outcome
from authz.core.delegation import is_delegated
from authz.core.entities import NO_USER, PreparedEntities, resource_document
from authz.core.facts import Facts
from authz.core.judge import MAX_PLACES
from authz.core.policy import PolicyAnswer, PolicyEngine, Question
from authz.core.ruleset import Ruleset, Tool
from authz.model.call import Call
from authz.model.decision import Access, Code, Effect, RuleMatch
from authz.model.resource import Entity, PathPattern, Resource, Scope

VERSION: Final = 1
"""Of what is kept. Another one is not read, and so nobody may approve by it."""
_OWN: Final = ("scope", "role", "resolved", "verb", "authority")
"""Fields of the context that differ from one access of a call to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What policy says to a person who would approve a call."""

    permitted: bool
    because: str
    """In words, for people."""
    rules: tuple[RuleMatch, ...] = ()
    """Those that permit it; or those that forbid it, or failed."""
    entities: frozenset[str] = frozenset()
    """The person and every group that it is in, directly or not, as Cedar writes them: `Group::"finance"`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One access that somebody would approve."""

    resource: Resource
    tree: bool
    pattern: PathPattern | None
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Questions:
    """What was kept of a call."""

    tool: str
    tool_digest: str
    agents: tuple[str, ...]
    user: str
    accesses: tuple[_Asked, ...]


def approve_questions(call: Call, facts: Facts, outcome: Outcome, tool: Tool) -> bytes:
    """Everything that a question to approve this call can need, also by rules that are written later.

    The same bytes every time. They hold the arguments in the clear, so they are for the vault. Raises
    `ValueError` for a call that ended before rules were asked: nobody is asked about that.
    """
    draft, provenance, believed = outcome.draft, outcome.provenance, outcome.believed
    if draft is None or provenance is None or believed is None:
        raise ValueError("the call ended before rules were asked, so there is nothing to approve")
    exposed = facts.exposed
    if call.subject.session is None:
        # As `decide` takes it: a session that is not named may have read anything.
        exposed |= facts.ruleset.every_label
    context = ContextFacts(
        call=call,
        descriptor=tool.descriptor,
        arguments=draft.canonical.arguments,
        provenance=provenance,
        believed=believed,
        capability=outcome.capability,
        exposed=exposed,
        delegated=is_delegated(call, facts, outcome.capability),
        now_ms=facts.now_ms,
    )
    accesses = [_kept_access(access, context, tool) for access in draft.canonical.accesses]
    agents = _agents(call, outcome)
    shared = accesses[0]["context"] if accesses else {}
    kept = {
        "version": VERSION,
        "tool": tool.descriptor.qualified_name,
        "tool_digest": tool.descriptor.digest,
        "agents": agents,
        "user": call.subject.on_behalf_of or NO_USER,
        "context": {
            **{name: value for name, value in shared.items() if name not in _OWN},
            "asked_by": sorted({rule.rule for rule in outcome.decision.matched}),
            "requester": {
                "agent": _entity("Agent", call.subject.agent),
                "on_behalf_of": _entity("User", call.subject.on_behalf_of or NO_USER),
                "agents": [_entity("Agent", agent) for agent in agents],
            },
        },
        # What is the same for all accesses is kept once: arguments can be long, and accesses many.
        "accesses": [
            {**access, "context": {name: access["context"][name] for name in _OWN}} for access in accesses
        ],
    }
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


def _agents(call: Call, outcome: Outcome) -> list[str]:
    """Every agent that has a part in the call: its own, those of its chain, and the parent that it names."""
    parent = call.subject.parent_agent
    return sorted({call.subject.agent, *outcome.capability.agents, *([parent] if parent is not None else ())})


def _entity(kind: str, name: str) -> dict[str, Any]:
    return {"__entity": {"type": kind, "id": name}}


def _kept_access(access: Access, context: ContextFacts, tool: Tool) -> dict[str, Any]:
    values = context_values(context, access, tool.encoder, None)
    resource = access.resource
    return {
        "kind": resource.kind,
        "uri": resource.uri,
        "value": resource.value,
        "chain": [[entity.type, entity.id] for entity in resource.chain],
        "attributes": dict(resource.entity.attributes),
        "tree": access.scope is Scope.TREE,
        "pattern": list(access.pattern.parts) if access.pattern is not None else None,
        "context": {**values, "verb": access.verb.value, "authority": access.authority.name},
    }


def may_approve(
    ruleset: Ruleset, stored: bytes, person: str, groups: frozenset[str] = frozenset(), *, now_ms: int
) -> Permission:
    """Whether the rules in force let a person approve the call that `stored` was made of.

    `person` is the id of a `User`, `groups` are what its sign-in says besides the bundle, and `now_ms` is the
    time of the answer. Never raises for what it is given.
    """
    known = ("User", person) in ruleset.entities.members
    if not person or not (known or groups):
        return Permission(permitted=False, because="neither this person nor any group of it is known")
    groups = frozenset(group for group in groups if group)
    questions = _read(stored)
    if questions is None:
        return Permission(permitted=False, because="what was asked for can no longer be read")
    principal = ruleset.entities.approver(person, groups, questions.agents, questions.user)
    found = _judge(ruleset, questions, principal, cedar_datetime(now_ms))
    entities = frozenset(Entity(type=kind, id=name).cedar for kind, name in principal.names)
    return replace(found, entities=entities)


def _judge(
    ruleset: Ruleset, questions: _Questions, principal: PreparedEntities, now: Mapping[str, Any]
) -> Permission:
    server, _, name = questions.tool.partition("/")
    tool = ruleset.tools.get((server, name))
    if tool is None:
        return Permission(permitted=False, because=f"there is no tool `{questions.tool}` any more")
    if tool.descriptor.digest != questions.tool_digest:
        because = f"the tool `{questions.tool}` has been changed since it was asked for"
        return Permission(permitted=False, because=because)
    permits: dict[str, RuleMatch] = {}
    left = MAX_PLACES
    for asked in questions.accesses:
        asked = replace(asked, context={**asked.context, "now": now})
        refused, permitting, places = _judge_access(ruleset.engine, questions.tool, asked, principal, left)
        if refused is not None:
            return refused
        left -= places
        permits |= {rule.rule: rule for rule in permitting}
    if not permits:
        return Permission(permitted=False, because="there is nothing that could be approved")
    named = ", ".join(f"`{rule}`" for rule in permits)
    verb = "permits" if len(permits) == 1 else "permit"
    return Permission(permitted=True, rules=tuple(permits.values()), because=f"{named} {verb} it")


def _judge_access(
    engine: PolicyEngine, tool: str, asked: _Asked, principal: PreparedEntities, left: int
) -> tuple[Permission | None, Sequence[RuleMatch], int]:
    """(the refusal, or `None`; the permits; how many places were judged): like `authz.core.judge`.

    A tree is judged at its root and at every place beneath it that a rule about approving names. Where such a
    rule looks closer than at places, nobody approves the whole: it may say something else of what lies there.
    """
    answer = _ask(engine, tool, asked, asked.resource, principal)
    if answer.effect is not Effect.ALLOW:
        return _refusal(answer), (), 0
    if not asked.tree:
        return None, answer.rules, 0
    action = approval_id(tool)
    places = engine.places_beneath(action, asked.resource, asked.pattern)
    if len(places) > left:
        return (
            Permission(permitted=False, because="rules name too many places beneath what it reaches"),
            (),
            0,
        )
    permits = list(answer.rules)
    for place in places:
        found = _ask(engine, tool, asked, place, principal)
        if found.effect is not Effect.ALLOW:
            return _refusal(found), (), 0
        permits += found.rules
    rules = [rule.rule for rule in answer.rules]
    if not engine.covers_beneath(action, rules, asked.resource, asked.pattern):
        because = "it reaches everything beneath a place, and the rules tell apart what lies there"
        return Permission(permitted=False, because=because, rules=answer.rules), (), 0
    return None, permits, len(places)


def _ask(
    engine: PolicyEngine, tool: str, asked: _Asked, resource: Resource, principal: PreparedEntities
) -> PolicyAnswer:
    values = asked.context
    if resource is not asked.resource:
        values = {**values, "scope": Scope.OBJECT.value}

    def context(reads: Reads) -> str:
        return orjson.dumps(told_part(values, reads)).decode()

    question = Question(
        principal=principal.uid,
        action=approval_id(tool),
        resource=[(entity.type, entity.id) for entity in resource.chain],
        context=context,
    )
    (answer,) = engine.evaluate([question], principal, f"[{resource_document(resource).decode()}]")
    return answer


def _refusal(answer: PolicyAnswer) -> Permission:
    named = ", ".join(f"`{rule.rule}`" for rule in answer.rules)
    if answer.code is Code.POLICY_FORBID:
        reasons = [rule.reason for rule in answer.rules if rule.reason]
        told = f": {reasons[0]}" if reasons else ""
        verb = "forbids" if len(answer.rules) == 1 else "forbid"
        because = f"{named} {verb} it{told}".rstrip(".")
    elif answer.code is Code.POLICY_NO_MATCH:
        because = "no rule permits this person to approve it"
    else:
        because = f"the rules could not be evaluated{f': {named}' if named else ''}"
    return Permission(permitted=False, because=because, rules=answer.rules)


def _read(stored: bytes) -> _Questions | None:
    """What was kept; `None` for anything that `approve_questions` does not make."""
    try:
        kept = orjson.loads(stored)
        if kept["version"] != VERSION:
            return None
        accesses = tuple(_asked(kept["accesses"], kept["context"]))
        return _Questions(
            tool=_text(kept["tool"]),
            tool_digest=_text(kept["tool_digest"]),
            agents=tuple(map(_text, kept["agents"])),
            user=_text(kept["user"]),
            accesses=accesses,
        )
    except (LookupError, TypeError, ValueError):
        return None


def _asked(accesses: Iterable[Mapping[str, Any]], shared: Mapping[str, Any]) -> Iterator[_Asked]:
    for access in accesses:
        (kind, name), *above = access["chain"]
        first = Entity(type=_text(kind), id=_text(name), attributes=access["attributes"])
        chain = (first, *(Entity(type=_text(kind), id=_text(name)) for kind, name in above))
        pattern = access["pattern"]
        yield _Asked(
            resource=Resource(
                kind=_text(access["kind"]),
                uri=_text(access["uri"]),
                value=_text(access["value"]),
                chain=chain,
            ),
            # Whatever is not plainly one object is a tree.
            tree=access["tree"] is not False,
            pattern=PathPattern(parts=tuple(map(_text, pattern))) if pattern is not None else None,
            context={**shared, **access["context"]},
        )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value
