"""Task packets as JSON: understood whole, or refused with the place."""

from typing import Any

import pytest
from authz_client.capabilities import Budget, Reason, Refused, parse_packet

from tests.clients.python.capabilities.making import NOW


def packet(**changes: Any) -> dict[str, Any]:
    given = {
        "objective": "sum it up",
        "inputs": [{"uri": "file:///srv/work", "rights": ["read"]}],
        "output_contract": {"description": "one page"},
        "completion": {"condition": "it is written", "deadline": NOW},
        "child_trace_id": "t-2",
    }
    return {name: value for name, value in (given | changes).items() if value is not ...}


def test_a_whole_packet() -> None:
    found = parse_packet(
        packet(
            inputs=[{"uri": "file:///srv/work", "rights": ["read"], "constraints": {"n": {"max": 3}}}],
            constraints={"x": {"equals": 1}},
            output_contract={
                "description": "one page",
                "resources": [{"uri": "file:///srv/out", "rights": ["fs/edit:write"]}],
            },
            budget={"calls": 4},
        )
    )
    assert (found.objective, found.expires_at, found.child_trace_id) == ("sum it up", NOW, "t-2")
    assert found.budget == Budget(calls=4)
    assert found.entries() == [
        {
            "type": "agent_tool_call",
            "actions": ["read"],
            "locations": ["file:///srv/work"],
            "constraints": {"x": {"equals": 1}, "n": {"max": 3}},
            "budget": {"calls": 4},
        },
        {
            "type": "agent_tool_call",
            "actions": ["fs/edit:write"],
            "locations": ["file:///srv/out"],
            "constraints": {"x": {"equals": 1}},
            "budget": {"calls": 4},
        },
    ]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (None, "the packet is an object"),
        ([], "the packet is an object"),
        (packet(objective=...), "no `objective`"),
        (packet(inputs=...), "no `inputs`"),
        (packet(output_contract=...), "no `output_contract`"),
        (packet(completion=...), "no `completion`"),
        (packet(child_trace_id=...), "no `child_trace_id`"),
        (packet(budgets={"calls": 1}), "unknown member"),
        (packet(constraint={}), "unknown member"),
        (packet(objective=""), "`objective`"),
        (packet(objective=7), "`objective`"),
        (packet(objective="x" * 9_000), "`objective`"),
        (packet(inputs={}), "`inputs`"),
        (packet(inputs=[{}] * 257), "`inputs`"),
        (packet(inputs=["file:///srv"]), "`inputs/0`"),
        (packet(inputs=[{"uri": "file:///srv"}]), "`inputs/0`"),
        (packet(inputs=[{"uri": "file:///srv", "rights": "read"}]), "`inputs/0`"),
        (packet(inputs=[{"uri": "file:///srv", "rights": [1]}]), "`inputs/0`"),
        (packet(inputs=[{"uri": 1, "rights": []}]), "`inputs/0`"),
        (packet(inputs=[{"uri": "file:///srv", "rights": [], "verbs": []}]), "`inputs/0`"),
        (packet(inputs=[{"uri": "file:///srv", "rights": [], "constraints": []}]), "`inputs/0`"),
        (packet(constraints=[]), "`constraints`"),
        (packet(constraints={"x": 1}), "`constraints`"),
        (packet(output_contract={}), "`description`"),
        (packet(output_contract={"description": "x", "schema": {}}), "`output_contract`"),
        (packet(completion={"condition": "x"}), "`deadline`"),
        (packet(completion={"condition": "x", "deadline": True}), "`deadline`"),
        (packet(completion={"condition": "x", "deadline": "tomorrow"}), "`deadline`"),
        (packet(completion={"condition": "x", "deadline": -1}), "`deadline`"),
        (packet(child_trace_id="t\n2"), "`child_trace_id`"),
    ],
)
def test_what_is_no_packet(value: Any, place: str) -> None:
    with pytest.raises(Refused) as error:
        parse_packet(value)
    assert error.value.refusal.reason is Reason.DETAILS_INVALID
    assert place in error.value.refusal.detail


@pytest.mark.parametrize("budget", [None, {}, [], {"calls": True}, {"call": 1}, {"calls": 1, "more": 1}])
def test_a_budget_that_is_not_understood_bounds_nothing_and_so_refuses(budget: Any) -> None:
    with pytest.raises(Refused) as error:
        parse_packet(packet(budget=budget))
    assert error.value.refusal.reason is Reason.BUDGET_INVALID


@pytest.mark.parametrize("constraints", [{"x": {}}, {"x": {"like": "a"}}, {"x": {"max": "1"}}])
def test_a_constraint_that_is_not_understood_yields_no_capability(constraints: Any) -> None:
    with pytest.raises(Refused) as error:
        parse_packet(packet(constraints=constraints)).entries()
    assert error.value.refusal.reason is Reason.CONSTRAINT_INVALID
