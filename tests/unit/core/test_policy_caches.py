"""What the engine keeps is bounded, evicted one by one, and never changes an answer (spec section 6)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.self_protection import Protected
from authz.core.cedar_schema import ENTITY_ATTRIBUTES
from authz.core.policy import PreparedActions, ValidationCache, parse_rule_file, slices
from authz.core.policy.index import PolicyIndex, names_of
from authz.core.policy.parsed_entities import ParsedEntities
from authz.core.policy.scopes import Scoped
from authz.core.policy.set_cache import SetCache
from authz.core.policy.slices import Slicer
from authz.errors import BundleError
from authz.model.decision import Effect
from tests.property.test_policy_index import access_entities, accesses_of, question
from tests.support.world import PERMIT_ALL, bundle_files, call, decide_in, rules_of, world

READ = names_of("fs/file_read:read:A0", ("read", "fs/file_read", "A0"))


def scoped(*rules: str) -> list[Scoped]:
    text = "\n".join(f'@id("r{number}") {rule}' for number, rule in enumerate(rules))
    return [Scoped.of(number, policy) for number, policy in enumerate(parse_rule_file("rules/a.cedar", text))]


def slicer_of(*rules: str, max_policies: int = 1000, max_slices: int = 1000) -> Slicer:
    return Slicer(PolicyIndex(scoped(*rules)), max_policies=max_policies, max_slices=max_slices)


def chain(path: str) -> list[tuple[str, str]]:
    parts = path.strip("/").split("/")
    above = ["/" + "/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return [("File", path), *(("Directory", folder) for folder in above), ("Directory", "/")]


def numbers(slicer: Slicer, path: str, *holders: tuple[str, str]) -> list[int]:
    found = slicer.slice_for(READ, chain(path), frozenset(holders))
    return sorted(number for held in found.sets for number in held.key)


MANY = [f'permit (principal, action, resource in Directory::"/d{n}");' for n in range(40)]


def test_only_what_lies_above_the_resource_is_chosen() -> None:
    slicer = slicer_of(*MANY, 'forbid (principal, action, resource in Directory::"/d7/x");')
    assert numbers(slicer, "/d7/x/y") == [7, 40]
    assert numbers(slicer, "/d7/a") == [7]
    assert numbers(slicer, "/elsewhere") == []


@pytest.mark.parametrize(
    "condition",
    [
        'resource is File && resource in Directory::"/d1"',
        'resource is File in Directory::"/d1" && context.role == "x"',
        'resource in [Directory::"/d1"] && context.role == "x"',
        '(resource in Directory::"/d1" && context.role == "x") && true',
    ],
)
def test_what_a_condition_begins_with_counts_as_scope(condition: str) -> None:
    slicer = slicer_of(*MANY, f"forbid (principal, action, resource) when {{ {condition} }};")
    assert numbers(slicer, "/d1/x") == [1, 40]
    assert numbers(slicer, "/d2/x") == [2]


@pytest.mark.parametrize(
    "clause",
    [
        'when { context.role == "x" && resource in Directory::"/d1" }',
        'when { resource in Directory::"/d1" || context.role == "x" }',
        'when { !(resource in Directory::"/d1") }',
        'when { resource in [Directory::"/d1", Directory::"/d2"] }',
        "when { resource in [] }",
        'unless { resource in Directory::"/d1" }',
        'when { true } when { resource in Directory::"/d1" }',
        'when { principal.on_behalf_of in Group::"a" && resource in Directory::"/d1" }',
    ],
)
def test_what_could_hold_or_fail_elsewhere_is_never_left_out(clause: str) -> None:
    slicer = slicer_of(*MANY, f"forbid (principal, action, resource) {clause};")
    assert numbers(slicer, "/d3/x") == [3, 40]


def test_a_slice_by_principal_is_for_the_agent_and_its_groups() -> None:
    many = [f'permit (principal in Group::"g{n}", action, resource);' for n in range(100)]
    slicer = slicer_of(*many, 'forbid (principal == Agent::"a", action, resource);')
    assert numbers(slicer, "/x", ("Agent", "a"), ("Group", "g3")) == [3, 100]
    assert numbers(slicer, "/x", ("Agent", "b"), ("Group", "g3"), ("Group", "other")) == [3]
    assert numbers(slicer, "/x", ("Agent", "nobody")) == []


def test_many_rules_about_everything_are_built_once_for_all_resources() -> None:
    """A caller who names ever new places makes no decision build a big set."""
    wide = ["permit (principal, action, resource);"] * 300
    slicer = slicer_of(*wide, *MANY)
    assert len(numbers(slicer, "/d0/x")) == 301
    built = slicer.cache.built
    for number in range(1, 40):
        assert len(numbers(slicer, f"/d{number}/x")) == 301
    assert slicer.cache.built - built == 39
    assert slicer.cache.held == 340


def test_the_least_recently_used_go_first_and_one_by_one() -> None:
    slicer = slicer_of(*MANY, max_policies=10)
    for number in range(10):
        numbers(slicer, f"/d{number}/x")
    numbers(slicer, "/d0/x")
    numbers(slicer, "/d10/x")
    assert (slicer.cache.held, slicer.cache.evicted) == (10, 1)
    built = slicer.cache.built
    numbers(slicer, "/d0/x")
    assert slicer.cache.built == built
    numbers(slicer, "/d1/x")
    assert slicer.cache.built == built + 1


def test_a_set_that_several_entries_share_is_held_until_the_last_of_them_goes() -> None:
    built: list[int] = []

    def build(policies: Sequence[Scoped]) -> Any:
        built.append(len(policies))
        return object()

    cache: SetCache[str] = SetCache(build, max_policies=100, max_entries=2)
    policies = scoped("permit (principal, action, resource);")
    for key in ("a", "b", "c"):
        handle = cache.handle(policies)
        cache.put(key, key, (handle,))
    assert (built, cache.held, len(cache), cache.evicted) == ([1], 1, 2, 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, "b", "c")
    for key in ("d", "e"):
        cache.put(key, key)
    assert cache.held == 0


def test_entities_are_bounded_however_many_agents_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ruleset = world()
    monkeypatch.setattr(ruleset.engine, "_entities", ParsedEntities(max_parsed=20))
    for number in range(50):
        made = call("fs/file_read", path="/workspace/a", agent=f"a{number}")
        assert decide_in(ruleset, made).decision.effect is Effect.ALLOW
    assert len(ruleset.engine._entities._kept) == 10


def test_attributes_that_lead_to_entities_are_those_that_the_slice_is_closed_over() -> None:
    """Whoever adds one has to load what it leads to: left out, `unless` would be an allow."""
    leading = {
        (kind, name)
        for kind, attributes in ENTITY_ATTRIBUTES.items()
        for name, of in attributes.items()
        if of in ENTITY_ATTRIBUTES
    }
    assert leading == {("Agent", "on_behalf_of"), ("User", "on_behalf_of")}


def test_warm_prepares_what_is_asked_next_and_changes_no_answer() -> None:
    rules = PERMIT_ALL + '@id("f") forbid (principal, action, resource in Directory::"/etc");'
    cold, warm = world(rules), world(rules)
    made = [call("fs/file_read", path=path) for path in ("/workspace/a", "/etc/passwd")]
    expected = [rules_of(decide_in(cold, one)) for one in made]
    actions = cold.engine.prepared_actions()
    assert actions == PreparedActions(asked=("fs/file_read:read:A0",), trees=())
    assert warm.engine.warm(replace(actions, asked=(*actions.asked, "no/such:read:A0"))) == 1
    assert warm.engine.prepared_actions() == actions
    before = warm.engine.cache_stats()
    assert [rules_of(decide_in(warm, one)) for one in made] == expected
    after = warm.engine.cache_stats()
    assert after.slice_misses == before.slice_misses
    assert after.slice_hits == before.slice_hits + 2


def test_entities_of_another_principal_are_a_deny() -> None:
    ruleset = world()
    allowed, _ = ruleset.engine.could_allow(
        ("Agent", "a"), "fs/file_read:read:A0", ruleset.entities.principal("a", None), "[]"
    )
    assert allowed
    made = call("fs/file_read", path="/workspace/a")
    ((access, facts),) = accesses_of(made)
    asked = question("coder-1", ruleset.tools["fs", "file_read"], access, facts)
    (answer,) = ruleset.engine.evaluate(
        [asked], ruleset.entities.principal("other", None), access_entities(access)
    )
    assert answer.effect is Effect.DENY
    assert "another principal" in answer.internal


BROKEN = '@id("b") permit (principal, action, resource) when { context.nothing == 1 };'


def compiled(rules: str, validations: ValidationCache) -> Any:
    return compile_bundle(BundleSources(files=bundle_files(rules=rules)), Protected(), validations)


def test_what_passed_is_not_validated_again_and_what_failed_is() -> None:
    validations = ValidationCache()
    compiled(PERMIT_ALL, validations)
    misses, hits = validations.misses, validations.hits
    compiled(PERMIT_ALL + '@id("more") permit (principal, action, resource);', validations)
    assert (validations.misses - misses, validations.hits - hits) == (1, 2)
    for _ in range(2):
        with pytest.raises(BundleError, match="nothing"):
            compiled(PERMIT_ALL + BROKEN, validations)


def test_a_pass_holds_for_its_schema_only() -> None:
    validations = ValidationCache()
    reads = '@id("r") permit (principal, action in Action::"fs/file_read", resource);'
    compiled(reads, validations)
    files = bundle_files(rules=reads)
    files = {name: data for name, data in files.items() if not name.startswith("tools/")}
    files["tools/web.yaml"] = bundle_files()["tools/web.yaml"]
    with pytest.raises(BundleError, match="fs/file_read"):
        compile_bundle(BundleSources(files=files), Protected(), validations)


def test_ids_are_unique_over_what_passed_before_too() -> None:
    validations = ValidationCache()
    compiled(PERMIT_ALL, validations)
    with pytest.raises(BundleError, match="already used"):
        compiled(PERMIT_ALL * 2, validations)


def test_what_passed_is_remembered_within_a_bound() -> None:
    validations = ValidationCache(max_remembered=3)
    policies = [one.policy for one in scoped(*MANY)]
    validations.remember("schema", policies)
    assert len(validations) == 3
    assert validations.unseen("schema", policies[-3:]) == []
    assert len(validations.unseen("schema", policies)) == len(policies) - 3
    assert validations.unseen("another schema", policies[-1:]) == policies[-1:]


def test_the_sizes_as_shipped_leave_room_for_a_whole_bundle() -> None:
    assert slices.COARSE < slices.MERGED < slices.FRAGMENT < slices.BLOCK
    assert slices.MAX_POLICIES >= 10_000
