"""Descriptors at load: complete, consistent and typed, or refused where they stand."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.pointer import parse_pointer
from authz.core.schema_places import Undeclared, check_declared
from tests.support.world import TEXT, fault_of, faults_of, tool, tool_file, world

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
        (described(roles={"/b": "target"}), "`/b` is no declared argument", "`/a`"),
        (described(roles={"/a": "taget"}), "roles", ""),
        (described(roles={"a": "target"}), "roles", ""),
        (described(roles={"/a~2": "target"}), "roles", ""),
        (described(side_effect="idempotent"), "only reads and connects", "side_effect: none"),
        (described(access(verb="write")), "is not `none`", "idempotent"),
        (described(side_effect="maybe"), "side_effect", ""),
        (described(access(at="/b")), "`/b` is no declared argument", "nearest that is declared is `/a`"),
        (described(access(at="/*")), "`/*` is no declared argument", ""),
        (described(settlement={"idempotency_key_at": "/aa"}), "`/aa` is no declared argument", "`/a`"),
        (described(returns={"fields": {"rows": {}}}), "fields", ""),
        (described(returns={"fields": {"/rows/~2": {}}}), "fields", ""),
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


OBJECT = {"type": "object", "properties": {"path": TEXT, "to": TEXT, "deep": {"$ref": "#/$defs/deep"}}}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": TEXT,
        "o": OBJECT,
        "maybe": {"anyOf": [{"$ref": "#/properties/o"}, {"type": "null"}]},
        "list": {"type": ["array", "null"], "items": OBJECT},
        "pair": {"type": "array", "prefixItems": [TEXT, OBJECT], "items": False},
        "map": {"type": "object", "additionalProperties": OBJECT},
        "any": {},
        "bag": {"type": "object"},
        "loose": {"properties": {"path": TEXT}},
        "mixed": {"type": ["object", "string"], "properties": {"path": TEXT}},
        "union": {"anyOf": [TEXT, OBJECT]},
        "tagged": {
            "type": "array",
            "items": {"anyOf": [OBJECT, {"type": "object", "properties": {"id": TEXT}}, {"type": "null"}]},
        },
        "bare": {"type": "array"},
        "texts": {"type": "array", "items": TEXT},
    },
    "$defs": {"deep": {"type": "object", "properties": {"x/y": TEXT, "flag": {"type": "boolean"}}}},
}
DECLARED = [
    "/o", "/o/path", "/o/deep/x~1y", "/maybe/path", "/maybe/deep/flag", "/list", "/list/*", "/list/0/path",
    "/list/*/deep/x~1y", "/pair/0", "/pair/1/path", "/pair/*/path", "/map/*", "/map/*/path", "/any", "/bag",
    "/bare", "/texts", "/texts/*", "/texts/3", "/o/*", "/mixed", "/union", "/tagged/*/path", "/tagged/*/id",
]  # fmt: skip
UNDECLARED = [
    ("/o/pth", "`/o` has no `pth`", "`/o/path`"),
    ("/o/deep/x", "`/o/deep` has no `x`", "`/o/deep/x~1y`"),
    ("/maybe/pat", "`/maybe` has no `pat`", "`/maybe/path`"),
    ("/list/path", "`/list` has no `path`", "`/list/*`"),
    ("/list/*/pathh", "`/list/*` has no `pathh`", "`/list/*/path`"),
    ("/list/01/path", "`/list` has no `01`", "`/list/*`"),
    ("/pair/2", "`/pair` has no `2`", "`/pair/"),
    ("/pair/0/path", "nothing is declared in `/pair/0`", "type: object"),
    ("/map/key/path", "`/map` has no `key`", "`/map/*`"),
    ("/map/*/pth", "`/map/*` has no `pth`", "`/map/*/path`"),
    ("/any/path", "nothing is declared in `/any`", "type: object"),
    ("/bag/path", "nothing is declared in `/bag`", "type: object"),
    ("/bag/*", "nothing is declared in `/bag`", "type: object"),
    ("/loose/path", "not always of one type", "type: object"),
    ("/mixed/path", "not always of one type", "type: object"),
    ("/union/path", "not always of one type", "type: object"),
    ("/tagged/*/idd", "`/tagged/*` has no `idd`", "`/tagged/*/id`"),
    ("/bare/*", "nothing is declared in `/bare`", "type: array"),
    ("/texts/*/path", "nothing is declared in `/texts/*`", "type: object"),
    ("/a/path", "nothing is declared in `/a`", "type: object"),
    ("/lst/*/path", "`/lst/*/path` is no declared argument", "`/list`"),
]
PLACES = ["at", "tree_if", "role", "idempotency_key_at"]


def pointing(place: str, pointer: str) -> dict[str, Any]:
    """A tool of the nested schema with a second access, a tree, a role or a key at `pointer`."""
    entry = described(input_schema=NESTED, roles={f"/{name}": "option" for name in NESTED["properties"]})
    if place == "at":
        entry["accesses"] = [*READS, {"verb": "read", "kind": "path", "at": pointer}]
    elif place == "tree_if":
        entry["accesses"] = [{**READS[0], "tree_if": pointer}]
    elif place == "role":
        entry["roles"][pointer] = "destination"
    else:
        entry["settlement"] = {"idempotency_key_at": pointer}
    return entry


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pointer", DECLARED)
def test_a_pointer_may_name_whatever_the_schema_declares(pointer: str, place: str) -> None:
    assert world(tools=tool_file("x", pointing(place, pointer))).tools


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("pointer", "words", "hint"), UNDECLARED)
def test_a_pointer_that_leaves_the_schema_is_refused(pointer: str, words: str, hint: str, place: str) -> None:
    """Else the access or the role would silently not be there, and the rest of the call be judged alone."""
    text = tool_file("x", pointing(place, pointer))
    problem = fault_of(tools=text)
    assert problem.file == "tools/main.yaml"
    assert problem.line is not None
    assert f'"{pointer}"' in text.splitlines()[problem.line - 1]
    assert f"`{pointer}` is no declared argument" in problem.message
    assert words in problem.message
    assert hint in problem.hint


@given(st.sampled_from(DECLARED), st.data())
def test_one_letter_more_or_less_is_noticed_at_every_depth(pointer: str, data: st.DataObject) -> None:
    tokens = list(parse_pointer(pointer))
    index = data.draw(st.integers(0, len(tokens) - 1))
    changed = data.draw(st.sampled_from([tokens[index] + "q", tokens[index][1:], "q" + tokens[index]]))
    with pytest.raises(Undeclared):
        check_declared(NESTED, (*tokens[:index], changed, *tokens[index + 1 :]))


def test_arguments_that_stand_behind_a_reference_need_roles_too() -> None:
    schema = {
        "type": "object",
        "$ref": "#/$defs/all",
        "$defs": {"all": {"properties": {"a": TEXT, "b": TEXT}}},
    }
    problem = fault_of(tools=tool_file("x", described(input_schema=schema)))
    assert "the argument `b` of `t` has no role" in problem.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a", "/a"), ("/texts", "/texts/*"), ("/texts/*", "/texts/0"), ("/list/*/path", "/list/0/path"),
        ("/o/*", "/o/path"), ("/texts/2", "/texts"),
    ],
)  # fmt: skip
def test_one_value_has_one_kind(one: str, other: str) -> None:
    """The canonical form of the last kind would replace that of the first in what is executed."""
    entry = pointing("at", other)
    entry["accesses"] = [
        {"verb": "read", "kind": "path", "at": one},
        {"verb": "connect", "kind": "url", "at": other},
    ]
    text = tool_file("x", entry)
    problem = fault_of(tools=text)
    assert f"`{other}` is a url here, and `{one}` of another access" in problem.message
    assert problem.line is not None
    assert f'"at": "{other}"' in text.splitlines()[problem.line - 1]
    entry["accesses"][1]["kind"] = "path"
    assert world(tools=tool_file("x", entry)).tools


@pytest.mark.parametrize(
    ("one", "other"), [("/a", "/o/path"), ("/o/to", "/o/path"), ("/texts/0", "/texts/1")]
)
def test_different_values_may_be_of_different_kinds(one: str, other: str) -> None:
    entry = pointing("at", other)
    entry["accesses"] = [
        {"verb": "read", "kind": "path", "at": one},
        {"verb": "connect", "kind": "url", "at": other},
    ]
    assert world(tools=tool_file("x", entry)).tools
