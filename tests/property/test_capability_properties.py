"""DE1, DE2 for capabilities: child ⪯ parent ⇒ every call that the child allows the parent allows.

Each property counts what it has decided on and states how much that must be: it would hold of nothing, too.
"""

import copy
from collections import Counter
from typing import Any

from authz_client.capabilities import Budget, Entry, allows, check_call, implies, parse_budget, parse_entries
from authz_client.capabilities.budgets import widened_budget
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clients.python.capabilities.making import NOW, accepted, child, root
from tests.property.capability_witnesses import (
    call_of,
    calls_near,
    entries_for,
    narrowings_for,
    targets,
    variants_of,
)


def parsed(json: Any) -> Entry:
    found = parse_entries([json])
    assert isinstance(found, tuple), (found, json)
    return found[0]


def share(counts: Counter[str], name: str) -> int:
    """How many in a hundred."""
    return counts[name] * 100 // counts["all"]


def test_what_a_child_allows_its_parent_allows() -> None:
    counts: Counter[str] = Counter()

    @given(st.data())
    @settings(max_examples=150, deadline=None)
    def holds(data: st.DataObject) -> None:
        resource, arguments = data.draw(targets())
        parent = data.draw(entries_for(resource, arguments))
        narrowed = data.draw(narrowings_for(parent, resource, arguments))
        wide, narrow = parsed(parent), parsed(narrowed)
        assert implies(narrow, wide)
        # Complete enough for what it is made around: no bound that holds is taken for one that does not.
        assert allows(narrow, call_of(resource, arguments))
        for call in calls_near(resource, arguments):
            counts["all"] += 1
            counts["allowed by the child"] += allows(narrow, call)
            counts["allowed by the parent alone"] += allows(wide, call) and not allows(narrow, call)
            assert allows(wide, call) or not allows(narrow, call)

    holds()
    assert share(counts, "allowed by the child") >= 20
    assert share(counts, "allowed by the parent alone") >= 3


def test_implication_is_sound_for_entries_that_were_not_made_by_narrowing() -> None:
    """Each entry against every other one that differs from it in one thing, looser or tighter."""
    counts: Counter[str] = Counter()

    @given(st.data())
    @settings(max_examples=100, deadline=None)
    def holds(data: st.DataObject) -> None:
        resource, arguments = data.draw(targets())
        entry = data.draw(entries_for(resource, arguments))
        narrow = parsed(entry)
        allowed = [call for call in calls_near(resource, arguments) if allows(narrow, call)]
        for other in variants_of(entry):
            wide = parsed(other)
            counts["all"] += 1
            counts["implied"] += implies(narrow, wide)
            counts["an allowed call is refused"] += not all(allows(wide, call) for call in allowed)
            if implies(narrow, wide):
                assert all(allows(wide, call) for call in allowed), (entry, other)

    holds()
    assert share(counts, "implied") >= 10
    assert share(counts, "an allowed call is refused") >= 40


def test_reflexive_and_transitive() -> None:
    counts: Counter[str] = Counter()

    @given(st.data())
    @settings(max_examples=120, deadline=None)
    def holds(data: st.DataObject) -> None:
        resource, arguments = data.draw(targets())
        made = [data.draw(entries_for(resource, arguments))]
        for _ in range(3):
            made.append(data.draw(narrowings_for(made[-1], resource, arguments)))
        chain = [parsed(entry) for entry in made]
        for lower in range(len(chain)):
            assert implies(chain[lower], parsed(copy.deepcopy(made[lower])))
            for upper in range(lower):
                assert implies(chain[lower], chain[upper])
                counts["all"] += 1
                counts["strictly narrower"] += not implies(chain[upper], chain[lower])

    holds()
    assert share(counts, "strictly narrower") >= 50


def test_transitive_for_any_three() -> None:
    counts: Counter[str] = Counter()

    @given(st.data())
    @settings(max_examples=300, deadline=None)
    def holds(data: st.DataObject) -> None:
        resource, arguments = data.draw(targets())
        pool = [data.draw(entries_for(resource, arguments))]
        pool += [data.draw(narrowings_for(pool[0], resource, arguments)) for _ in range(2)]
        pool.append(data.draw(entries_for(resource, arguments)))
        one, two, three = (parsed(data.draw(st.sampled_from(pool))) for _ in range(3))
        counts["all"] += 1
        if implies(one, two) and implies(two, three):
            counts["decided"] += 1
            assert implies(one, three)

    holds()
    assert share(counts, "decided") >= 25


def test_chains_to_the_cap() -> None:
    """Signed, verified, to depth 8, with entries beside: no link allows what the one above refuses."""
    counts: Counter[str] = Counter()

    @given(st.data())
    @settings(max_examples=60, deadline=None)
    def holds(data: st.DataObject) -> None:
        resource, arguments = data.draw(targets())
        beside = data.draw(targets())
        depth = data.draw(st.integers(1, 8))
        mine = data.draw(entries_for(resource, arguments))
        other = data.draw(entries_for(*beside))
        chain: tuple[str, ...] = root([other, mine])
        for _ in range(depth):
            mine = data.draw(narrowings_for(mine, resource, arguments))
            other = data.draw(narrowings_for(other, *beside))
            chain = child(chain, data.draw(st.permutations([mine, other])))
        found = accepted(chain, now=NOW + 20)
        assert found.depth == depth
        kept = call_of(resource, arguments)
        assert all(isinstance(check_call(link.entries, kept), tuple) for link in found.links)
        for call in calls_near(resource, arguments):
            answers = [isinstance(check_call(link.entries, call), tuple) for link in found.links]
            counts["all"] += 1
            counts["allowed by the leaf"] += answers[-1]
            counts["lost on the way"] += answers[0] and not answers[-1]
            counts["at depth 4 and over"] += depth >= 4
            assert answers == sorted(answers, reverse=True)

    holds()
    assert share(counts, "allowed by the leaf") >= 10
    assert share(counts, "lost on the way") >= 10
    assert share(counts, "at depth 4 and over") >= 10


BUDGETS = st.builds(
    lambda cost, calls, rate: {
        **({} if cost is None else {"cost": {"amount": cost[0], "currency": cost[1]}}),
        **({} if calls is None else {"calls": calls}),
        **({} if rate is None else {"rate": {"calls": rate[0], "seconds": rate[1]}}),
    },
    st.none()
    | st.tuples(st.sampled_from(["0", "1.5", "3", "3.000001"]), st.sampled_from(["EUR", "EUR", "USD"])),
    st.none() | st.integers(0, 6),
    st.none() | st.tuples(st.integers(0, 4), st.integers(1, 6)),
).filter(bool)
HISTORIES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1_500_000)), max_size=6)
"""Calls: when, in seconds, and what they cost, in millionths of a euro."""


EVEN = [
    [(at * gap, cost) for at in range(number)]
    for number in range(8)
    for gap in (0, 1, 3)
    for cost in (0, 1_500_000)
]


def keeps(budget: Budget, history: list[tuple[int, int]]) -> bool:
    """Whether calls keep within a budget of cost, of calls, and of calls in any stretch of seconds."""
    times = [at for at, _ in history]
    spent = sum(cost for _, cost in history)
    return (
        (budget.cost_micros is None or (budget.currency == "EUR" and spent <= budget.cost_micros))
        and (budget.calls is None or len(history) <= budget.calls)
        and (
            budget.rate_calls is None
            or budget.rate_seconds is None
            or all(
                sum(start <= at < start + budget.rate_seconds for at in times) <= budget.rate_calls
                for start in times
            )
        )
    )


def test_calls_within_a_childs_budget_are_within_its_parents() -> None:
    counts: Counter[str] = Counter()

    @given(BUDGETS, BUDGETS, st.sets(st.sampled_from(["cost", "calls", "rate"])), HISTORIES)
    @settings(max_examples=800, deadline=None)
    def holds(one: Any, other: Any, kept: set[str], history: list[tuple[int, int]]) -> None:
        # Half drawn apart, half from the other one: drawn apart, they hardly ever imply one another.
        child, parent = (
            parse_budget({**other, **one}),
            parse_budget({**other, **{n: one[n] for n in kept & {*one}}}),
        )
        counts["all"] += 1
        if widened_budget(child, parent) is None:
            within = [calls for calls in (*EVEN, history) if keeps(child, calls)]
            counts["decided"] += len(within) > 1
            assert all(keeps(parent, calls) for calls in within)

    holds()
    assert share(counts, "decided") >= 15
