"""Accesses to trees: judged at the root, and at every place beneath it that a rule names (spec section 4)."""

import pytest

from authz.model.decision import Effect
from tests.support.world import call, decide_in, world

FORBIDS = '@id("secret") forbid (principal, action, resource in Directory::"/w/a/.secrets");'
PERMITS = '@id("all") permit (principal, action, resource in Directory::"/w");'
ASKS = (
    '@id("asks") @requires("approval") @approvers("Group::\\"staff\\"") '
    'forbid (principal, action, resource in Directory::"/w/a/asked");'
)


def effect(
    rules: str, path: str, *, recursive: bool = True
) -> tuple[Effect, list[str], list[tuple[str, ...]]]:
    decided = decide_in(world(rules), call("fs/file_remove", path=path, recursive=recursive)).decision
    return (
        decided.effect,
        [rule.rule for rule in decided.matched],
        [verdict.beneath for verdict in decided.verdicts],
    )


@pytest.mark.parametrize("path", ["/w", "/w/a", "/w/b/../a", "/w/a/.secrets", "/w/a/.secrets/x"])
def test_a_forbidden_place_beneath_denies_the_folder(path: str) -> None:
    found = effect(PERMITS + FORBIDS, path)
    assert found[:2] == (Effect.DENY, ["secret"])


def test_the_record_says_which_place_it_was() -> None:
    assert effect(PERMITS + FORBIDS, "/w")[2] == [("file:///w/a/.secrets",)]
    assert effect(PERMITS + FORBIDS, "/w/a/.secrets")[2] == [()]


@pytest.mark.parametrize("path", ["/w/b", "/w/a/.secrets2", "/w/a/x"])
def test_a_neighbour_is_not_denied(path: str) -> None:
    assert effect(PERMITS + FORBIDS, path)[:2] == (Effect.ALLOW, ["all"])


def test_the_folder_itself_is_no_tree() -> None:
    assert effect(PERMITS + FORBIDS, "/w/a", recursive=False)[:2] == (Effect.ALLOW, ["all"])


def test_a_place_beneath_that_asks_asks_for_the_folder() -> None:
    assert effect(PERMITS + ASKS, "/w")[:2] == (Effect.REQUIRE_APPROVAL, ["asks"])
    assert effect(PERMITS + ASKS + FORBIDS, "/w")[:2] == (Effect.DENY, ["secret"])


@pytest.mark.parametrize(
    "rule",
    [
        '@id("x") forbid (principal, action, resource is File) when { resource.names.contains(".env") };',
        '@id("x") forbid (principal, action, resource is File) when { resource.extension == "pem" };',
        '@id("x") forbid (principal, action, resource is File) when { resource.name like "*.k" };',
    ],
)
def test_a_rule_that_looks_closer_than_at_places_asks(rule: str) -> None:
    """Nobody has looked whether the folder holds what the rule is about."""
    assert effect(PERMITS + rule, "/w/b")[:2] == (Effect.REQUIRE_APPROVAL, ["authz:tree"])
    other = rule.replace("principal, action,", 'principal, action in Action::"read",')
    assert effect(PERMITS + other, "/w/b")[:2] == (Effect.ALLOW, ["all"]), "it is about another action"


@pytest.mark.parametrize(
    "permit",
    [
        '@id("one") permit (principal, action, resource == File::"/w/b");',
        '@id("one") permit (principal, action, resource) when { resource == File::"/w/b" };',
        '@id("one") permit (principal, action, resource) when { resource.name == "b" };',
    ],
)
def test_what_is_permitted_for_one_object_is_not_for_what_it_holds(permit: str) -> None:
    rules = permit.replace("resource)", "resource is File)")
    assert effect(rules, "/w/b", recursive=False)[:2] == (Effect.ALLOW, ["one"])
    assert effect(rules, "/w/b")[:2] == (Effect.REQUIRE_APPROVAL, ["authz:tree"])


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # A permit that leaves a place out does not reach into it.
        (
            ('@id("p") permit (principal, action, resource in Directory::"/w") '
            'unless { resource in Directory::"/w/a/out" };'),
            Effect.DENY,
        ),
        # A forbid that spares a place holds at the root.
        (
            (f'{PERMITS} @id("f") forbid (principal, action, resource) '
            'unless { resource in Directory::"/w/a/spared" };'),
            Effect.DENY,
        ),
        ('@id("p") permit (principal, action, resource) when { resource is File };', Effect.ALLOW),
        (PERMITS + '@id("f") forbid (principal, action, resource in Directory::"/elsewhere");', Effect.ALLOW),
    ],
)
def test_what_rules_of_places_say_of_a_tree(rules: str, expected: Effect) -> None:
    assert effect(rules, "/w")[0] is expected
