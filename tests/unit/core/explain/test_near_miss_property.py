"""Properties of near misses over generated rules: each verdict is what Cedar says of the rule cut there."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.model.call import Call
from authz.model.decision import Code, Decision
from tests.support.world import call, decide_in, source, world
from tests.unit.core.explain.examining import explained, only_access, rule_of

# What the request makes true or false, one that fails when it is evaluated, and one that guards itself.
_ATOMS = st.sampled_from(
    [
        "context.sandboxed",
        "context.resolved",
        'context.untrusted.contains("target")',
        'context.session.exposed.contains("secret")',
        'resource in Directory::"/workspace/a"',
        "9223372036854775807 + 1 > 0",
        "(context.capability has depth && context.capability.depth == 1)",
    ]
)
_CONJUNCTS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda of: f"({of[0]} || {of[1]})"),
        st.tuples(inner, inner).map(lambda of: f"({of[0]} && {of[1]})"),
        inner.map(lambda of: f"!({of})"),
    ),
    max_leaves=4,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedRule:
    scope: str
    clauses: tuple[tuple[str, str], ...]

    def text(self, name: str, count: int) -> str:
        """A permit of the scope and the first `count` clauses."""
        clauses = " ".join(f"{clause} {{ {expr} }}" for clause, expr in self.clauses[:count])
        return f'@id("{name}") permit ({self.scope}) {clauses};\n'


_RULES = st.builds(
    GeneratedRule,
    scope=st.sampled_from(
        [
            "principal, action, resource",
            'principal, action in Action::"write", resource in Directory::"/workspace"',
            'principal in Group::"staff", action, resource',
        ]
    ),
    clauses=st.lists(
        st.one_of(
            st.tuples(st.just("when"), _CONJUNCTS),
            # One demand: an `unless` of alternatives is several.
            st.tuples(st.just("unless"), _ATOMS),
        ),
        max_size=4,
    ).map(tuple),
)
_REQUESTS = st.builds(
    lambda path, sandbox, trusted: call(
        "fs/file_edit",
        path=path,
        text="x",
        sandbox_root="/workspace" if sandbox else None,
        provenance={"": source("user")} if trusted else {},
    ),
    path=st.sampled_from(["/workspace/a", "/workspace/b", "/etc/c"]),
    sandbox=st.booleans(),
    trusted=st.booleans(),
)


def decided(rule: GeneratedRule, count: int, asked: Call, exposed: frozenset[str]) -> Decision:
    """The decision by nothing but the rule cut to its first `count` clauses."""
    return decide_in(world(rule.text("cut", count)), asked, exposed=exposed).decision


@settings(max_examples=40)
@given(_RULES, _REQUESTS, st.sampled_from([frozenset[str](), frozenset({"secret"})]))
def test_a_verdict_is_that_of_the_rule_cut_to_its_prefix(
    rule: GeneratedRule, asked: Call, exposed: frozenset[str]
) -> None:
    everything = len(rule.clauses)
    explanation = explained(world(rule.text("cut", everything)), asked, every_rule=True, exposed=exposed)
    if not explanation.accesses:
        # Hidden: no request could be allowed the tool by this rule.
        assert explanation.decision is not None
        assert explanation.decision.code is Code.TOOL_UNKNOWN
        return
    found = rule_of(explanation, "cut").rule
    scope = [part for part in found.parts if part.clause not in ("when", "unless")]
    conditions = [part for part in found.parts if part not in scope]
    # A clause of `a && b` is several conditions; the verdict on the clause is that on all of them.
    sizes = [conjuncts(expr) if clause == "when" else 1 for clause, expr in rule.clauses]
    assert sum(sizes) == len(conditions)
    for count in range(everything + 1):
        cut = [*scope, *conditions[: sum(sizes[:count])]]
        expected = decided(rule, count, asked, exposed)
        errs = any(part.verdict.value == "error" and part.reached for part in cut)
        assert (expected.code is Code.POLICY_ERROR) == errs
        assert (expected.code is Code.POLICY_PERMIT) == all(part.holds for part in cut)


def conjuncts(text: str) -> int:
    """How many conditions a generated `when` is: a chain of `&&` in brackets."""
    if not (text.startswith("(") and text.endswith(")")):
        return 1
    depth = 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0 and at < len(text) - 1:
            return 1
        if depth == 1 and text.startswith(" && ", at):
            return conjuncts(text[1:at]) + conjuncts(text[at + 4 : -1])
    return 1


SWITCHES = {
    "context.sandboxed": "sandbox",
    'context.untrusted.contains("target")': "untrusted",
    'context.session.exposed.contains("secret")': "exposed",
    'resource in Directory::"/workspace/a"': "inside",
}
"""Conditions, and what of the request alone makes each of them true."""


def request_with(on: frozenset[str]) -> tuple[Call, frozenset[str]]:
    asked = call(
        "fs/file_edit",
        path="/workspace/a/x" if "inside" in on else "/workspace/b/x",
        text="x",
        sandbox_root="/workspace" if "sandbox" in on else None,
        provenance={} if "untrusted" in on else {"": source("user")},
    )
    return asked, frozenset({"secret"} if "exposed" in on else ())


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(sorted(SWITCHES)), min_size=1, unique=True),
    st.frozensets(st.sampled_from(sorted(SWITCHES.values()))),
    st.data(),
)
def test_satisfying_one_failing_condition_flips_that_one(
    demands: list[str], on: frozenset[str], data: st.DataObject
) -> None:
    failing = [demand for demand in demands if SWITCHES[demand] not in on]
    ruleset = world(f'@id("rule") permit (principal, action, resource) when {{ {" && ".join(demands)} }};')
    asked, exposed = request_with(on)
    before = rule_of(explained(ruleset, asked, exposed=exposed), "rule")
    assert [part.text for part in before.rule.missing] == failing
    assert before.rule.matched == (not failing)
    if not failing:
        return
    chosen = data.draw(st.sampled_from(failing))
    changed, exposed = request_with(on | {SWITCHES[chosen]})
    after = explained(ruleset, changed, exposed=exposed)
    assert [part.text for part in rule_of(after, "rule").rule.missing] == [
        demand for demand in failing if demand != chosen
    ]
    assert (only_access(after).verdict.code is Code.POLICY_PERMIT) == (len(failing) == 1)
