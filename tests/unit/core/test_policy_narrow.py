"""Validation over a part of the schema gives the verdict of the whole (`authz.core.policy.narrow`)."""

import re
from dataclasses import replace

import cedarpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.cedar_schema import every_action, generate_schema
from authz.core.policy import Policy, parse_rule_file
from authz.core.policy.narrow import SCHEMA_INVALID, NarrowValidator, key_of
from authz.errors import BundleError
from tests.support.world import world

ACTIONS = every_action(action for tool in world().tools.values() for action in tool.actions)
SCHEMA = cedarpy.Schema.from_str(generate_schema(ACTIONS))

_NAMES = st.sampled_from(
    [
        "read",
        "write",
        "delete",
        "transact",
        "administer",
        "A0",
        "A1",
        "A3",
        "fs/file_read",
        "fs/file_edit",
        "bank/transfer",
        "web/fetch",
        "fs/file_edit:write:A1",
        "bank/transfer:transact:A3",
        "approve",
        "approve:bank/transfer",
        "approve:bank/transfre",
        "issue",
        "fs/file_raed",
        "A9",
    ]
)
_ACTION = _NAMES.map('Action::"{}"'.format)
_ACTION_SCOPES = st.one_of(
    st.just("action"),
    _ACTION.map("action in {}".format),
    _ACTION.map("action == {}".format),
    st.lists(_ACTION, min_size=1, max_size=3).map(lambda names: f"action in [{', '.join(names)}]"),
)
_PRINCIPALS = st.sampled_from(
    ["principal", 'principal in Group::"staff"', 'principal == Agent::"a"', "principal is User"]
)
_RESOURCES = st.sampled_from(
    [
        "resource",
        "resource is File",
        "resource is Object",
        "resource is Mailbox",
        'resource in Directory::"/workspace"',
        'resource in Domain::"example.com"',
        'resource == File::"/workspace/a"',
    ]
)
_ATOMS = st.one_of(
    st.sampled_from(
        [
            "context.sandboxed",
            "context.requester.on_behalf_of == principal",
            "context has requester && context.requester.agents.contains(principal)",
            'context.authority == "A3"',
            "context.nothing",
            'context.untrusted.contains("target")',
            "context.capability has depth && context.capability.depth > 1",
            "context.capability.depth > 1",
            'context.arguments.path == "x"',
            'context.arguments has path && context.arguments.path == "x"',
            "context.arguments.append",
            "context.arguments.amount.long > 5",
            "context.arguments has amount && context.arguments.amount has long",
            'context.arguments == {path: "x"}',
            "resource is File",
            'resource.name == "x"',
            'resource is File && resource.name like "*.x"',
            'principal.on_behalf_of in Group::"staff"',
            "principal == resource",
            "1 == 2",
            "false",
            '"a" == 1',
        ]
    ),
    _ACTION.map("action in {}".format),
    _ACTION.map("action == {}".format),
    st.tuples(_ACTION, _ACTION).map(lambda pair: f"{pair[0]} in {pair[1]}"),
)
_CONDITIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) && ({pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) || ({pair[1]})"),
        inner.map("!({})".format),
        st.tuples(inner, inner, inner).map(lambda three: "if ({}) then ({}) else ({})".format(*three)),
    ),
    max_leaves=4,
)
_CLAUSES = st.lists(st.tuples(st.sampled_from(["when", "unless"]), _CONDITIONS), max_size=2)
_RULES = st.tuples(
    st.sampled_from(["permit", "forbid"]), _PRINCIPALS, _ACTION_SCOPES, _RESOURCES, _CLAUSES
).map(
    lambda parts: (
        f"{parts[0]} ({', '.join(parts[1:4])}) "
        + " ".join(f"{word} {{ {condition} }}" for word, condition in parts[4])
        + ";"
    )
)


def policies_of(rules: list[str]) -> list[Policy]:
    return parse_rule_file("a", "\n".join(f'@id("r{n}") {rule}' for n, rule in enumerate(rules)))


def refused_by_the_whole(policies: list[Policy]) -> set[str]:
    result = cedarpy.validate_policies("\n".join(policy.text for policy in policies), SCHEMA)
    found = {re.fullmatch(r"policy(\d+)", error.policy_id) for error in result.errors}
    assert None not in found
    return {policies[int(match[1])].id for match in found if match is not None}


@settings(max_examples=150, deadline=None)
@given(st.lists(_RULES, min_size=1, max_size=8))
def test_a_rule_passes_where_it_passes_under_the_whole_schema(rules: list[str]) -> None:
    policies = policies_of(rules)
    refused = {fault.policy.id for fault in NarrowValidator(ACTIONS).faults(policies)}
    assert refused == refused_by_the_whole(policies)


@settings(max_examples=60, deadline=None)
@given(st.lists(_RULES, min_size=2, max_size=5))
def test_the_other_rules_of_a_bundle_do_not_change_the_verdict_on_one(rules: list[str]) -> None:
    policies = policies_of(rules)
    together = {fault.policy.id for fault in NarrowValidator(ACTIONS).faults(policies)}
    alone = {policy.id for policy in policies if NarrowValidator(ACTIONS).faults([policy])}
    assert together == alone


def test_the_generator_of_this_module_makes_both_kinds() -> None:
    """Or the properties above would say nothing."""
    good = policies_of(['permit (principal, action in Action::"read", resource is File);'])
    bad = policies_of(['permit (principal, action in Action::"read", resource is Mailbox);'])
    assert (refused_by_the_whole(good), refused_by_the_whole(bad)) == (set(), {"r0"})


def test_actions_that_a_rule_cannot_tell_apart_stand_for_each_other() -> None:
    validator = NarrowValidator(ACTIONS)
    among = {action.id: action for action in ACTIONS}

    def kinds(rule: str) -> int:
        return len(validator.kinds(key_of(policies_of([rule])[0].tree), among))

    anything = "forbid (principal, action, resource) when { %s };"
    types = {(action.principal, action.resource_types, tuple(action.fields)) for action in ACTIONS}
    assert kinds(anything % "context.sandboxed") == len(types)
    # What it names or reads, it can tell apart.
    assert kinds(anything % 'action in Action::"A3"') > len(types)
    assert kinds(anything % "context.arguments has text") > len(types)
    assert kinds('permit (principal, action in Action::"fs/file_read", resource);') == 1


def test_a_whole_use_of_the_arguments_is_typed_for_every_tool() -> None:
    (policy,) = policies_of(
        ['forbid (principal, action, resource) when { context.arguments == {path: "x"} };']
    )
    assert key_of(policy.tree).arguments is None
    assert bool(NarrowValidator(ACTIONS).faults([policy])) == bool(refused_by_the_whole([policy]))


def test_a_schema_that_cedar_cannot_read_is_told_as_a_fault() -> None:
    """Nothing that a registry holds may end as an exception of another kind."""
    broken = [replace(ACTIONS[0], resource_types=("No Type",))]
    with pytest.raises(BundleError) as caught:
        NarrowValidator(broken).faults(policies_of(["permit (principal, action, resource);"]))
    (problem,) = caught.value.problems
    assert problem.code == SCHEMA_INVALID
