"""A call against entries: rights, objects, conditions on arguments."""

from collections.abc import Sequence
from typing import Any

import pytest
from authz_client.capabilities import (
    CallAccess,
    Component,
    Entry,
    Reason,
    Refusal,
    ToolCall,
    allows,
    check_call,
    parse_entries,
)

from tests.clients.python.capabilities.making import entry


def parsed(*details: Any) -> tuple[Entry, ...]:
    found = parse_entries(list(details))
    assert isinstance(found, tuple), found
    return found


def call(
    verb: str = "read",
    uri: str = "file:///srv/work/a",
    tool: str = "fs/file_read",
    argument: str = "",
    **arguments: Any,
) -> ToolCall:
    """A call with one access."""
    return ToolCall(
        tool=tool, accesses=(CallAccess(verb=verb, uri=uri, argument=argument),), arguments=arguments
    )


def why(entries: Sequence[Entry], of: ToolCall) -> tuple[Reason, Component | None]:
    found = check_call(entries, of)
    assert isinstance(found, Refusal), found
    return found.reason, found.component


@pytest.mark.parametrize(
    ("action", "tool", "verb", "expected"),
    [
        ("read", "fs/file_read", "read", True),
        ("read", "any/tool", "read", True),
        ("read", "fs/read", "write", False),
        ("fs/file_read", "fs/file_read", "delete", True),
        ("file_read", "fs/file_read", "delete", True),
        ("file_read", "web/file_read", "read", True),
        ("fs/file_read", "web/file_read", "read", False),
        ("fs/file_read:read", "fs/file_read", "read", True),
        ("fs/file_read:read", "fs/file_read", "write", False),
        ("file_read:read", "web/file_read", "read", True),
        ("fs/ns:edit", "fs/ns:edit", "write", True),
        ("fs/a/b", "fs/a/b", "write", True),
        ("fs/a", "fs/a/b", "write", False),
        ("fs/x:read", "fs/x:read", "read", False),  # the verb `read` of the tool `x`, not a tool `x:read`
        ("read", "no-server", "read", False),
    ],
)
def test_rights(action: str, tool: str, verb: str, expected: bool) -> None:
    assert allows(parsed(entry(actions=[action]))[0], call(verb, tool=tool)) is expected


@pytest.mark.parametrize(
    ("constraint", "arguments", "expected"),
    [
        ({"x": {"max": 5}}, {"x": 5}, True),
        ({"x": {"max": 5}}, {"x": 5.5}, False),
        ({"x": {"max": 5}}, {"x": "5"}, False),
        ({"x": {"max": 5}}, {"x": True}, False),
        ({"x": {"max": 5}}, {"x": float("nan")}, False),
        ({"x": {"max": 5}}, {}, False),
        ({"x": {"max": 5}}, {"x": None}, False),
        ({"x": {"min": 0}}, {"x": -1}, False),
        ({"x": {"max": 9007199254740991}}, {"x": 2**60}, False),
        ({"x": {"equals": 1}}, {"x": 1.0}, True),
        ({"x": {"equals": 1}}, {"x": True}, False),
        ({"x": {"equals": {"a": [True]}}}, {"x": {"a": [1]}}, False),
        ({"x": {"equals": "e\u0301"}}, {"x": "\u00e9"}, False),
        ({"x": {"one_of": ["a", None]}}, {"x": None}, True),
        ({"x": {"one_of": [0]}}, {"x": False}, False),
        ({"x": {"max_length": 2}}, {"x": "\U0001f600\U0001f600"}, True),
        ({"x": {"max_length": 2}}, {"x": ["a"]}, False),
        ({"x": {"max_items": 1}}, {"x": [1]}, True),
        ({"x": {"max_items": 1}}, {"x": "a"}, False),
        ({"/x/0/y": {"equals": 1}}, {"x": [{"y": 1}]}, True),
        ({"/x/00/y": {"equals": 1}}, {"x": [{"y": 1}]}, False),
        ({"/x/-": {"equals": 1}}, {"x": [1]}, False),
        ({"/x/0": {"equals": 1}}, {"x": {"0": 1}}, True),
        ({"/a~1b/c~0d": {"equals": 1}}, {"a/b": {"c~d": 1}}, True),
        ({"a/b": {"equals": 1}}, {"a/b": 1}, True),
        ({"x": {"max": 5}, "y": {"max": 5}}, {"x": 1}, False),
        ({"x": {"within": "file:///srv"}}, {"x": "/srv/a"}, True),
        ({"x": {"within": "file:///srv"}}, {"x": "/srv/../etc"}, False),
        ({"x": {"within": "file:///srv"}}, {"x": "file:///srv/a%20b"}, True),
        ({"x": {"within": "file:///srv"}}, {"x": "srv/a"}, False),
        ({"x": {"within": "domain:example.com"}}, {"x": "https://a.example.com/"}, True),
        ({"x": {"within": "domain:example.com"}}, {"x": "https://a.example.com"}, False),  # not canonical
        ({"x": {"within": "file:///srv"}}, {"x": ["/srv/a", "/srv/b"]}, True),
        ({"x": {"within": "file:///srv"}}, {"x": ["/srv/a", "/etc"]}, False),
        ({"x": {"within": "file:///srv"}}, {"x": ["/srv/a", 1]}, False),
        ({"x": {"within": "file:///srv"}}, {"x": []}, False),
        ({"x": {"within": "file:///srv"}}, {"x": "\ud800"}, False),
    ],
    ids=str,
)  # fmt: skip
def test_conditions(constraint: Any, arguments: Any, expected: bool) -> None:
    assert allows(parsed(entry(constraints=constraint))[0], call(**arguments)) is expected


def test_within_goes_by_the_access_and_not_by_the_spelling() -> None:
    inside = parsed(entry(locations=["file:///"], constraints={"path": {"within": "file:///srv"}}))
    assert allows(inside[0], call(uri="file:///srv/a", argument="/path", path="../a"))
    assert not allows(inside[0], call(uri="file:///etc/a", argument="/path", path="/srv/a"))


def test_each_access_needs_one_entry_whole() -> None:
    entries = parsed(
        entry(actions=["read"], locations=["file:///a"]), entry(actions=["write"], locations=["file:///b"])
    )
    copying = ToolCall(
        tool="fs/copy",
        accesses=(CallAccess(verb="write", uri="file:///b/x"), CallAccess(verb="read", uri="file:///a/x")),
        arguments={},
    )
    assert check_call(entries, copying) == (1, 0)
    assert not any(allows(item, copying) for item in entries)
    assert why(entries, call("write", "file:///a/x")) == (Reason.OBJECT_OUTSIDE, Component.OBJECTS)
    assert why(entries, call("send", "file:///a/x")) == (Reason.RIGHT_MISSING, Component.RIGHTS)


def test_reasons_name_the_component() -> None:
    entries = parsed(entry(constraints={"x": {"max": 1}}))
    assert why(entries, call("delete", tool="web/get")) == (Reason.RIGHT_MISSING, Component.RIGHTS)
    assert why(entries, call(uri="file:///etc")) == (Reason.OBJECT_OUTSIDE, Component.OBJECTS)
    assert why(entries, call(uri="opaque:path:00")) == (Reason.OBJECT_OUTSIDE, Component.OBJECTS)
    assert why(entries, call(x=2)) == (Reason.CONSTRAINT_UNMET, Component.PREDICATE)


def test_nothing_allows_nothing() -> None:
    """Empty means refuse: no access, no entry."""
    nothing = ToolCall(tool="fs/file_read", accesses=(), arguments={})
    assert not allows(parsed(entry())[0], nothing)
    assert why(parsed(entry()), nothing)[0] is Reason.RIGHT_MISSING
    assert why((), call())[0] is Reason.RIGHT_MISSING
