"""Who may approve is what Cedar says over all rules, all people and the whole schema, for every access.

Held against an evaluation that uses nothing of the engine but the texts of its rules and the schema: of the
permits those that name approving, of the forbids all, and of the rules that ask none.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import cedarpy
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.approve import approve_questions, may_approve
from authz.core.cedar_context import ContextFacts, context_values
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY
from authz.model.decision import Access, Effect
from tests.support.world import NOW_MS, call, decide_in, facts, source, world

GROUPS: Mapping[str, list[str]] = {"staff": [], "finance": ["staff"], "frozen": [], "robots": []}
USERS: Mapping[str, list[str]] = {
    "ada": ["staff"],
    "grace": ["finance"],
    "lin": [],
    "nils": ["staff", "frozen"],
}
ENTITIES = orjson.dumps(
    {
        "groups": {name: {"groups": groups} for name, groups in GROUPS.items()},
        "users": {name: {"groups": groups} for name, groups in USERS.items()},
        "agents": {"coder-1": {"groups": ["robots"]}},
    }
).decode()
OPEN = (
    '@id("calls") permit (principal, action, resource);\n'
    '@id("asks") @requires("approval") forbid (principal, action, resource);\n'
)
CALLS = [
    call("fs/file_edit", path="/workspace/a.py", text="x", provenance={"/text": source("web")}),
    call("fs/file_copy", {"from": "/workspace/a", "to": "/etc/b"}, user="grace"),
    call("bank/transfer", to="x", amount=5, user=None, session=None),
    call("web/fetch", url="https://example.com/a", agent="other", parent_agent="coder-1"),
]

_SCOPES = (
    *("principal, %s, resource", 'principal in Group::"staff", %s, resource'),
    *('principal in Group::"frozen", %s, resource', 'principal == User::"grace", %s, resource'),
    *("principal, %s, resource is File", 'principal is User, %s, resource in Directory::"/workspace"'),
)
_NAMED = ('action in Action::"approve"', 'action == Action::"approve:fs/file_copy"')
_OTHERS = ("action", 'action in Action::"write"', 'action in Action::"bank/transfer"')
_OF_APPROVING = (
    *("context.requester.on_behalf_of == principal", 'context.requester.agent in Group::"robots"'),
    *('context.requester.agents.contains(Agent::"coder-1")', 'context.verb == "transact"'),
    *('["A2", "A3"].contains(context.authority)', 'context.asked_by.contains("asks")'),
    'context.requester.on_behalf_of in Group::"finance" || context.requester.on_behalf_of == User::""',
)
_OF_ALL = (
    *('principal.on_behalf_of in Group::"staff"', 'context.untrusted.contains("payload")'),
    *("context.sandboxed", 'context.session.id == ""', 'context.tool == Tool::"fs/file_edit"'),
    *("principal is Agent", "9223372036854775807 + (if context.sandboxed then 1 else 0) > 0"),
)
_CLAUSES = ("", " when { %s }", " unless { %s }")


@st.composite
def rules(draw: st.DrawFn, effect: str | None = None) -> str:
    """One rule without a name, that loads."""
    kind = effect or draw(st.sampled_from(["permit", "forbid", '@requires("approval") forbid']))
    named = draw(st.booleans()) and not kind.startswith("@")
    scope = draw(st.sampled_from(_SCOPES))
    if not named and ("User" in scope):
        scope = _SCOPES[0]
    conditions = (*_OF_ALL, *(_OF_APPROVING if named else ()))
    clause = draw(st.sampled_from(_CLAUSES))
    told = clause % draw(st.sampled_from(conditions)) if clause else ""
    return f"{kind} ({scope % draw(st.sampled_from(_NAMED if named else _OTHERS))}){told};"


def _loads(rule: str) -> bool:
    # A scope about files and an action about none of them is a slip, and so no rule.
    return not ('"bank/transfer"' in rule and ("File" in rule or "Directory" in rule))


RULES = st.lists(rules().filter(_loads), max_size=6)
PEOPLE = st.sampled_from([*USERS, "zoe"])
SIGNED_IN = st.frozensets(st.sampled_from([*GROUPS, "elsewhere"]), max_size=2)


def bundle(texts: list[str]) -> Ruleset:
    return world(OPEN + "\n".join(f'@id("r{n}") {text}' for n, text in enumerate(texts)), entities=ENTITIES)


@cache
def stored_of(number: int) -> bytes:
    """What is kept of a call, by a bundle in which nothing is said of approving."""
    made, ruleset = CALLS[number], bundle([])
    outcome = decide_in(ruleset, made)
    assert outcome.decision.effect is Effect.REQUIRE_APPROVAL
    return approve_questions(made, facts(ruleset), outcome, ruleset.tools[(made.server, made.tool)])


def _reference(kind: str, name: str) -> dict[str, Any]:
    return {"__entity": {"type": kind, "id": name}}


def _entity(kind: str, name: str, attrs: Mapping[str, Any], parents: list[tuple[str, str]]) -> dict[str, Any]:
    above = [{"type": of, "id": id_} for of, id_ in parents]
    return {"uid": {"type": kind, "id": name}, "attrs": attrs, "parents": above}


def everybody(made: Call, person: str, signed_in: frozenset[str], access: Access) -> list[dict[str, Any]]:
    """Every entity that there is."""
    found = [
        _entity("Group", name, {}, [("Group", above) for above in groups])
        for name, groups in {**GROUPS, "elsewhere": []}.items()
    ]
    for name in sorted({*USERS, "", person, made.subject.on_behalf_of or ""}):
        groups = {*USERS.get(name, []), *(signed_in if name == person else ())}
        above = [("Group", group) for group in sorted(groups)]
        found.append(_entity("User", name, {"on_behalf_of": _reference("User", name)}, above))
    for name in ("coder-1", "other"):
        user = _reference("User", made.subject.on_behalf_of or "")
        robots = [("Group", "robots")] if name == "coder-1" else []
        found.append(_entity("Agent", name, {"on_behalf_of": user}, robots))
    chain = access.resource.chain
    for index, entity in enumerate(chain):
        above = [(one.type, one.id) for one in chain[index + 1 : index + 2]]
        attributes = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in entity.attributes.items()
        }
        found.append(_entity(entity.type, entity.id, attributes, above))
    found.append(_entity("Tool", made.tool_name, {"server": made.server, "name": made.tool}, []))
    return found


def is_permitted(ruleset: Ruleset, texts: list[str], made: Call, person: str, groups: frozenset[str]) -> bool:
    """What Cedar itself says, of every access."""
    outcome, tool = decide_in(bundle([]), made), ruleset.tools[(made.server, made.tool)]
    assert outcome.provenance is not None
    assert outcome.believed is not None
    context = ContextFacts(
        call=made,
        descriptor=tool.descriptor,
        arguments=outcome.decision.arguments or {},
        provenance=outcome.provenance,
        believed=outcome.believed,
        capability=NO_CAPABILITY,
        exposed=ruleset.every_label if made.subject.session is None else frozenset(),
        delegated=made.delegated,
        now_ms=NOW_MS,
    )
    subject = made.subject
    agents = sorted({subject.agent, *([subject.parent_agent] if subject.parent_agent else [])})
    counted = [
        text
        for text in texts
        if text.startswith("forbid") or (text.startswith("permit") and '"approve' in text)
    ]
    decisions = []
    for access in outcome.decision.accesses:
        values = {
            **context_values(context, access, tool.encoder, None),
            "verb": access.verb.value,
            "authority": access.authority.name,
            "asked_by": ["asks"],
            "requester": {
                "agent": _reference("Agent", subject.agent),
                "on_behalf_of": _reference("User", subject.on_behalf_of or ""),
                "agents": [_reference("Agent", agent) for agent in agents],
            },
        }
        resource = access.resource.entity
        request = {
            "principal": {"type": "User", "id": person},
            "action": {"type": "Action", "id": f"approve:{made.tool_name}"},
            "resource": {"type": resource.type, "id": resource.id},
            "context": values,
        }
        entities = everybody(made, person, groups, access)
        result = cedarpy.is_authorized(request, "\n".join(counted), entities, schema=ruleset.schema_text)
        assert result.decision in (cedarpy.Decision.Allow, cedarpy.Decision.Deny), result.diagnostics.errors
        decisions.append(result.decision is cedarpy.Decision.Allow and not result.diagnostics.errors)
    return bool(decisions) and all(decisions)


@given(texts=RULES, number=st.integers(0, len(CALLS) - 1), person=PEOPLE, groups=SIGNED_IN)
@settings(max_examples=60, deadline=None)
def test_it_is_what_cedar_says_of_everything(
    texts: list[str], number: int, person: str, groups: frozenset[str]
) -> None:
    ruleset = bundle(texts)
    permission = may_approve(ruleset, stored_of(number), person, groups, now_ms=NOW_MS)

    if person not in USERS and not groups:
        assert not permission.permitted
    elif any("9223372036854775807" in text and text.startswith("permit (") for text in texts):
        # A permit that fails is skipped by Cedar, and refuses here, whatever it names.
        assert not permission.permitted or is_permitted(ruleset, texts, CALLS[number], person, groups)
    else:
        assert permission.permitted == is_permitted(ruleset, texts, CALLS[number], person, groups)


@given(
    texts=RULES,
    forbid=rules("forbid").filter(_loads),
    number=st.integers(0, len(CALLS) - 1),
    person=PEOPLE,
    groups=SIGNED_IN,
)
@settings(max_examples=25, deadline=None)
def test_a_forbid_more_never_lets_anybody_more(
    texts: list[str], forbid: str, number: int, person: str, groups: frozenset[str]
) -> None:
    stored = stored_of(number)
    before = may_approve(bundle(texts), stored, person, groups, now_ms=NOW_MS)
    after = may_approve(bundle([*texts, forbid]), stored, person, groups, now_ms=NOW_MS)

    assert before.permitted or not after.permitted


@given(texts=RULES, number=st.integers(0, len(CALLS) - 1), groups=SIGNED_IN)
@settings(max_examples=25, deadline=None)
def test_whom_nothing_permits_never_may(texts: list[str], number: int, groups: frozenset[str]) -> None:
    without = [text for text in texts if not (text.startswith("permit") and '"approve' in text)]

    for person in (*USERS, "zoe", "coder-1", ""):
        assert not may_approve(bundle(without), stored_of(number), person, groups, now_ms=NOW_MS).permitted


@given(texts=RULES, number=st.integers(0, len(CALLS) - 1))
@settings(max_examples=15, deadline=None)
def test_an_agent_is_nobody_who_approves(texts: list[str], number: int) -> None:
    """Its name is no person's, also where a rule names the agent or a group of it."""
    agents = (
        'permit (principal, action in Action::"approve", resource);',
        'permit (principal in Group::"robots", action in Action::"approve", resource);',
    )
    ruleset = bundle([*texts, *agents])

    assert not may_approve(ruleset, stored_of(number), "coder-1", now_ms=NOW_MS).permitted
