"""DE1 for capabilities: what a child allows its parent allows, at every depth, whatever the call."""

import copy
from typing import Any

import pytest
from authz_client.capabilities import (
    Component,
    Entry,
    Reason,
    Refused,
    ToolCall,
    allows,
    check_call,
    implies,
    parse_entries,
    widening,
)
from authz_client.capabilities.entries import fit
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.clients.python.capabilities.generated import CALLS, CONSTRAINTS, WIDENINGS, entries, narrowings
from tests.clients.python.capabilities.making import HOLDERS, NOW, accepted, child, reforged, refused, root

CASES = settings(max_examples=400, deadline=None)


def one(json: Any) -> Entry:
    """The entry, parsed."""
    found = parse_entries([json])
    assert isinstance(found, tuple), (found, json)
    return found[0]


@given(st.data())
@CASES
def test_what_a_narrowed_entry_allows_its_parent_allows(data: st.DataObject) -> None:
    parent = data.draw(entries())
    child = data.draw(narrowings(parent))
    assert implies(one(child), one(parent))
    call = data.draw(CALLS)
    event(f"allowed by the child: {allows(one(child), call)}")
    if allows(one(child), call):
        assert allows(one(parent), call)


@given(entries(), entries(), CALLS)
@settings(max_examples=1500, deadline=None)
def test_implication_is_sound_for_any_two_entries(child: Any, parent: Any, call: ToolCall) -> None:
    if implies(one(child), one(parent)) and allows(one(child), call):
        event("decided")
        assert allows(one(parent), call)


@given(entries())
@CASES
def test_reflexive(entry: Any) -> None:
    assert widening(one(entry), one(copy.deepcopy(entry))) is None


@given(st.data())
@CASES
def test_transitive(data: st.DataObject) -> None:
    first = data.draw(entries())
    second = data.draw(narrowings(first))
    third = data.draw(narrowings(second))
    assert implies(one(third), one(second))
    assert implies(one(second), one(first))
    assert implies(one(third), one(first))


@given(entries(), entries(), entries())
@settings(max_examples=800, deadline=None)
def test_transitive_for_any_three(first: Any, second: Any, third: Any) -> None:
    if implies(one(first), one(second)) and implies(one(second), one(third)):
        assert implies(one(first), one(third))


def calls_within(entry: Any) -> st.SearchStrategy[ToolCall]:
    """Calls that are likely to be allowed by `entry`, so that the property is not vacuous."""
    return CALLS.map(
        lambda call: ToolCall(
            tool=call.tool,
            accesses=tuple(
                type(access)(verb=access.verb, uri=entry["locations"][0], argument="")
                for access in call.accesses
            ),
            arguments=call.arguments,
        )
    )


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_chains_to_the_cap_and_calls(data: st.DataObject) -> None:
    """The library's own narrowing verifies at every depth, and no link allows what the one above does not."""
    depth = data.draw(st.integers(1, 8))
    details = [data.draw(entries(st.just({}) | CONSTRAINTS)) for _ in range(data.draw(st.integers(1, 2)))]
    chain: tuple[str, ...] = root(details)
    for _ in range(depth):
        details = [data.draw(narrowings(data.draw(st.sampled_from(details)))) for _ in details]
        chain = child(chain, details)
    found = accepted(chain, now=NOW + 20)
    assert found.depth == depth
    call = data.draw(calls_within(details[0]))
    answers = [isinstance(check_call(link.entries, call), tuple) for link in found.links]
    event(f"allowed by the leaf: {answers[-1]}")
    assert answers == sorted(answers, reverse=True), "a link allows what the one above refuses"


def test_the_properties_are_not_vacuous() -> None:
    """Of generated pairs and calls, a fair part is allowed by the child and so decides something."""
    decided = 0

    @given(st.data())
    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    def count(data: st.DataObject) -> None:
        nonlocal decided
        parent = data.draw(entries(st.just({})))
        narrowed = data.draw(narrowings(parent))
        narrowed.pop("constraints", None)
        decided += allows(one(narrowed), data.draw(calls_within(narrowed)))

    count()
    assert decided >= 40


@given(st.data(), st.sampled_from(WIDENINGS))
@settings(max_examples=300, deadline=None)
def test_any_single_widening_is_refused_by_its_component(data: st.DataObject, widened: Any) -> None:
    component, member, widen = widened
    parent = data.draw(entries())
    assume(member in parent)
    wide = copy.deepcopy(parent)
    widen(wide)
    found = parse_entries([wide])
    assume(isinstance(found, tuple))
    assert isinstance(found, tuple)
    # `administer`, account 2 and the looser bounds are in no generated entry.
    answer = fit(found, [one(parent)])
    assert not isinstance(answer, tuple)
    assert answer.component == Component(component), answer


@given(st.data(), st.sampled_from(WIDENINGS))
@settings(max_examples=40, deadline=None)
def test_nor_can_it_be_signed_or_slipped_in(data: st.DataObject, widened: Any) -> None:
    component, member, widen = widened
    parent = data.draw(entries())
    assume(member in parent)
    wide = copy.deepcopy(parent)
    widen(wide)
    assume(isinstance(parse_entries([wide]), tuple))
    chain = root([parent])
    with pytest.raises(Refused) as error:
        child(chain, [wide])
    assert error.value.refusal.component == Component(component)
    forged = refused(reforged(child(chain), authorization_details=[wide]))
    assert (forged.component, forged.link) == (Component(component), 1)


def test_a_later_expiry_is_refused_by_its_component() -> None:
    chain = root()
    with pytest.raises(Refused) as error:
        child(chain, exp=NOW + 601)
    assert error.value.refusal.component is Component.EXPIRY
    assert error.value.refusal.reason is Reason.EXPIRY_WIDENED


def test_the_refusal_is_about_the_nearest_entry() -> None:
    def entry(action: str, location: str, most: int) -> dict[str, Any]:
        return {
            "type": "agent_tool_call",
            "actions": [action],
            "locations": [location],
            "constraints": {"x": {"max": most}},
        }

    parents = [one(entry("read", "file:///a", 1)), one(entry("write", "file:///b", 1))]
    for wide, component in (
        (entry("send", "file:///b", 1), "R"),
        (entry("write", "file:///a", 1), "O"),
        (entry("write", "file:///b/c", 2), "P"),
    ):
        answer = fit([one(wide)], parents)
        assert not isinstance(answer, tuple)
        assert answer.component == component
    assert fit([one(entry("write", "file:///b", 1)), one(entry("read", "file:///a", 0))], parents) == (1, 0)


def test_only_the_holder_of_the_leaf_narrows() -> None:
    with pytest.raises(Refused, match="holder_mismatch"):
        child(root(holder=HOLDERS[5].public))
