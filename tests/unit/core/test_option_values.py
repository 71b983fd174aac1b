"""A value that could become an option of the executed program is refused at stage 4 (MC6)."""

from typing import Any

import pytest

from authz.model.decision import Code, Decision, Effect, Next, Stage
from tests.support.world import TEXT, call, decide_in, fault_of, tool, tool_file, world

LIST = {"type": "array", "items": TEXT, "maxItems": 9}
PROPERTIES = {
    "revision": TEXT,
    "names": LIST,
    "nested": {
        "type": "object",
        "properties": {"order": TEXT},
        "additionalProperties": False,
        "required": [],
    },
    "path": TEXT,
    "host": TEXT,
    "message": TEXT,
    "line": TEXT,
    "secret": TEXT,
}
ROLES = {
    "/revision": "target",
    "/names": "option",
    "/nested": "option",
    "/path": "target",
    "/host": "destination",
    "/message": "payload",
    "/line": "command",
    "/secret": "credential",
}
ACCESSES = [
    {"verb": "read", "kind": "path", "at": "/path"},
    {"verb": "connect", "kind": "host", "at": "/host"},
    {"verb": "read", "kind": "id", "type": "thing", "resource": "it"},
]


def decide(arguments: dict[str, Any], *, cwd: str | None = "/workspace", **more: Any) -> Decision:
    schema = {"type": "object", "properties": PROPERTIES, "required": [], "additionalProperties": False}
    described = {
        **tool("show", ACCESSES, PROPERTIES, roles=ROLES),
        "input_schema": schema,
        **more,
    }
    return decide_in(world(tools=tool_file("x", described)), call("x/show", arguments, cwd=cwd)).decision


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"revision": "--output=/workspace/x"}, "/revision"),
        ({"revision": "-x"}, "/revision"),
        ({"revision": "-"}, "/revision"),
        ({"revision": "--"}, "/revision"),
        ({"revision": " \t--upload-pack=x"}, "/revision"),
        ({"revision": "\u00a0-x"}, "/revision"),
        ({"names": ["a", "-rf"]}, "/names/1"),
        ({"nested": {"order": "-n"}}, "/nested/order"),
    ],
)
def test_a_value_that_begins_like_an_option_is_refused(arguments: dict[str, Any], pointer: str) -> None:
    decided = decide(arguments)
    assert (decided.effect, decided.stage, decided.code) == (
        Effect.DENY,
        Stage.CANONICAL,
        Code.CANONICAL_REFUSED,
    )
    assert [error.pointer for error in decided.errors] == [pointer]
    assert decided.message.startswith(f"change `{pointer}`: it begins with `-`")
    assert Next.CHANGE_ARGUMENTS in decided.next


@pytest.mark.parametrize(
    "arguments",
    [
        {"revision": "main"},
        {"revision": "a-b --c"},
        {"names": ["a", "./-rf"]},
        {"message": "- milk\n- eggs"},
        {"message": "--amend"},
        {"secret": "-x"},
        {"line": "-x"},
    ],
)
def test_other_values_pass(arguments: dict[str, Any]) -> None:
    assert decide(arguments).effect is Effect.ALLOW


def test_the_canonical_value_is_what_counts() -> None:
    decided = decide({"path": "-rf"})
    assert decided.effect is Effect.ALLOW
    assert decided.arguments is not None
    assert decided.arguments["path"] == "/workspace/-rf"
    # Without a directory it stays as it was written.
    assert decide({"path": "-rf"}, cwd=None).code is Code.CANONICAL_REFUSED
    assert decide({"host": "-oProxyCommand=x"}).code is Code.CANONICAL_REFUSED


def test_a_reviewer_may_say_that_no_program_gets_it() -> None:
    listed: dict[str, Any] = {"may_start_with_dash": ["/revision", "/names"]}
    assert decide({"revision": "-x", "names": ["-y"]}, **listed).effect is Effect.ALLOW
    assert decide({"nested": {"order": "-n"}}, **listed).code is Code.CANONICAL_REFUSED


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("--output=x", Code.CANONICAL_REFUSED),
        ("-x", Code.CANONICAL_REFUSED),
        ("- milk", None),
        ("---\na: b", None),
    ],
)
def test_of_a_draft_no_text_looks_like_an_option(message: str, expected: Code | None) -> None:
    """Its roles are guesses: a revision is a text to them. Nor is it believed what it lists."""
    draft: dict[str, Any] = {"reviewed": False, "may_start_with_dash": ["/message", "/revision"]}
    decided = decide({"message": message}, **draft)
    assert (decided.code if decided.effect is Effect.DENY else None) == expected
    assert decide({"revision": "-x"}, **draft).code is Code.CANONICAL_REFUSED


def test_what_is_listed_must_be_an_argument() -> None:
    described = {
        **tool("show", ACCESSES[2:], {"a": TEXT}, roles={"/a": "option"}),
        "may_start_with_dash": ["/b"],
    }
    assert fault_of(tools=tool_file("x", described)).code == "tool.pointer-undeclared"


def test_there_are_never_more_errors_than_one_call_may_have_accesses() -> None:
    many = {"names": {"type": "array", "items": TEXT, "maxItems": 5000}}
    described = tool("show", ACCESSES[2:], many, roles={"/names": "option"})
    decided = decide_in(world(tools=tool_file("x", described)), call("x/show", names=["-x"] * 5000)).decision
    assert decided.code is Code.CANONICAL_REFUSED
    assert len(decided.errors) == 256
