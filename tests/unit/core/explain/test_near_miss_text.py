"""A condition is quoted as Cedar: what is quoted reads back as the very tree that is evaluated."""

import cedarpy
import pytest
from cedarpy import pst
from hypothesis import given
from hypothesis import strategies as st

from authz.core.policy.near_miss_text import cedar_text, scope_text
from tests.policies.deciding import sample_ruleset


def read_back(text: str) -> pst.Expr:
    parsed = cedarpy.policies_to_pst(f"permit (principal, action, resource) when {{ {text} }};")
    (tree,) = parsed.static_policies.values()
    (clause,) = tree.clauses
    return clause.expr


@pytest.mark.parametrize(
    "text",
    [
        'context.role == "target" && !context.sandboxed',
        "(context.a || context.b) && context.c",
        "context.a || context.b && context.c",
        "context.a && (context.b && context.c)",
        "1 - (2 - 3) + 4 * (5 + 6) > -7",
        "-(3) == context.n",
        "!(!context.a)",
        '(context.a == context.b) == (context.c has "two words")',
        'resource in [File::"/a", File::"/b\\"c"]',
        'resource is File in Directory::"/a" && principal in Group::"staff"',
        r'resource.name like "*.\*\"é*"',
        'resource["no name"].contains("x") && context.s.containsAll(["a"]) && context.s.containsAny([])',
        '{a: 1, "b c": [context.d]}.a == 1',
        "if context.a then context.b else context.c || context.d",
        "(if context.a then context.b else context.c) && context.d",
        'ip("10.0.0.1").isInRange(ip("10.0.0.0/8")) && ip(context.s).isIpv4() && ip(context.s).isLoopback()',
        'decimal("1.5").lessThan(context.d) && context.d.greaterThanOrEqual(decimal("2.0"))',
        'datetime("2026-01-01").offset(duration("1d")).toDate() < context.now.toDate()',
        'principal.hasTag("team") && principal.getTag("team") == "a\\u{202e}b"',
        "context.s.isEmpty()",
    ],
)
def test_a_rendering_reads_back_as_its_tree(text: str) -> None:
    tree = read_back(text)
    assert read_back(cedar_text(tree)) == tree


def test_every_condition_of_the_shipped_rules_reads_back() -> None:
    conditions = [
        clause.expr for policy in sample_ruleset().engine.policies.values() for clause in policy.tree.clauses
    ]
    assert len(conditions) > 30
    for expr in conditions:
        assert read_back(cedar_text(expr)) == expr


def test_parentheses_stand_only_where_they_are_needed() -> None:
    text = 'context.a && (context.b || !context.c) && resource in Directory::"/w"'
    assert cedar_text(read_back(text)) == text


_ATOMS = st.sampled_from(
    [
        "context.a",
        "!context.b",
        "1 < 2",
        "resource has x",
        "principal is Agent",
        "(context.n + 1) == -2",
        "true",
    ]
)
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda of: f"({of[0]}) {of[1]} ({of[2]})"),
        st.tuples(inner, st.sampled_from(["==", "!="]), inner).map(lambda of: f"({of[0]}) {of[1]} ({of[2]})"),
        inner.map(lambda of: f"!({of})"),
        st.tuples(inner, inner, inner).map(lambda of: f"if {of[0]} then {of[1]} else {of[2]}"),
        st.lists(inner, max_size=3).map(lambda of: f"[{', '.join(of)}].contains(true)"),
    ),
    max_leaves=12,
)


@given(_EXPRESSIONS)
def test_any_bracketing_survives(text: str) -> None:
    tree = read_back(text)
    assert read_back(cedar_text(tree)) == tree


@pytest.mark.parametrize(
    "scope",
    [
        'principal == Agent::"a"',
        'principal in Group::"g"',
        "principal is Agent",
        'principal is Agent in Group::"g"',
        "principal",
    ],
)
def test_scopes_are_quoted(scope: str) -> None:
    (tree,) = cedarpy.policies_to_pst(f"permit ({scope}, action, resource);").static_policies.values()
    assert scope_text("principal", tree.principal) == scope


def test_an_action_scope_is_quoted_as_a_list_only_where_it_is_one() -> None:
    for scope in ('action == Action::"x"', 'action in Action::"x"', 'action in [Action::"x", Action::"y"]'):
        (tree,) = cedarpy.policies_to_pst(f"permit (principal, {scope}, resource);").static_policies.values()
        assert scope_text("action", tree.action) == scope
