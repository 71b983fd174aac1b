"""What Cedar says of all rules over all entities: the yardstick for everything that is left out.

Nothing of the engine is used here but the texts of its rules: neither its index and sets, nor its entities,
nor the parts of the context and the schema that it tells.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cedarpy

from authz.core.canonical import canonicalize
from authz.core.policy import Policy
from authz.model.decision import Code, Effect, RuleKind
from authz.model.resource import Base, Resource
from tests.property import literals
from tests.property.policy_sets import Names, People

Verdict = tuple[Effect, Code, frozenset[str]]


class FullEvaluation:
    """All rules and all entities of one bundle, parsed once."""

    def __init__(self, policies: Iterable[Policy], schema_text: str, names: Names, people: People) -> None:
        policies = list(policies)
        self._schema = cedarpy.Schema.from_str(schema_text)
        asks = [policy for policy in policies if policy.match.kind is RuleKind.ASK]
        self._settled = _Rules([policy for policy in policies if policy.match.kind is not RuleKind.ASK])
        self._asking = _Rules(asks, "permit (principal, action, resource);")
        named = _chain(_named_resources(names))
        self._resources = {json.dumps(one["uid"]): one for one in named}
        self._names = names
        self._people = people
        self._known: dict[tuple[str, str], Any] = {}

    def verdict(
        self, *, agent: str, user: str | None, action: str, resource: Resource, context: dict[str, Any]
    ) -> Verdict:
        """First permits and hard forbids, then, of what they allow, the asks."""
        request = {
            "principal": {"type": "Agent", "id": agent},
            "action": {"type": "Action", "id": action},
            "resource": {"type": resource.entity.type, "id": resource.entity.id},
            "context": context,
        }
        chain = {json.dumps(one["uid"]): one for one in _chain([resource])}
        own = next(iter(chain))
        if self._resources.get(own, chain[own]) == chain[own]:
            more = [one for uid, one in chain.items() if uid not in self._resources]
            entities = self._entities(agent, user or "").with_added_json_str(json.dumps(more))
        else:  # the call knows better: whether a program is `known` depends on its arguments
            entities = self._parsed(agent, user or "", {**self._resources, own: chain[own]})
        decision, permits, erred = self._settled.ask(request, entities, self._schema)
        if erred:
            return Effect.DENY, Code.POLICY_ERROR, erred
        if decision is not cedarpy.Decision.Allow:
            return Effect.DENY, Code.POLICY_FORBID if permits else Code.POLICY_NO_MATCH, permits
        decision, asks, erred = self._asking.ask(request, entities, self._schema)
        if erred:
            return Effect.DENY, Code.POLICY_ERROR, erred
        if decision is cedarpy.Decision.Allow:
            return Effect.ALLOW, Code.POLICY_PERMIT, permits
        return Effect.REQUIRE_APPROVAL, Code.APPROVAL_REQUIRED, asks

    def _entities(self, agent: str, user: str) -> Any:
        """Everybody, all tools, and every resource that a rule can name."""
        found = self._known.get((agent, user))
        if found is None:
            found = self._known[agent, user] = self._parsed(agent, user, self._resources)
        return found

    def _parsed(self, agent: str, user: str, resources: Mapping[str, Any]) -> Any:
        people = {json.dumps(one["uid"]): one for one in self._everybody(agent, user)}
        text = json.dumps([*people.values(), *_tools(), *resources.values()])
        return cedarpy.Entities.from_json_str(text, self._schema)

    def _everybody(self, agent: str, user: str) -> Iterable[dict[str, Any]]:
        people = self._people
        for name, parents in people.groups.items():
            yield _entity("Group", name, {}, [("Group", parent) for parent in parents])
        none: tuple[list[str], dict[str, str]] = ([], {})
        for name, (groups, tags) in {"": none, user: none, **people.users}.items():
            itself = {"on_behalf_of": {"__entity": {"type": "User", "id": name}}}
            yield _entity("User", name, itself, [("Group", group) for group in groups], tags)
        # An agent that nobody declared exists all the same: in no group, on behalf of nobody.
        undeclared = dict.fromkeys([agent, *self._names.agents], none)
        for name, (groups, tags) in {**undeclared, **people.agents}.items():
            behind = {"__entity": {"type": "User", "id": user if name == agent else ""}}
            parents = [("Group", group) for group in groups]
            yield _entity("Agent", name, {"on_behalf_of": behind}, parents, tags)


class _Rules:
    """One set of rules, as text; Cedar names them by position."""

    def __init__(self, policies: Sequence[Policy], more: str = "") -> None:
        self._names = [policy.id for policy in policies]
        self._parsed = cedarpy.PolicySet.from_str("\n".join([*(policy.text for policy in policies), more]))

    def ask(self, request: Any, entities: Any, schema: Any) -> tuple[Any, frozenset[str], frozenset[str]]:
        """(decision, rules that determined it, rules that erred)."""
        result = cedarpy.is_authorized(request, self._parsed, entities, schema=schema)
        errors = result.diagnostics.errors
        assert result.decision in (cedarpy.Decision.Allow, cedarpy.Decision.Deny), errors
        erred = [int(found[1]) for error in errors if (found := re.search(r"`policy(\d+)`", error))]
        assert len(erred) == len(errors)
        reasons = [int(reason.removeprefix("policy")) for reason in result.diagnostics.reasons]
        determined = frozenset(self._names[number] for number in reasons if number < len(self._names))
        return result.decision, determined, frozenset(self._names[number] for number in erred)


def _named_resources(names: Names) -> Iterable[Resource]:
    for folder in names.folders:
        for file in ("", "/f0", "/f1", "/f2"):
            yield from _canonical("path", folder.rstrip("/") + file or "/")
    for domain in names.domains:
        yield from _canonical("host", domain)
    for account in names.accounts:
        yield from _canonical("id", account, object_type="account")
    yield from literals.resources()


def _canonical(kind: str, text: str, **more: Any) -> tuple[Resource, ...]:
    found = canonicalize(kind, text, Base(), **more)
    assert isinstance(found, tuple)
    return found


def _chain(resources: Iterable[Resource]) -> Iterable[dict[str, Any]]:
    """Resources and all that they lie in, each with only its nearest as parent."""
    for resource in resources:
        for index, entity in enumerate(resource.chain):
            above = [(one.type, one.id) for one in resource.chain[index + 1 : index + 2]]
            yield _entity(entity.type, entity.id, dict(entity.attributes), above)


def _tools() -> Iterable[dict[str, Any]]:
    names = "fs/file_read fs/file_edit fs/file_remove fs/file_copy web/fetch bank/transfer bank/mail_send"
    more = "shell/run git/pull git/push db/execute"
    for tool in f"{names} {more}".split():
        server, _, name = tool.partition("/")
        yield _entity("Tool", tool, {"server": server, "name": name}, [])


def _entity(
    kind: str,
    name: str,
    attributes: dict[str, Any],
    parents: Sequence[tuple[str, str]],
    tags: dict[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "uid": {"type": kind, "id": name},
        "attrs": attributes,
        "parents": [{"type": type_, "id": id_} for type_, id_ in parents],
        **({"tags": tags} if tags else {}),
    }
