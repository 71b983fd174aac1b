"""Descriptors at load: complete, consistent and typed, or refused where they stand."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import TEXT, fault_of, faults_of, tool, tool_file

READS = [{"verb": "read", "kind": "path", "at": "/a"}]


def described(change: Callable[[dict[str, Any]], None] | None = None, **more: Any) -> dict[str, Any]:
    entry = tool(more.pop("name", "t"), READS, {"a": TEXT}) | more
    if change is not None:
        change(entry)
    return entry


def typed(schema: Any, **more: Any) -> dict[str, Any]:
    return described(input_schema={"type": "object", "properties": {"a": schema, **more}})


def drop_roles(entry: dict[str, Any]) -> None:
    entry["roles"].clear()


def access(**more: Any) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        changed = {**entry["accesses"][0], **more}
        entry["accesses"] = [{key: value for key, value in changed.items() if value is not None}]

    return change


@pytest.mark.parametrize(
    ("entry", "words", "hint"),
    [
        (described(drop_roles), "`a` of `t` has no role", "add `/a:`"),
        (described(roles={"/b": "target"}), "no argument `b`", ""),
        (described(roles={"/a": "taget"}), "roles", ""),
        (described(roles={"a": "target"}), "roles", ""),
        (described(roles={"/a~2": "target"}), "roles", ""),
        (described(side_effect="idempotent"), "only reads and connects", "side_effect: none"),
        (described(access(verb="write")), "is not `none`", "idempotent"),
        (described(side_effect="maybe"), "side_effect", ""),
        (described(access(at="/b")), "`/b` is no declared argument", ""),
        (described(access(at=None)), "either by `at` or by `resource`", ""),
        (described(access(resource="/x")), "either by `at` or by `resource`", ""),
        (described(access(kind="id")), "needs a `type`", "type: account"),
        (described(access(kind="id", type="Account")), "type", ""),
        (described(access(tree_if="/b")), "`/b` is no declared argument", ""),
        (described(access(verb="red")), "verb", ""),
        (described(access(authority="A4")), "authority", ""),
        (described(access(at=None, resource="/x\u0000")), "", ""),
        (described(access(kind="url", at=None, resource="not a url")), "is no url", ""),
        (described(compensator="undo"), "`undo`, which is not here", ""),
        (described(settlement={"probe": {"tool": "look", "when": "after"}}), "`look`, which is not here", ""),
        (described(settlement={"probe": {"tool": "t", "when": "during"}}), "when", ""),
        (described(cost={"amount": 1.5, "currency": "EUR"}), "string", ""),
        (described(cost={"amount": "1.5", "currency": "euro"}), "currency", ""),
        (described(undo={"how": "x"}), "missing", ""),
        (typed({"$ref": "https://x.example.com/s"}), "must stay inside", ""),
        (typed({"$ref": "file:///etc/passwd"}), "must stay inside", ""),
        (typed({"type": "text"}), "invalid", ""),
        (typed({}, __entity={}), "`__entity`", ""),
        (typed({}, nulls={}), "`nulls`", ""),
        (described(input_schema=["a"]), "input_schema", ""),
        (described(name="a b"), "name", ""),
        (described(accesses=[]), "accesses", ""),
        (described(trusted=True), "unknown key", ""),
    ],
)
def test_a_faulty_descriptor_is_refused(entry: dict[str, Any], words: str, hint: str) -> None:
    problems = faults_of(tools={"good": tool_file("g", described()), "bad": tool_file("x", entry)})
    assert {problem.file for problem in problems} == {"tools/bad.yaml"}
    assert all(problem.line is not None and problem.line > 1 for problem in problems)
    assert any(words in problem.message and hint in problem.hint for problem in problems), problems


def test_a_tool_that_is_not_local_pins_what_was_reviewed() -> None:
    text = tool_file("x", described(), local=False, identity="https://x.example.com/mcp")
    problem = fault_of(tools=text)
    assert "pins no `advertised_digest`" in problem.message
    assert fault_of(tools=tool_file("x", described(advertised_digest="sha256:short"))).line


def test_one_server_has_one_name_and_one_name_one_server() -> None:
    one, other = described(), described()
    problem = fault_of(tools={"a": tool_file("x", one), "b": tool_file("x", other, identity="local:other")})
    assert (problem.file, problem.line, problem.message) == ("tools/b.yaml", 3, "the alias `x` is taken")
    problem = fault_of(tools={"a": tool_file("x", one), "b": tool_file("y", other, identity="local:x")})
    assert problem.message == "the alias `x` already stands for this server"
    problem = fault_of(tools=tool_file("x", one, other))
    assert problem.message == "`t` is described twice"
