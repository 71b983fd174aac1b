"""DE1 to DE5: whatever is handed on, and to whom, no child may do more than those above it, nor for longer.

Generated chains and calls through the whole decision. That one capability is narrower than another by its
format alone is `tests/clients/python/capabilities`; here policies, subjects and revocations join in.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, Final

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from authz.core.decide import Outcome, decide
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.decision import Code, Effect, Stage, strictest
from authz.model.limit import Reached
from tests.support.chains import (
    HOLDERS,
    NOW_S,
    decide_holding,
    entry,
    handed_on,
    issued,
    presented,
    proof_of,
    revoking,
    token_rules,
    verified,
)
from tests.support.world import NOW_MS, call, decide_in, facts, world

Json = dict[str, Any]
MAX_DEPTH: Final = 8

# Rules about agents of the chain and about places; none reads what a delegated session has of its own.
PERMIT: Final = '@id("all") permit (principal, action, resource);'
RULES: Final = {
    "root-no-b": 'forbid (principal == Agent::"coder-1", action, resource in Directory::"/workspace/b");',
    "first-no-write": 'forbid (principal == Agent::"sub-1", action in Action::"write", resource);',
    "second-no-a": 'forbid (principal == Agent::"sub-2", action, resource in Directory::"/workspace/a");',
    "root-asks": """@requires("approval")
        forbid (principal == Agent::"coder-1", action in Action::"read", resource);""",
    "second-asks": '@requires("approval") forbid (principal == Agent::"sub-2", action, resource);',
    "nobody-pays": 'forbid (principal, action in Action::"transact", resource);',
}
SETS: Final = st.sets(st.sampled_from(sorted(RULES)), max_size=3).map(frozenset)


@cache
def ruleset_of(names: frozenset[str], *, backwards: bool = False) -> Ruleset:
    rules = [PERMIT, *(f'@id("{name}") {RULES[name]}' for name in sorted(names))]
    return world("\n".join(reversed(rules) if backwards else rules))


# Calls

PATHS: Final = [
    "/workspace",
    "/workspace/a",
    "/workspace/a/x",
    "/workspace/b/../a/y",
    "/workspace/b",
    "/etc/x",
    "rel/x",
]
CALLS: Final = st.one_of(
    st.builds(lambda path: call("fs/file_read", path=path), st.sampled_from(PATHS)),
    st.builds(
        lambda path, text: call("fs/file_edit", path=path, text=text),
        st.sampled_from(PATHS),
        st.sampled_from(["", "abc", "abcdef"]),
    ),
    st.builds(
        lambda path, whole: call("fs/file_remove", path=path, recursive=whole),
        st.sampled_from(PATHS),
        st.booleans(),
    ),
    st.builds(
        lambda one, other: call("fs/file_copy", {"from": one, "to": other}),
        st.sampled_from(PATHS),
        st.sampled_from(PATHS),
    ),
    st.builds(
        lambda to, amount: call("bank/transfer", to=to, amount=amount),
        st.sampled_from(["a-1", "a-2"]),
        st.sampled_from([1, 5, 10]),
    ),
)


# Entries, and what is no wider than an entry, by construction

NARROWER: Final = {
    "read": ["fs/file_read:read", "file_copy:read"],
    "write": ["fs/file_edit:write"],
    "fs/file_edit": ["fs/file_edit:write"],
    "file_edit": ["fs/file_edit"],
}
BENEATH: Final = {
    "file:///": ["file:///workspace", "file:///etc"],
    "file:///workspace": ["file:///workspace/a", "file:///workspace/b"],
    "file:///workspace/a": ["file:///workspace/a/x"],
}
ACTIONS: Final = [
    "read",
    "write",
    "delete",
    "transact",
    "fs/file_read",
    "fs/file_edit",
    "file_edit",
    "fs/file_copy",
]
LOCATIONS: Final = [*BENEATH, "id:account:a-1", "id:account:a-2"]
CONSTRAINTS: Final = st.sampled_from(
    [
        *([{}] * 5),
        {"text": {"max_length": 5}},
        {"amount": {"max": 9}},
        {"path": {"within": "file:///workspace"}},
    ]
)
BUDGETS: Final = st.sampled_from([None, {"calls": 5}, {"rate": {"calls": 2, "seconds": 10}}])


@st.composite
def entries(draw: Any) -> Json:
    budget = draw(BUDGETS)
    return entry(
        draw(st.just(ACTIONS) | st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=4, unique=True)),
        draw(st.just(LOCATIONS) | st.lists(st.sampled_from(LOCATIONS), min_size=1, max_size=3, unique=True)),
        constraints=copy.deepcopy(draw(CONSTRAINTS)),
        **({"budget": budget} if budget else {}),
    )


@st.composite
def narrowed(draw: Any, parent: Json) -> Json:
    child = copy.deepcopy(parent)
    for name, table in (("actions", NARROWER), ("locations", BENEATH)):
        # Often the same, or nothing would be left after a few hand-offs.
        if draw(st.integers(0, 2)):
            continue
        kept = draw(st.lists(st.sampled_from(parent[name]), min_size=1, unique=True))
        child[name] = [draw(st.sampled_from([text, text, *table.get(text, [])])) for text in kept]
    constraints = child["constraints"]
    if "text" in constraints:
        constraints["text"]["max_length"] = draw(st.integers(0, constraints["text"]["max_length"]))
    if "amount" in constraints:
        constraints["amount"]["max"] = draw(st.integers(0, constraints["amount"]["max"]))
    if draw(st.integers(0, 7)) == 7:
        constraints.setdefault("path", {"within": "file:///workspace"})
    if draw(st.booleans()):
        child.setdefault("budget", {"calls": draw(st.integers(1, 5))})
    return child


@st.composite
def chains(draw: Any, *, most: int = 3) -> tuple[str, ...]:
    """A chain of up to `most` hand-offs, each narrower than what is above it, or the same."""
    given_ = draw(st.lists(entries(), min_size=1, max_size=3))
    chain = issued(given_, max_depth=MAX_DEPTH)
    for _ in range(draw(st.integers(0, most))):
        kept = draw(st.lists(st.sampled_from(given_), min_size=1, max_size=3))
        given_ = [draw(narrowed(parent)) for parent in kept]
        chain = handed_on(chain, given_)
    return chain


WIDE: Final = [entry(ACTIONS, LOCATIONS)]


def wide_chain(depth: int, **last: Any) -> tuple[str, ...]:
    """A chain that gives up nothing; `last` are claims of its last link."""
    chain = issued(WIDE, max_depth=MAX_DEPTH)
    for number in range(depth):
        chain = handed_on(chain, **(last if number == depth - 1 else {}))
    return chain


def as_agent(made: Call, depth: int) -> Call:
    agent = "coder-1" if depth == 0 else f"sub-{depth}"
    return replace(made, subject=replace(made.subject, agent=agent))


def decided(ruleset: Ruleset, made: Call, chain: Sequence[str], **known: Any) -> Outcome:
    """The call as the leaf of `chain` makes it."""
    return decide_holding(ruleset, as_agent(made, len(chain) - 1), chain, **known)


@settings(max_examples=150)
@given(chains(most=4), CALLS, SETS)
def test_de1_what_a_child_may_do_everybody_above_it_may_do(
    chain: tuple[str, ...], made: Call, names: frozenset[str]
) -> None:
    """Attenuation at every depth: an allow holds all the way up, and a deny or an ask all the way down."""
    ruleset = ruleset_of(names)
    effects = [decided(ruleset, made, chain[: depth + 1]).decision.effect for depth in range(len(chain))]
    for above, below in pairwise(effects):
        assert strictest([above, below]) is below


@settings(max_examples=60)
@given(chains(most=2), CALLS, st.data())
def test_de1_budgets_that_are_spent_above_are_spent_below(
    chain: tuple[str, ...], made: Call, data: st.DataObject
) -> None:
    """Whichever counters a commit finds full, a child that may still act has a parent that may."""
    ruleset = ruleset_of(frozenset())
    outcomes = [decided(ruleset, made, chain[: depth + 1]) for depth in range(len(chain))]
    counters = sorted({taken.key for outcome in outcomes for taken in outcome.decision.reservations})
    assume(counters)
    full = data.draw(st.sets(st.sampled_from(counters)))
    reached = tuple(Reached(key=key, frees_at_ms=None) for key in full)
    effects = [
        decided(ruleset, made, chain[: depth + 1], reached=reached).decision.effect
        for depth in range(len(chain))
    ]
    for above, below in pairwise(effects):
        assert strictest([above, below]) is below


@settings(max_examples=100)
@given(chains(), CALLS, SETS, SETS)
def test_de2_more_rules_about_any_ancestor_never_loosen(
    chain: tuple[str, ...], made: Call, some: frozenset[str], more: frozenset[str]
) -> None:
    """And neither the order of rules nor that of agents counts."""
    before = decided(ruleset_of(some), made, chain).decision
    after = decided(ruleset_of(some | more), made, chain).decision
    assert strictest([before.effect, after.effect]) is after.effect
    turned = decided(ruleset_of(some, backwards=True), made, chain).decision
    assert (turned.effect, turned.code) == (before.effect, before.code)
    assert {rule.rule for rule in turned.matched} == {rule.rule for rule in before.matched}


@settings(max_examples=100)
@given(st.integers(0, 3), CALLS, SETS)
def test_de3_the_right_of_a_call_is_the_meet_over_everybody_it_acts_for(
    depth: int, made: Call, names: frozenset[str]
) -> None:
    ruleset = ruleset_of(names)
    outcome = decided(ruleset, made, wide_chain(depth))
    # What the capability itself refuses was never asked of the rules.
    assume(outcome.decision.stage is not Stage.CAPABILITY)
    alone = [decide_in(ruleset, as_agent(made, each)).decision for each in range(depth + 1)]
    assume(all(one.stage is not Stage.TOOL for one in alone))
    assert outcome.decision.effect is strictest([one.effect for one in alone])


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(0, 4), CALLS)
def test_de4_nobody_acts_with_what_another_holds(depth: int, other: int, made: Call) -> None:
    """A call that is sent again by somebody else is that one's own, and a chain is its leaf's."""
    assume(other <= depth)
    chain = wide_chain(depth)
    outcome = decide_holding(ruleset_of(frozenset()), as_agent(made, other), chain)
    if other == depth:
        assert outcome.decision.code is not Code.CAPABILITY_SUBJECT
        return
    early = (Stage.TOOL, Stage.SCHEMA, Stage.CANONICAL, Stage.OPERATION)
    assert outcome.decision.effect is Effect.DENY
    assert outcome.decision.stage in early or outcome.decision.code is Code.CAPABILITY_SUBJECT
    # Nor is the proof of one who is above it worth anything for what is below, or the other way round.
    ruleset = ruleset_of(frozenset())
    own = as_agent(made, depth)
    signed = replace(own, capability=chain, proof=proof_of(chain, own.request_digest, signer=HOLDERS[other]))
    known = facts(ruleset, tokens=token_rules(), presented=presented(chain, ruleset))
    assert decide(signed, known).decision.effect is Effect.DENY


@settings(max_examples=60)
@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["links", "jtis", "holders"]))
def test_de5_revoking_a_link_stops_everything_beneath_it_and_nothing_above(
    depth: int, at: int, handle: str
) -> None:
    assume(at <= depth)
    chain, made = wide_chain(depth), call("fs/file_read", path="/workspace/a")
    link = verified(chain).links[at]
    value = {"links": link.link_hash, "jtis": link.jti, "holders": link.holder.thumbprint}[handle]
    tokens = token_rules(revoked=revoking(**{handle: [value]}))
    ruleset = ruleset_of(frozenset())
    for number in range(depth + 1):
        decision = decided(ruleset, made, chain[: number + 1], tokens=tokens).decision
        expected = Code.CAPABILITY_REVOKED if number >= at else Code.POLICY_PERMIT
        assert decision.code is expected
        if number >= at:
            assert decision.capability is not None
            assert decision.capability.link == at


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(1, 59), st.integers(0, 60))
def test_de5_what_expires_takes_everything_beneath_it_along(depth: int, life_s: int, later_s: int) -> None:
    """At the same instant, also what was handed on in its last second; and the allow ends with it."""
    chain = wide_chain(depth, exp=NOW_S + life_s)
    below = handed_on(chain)
    made, ruleset = call("fs/file_read", path="/workspace/a"), ruleset_of(frozenset())
    for one in (chain, below):
        decision = decided(ruleset, made, one, now_ms=NOW_MS // 1000 * 1000 + later_s * 1000).decision
        live = later_s < life_s
        # A proof is a minute old at most, which is later than anything here.
        expected = Code.POLICY_PERMIT if live else Code.CAPABILITY_EXPIRED
        assert decision.code is expected
        if live:
            assert decision.expires_at_ms is not None
            assert decision.expires_at_ms <= (NOW_S + life_s) * 1000
    assert decided(ruleset, made, chain[:-1], now_ms=NOW_MS).decision.code is Code.POLICY_PERMIT
