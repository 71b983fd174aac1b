"""A bundle that takes parts from the one before it is the very bundle that its files alone would be."""

import gc
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.bundle.files import Tried
from authz.bundle.load import BundleSources, compile_bundle, compile_tried_bundle
from authz.bundle.self_protection import Protected
from authz.core.entities import EntityDirectory
from authz.core.policy import Policy, PolicyEngine, ValidationCache
from authz.core.policy.index import PolicyIndex
from authz.core.policy.places import NamedPlaces
from authz.core.policy.slices import Slicer
from authz.core.ruleset import Ruleset
from tests.support.world import CREDENTIALS, bundle_files, call, decide_in, rules_of

PROTECTED = Protected(directories=frozenset({"/srv/policies"}), port=8700)
EFFECTS = ("permit", "forbid", '@requires("approval") forbid')
SCOPES = (
    "(principal, action, resource)",
    '(principal in Group::"staff", action in Action::"read", resource)',
    '(principal, action in Action::"read", resource in Directory::"/workspace")',
    '(principal, action in Action::"write", resource in Directory::"/workspace/a")',
    '(principal == Agent::"coder-1", action, resource is File)',
)
CONDITIONS = (
    "",
    'when { resource is File && resource.extension == "py" }',
    'when { principal.on_behalf_of in Group::"finance" }',
    'unless { context.untrusted.contains("target") }',
    'when { resource in Directory::"/workspace/a/b" }',
)
CREDENTIALS_OF = {
    "one volume": CREDENTIALS,
    "another agent": CREDENTIALS.replace('agents: ["*"]', "agents: [coder-1]"),
    "another profile": CREDENTIALS + "  other:\n    agents: [coder-1]\n",
}
CALLS = (
    call("fs/file_read", path="/workspace/a/b/c.py"),
    call("fs/file_read", path="/etc/passwd"),
)

rule_texts = st.tuples(st.sampled_from(EFFECTS), st.sampled_from(SCOPES), st.sampled_from(CONDITIONS)).map(
    lambda parts: f"{parts[0]} {parts[1]} {parts[2]};"
)
bundles = st.fixed_dictionaries(
    {
        # A few names, so that two bundles have many in common: with the same text, and with another.
        "rules": st.dictionaries(st.integers(0, 7), rule_texts, min_size=1),
        "order": st.permutations(range(8)),
        "files": st.lists(st.sampled_from(["a", "b"]), min_size=8, max_size=8),
        "gaps": st.lists(
            st.sampled_from(["\n", "\n\n\n", "// a remark; of its own\n"]), min_size=8, max_size=8
        ),
        "credentials": st.sampled_from(sorted(CREDENTIALS_OF)),
    }
)


def sources_of(drawn: Mapping[str, Any]) -> BundleSources:
    rules: dict[str, str] = {}
    for number in drawn["order"]:
        if number in drawn["rules"]:
            file = drawn["files"][number]
            text = f'{drawn["gaps"][number]}@id("r{number}") {drawn["rules"][number]}'
            rules[file] = rules.get(file, "") + text
    files = bundle_files(rules=rules, credentials=CREDENTIALS_OF[drawn["credentials"]])
    return BundleSources(files=dict(sorted(files.items())))


def told(ruleset: Ruleset) -> dict[str, Any]:
    """Everything that a ruleset is, as values that can be compared."""
    found = {part.name: getattr(ruleset, part.name) for part in fields(Ruleset)}
    engine: PolicyEngine = found.pop("engine")
    entities: EntityDirectory = found.pop("entities")
    tools = found.pop("tools")
    index, places = engine.parts
    return found | {
        "policies": list(engine.policies.items()),
        "scopes": [[getattr(one, part.name) for part in fields(one)] for one in index.policies],
        "places": places.by_rule,
        "schema": engine.schema_text,
        "members": list(entities.members.items()),
        # What Cedar is told of their arguments, the schema says.
        "tools": {
            key: (tool.descriptor, [action.id for action in tool.actions], tool.document)
            for key, tool in tools.items()
        },
    }


def reached_from(ruleset: Ruleset) -> list[object]:
    """Every value of ours that a ruleset holds on to, and every container on the way there."""
    found: dict[int, object] = {}
    pending: list[object] = [ruleset]
    while pending:
        one = pending.pop()
        kind = type(one)
        if id(one) not in found and (kind.__module__.startswith("authz.") or kind in CONTAINERS):
            found[id(one)] = one
            pending += gc.get_referents(one)
    return list(found.values())


CONTAINERS = (dict, list, tuple, set, frozenset)


@settings(max_examples=40)
@given(old=bundles, new=bundles)
def test_what_is_taken_over_changes_nothing(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    first, sources = Tried(passed=ValidationCache()), sources_of(new)
    before = compile_tried_bundle(sources_of(old), PROTECTED, first)
    for one in CALLS:
        decide_in(before, one)
    cold = compile_bundle(sources, PROTECTED)
    tried = Tried(passed=ValidationCache(), before=before, known=first.read)
    warm = compile_tried_bundle(sources, PROTECTED, tried)
    warm.engine.warm(before.engine.prepared_actions())
    assert {**told(warm), "visibility": {}} == {**told(cold), "visibility": {}}
    for one in CALLS:
        asked, expected = decide_in(warm, one), decide_in(cold, one)
        assert rules_of(asked) == rules_of(expected)
        assert asked.decision.effect is expected.decision.effect


@settings(max_examples=40)
@given(old=bundles, new=bundles)
def test_nothing_of_the_old_bundle_is_left(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """But its rules that are in the new one too."""
    before = compile_bundle(sources_of(old), PROTECTED)
    for one in CALLS:
        decide_in(before, one)
    tried = Tried(passed=ValidationCache(), before=before)
    after = compile_tried_bundle(sources_of(new), PROTECTED, tried)
    after.engine.warm(before.engine.prepared_actions())
    for one in CALLS:
        decide_in(after, one)
    reached = reached_from(after)
    kinds = (Ruleset, PolicyEngine, PolicyIndex, NamedPlaces, Slicer, EntityDirectory)
    for kind in kinds:
        assert len([one for one in reached if type(one) is kind]) == 1, kind
    texts = {policy.text for policy in after.engine.policies.values()}
    assert {one.text for one in reached if type(one) is Policy} == texts
    assert after.visibility is not before.visibility


def test_an_edit_of_one_rule_is_the_reading_of_one_rule() -> None:
    def sources(changed: str) -> BundleSources:
        rules = [
            f'@id("r{n}") forbid (principal, action, resource in Directory::"/d{n}");' for n in range(50)
        ]
        rules[20] = changed
        return BundleSources(files=bundle_files(rules={"main": "\n".join(rules)}))

    before = compile_bundle(sources('@id("r20") forbid (principal, action, resource);'), PROTECTED)
    tried = Tried(passed=ValidationCache(), before=before)
    after = compile_tried_bundle(
        sources('\n\n@id("r20") permit (principal, action, resource);'), PROTECTED, tried
    )
    read = [
        name
        for name, policy in after.engine.policies.items()
        if name.startswith("r") and policy.tree is not before.engine.policies[name].tree
    ]
    assert read == ["r20"]
    # Those behind it are the same rules on other lines, and say so.
    lines = [after.engine.policies[f"r{n}"].match.line for n in (19, 20, 21)]
    assert lines == [20, 23, 24]


def test_rules_are_read_anew_where_literals_are_held_to_other_volumes() -> None:
    """What is canonical on one volume need not be on another, so what was read for one says nothing."""
    folding = CREDENTIALS + "    volume: {case_sensitive: false}\n"
    rules = '@id("a") forbid (principal, action, resource in Directory::"/d");'
    before = compile_bundle(BundleSources(files=bundle_files(rules=rules)), PROTECTED)
    sources = BundleSources(files=bundle_files(rules=rules, credentials=folding))
    after = compile_tried_bundle(sources, PROTECTED, Tried(passed=ValidationCache(), before=before))
    assert after.engine.policies["a"].tree is not before.engine.policies["a"].tree
    assert after.engine.policies["a"] == before.engine.policies["a"]


def test_the_compile_can_be_interrupted_after_each_rule() -> None:
    """However much of it is known: a step for each rule where it is found, indexed and looked up."""
    number = 200
    rules = "\n".join(f'@id("r{n}") forbid (principal, action, resource);' for n in range(number))
    sources = BundleSources(files=bundle_files(rules={"main": rules}))
    before = compile_bundle(sources, PROTECTED)
    decide_in(before, CALLS[0])
    for known in (None, before):
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        tried = Tried(passed=ValidationCache(), before=known, step=step)
        after = compile_tried_bundle(sources, PROTECTED, tried)
        # Split, read, held to what passed, scoped, indexed, and asked for the places they name.
        assert steps >= 6 * number
        compiled = steps
        after.engine.warm(before.engine.prepared_actions(), step)
        assert steps >= compiled + number
