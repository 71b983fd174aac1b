"""Budgets of capabilities: what a call takes of which counter, and the refusal when a commit found one full.

How counters count under concurrency, on both stores: `tests/store/test_limits_contract.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from authz_client.capabilities import Ancestor, Budget

from authz.core.decide import Outcome
from authz.core.limits import MAX_RESERVATIONS
from authz.model.capability import BudgetShare, LinkOrigin
from authz.model.decision import Code, Effect, Next, RuleKind, Stage
from authz.model.limit import Reached, Reservation
from authz.model.operation import Basis, OperationRecord, OperationState
from tests.support.chains import (
    NOW_S,
    decide_holding,
    entry,
    handed_on,
    holding,
    issued,
    presented,
    root_record,
    tool_digests,
    verified,
)
from tests.support.world import FS, NOW_MS, TEXT, call, record_of, rules_of, tool, tool_file, world

COST: Mapping[str, Any] = {"amount": "0.25", "currency": "EUR"}
PAID = tool_file(
    "paid",
    tool("get", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT}, cost=COST),
    tool("free", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT}, cost={**COST, "amount": "0"}),
    tool("unpriced", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT}),
)
WORLD = world(tools={"fs": FS, "paid": PAID})
GET = call("paid/get", a="/w/x")
W = "file:///w"
ALL = {
    "cost": {"amount": "1.5", "currency": "EUR"},
    "calls": 5,
    "rate": {"calls": 2, "seconds": 10},
}
ROOT_END_MS = (NOW_S + 600) * 1000


def chain_of(*budgets: Mapping[str, Any] | None, actions: str | Sequence[str] = "read") -> tuple[str, ...]:
    """A chain with one entry a link, each with this budget."""
    entries = [entry(actions, W, **({"budget": budget} if budget else {})) for budget in budgets]
    chain = issued([entries[0]])
    for one in entries[1:]:
        chain = handed_on(chain, [one])
    return chain


def by(agent: str) -> Any:
    return replace(GET, subject=replace(GET.subject, agent=agent))


def told(taken: Reservation) -> tuple[str, int, int, int]:
    return taken.partition[0][1], taken.amount, taken.cap, taken.window_ms


def full(outcome: Outcome, *whats: str, frees_at_ms: int | None = None) -> tuple[Reached, ...]:
    """What a commit of this outcome says when these counters are full."""
    return tuple(
        Reached(key=taken.key, frees_at_ms=frees_at_ms)
        for taken in outcome.decision.reservations
        if taken.partition[0][1] in whats
    )


def test_a_call_takes_of_each_counter_of_a_budget() -> None:
    outcome = decide_holding(WORLD, GET, chain_of(ALL))
    taken = outcome.decision.reservations
    assert [told(one) for one in taken] == [
        ("calls", 1, 5, 0),
        ("rate", 1, 2, 10_000),
        ("cost", 250_000, 1_500_000, 0),
    ]
    link = verified(chain_of(ALL)).leaf.link_hash
    assert {(one.tenant, one.limit, one.link_hash) for one in taken} == {("acme", f"capability:{link}", link)}
    # What has no window counts for the life of the link, and not only of the decision.
    assert {one.expires_at_ms for one in taken} == {ROOT_END_MS}
    assert len({one.key for one in taken}) == 3
    record = record_of(WORLD, holding(GET, chain_of(ALL)), outcome)
    assert "limits" not in record
    assert [(one["limit"], one["per"], one["amount"], one["cap"]) for one in record["budgets"]] == [
        (f"capability:{link}", {"budget": "calls"}, 1, 5),
        (f"capability:{link}", {"budget": "rate"}, 1, 2),
        (f"capability:{link}", {"budget": "cost"}, 250_000, 1_500_000),
    ]


def test_every_link_above_is_debited() -> None:
    """BU1: offline nobody counts, so N children cannot have N times their parent's budget."""
    chain = chain_of({"calls": 9}, {"calls": 5}, {"calls": 5})
    outcome = decide_holding(WORLD, by("sub-2"), chain)
    links = [link.link_hash for link in verified(chain).links]
    assert [(one.link_hash, one.cap) for one in outcome.decision.reservations] == [
        (links[0], 9),
        (links[1], 5),
        (links[2], 5),
    ]
    # Siblings share what is above them, and nothing else.
    sibling = handed_on(chain[:2], [entry("read", W, budget={"calls": 5})], jti="other")
    taken = decide_holding(WORLD, by("sub-2"), sibling).decision.reservations
    keys = [one.key for one in outcome.decision.reservations]
    assert [one.key in keys for one in taken] == [True, True, False]


def test_entries_with_the_same_budget_share_its_counter() -> None:
    budget = {"calls": 5}
    chain = issued(
        [
            entry("read", f"{W}/a", budget=budget),
            entry("write", f"{W}/b", budget=budget),
            entry("delete", W, budget={"calls": 6}),
        ]
    )
    copy = call("fs/file_copy", {"from": "/w/a/x", "to": "/w/b/x"})
    read = call("fs/file_read", path="/w/a/x")
    remove = call("fs/file_remove", path="/w/a/x")
    both, one, other = (decide_holding(WORLD, made, chain).decision for made in (copy, read, remove))
    assert [told(taken) for taken in both.reservations] == [("calls", 1, 5, 0)]
    assert [taken.key for taken in one.reservations] == [taken.key for taken in both.reservations]
    assert {taken.key for taken in other.reservations}.isdisjoint(taken.key for taken in one.reservations)


def test_what_a_narrowed_root_came_from_is_debited_too() -> None:
    above = verified(chain_of({"calls": 9})).leaf
    ancestor = Ancestor(link=above.link_hash, jti=above.jti, jkt=above.holder.thumbprint, agent="coder-1")
    share = BudgetShare(
        link_hash=above.link_hash, budget=Budget(calls=9), expires_at_ms=above.expires_at * 1000
    )
    narrowed = issued(
        [entry("write", W), entry("read", W, budget={"calls": 2})], agent="sub-1", ancestors=[ancestor]
    )
    root = root_record(
        narrowed,
        origin=LinkOrigin.NARROWED,
        inherited=((), (share,)),
        tool_digests=tool_digests(WORLD),
        depth=1,
    )
    child = handed_on(narrowed, [entry("read", W, budget={"calls": 1})], agent="sub-2")
    outcome = decide_holding(WORLD, by("sub-2"), child, presented=presented(child, WORLD, root=root))
    assert [told(one) for one in outcome.decision.reservations] == [
        ("calls", 1, 9, 0),
        ("calls", 1, 2, 0),
        ("calls", 1, 1, 0),
    ]
    # The counter above is the one that its own holder is debited from.
    own = decide_holding(WORLD, GET, chain_of({"calls": 9}))
    assert outcome.decision.reservations[0].key == own.decision.reservations[0].key
    reached = full(own, "calls")
    denied = decide_holding(
        WORLD, by("sub-2"), child, presented=presented(child, WORLD, root=root), reached=reached
    ).decision
    assert denied.code is Code.CAPABILITY_BUDGET
    assert denied.capability is not None
    # It is none of the links that were presented.
    assert (denied.capability.link, denied.capability.agent) == (None, "coder-1")


SPENT = [
    # budget, the counter that is full, code, what the message says
    ({"calls": 5}, "calls", Code.CAPABILITY_BUDGET, "budget_spent", "at most 5 calls"),
    ({"cost": ALL["cost"]}, "cost", Code.CAPABILITY_BUDGET, "budget_spent", "at most 1.5 EUR"),
    ({"rate": ALL["rate"]}, "rate", Code.CAPABILITY_RATE, "rate_reached", "at most 2 calls in 10 s"),
    (ALL, "calls", Code.CAPABILITY_BUDGET, "budget_spent", "at most 5 calls"),
]


@pytest.mark.parametrize(("budget", "what", "code", "reason", "words"), SPENT)
def test_a_spent_budget_denies_and_names_the_link(
    budget: Mapping[str, Any], what: str, code: Code, reason: str, words: str
) -> None:
    chain = handed_on(chain_of(budget), [entry("read", W, budget=budget)])
    before = decide_holding(WORLD, by("sub-1"), chain)
    root = verified(chain).links[0].link_hash
    reached = tuple(
        Reached(key=taken.key, frees_at_ms=NOW_MS + 4_500)
        for taken in before.decision.reservations
        if told(taken)[0] == what and taken.link_hash == root
    )
    assert len(reached) == 1
    outcome = decide_holding(WORLD, by("sub-1"), chain, reached=reached)
    decision = outcome.decision
    assert (decision.effect, decision.stage, decision.code) == (Effect.DENY, Stage.RESERVATION, code)
    assert decision.capability is not None
    found = decision.capability
    assert (found.reason, found.link, found.agent, found.component) == (reason, 0, "coder-1", "P")
    assert [(rule.rule, rule.kind, rule.reason) for rule in decision.matched] == [
        (f"capability:{root}", RuleKind.BUDGET, words)
    ]
    assert words in decision.message
    assert (decision.lease, decision.reservations) == (None, ())
    assert [rule.rule for rule in decision.overruled] == ["everything"]
    if code is Code.CAPABILITY_RATE:
        assert (decision.retry_unchanged, decision.retry_after_ms) == (True, 4_500)
        assert decision.next == (Next.WAIT, Next.STOP)
    else:
        # It never comes back by waiting.
        assert (decision.retry_unchanged, decision.retry_after_ms) == (False, None)
        assert decision.next == (Next.ESCALATE, Next.STOP)
    record = record_of(WORLD, holding(by("sub-1"), chain), outcome)
    assert record["capability"]["refused"]["reason"] == reason
    assert [rule["kind"] for rule in record["matched"]] == ["budget"]
    assert "budgets" not in record


def test_of_a_spent_budget_and_a_reached_rate_the_budget_counts() -> None:
    before = decide_holding(WORLD, GET, chain_of(ALL))
    reached = full(before, "rate", "cost", frees_at_ms=NOW_MS + 1)
    decision = decide_holding(WORLD, GET, chain_of(ALL), reached=reached).decision
    assert (decision.code, decision.retry_after_ms) == (Code.CAPABILITY_BUDGET, None)
    assert len(decision.matched) == 2


@pytest.mark.parametrize("frees_at_ms", [None, ROOT_END_MS])
def test_a_rate_that_frees_after_the_capability_is_not_worth_waiting_for(frees_at_ms: int | None) -> None:
    before = decide_holding(WORLD, GET, chain_of(ALL))
    reached = full(before, "rate", frees_at_ms=frees_at_ms)
    decision = decide_holding(WORLD, GET, chain_of(ALL), reached=reached).decision
    assert (decision.code, decision.retry_unchanged) == (Code.CAPABILITY_RATE, False)
    assert decision.next == (Next.ESCALATE, Next.STOP)


EUR = {"cost": {"amount": "1", "currency": "EUR"}}
USD = {"cost": {"amount": "1", "currency": "USD"}}


@pytest.mark.parametrize(
    ("name", "budget", "units"),
    [
        ("paid/get", EUR, 250_000),
        ("paid/free", EUR, 0),
        ("paid/free", USD, 0),
        ("paid/get", {"calls": 1}, 0),
        ("paid/get", USD, None),
        ("paid/unpriced", EUR, None),
    ],
)
def test_what_cannot_be_counted_is_refused(name: str, budget: Mapping[str, Any], units: int | None) -> None:
    """No estimate, or one in another currency, fits no budget of cost; nothing is nothing in any currency."""
    chain = chain_of(budget)
    outcome = decide_holding(WORLD, call(name, a="/w/x"), chain)
    decision = outcome.decision
    costs = [one.amount for one in decision.reservations if told(one)[0] == "cost"]
    if units is not None:
        assert (decision.effect, costs) == (Effect.ALLOW, [units] if units else [])
        return
    assert (decision.effect, decision.stage, decision.code, costs) == (
        Effect.DENY,
        Stage.CAPABILITY,
        Code.CAPABILITY_CONSTRAINT,
        [],
    )
    assert decision.capability is not None
    found = decision.capability
    assert (found.reason, found.link, found.component) == ("cost_unknown", 0, "P")
    assert "`cost`" in decision.message


def test_another_entry_that_can_count_is_used_instead() -> None:
    chain = issued([entry("read", W, budget=USD), entry("read", W, budget={"calls": 3})])
    outcome = decide_holding(WORLD, GET, chain)
    assert outcome.capability.used == (1,)
    assert [told(one) for one in outcome.decision.reservations] == [("calls", 1, 3, 0)]


def test_another_entry_that_has_something_left_is_used_instead() -> None:
    """DE1: a child of the second entry may still act, so whoever holds both may, too."""
    chain = issued([entry("read", W, budget={"calls": 1}), entry("read", W, budget={"calls": 3})])
    first = decide_holding(WORLD, GET, chain)
    assert first.capability.used == (0,)
    second = decide_holding(WORLD, GET, chain, reached=full(first, "calls"))
    assert (second.decision.effect, second.capability.used) == (Effect.ALLOW, (1,))
    reached = full(first, "calls") + full(second, "calls")
    none = decide_holding(WORLD, GET, chain, reached=reached).decision
    assert none.code is Code.CAPABILITY_BUDGET
    assert rules_of(decide_holding(WORLD, GET, chain, reached=reached)) == [
        f"capability:{verified(chain).leaf.link_hash}"
    ]


def allowed_before(chain: Sequence[str]) -> OperationRecord:
    """The operation of `GET` as its first allow under `chain` left it."""
    first = decide_holding(WORLD, GET, chain)
    held = first.capability
    assert first.decision.fingerprint is not None
    assert held.expires_at_ms is not None
    return OperationRecord(
        key="k",
        fingerprint=first.decision.fingerprint,
        state=OperationState.RESERVED,
        decision_id="d-0",
        expires_at_ms=NOW_MS + 60_000,
        version=1,
        basis=Basis(handles=held.handles, kid=held.kid, expires_at_ms=held.expires_at_ms),
    )


def test_a_repeat_takes_nothing_more() -> None:
    chain = chain_of(ALL)
    again = decide_holding(WORLD, GET, chain, operation=allowed_before(chain)).decision
    assert (again.effect, again.repeated, again.reservations) == (Effect.ALLOW, True, ())
    # Of the first decision's time, and never beyond the capability that it rests on.
    assert again.expires_at_ms == NOW_MS + 60_000
    short = issued([entry("read", W)], exp=NOW_S + 5)
    shorter = decide_holding(WORLD, GET, short, operation=allowed_before(short)).decision
    assert shorter.lease is not None
    assert shorter.expires_at_ms == shorter.lease.expires_at_ms == (NOW_S + 5) * 1000


def test_under_another_capability_it_is_no_repeat() -> None:
    """Its budgets were not debited, and what revokes the first would not be looked at."""
    other = issued([entry("read", W)], exp=NOW_S + 5)
    again = decide_holding(WORLD, GET, other, operation=allowed_before(chain_of(ALL))).decision
    assert (again.effect, again.stage, again.code) == (Effect.DENY, Stage.OPERATION, Code.OPERATION_CONFLICT)
    assert (again.lease, again.reservations) == (None, ())


def test_only_an_allow_takes_and_a_dry_run_is_only_compared() -> None:
    asking = world(
        '@id("all") permit (principal, action, resource);'
        '@id("ask") @requires("approval") forbid (principal, action, resource);',
        tools={"paid": PAID},
    )
    assert decide_holding(asking, GET, chain_of(ALL)).decision.reservations == ()
    dry = decide_holding(WORLD, replace(GET, dry_run=True), chain_of(ALL)).decision
    assert len(dry.reservations) == 3
    assert dry.lease is None


def test_limits_and_budgets_are_taken_together_and_counted_together() -> None:
    limits = "limits:\n" + "".join(
        f"  - {{id: l-{number}, reason: r., calls: 9, seconds: 60, per: [tenant], where: {{}}}}\n"
        for number in range(MAX_RESERVATIONS - 2)
    )
    ruleset = world(tools={"paid": PAID}, limits=limits)
    fits = decide_holding(ruleset, GET, chain_of({"calls": 5, "rate": ALL["rate"]}))
    assert len(fits.decision.reservations) == MAX_RESERVATIONS
    record = record_of(ruleset, GET, fits)
    assert (len(record["limits"]), len(record["budgets"])) == (MAX_RESERVATIONS - 2, 2)
    over = decide_holding(ruleset, GET, chain_of(ALL)).decision
    assert (over.effect, over.stage, over.code) == (Effect.DENY, Stage.RESERVATION, Code.CAPABILITY_BUDGET)
    assert over.capability is not None
    assert over.capability.reason == "counters_too_many"


def test_a_budget_of_no_calls_is_never_taken_of() -> None:
    """`calls: 0` is a budget, too: every commit finds it full."""
    taken = decide_holding(WORLD, GET, chain_of({"calls": 0})).decision.reservations
    assert [told(one) for one in taken] == [("calls", 1, 0, 0)]


def test_costs_are_exact() -> None:
    odd = tool_file(
        "odd",
        tool(
            "t",
            [{"verb": "read", "kind": "path", "at": "/a"}],
            {"a": TEXT},
            cost={"amount": "0.000001", "currency": "EUR"},
        ),
    )
    ruleset = world(tools=odd)
    chain = chain_of({"cost": {"amount": "999999999999.999999", "currency": "EUR"}})
    (taken,) = decide_holding(ruleset, call("odd/t", a="/w/x"), chain).decision.reservations
    assert (taken.amount, taken.cap) == (1, int(Decimal("999999999999.999999") * 1_000_000))
