"""When an entry is narrower, and that nothing wider is signed or slips in.

That a child allows nothing that its parent refuses: `tests/property/test_capability_properties.py`.
"""

import copy
from typing import Any

import pytest
from authz_client.capabilities import (
    Component,
    Entry,
    Reason,
    Refused,
    implies,
    parse_entries,
    widening,
)
from authz_client.capabilities.entries import fit
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.clients.python.capabilities.generated import WIDENINGS, entries, narrowings
from tests.clients.python.capabilities.making import HOLDERS, NOW, child, reforged, refused, root

CASES = settings(max_examples=400, deadline=None)


def one(json: Any) -> Entry:
    """The entry, parsed."""
    found = parse_entries([json])
    assert isinstance(found, tuple), (found, json)
    return found[0]


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
