"""What Cedar is handed is a slice, and the slice is sound (spec section 6).

Random rules, errors included, are evaluated twice: by `decide`, which hands over the rules, context and
entities that could matter, and here by Cedar itself over the texts of all rules, the whole context, the
whole schema and every entity there is. Effect, determining rules and errors must be equal.
"""

import json
import re
from typing import Any

import cedarpy
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.canonical import canonicalize
from authz.core.cedar_context import ContextFacts, context_values
from authz.core.cedar_schema import action_id
from authz.core.decide import Outcome
from authz.core.ruleset import Ruleset
from authz.errors import BundleError
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY
from authz.model.decision import Access, Code, Effect, RuleKind
from authz.model.resource import Base, Resource
from tests.support.world import NOW_MS, call, decide_in, source, world

GROUPS = {"staff": [], "finance": ["staff"], "admins": ["finance"]}
USERS = {"ada": (["staff"], {}), "grace": (["finance"], {"role": "boss"}), "eve": ([], {})}
AGENTS = {"coder-1": (["staff"], {"team": "red"}), "root": (["admins"], {}), "stray": ([], {})}
ENTITIES = json.dumps(
    {
        "groups": {name: {"groups": parents} for name, parents in GROUPS.items()},
        "users": {name: {"groups": groups, "tags": tags} for name, (groups, tags) in USERS.items()},
        "agents": {name: {"groups": groups, "tags": tags} for name, (groups, tags) in AGENTS.items()},
    }
)
PATHS = ["/workspace", "/workspace/a", "/workspace/a/b.txt", "/etc", "/etc/passwd", "/"]

PRINCIPALS = [
    "principal",
    'principal == Agent::"coder-1"',
    'principal in Group::"staff"',
    "principal is Agent",
]
PRINCIPALS += ['principal is Agent in Group::"admins"', 'principal in Group::"nobody"']
ACTIONS = [
    "action",
    'action in Action::"read"',
    'action in Action::"write"',
    'action in Action::"fs/file_edit"',
]
ACTIONS += [
    'action in Action::"A1"',
    'action == Action::"fs/file_edit:write:A3"',
    'action in Action::"bank/transfer"',
]
ACTIONS += ['action in [Action::"read", Action::"A3"]', 'action == Action::"fs/file_read:read:A0"']
RESOURCES = [
    "resource",
    "resource is File",
    'resource in Directory::"/workspace"',
    'resource == File::"/etc/passwd"',
]
RESOURCES += [
    'resource is File in Directory::"/workspace/a"',
    "resource is Opaque",
    'resource in Directory::"/"',
]
ERROR = "9223372036854775807 + context.now.toTime().toMilliseconds() > 0"
ATOMS = [
    "true",
    "false",
    ERROR,
    f'context.role == "target" && {ERROR}',
    'principal in Group::"staff"',
    'principal in [Group::"finance", Group::"nobody"]',
    'principal.on_behalf_of in Group::"finance"',
    'principal.on_behalf_of == User::"ada"',
    'User::"grace" in Group::"staff"',
    'User::"eve" in Group::"staff"',
    'Group::"admins" in Group::"staff"',
    'Agent::"root" in Group::"staff"',
    'principal == Agent::"root" || Agent::"root" in Group::"admins"',
    '[Group::"finance", Group::"admins"].contains(Group::"staff")',
    'principal.hasTag("team") && principal.getTag("team") == "red"',
    'User::"grace".hasTag("role") && User::"grace".getTag("role") == "boss"',
    'principal.on_behalf_of.hasTag("role")',
    'resource in Directory::"/workspace/a"',
    'resource in [Directory::"/etc", Directory::"/workspace/a/b.txt"]',
    'Directory::"/workspace/a" in Directory::"/workspace"',
    'File::"/etc/passwd" in Directory::"/etc"',
    'resource is File && resource.name like "*.txt"',
    'resource is File && resource.extension == ""',
    'resource is Object && resource.type == "account"',
    'action in Action::"write"',
    'action in Action::"fs/file_read"',
    'action == Action::"fs/file_edit:write:A1"',
    'context.role == "target"',
    "context.sandboxed",
    "context.resolved",
    'context.untrusted.contains("target")',
    'context.sources.target.contains("web")',
    'context.session.id == "s-1"',
    "context.session.delegated",
    "context.session == context.session",
    'context.session.exposed.contains("secret")',
    "context.capability.presented",
    "context.capability has depth && context.capability.depth > 1",
    "context has capability.depth",
    "context.capability == {presented: false}",
    'context.tool == Tool::"fs/file_read"',
    'context.tool.name == "file_edit"',
    'Tool::"fs/file_read".server == "fs"',
    "context.sources == context.sources",
    'context.now < datetime("2027-01-01T00:00:00Z")',
    'context.side_effect == "none" || context.undoable',
    'context.arguments has text && context.arguments.text == "x"',
    "context.arguments has append && context.arguments.append",
    "context.arguments has amount && context.arguments.amount has long && context.arguments.amount.long > 3",
    "context has arguments.amount.decimal",
    "context.arguments has extra",
]  # fmt: skip


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """A boolean expression over the atoms."""
    atom = st.sampled_from(ATOMS)
    inner = st.recursive(
        atom.map(lambda text: f"({text})"),
        lambda part: st.one_of(
            st.tuples(part, part).map(lambda two: f"({two[0]} && {two[1]})"),
            st.tuples(part, part).map(lambda two: f"({two[0]} || {two[1]})"),
            part.map(lambda text: f"!{text}"),
            st.tuples(part, part, part).map(lambda three: f"(if {three[0]} then {three[1]} else {three[2]})"),
        ),
        max_leaves=4,
    )
    return draw(inner)


@st.composite
def rule_sets(draw: st.DrawFn) -> list[str]:
    """One to nine rules with names, of every kind."""
    rules = []
    for number in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["permit", "permit", "permit", "forbid", '@requires("approval") forbid']))
        mark, effect = kind.rsplit(" ", 1) if " " in kind else ("", kind)
        scope = ", ".join(draw(st.sampled_from(part)) for part in (PRINCIPALS, ACTIONS, RESOURCES))
        clauses = "".join(
            f" {draw(st.sampled_from(['when', 'unless']))} {{ {draw(conditions())} }}"
            for _ in range(draw(st.integers(0, 2)))
        )
        rules.append(f'@id("r{number}") {mark} {effect} ({scope}){clauses};')
    return rules


CALLS = [
    call("fs/file_read", path="/workspace/a"),
    call("fs/file_read", path="/etc/passwd", agent="root", user="grace"),
    call("fs/file_read", path="b.txt", agent="stray", user=None, cwd=None),
    call("fs/file_read", path="/workspace/a/b.txt", session=None, parent_agent="root"),
    call("fs/file_edit", path="/workspace/a", text="x", append=True),
    call("fs/file_edit", path="/workspace/a/b.txt", text="", provenance={"/path": source("web")}),
    call("fs/file_edit", path="/etc/passwd", text="x", agent="unheard-of", user="unheard-of"),
    call("fs/file_copy", {"from": "/etc/passwd", "to": "/workspace/a"}),
    call("bank/transfer", to="a-1", amount=5, provenance={"": source("user")}),
    call("bank/transfer", to="a-1", amount=1.5, agent="root", user="ada"),
]
# Everything is allowed there, so every stage before the rules has run.
OPEN = world(entities=ENTITIES)


def every_entity(made: Call, access: Access) -> list[dict[str, Any]]:
    """All people, all tools, and the resource and every path above any path that rules can name."""
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(
        kind: str, name: str, attributes: dict[str, Any], parents: list[tuple[str, str]], **more: Any
    ) -> None:
        found[(kind, name)] = {
            "uid": {"type": kind, "id": name},
            "attrs": attributes,
            "parents": [{"type": type_, "id": id_} for type_, id_ in parents],
            **more,
        }

    for name, parents in GROUPS.items():
        add("Group", name, {}, [("Group", parent) for parent in parents])
    for name, (groups, tags) in {"": ([], {}), "unheard-of": ([], {}), **USERS}.items():
        itself = {"on_behalf_of": {"__entity": {"type": "User", "id": name}}}
        add("User", name, itself, [("Group", group) for group in groups], tags=tags)
    for name, (groups, tags) in {made.subject.agent: ([], {}), **AGENTS}.items():
        user = (made.subject.on_behalf_of or "") if name == made.subject.agent else ""
        attributes = {"on_behalf_of": {"__entity": {"type": "User", "id": user}}}
        add("Agent", name, attributes, [("Group", group) for group in groups], tags=tags)
    for server, name in OPEN.tools:
        add("Tool", f"{server}/{name}", {"server": server, "name": name}, [])
    resources: list[Resource] = [access.resource]
    for path in PATHS:
        canonical = canonicalize("path", path, Base())
        assert isinstance(canonical, tuple)
        resources += canonical
    for resource in resources:
        for index, entity in enumerate(resource.chain):
            above = resource.chain[index + 1 : index + 2]
            add(entity.type, entity.id, dict(entity.attributes), [(one.type, one.id) for one in above])
    return list(found.values())


Verdict = tuple[Effect, Code, frozenset[str]]


def full_verdict(ruleset: Ruleset, made: Call, outcome: Outcome, access: Access) -> Verdict:
    """What Cedar says over all rules: first permits and forbids, then, of what they allow, the asks."""
    tool = ruleset.tools[(made.server, made.tool)]
    assert outcome.provenance is not None
    assert outcome.believed is not None
    assert outcome.decision.arguments is not None
    facts = ContextFacts(
        call=made,
        descriptor=tool.descriptor,
        arguments=outcome.decision.arguments,
        provenance=outcome.provenance,
        believed=outcome.believed,
        capability=NO_CAPABILITY,
        # A session that is not named may have read anything.
        exposed=frozenset({"web"}) | (ruleset.every_label if made.subject.session is None else set()),
        delegated=False,
        now_ms=NOW_MS,
    )
    request = {
        "principal": {"type": "Agent", "id": made.subject.agent},
        "action": {
            "type": "Action",
            "id": action_id(tool.descriptor.qualified_name, access.verb, access.authority),
        },
        "resource": {"type": access.resource.entity.type, "id": access.resource.entity.id},
        "context": context_values(facts, access, tool.encoder, None),
    }
    policies = list(ruleset.engine.policies.values())
    asks = [policy for policy in policies if policy.match.kind is RuleKind.ASK]
    settled = [policy for policy in policies if policy.match.kind is not RuleKind.ASK]
    entities = every_entity(made, access)

    def ask(chosen: list[Any], more: str = "") -> tuple[Any, frozenset[str], frozenset[str]]:
        text = "\n".join(policy.text for policy in chosen) + more
        result = cedarpy.is_authorized(request, text, entities, schema=ruleset.schema_text)
        names = {f"policy{index}": policy.id for index, policy in enumerate(chosen)}
        erred = {
            found[1] for error in result.diagnostics.errors if (found := re.search(r"`(policy\d+)`", error))
        }
        assert result.decision in (cedarpy.Decision.Allow, cedarpy.Decision.Deny), result.diagnostics.errors
        assert bool(erred) == bool(result.diagnostics.errors)
        reasons = frozenset(names[reason] for reason in result.diagnostics.reasons if reason in names)
        return result.decision, reasons, frozenset(names[name] for name in erred)

    decision, reasons, erred = ask(settled)
    if erred:
        return Effect.DENY, Code.POLICY_ERROR, erred
    if decision is not cedarpy.Decision.Allow:
        return Effect.DENY, Code.POLICY_FORBID if reasons else Code.POLICY_NO_MATCH, reasons
    permits = reasons
    decision, reasons, erred = ask(asks, "permit (principal, action, resource);")
    if erred:
        return Effect.DENY, Code.POLICY_ERROR, erred
    if decision is cedarpy.Decision.Allow:
        return Effect.ALLOW, Code.POLICY_PERMIT, permits
    return Effect.REQUIRE_APPROVAL, Code.APPROVAL_REQUIRED, reasons


def usable(rules: list[str]) -> Ruleset:
    """The world of these rules less those that are refused at load (a scope that no action has)."""
    kept = [*rules, '@id("none") permit (principal, action, resource) when { false };']
    while True:
        try:
            return world("\n".join(kept), entities=ENTITIES)
        except BundleError as error:
            refused = {problem.line for problem in error.problems}
            assert refused
            kept = [rule for line, rule in enumerate(kept, start=1) if line not in refused]


@given(rule_sets(), st.lists(st.sampled_from(CALLS), min_size=1, max_size=4))
@settings(max_examples=150)
def test_the_slice_says_what_everything_says(rules: list[str], calls: list[Call]) -> None:
    ruleset = usable(rules)
    for made in calls:
        known = decide_in(OPEN, made, exposed=["web"])
        expected = [full_verdict(ruleset, made, known, access) for access in known.decision.accesses]
        decision = decide_in(ruleset, made, exposed=["web"]).decision
        if decision.code is Code.TOOL_UNKNOWN:
            # Hidden before it was judged: then nothing could have allowed it.
            assert Effect.DENY in [effect for effect, _, _ in expected]
            continue
        found = [
            (verdict.effect, verdict.code, frozenset(rule.rule for rule in verdict.rules))
            for verdict in decision.verdicts
        ]
        assert found == expected
