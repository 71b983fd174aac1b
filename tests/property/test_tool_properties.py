"""What holds of every tool registry: identity, visibility, scope of rules, and changes of a definition."""

import copy
import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.catalogue import visible_entries
from authz.core.fingerprint import advertised_digest
from authz.core.pointer import leaves
from authz.core.ruleset import Ruleset
from authz.errors import BundleError
from authz.model.call import Subject
from authz.model.decision import Effect
from tests.support.world import PERMIT_ALL, call, caller_of, decide_in, rules_of, tool, tool_file, world

READS = [{"verb": "read", "kind": "id", "type": "thing", "resource": "all"}]
CODER = Subject(agent="coder-1", on_behalf_of="ada", session="s-1")

ALIASES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,3}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,4}", fullmatch=True) | st.sampled_from(
    ["list", "list:read:A0", "list:write:A3", "a/b", "a__b", "read", "A3"]
)
REGISTRIES = st.dictionaries(
    ALIASES, st.lists(NAMES, min_size=1, max_size=4, unique=True), min_size=1, max_size=3
)


def registry(servers: dict[str, list[str]], rules: str = PERMIT_ALL, **more: Any) -> Ruleset:
    """A world of simple tools. Raises `BundleError`."""
    files = {
        str(index): tool_file(alias, *(tool(name, READS, {}) for name in names), **more)
        for index, (alias, names) in enumerate(servers.items())
    }
    return world(rules, tools=files)


@settings(max_examples=60, deadline=None)
@given(REGISTRIES)
def test_mc1_a_registry_loads_with_every_tool_told_apart_or_not_at_all(servers: dict[str, list[str]]) -> None:
    try:
        ruleset = registry(servers)
    except BundleError as error:
        refused = {problem.code.rpartition(".")[2] for problem in error.problems}
    else:
        refused = set()
        _check_told_apart(ruleset, servers)
    assert refused <= {"ambiguous", "duplicate"}


def _check_told_apart(ruleset: Ruleset, servers: dict[str, list[str]]) -> None:
    pairs = [(alias, name) for alias, names in servers.items() for name in names]
    assert set(ruleset.tools) == set(pairs)
    actions = [action.id for each in ruleset.tools.values() for action in each.actions]
    groups = {each.descriptor.qualified_name for each in ruleset.tools.values()}
    assert len(set(actions)) == len(actions)
    assert len(groups) == len(pairs)
    assert groups.isdisjoint(actions)
    for alias, name in pairs:
        outcome = decide_in(ruleset, call_of(alias, name))
        assert outcome.decision.effect is Effect.ALLOW


def call_of(alias: str, name: str) -> Any:
    """A call of a local tool; the name may hold slashes."""
    return call(f"{alias}/{name}", digest=None)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from("abcdef")), st.sampled_from(["forbid", "nothing", "absent profile"]))
def test_mc2_list_and_call_agree(hidden: set[str], how: str) -> None:
    rules = PERMIT_ALL
    if how == "forbid":
        rules += "".join(
            f'@id("no-{name}") forbid (principal, action in Action::"hub/{name}", resource);'
            for name in sorted(hidden)
        )
    elif how == "nothing":
        named = ", ".join(f'Action::"hub/{name}"' for name in sorted(set("abcdef") - hidden))
        rules = (
            f'@id("some") permit (principal, action in [{named}], resource);'
            if named
            else ('@id("none") forbid (principal, action, resource);')
        )
    profiles = [] if how == "absent profile" else ["runtime"]
    ruleset = registry({"hub": list("abcdef")}, rules, profiles=profiles)
    profile = caller_of(ruleset).profile
    seen = {entry.name for entry in visible_entries(ruleset, profile, CODER, "hub", None)}
    expected = set() if how == "absent profile" else set("abcdef") - hidden
    assert seen == expected
    for name in "abcdef":
        decision = decide_in(ruleset, call_of("hub", name)).decision
        assert (decision.code != "tool.unknown") == (name in seen)
        assert (decision.effect is Effect.ALLOW) == (name in seen)
        for spelling in (
            name.upper(),
            f"{name} ",
            f" {name}",
            f"{name}\u200b",
            f"mcp__hub__{name}",
            f"./{name}",
        ):
            assert decide_in(ruleset, call_of("hub", spelling)).decision.code == "tool.unknown"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["a", "ab", "a-b", "a/b"]), st.sampled_from(["forbid", "permit"]))
def test_mc3_a_rule_applies_only_to_the_tool_that_it_names(named: str, effect: str) -> None:
    rule = f'@id("one") {effect} (principal, action in Action::"hub/{named}", resource);'
    rules = f"{PERMIT_ALL} {rule}" if effect == "forbid" else rule
    ruleset = registry({"hub": ["a", "ab", "a-b", "a/b"], "hub2": ["a"]}, rules)
    for alias, name in ruleset.tools:
        outcome = decide_in(ruleset, call_of(alias, name))
        if (alias, name) == ("hub", named):
            # A tool that is forbidden outright is hidden, so no rule is told.
            assert "one" in rules_of(outcome) or outcome.decision.code == "tool.unknown"
            assert (outcome.decision.effect is Effect.ALLOW) == (effect == "permit")
        else:
            assert "one" not in rules_of(outcome)
            assert (outcome.decision.effect is Effect.ALLOW) == (effect == "forbid")


ENTRY: dict[str, Any] = {
    "name": "read",
    "title": "Read",
    "description": "Reads.",
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string", "maxLength": 100}, "deep": {"type": "boolean"}},
        "required": ["path"],
    },
    "annotations": {"readOnlyHint": True},
    "_meta": {"x": [1, None]},
}
LEAVES = [tokens for tokens, _ in leaves(ENTRY)]


def exchanged(place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The entry with another value in one place."""
    changed = copy.deepcopy(ENTRY)
    node: Any = changed
    for token in place[:-1]:
        node = node[int(token)] if isinstance(node, list) else node[token]
    node[int(place[-1]) if isinstance(node, list) else place[-1]] = value
    return changed


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(LEAVES), st.text(string.printable, max_size=5) | st.integers(-9, 9) | st.booleans())
def test_mc4_any_change_of_a_definition_is_another_tool(place: tuple[str, ...], value: Any) -> None:
    changed = exchanged(place, value)
    ruleset = PINNED_WORLD
    decision = decide_in(ruleset, call("notes/read", path="x", digest=advertised_digest(changed))).decision
    # JSON has `true` and `1`, and they are two values.
    if repr(changed) == repr(ENTRY):
        assert decision.effect is Effect.ALLOW
    else:
        assert (decision.effect, decision.code) == (Effect.DENY, "tool.changed")
        assert decision.fingerprint is None


def pinned_world(digest: str, **more: Any) -> Ruleset:
    """A remote server with one tool that pins `digest`."""
    described = tool("read", READS, {"path": {"type": "string"}}, advertised_digest=digest, **more)
    return world(tools=tool_file("notes", described, local=False))


PINNED_WORLD = pinned_world(advertised_digest(ENTRY))


def test_mc4_what_was_granted_to_the_old_digest_fits_no_call_of_the_new_one() -> None:
    changed = {**ENTRY, "description": "Reads everything."}
    new = pinned_world(advertised_digest(changed))
    before = decide_in(PINNED_WORLD, call("notes/read", path="x", digest=advertised_digest(ENTRY))).decision
    after = decide_in(new, call("notes/read", path="x", digest=advertised_digest(changed))).decision
    assert before.effect is after.effect is Effect.ALLOW
    assert before.fingerprint != after.fingerprint


def test_mc4_a_review_is_part_of_what_was_granted() -> None:
    draft = pinned_world(advertised_digest(ENTRY), reviewed=False)
    digests = {each.tools["notes", "read"].descriptor.digest for each in (PINNED_WORLD, draft)}
    assert len(digests) == 2


DISPATCH = world(
    '@id("all-but-opaque") permit (principal, action, resource) unless { resource is Opaque };'
    '@id("opaque") permit (principal, action, resource is Opaque);'
    '@id("opaque-asks") @requires("approval") forbid (principal, action, resource is Opaque);',
    tools=tool_file(
        "gateway",
        tool(
            "invoke",
            [{"verb": "execute", "kind": "dispatch", "at": "/name"}],
            {"name": {"type": "string"}, "args": {"type": "object"}},
            roles={"/name": "command", "/args": "payload"},
            side_effect="cumulative",
        ),
    ),
)


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=20),
    st.dictionaries(
        st.text(max_size=5), st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5), max_size=3
    ),
)
def test_mc5_a_dispatcher_is_never_allowed_by_what_it_is_itself(name: str, inner: dict[str, Any]) -> None:
    decision = decide_in(
        DISPATCH, call("gateway/invoke", {"name": name, "args": inner}, digest=None)
    ).decision
    assert decision.effect is not Effect.ALLOW
