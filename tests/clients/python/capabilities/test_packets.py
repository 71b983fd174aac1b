"""Task packets: the narrowest capability that serves the task."""

from typing import Any

import pytest
from authz_client.capabilities import (
    Budget,
    CallAccess,
    Completion,
    OutputContract,
    Reason,
    Refused,
    TaskPacket,
    TaskResource,
    ToolCall,
    check_call,
    parse_entries,
)

from tests.clients.python.capabilities.making import NOW, accepted, child, entry, root


def packet(*inputs: TaskResource, outputs: tuple[TaskResource, ...] = (), **changes: Any) -> TaskPacket:
    given: dict[str, Any] = {
        "objective": "summarise the report",
        "constraints": {},
        "output_contract": OutputContract(description="one page", resources=outputs),
        "budget": None,
        "completion": Completion(condition="the page is written", deadline=NOW + 120),
        "child_trace_id": "t-2",
    }
    return TaskPacket(inputs=inputs, **(given | changes))


READ = TaskResource(uri="file:///srv/work/report", rights=("read",))
WRITE = TaskResource(
    uri="file:///srv/work/out", rights=("fs/file_edit:write",), constraints={"size": {"max": 10}}
)


def allowed(entries: Any, verb: str, uri: str, **arguments: Any) -> bool:
    parsed = parse_entries(entries)
    assert isinstance(parsed, tuple)
    call = ToolCall(tool="fs/file_edit", accesses=(CallAccess(verb=verb, uri=uri),), arguments=arguments)
    return isinstance(check_call(parsed, call), tuple)


def test_inputs_are_read_and_outputs_written_and_nothing_else() -> None:
    entries = packet(READ, outputs=(WRITE,)).entries()
    assert entries == [
        {"type": "agent_tool_call", "actions": ["read"], "locations": ["file:///srv/work/report"]},
        {
            "type": "agent_tool_call",
            "actions": ["fs/file_edit:write"],
            "locations": ["file:///srv/work/out"],
            "constraints": {"size": {"max": 10}},
        },
    ]
    assert allowed(entries, "read", READ.uri)
    assert allowed(entries, "write", WRITE.uri + "/a", size=10)
    assert not allowed(entries, "write", WRITE.uri, size=11)
    assert not allowed(entries, "write", READ.uri, size=1)
    assert not allowed(entries, "read", WRITE.uri)


def test_like_resources_share_an_entry_and_inner_ones_are_dropped() -> None:
    inner = TaskResource(uri="file:///srv/work/report/a", rights=("read",))
    web = TaskResource(uri="https://a.example/v1/", rights=("read", "read"))
    same = TaskResource(uri="https://a.example/v1", rights=("read",))
    assert packet(inner, READ, web, same, READ).entries() == [
        {"type": "agent_tool_call", "actions": ["read"], "locations": [READ.uri, web.uri]}
    ]


def test_the_packets_conditions_and_budget_are_on_every_entry() -> None:
    budget = Budget(cost_micros=2_500_000, currency="EUR", calls=5)
    entries = packet(READ, outputs=(WRITE,), constraints={"size": {"min": 1}}, budget=budget).entries()
    assert [item["budget"] for item in entries] == [
        {"cost": {"amount": "2.5", "currency": "EUR"}, "calls": 5}
    ] * 2
    assert [item["constraints"] for item in entries] == [
        {"size": {"min": 1}},
        {"size": {"min": 1, "max": 10}},
    ]


def test_one_budget_is_one_counter_for_all_entries_of_the_link() -> None:
    entries = packet(READ, outputs=(WRITE,), budget=Budget(calls=5)).entries()
    found = accepted(root(entries))
    counters = {(debit.link_hash, debit.budget.digest) for index in range(2) for debit in found.debits(index)}
    assert len(counters) == 1


def test_it_becomes_a_child() -> None:
    task = packet(READ, outputs=(WRITE,))
    wide = [entry(actions=["read", "write"], locations=["file:///srv"])]
    found = accepted(child(root(wide), task.entries(), exp=task.expires_at))
    assert found.expires_at == NOW + 120
    with pytest.raises(Refused, match="objects_widened"):
        child(root([entry(actions=["read", "write"], locations=["file:///srv/work/report"])]), task.entries())


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (packet(), Reason.DETAILS_INVALID),
        (packet(TaskResource(uri="/srv", rights=("read",))), Reason.LOCATION_INVALID),
        (packet(TaskResource(uri="file:///srv", rights=())), Reason.ACTION_INVALID),
        (packet(TaskResource(uri="file:///srv", rights=("*",))), Reason.ACTION_INVALID),
        (packet(WRITE, constraints={"size": {"max": 9}}), Reason.CONSTRAINT_INVALID),
        (packet(READ, constraints={"size": {"step": 9}}), Reason.CONSTRAINT_INVALID),
    ],
)
def test_a_packet_that_is_not_understood_yields_nothing(task: TaskPacket, expected: Reason) -> None:
    with pytest.raises(Refused) as error:
        task.entries()
    assert error.value.refusal.reason is expected
