"""One call held against many entries: the same answers as one by one, and no more looks than needed."""

from collections.abc import Mapping
from typing import Any

import pytest
from authz_client.capabilities import (
    CallAccess,
    Entry,
    Refusal,
    ToolCall,
    check_access,
    check_call,
    parse_entries,
)
from authz_client.capabilities.calls import CallCheck

from tests.support.chains import entry


class Counting(dict[str, Any]):
    """Arguments that count how often one of them is looked up."""

    looks = 0

    def __getitem__(self, name: str) -> Any:
        self.looks += 1
        return super().__getitem__(name)


def entries(*details: Mapping[str, Any]) -> tuple[Entry, ...]:
    found = parse_entries([dict(detail) for detail in details])
    assert not isinstance(found, Refusal)
    return found


def reading(count: int) -> ToolCall:
    paths = [f"/w/{number}" for number in range(count)]
    accesses = tuple(
        CallAccess(verb="read", uri=f"file://{path}", argument=f"/p/{number}")
        for number, path in enumerate(paths)
    )
    return ToolCall(tool="fs/read_all", accesses=accesses, arguments=Counting(p=paths))


@pytest.mark.parametrize("accesses", [1, 16, 256])
def test_conditions_are_looked_at_once_for_each_entry(accesses: int) -> None:
    """They are about the arguments: how many accesses a call has makes them no dearer."""
    conditions = {"/p/0": {"within": "file:///w"}, "/p": {"max_items": 0}}
    call = reading(accesses)
    details = [entry("read", "file:///w", constraints=conditions)] * 15 + [entry("read", "file:///w")]
    assert check_call(entries(*details), call) == (15,) * accesses
    assert isinstance(call.arguments, Counting)
    assert call.arguments.looks == 15 * len(conditions)


def test_together_is_as_one_by_one() -> None:
    call = ToolCall(
        tool="fs/copy",
        accesses=(
            CallAccess(verb="read", uri="file:///w/a", argument="/from"),
            CallAccess(verb="write", uri="file:///v/b", argument="/to"),
            CallAccess(verb="read", uri="opaque:x"),
            CallAccess(verb="nonsense", uri="file:///w/a"),
        ),
        arguments={"from": "/w/a", "to": "/v/b", "n": 3},
    )
    details = [
        entry(actions, location, constraints=constraints)
        for actions in ("read", "write", "fs/copy", "fs/copy:read", "copy", "fs/other")
        for location in ("file:///w", "file:///w/a", "file:///")
        for constraints in ({"n": {"max": 3}}, {"n": {"max": 2}}, {"/from": {"within": "file:///w"}})
    ]
    check = CallCheck(call)
    for detail in details:
        (found,) = entries(detail)
        for access in call.accesses:
            alone = check_access(found, call, access)
            assert check.refusal(found, access) == alone == check.refusal(found, access)
