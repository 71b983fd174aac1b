"""From arguments to accesses: nothing is dropped, both forms are judged, authority is derived."""

import itertools
import posixpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.ruleset import Ruleset
from authz.core.tools import derive_authority, possible_levels
from authz.model.decision import Code, Decision, Effect, Stage
from authz.model.resource import Authority, ResolvedPath, Scope, Verb
from tests.support.world import TEXT, call, decide_in, rules_of, tool, tool_file, world

UNDO = {"undo": {"reviewed_by": "ada", "how": "restore the snapshot"}}


def described(verb: str, kind: str = "path", **more: Any) -> Ruleset:
    """A world with one tool that exercises `verb` on its argument `at`."""
    access = {"verb": verb, "kind": kind, "at": "/at", **({"type": "account"} if kind == "id" else {})}
    access |= more.pop("access", {})
    return world(tools=tool_file("x", tool("t", [access], {"at": TEXT}, **more)))


def authority(ruleset: Ruleset, at: str = "/workspace/a", **parts: Any) -> Authority | None:
    return decide_in(ruleset, call("x/t", at=at, **parts)).decision.authority


@pytest.mark.parametrize(
    ("verb", "more", "inside", "outside"),
    [
        ("read", {}, "A0", "A0"),
        ("connect", {}, "A0", "A0"),
        ("write", {}, "A3", "A3"),
        ("write", {"leaves_sandbox": False}, "A1", "A3"),
        ("delete", {"leaves_sandbox": False}, "A1", "A3"),
        ("execute", {"leaves_sandbox": False}, "A1", "A3"),
        ("send", {"leaves_sandbox": False}, "A1", "A3"),
        ("write", UNDO, "A2", "A2"),
        ("write", {**UNDO, "leaves_sandbox": False}, "A1", "A2"),
        ("write", {"compensator": "t"}, "A2", "A2"),
        ("transact", {**UNDO, "leaves_sandbox": False}, "A3", "A3"),
        ("administer", {**UNDO, "leaves_sandbox": False}, "A3", "A3"),
        # Whether a call may run twice says nothing of what it destroys.
        ("delete", {"side_effect": "idempotent"}, "A3", "A3"),
        ("delete", {"side_effect": "cumulative"}, "A3", "A3"),
    ],
)
def test_authority_is_derived(verb: str, more: dict[str, Any], inside: str, outside: str) -> None:
    ruleset = described(verb, **more)
    assert authority(ruleset, "/workspace/a") is Authority[inside]
    assert authority(ruleset, "/elsewhere/a") is Authority[outside]
    assert authority(ruleset, "/workspace/a", sandbox_root=None) is Authority[outside]
    # A claim that is not believed puts every change at A3.
    disbelieved = authority(ruleset, "/workspace/a", sandbox_root="/")
    assert disbelieved is (Authority.A0 if verb in ("read", "connect") else Authority.A3)


@pytest.mark.parametrize("raised", ["A0", "A1", "A2", "A3"])
@pytest.mark.parametrize("verb", ["read", "write", "transact"])
def test_raising_only_raises(verb: str, raised: str) -> None:
    plain = described(verb, leaves_sandbox=False)
    lifted = described(verb, leaves_sandbox=False, access={"authority": raised})
    for at in ("/workspace/a", "/elsewhere"):
        floor, found = authority(plain, at), authority(lifted, at)
        assert floor is not None
        assert found is max(floor, Authority[raised])


def test_every_level_that_can_come_out_has_an_action() -> None:
    for verb, leaves, undo, raised in itertools.product(Verb, (True, False), ({}, UNDO), Authority):
        kind = "path"
        ruleset = described(
            verb.value, kind, leaves_sandbox=leaves, access={"authority": raised.name}, **undo
        )
        descriptor = ruleset.tools[("x", "t")].descriptor
        (spec,) = descriptor.accesses
        levels = possible_levels(descriptor, spec)
        assert levels == {
            derive_authority(descriptor, spec, in_sandbox=inside, disbelieved=not believed)
            for inside in (True, False)
            for believed in (True, False)
        }
        for at, root in itertools.product(("/workspace/a", "/etc"), ("/workspace", None, "/")):
            assert decide_in(ruleset, call("x/t", at=at, sandbox_root=root)).decision.effect is Effect.ALLOW


SECRETS = world(
    '@id("p") permit (principal, action, resource);'
    '@id("secret") forbid (principal, action, resource in Directory::"/workspace/.secrets");'
    '@id("out") @requires("approval") forbid (principal, action, resource)'
    ' unless { resource in Directory::"/workspace" };'
)


@pytest.mark.parametrize(
    ("path", "real", "effect", "rules"),
    [
        ("/workspace/a", "/workspace/a", Effect.ALLOW, ["p"]),
        ("/workspace/a", "/workspace/.secrets/key", Effect.DENY, ["secret"]),
        ("/workspace/.secrets/key", "/workspace/a", Effect.DENY, ["secret"]),
        ("/workspace/a", "/etc/passwd", Effect.REQUIRE_APPROVAL, ["out"]),
        ("/etc/passwd", "/workspace/a", Effect.REQUIRE_APPROVAL, ["out"]),
        ("/etc/passwd", "/workspace/.secrets/key", Effect.DENY, ["secret"]),
        ("/workspace/a", "not absolute", Effect.REQUIRE_APPROVAL, ["out"]),
        ("/workspace/a", "/workspace/a\x00", Effect.REQUIRE_APPROVAL, ["out"]),
        ("/workspace/a", "", Effect.REQUIRE_APPROVAL, ["out"]),
    ],
)
def test_what_is_spelled_and_where_it_lies_are_both_judged(
    path: str, real: str, effect: Effect, rules: list[str]
) -> None:
    """PA2, PA4: a link neither hides a forbidden file nor opens one; the stricter form wins."""
    made = call("fs/file_edit", path=path, text="", resolved={"/path": ResolvedPath(path=real)})
    outcome = decide_in(SECRETS, made)
    assert (outcome.decision.effect, rules_of(outcome)) == (effect, rules)
    assert all(access.resolved for access in outcome.decision.accesses)


def test_a_link_out_of_the_sandbox_takes_the_call_out_of_it() -> None:
    ruleset = described("write", leaves_sandbox=False)
    link = {"/at": ResolvedPath(path="/etc/passwd")}
    assert authority(ruleset, resolved=link) is Authority.A3
    assert (
        authority(ruleset, "/etc/passwd", resolved={"/at": ResolvedPath(path="/workspace/a")}) is Authority.A3
    )
    assert authority(ruleset, resolved={"/at": ResolvedPath(path="/workspace/b")}) is Authority.A1


def test_the_absence_of_a_resolution_is_visible_to_rules() -> None:
    ruleset = world('@id("p") permit (principal, action, resource) when { context.resolved };')
    resolved = {"/path": ResolvedPath(path="/workspace/a")}
    assert decide_in(ruleset, call("fs/file_read", path="/workspace/a")).decision.effect is Effect.DENY
    made = call("fs/file_read", path="/workspace/a", resolved=resolved)
    assert decide_in(ruleset, made).decision.effect is Effect.ALLOW
    elsewhere = call(
        "fs/file_read", path="/workspace/a", resolved={"/other": ResolvedPath(path="/workspace/a")}
    )
    assert decide_in(ruleset, elsewhere).decision.effect is Effect.DENY


@pytest.mark.parametrize(
    ("recursive", "scope"),
    [
        (False, Scope.OBJECT),
        (None, Scope.OBJECT),
        (True, Scope.TREE),
        (0, Scope.TREE),
        ("", Scope.TREE),
        ([], Scope.TREE),
    ],
)
def test_a_tree_is_anything_but_a_clear_no(recursive: Any, scope: Scope) -> None:
    access = {"verb": "delete", "kind": "path", "at": "/path", "tree_if": "/r"}
    ruleset = world(tools=tool_file("x", tool("t", [access], {"path": TEXT, "r": {}}, required=["path"])))
    decision = decide_in(ruleset, call("x/t", path="/workspace/a", r=recursive)).decision
    assert [found.scope for found in decision.accesses] == [scope]


def listed(name: str) -> Decision:
    ruleset = world(
        '@id("p") permit (principal, action, resource);'
        '@id("f") forbid (principal, action, resource in Directory::"/no");',
        tools=tool_file(
            "x",
            tool(
                "many",
                [
                    {"verb": "read", "kind": "path", "at": "/paths"},
                    {"verb": "read", "kind": "path", "at": "/rows/*/path"},
                    {"verb": "read", "kind": "path", "at": "/maybe", "when_absent": "."},
                    {"verb": "connect", "kind": "email", "at": "/to"},
                ],
                {
                    "paths": {"type": "array", "items": TEXT},
                    "rows": {"type": "array", "items": {"type": "object", "properties": {"path": TEXT}}},
                    "maybe": {"type": ["string", "null"]},
                    "to": TEXT,
                },
                required=[],
            ),
        ),
    )
    return decide_in(ruleset, call("x/many", CASES[name])).decision


CASES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "null": {"maybe": None},
    "one": {"paths": ["/a"], "maybe": "/m"},
    "both": {"paths": ["/a", "b", "/a"], "rows": [{"path": "/c"}, {}, {"path": "../d"}], "maybe": "/m"},
    "denied": {"paths": ["/a", "/no/b"], "maybe": "/m"},
    "denied row": {"rows": [{"path": "/a"}, {"path": "/a/../no"}], "maybe": "/m"},
    "several": {"to": "Ada <ADA@example.com>, bob@example.com", "maybe": "/m"},
    "empty": {"paths": [], "rows": [], "maybe": "/m"},
}


@pytest.mark.parametrize(
    ("name", "uris", "effect"),
    [
        ("nothing", ["file:///workspace"], Effect.ALLOW),
        ("null", ["file:///workspace"], Effect.ALLOW),
        ("one", ["file:///a", "file:///m"], Effect.ALLOW),
        (
            "both",
            ["file:///a", "file:///workspace/b", "file:///a", "file:///c", "file:///d", "file:///m"],
            Effect.ALLOW,
        ),
        ("denied", ["file:///a", "file:///no/b", "file:///m"], Effect.DENY),
        ("denied row", ["file:///a", "file:///no", "file:///m"], Effect.DENY),
        ("several", ["file:///m", "mailto:ada@example.com", "mailto:bob@example.com"], Effect.ALLOW),
        ("empty", ["file:///m"], Effect.ALLOW),
    ],
)
def test_every_item_is_an_access_and_what_is_absent_is_none(
    name: str, uris: list[str], effect: Effect
) -> None:
    """PA6: the verdict is the meet over the elements."""
    decision = listed(name)
    assert [access.resource.uri for access in decision.accesses] == uris
    assert decision.effect is effect


def test_the_canonical_form_goes_back_and_what_is_absent_stays_absent() -> None:
    decision = listed("both")
    assert decision.arguments == {
        "paths": ["/a", "/workspace/b", "/a"],
        "rows": [{"path": "/c"}, {}, {"path": "/d"}],
        "maybe": "/m",
    }
    assert listed("nothing").arguments == {}
    assert listed("several").arguments == {"to": "ada@example.com, bob@example.com", "maybe": "/m"}


def test_a_call_that_names_nothing_is_opaque() -> None:
    """What cannot be understood is an access to an `Opaque` resource, never no access at all."""
    access = {"verb": "write", "kind": "path", "at": "/path"}
    ruleset = world(tools=tool_file("x", tool("t", [access], {"path": TEXT}, required=[])))
    decision = decide_in(ruleset, call("x/t")).decision
    assert [(found.resource.kind, found.verb) for found in decision.accesses] == [("opaque", Verb.WRITE)]
    assert decision.authority is Authority.A3


def test_a_kind_that_has_no_rules_is_opaque() -> None:
    access = {"verb": "execute", "kind": "future", "at": "/command"}
    tools = tool_file("x", tool("t", [access], {"command": TEXT}, roles={"/command": "command"}))
    ruleset = world('@id("p") permit (principal, action, resource is Opaque);', tools=tools)
    decision = decide_in(ruleset, call("x/t", command="ls")).decision
    assert [found.resource.kind for found in decision.accesses] == ["opaque"]
    assert decision.effect is Effect.ALLOW


@pytest.mark.parametrize("value", [{"__entity": 1}, [["/a"]], [{"path": "/a"}], 5, True, 1.5])
def test_a_resource_that_is_no_text_is_refused(value: Any) -> None:
    access = {"verb": "read", "kind": "path", "at": "/at"}
    ruleset = world(tools=tool_file("x", tool("t", [access], {"at": {}})))
    decision = decide_in(ruleset, call("x/t", at=value)).decision
    assert (decision.effect, decision.stage, decision.code) == (
        Effect.DENY,
        Stage.CANONICAL,
        Code.CANONICAL_REFUSED,
    )
    assert decision.errors[0].pointer.startswith("/at")


def test_what_is_understood_and_refused_denies_the_call_without_echo() -> None:
    decision = decide_in(world(), call("web/fetch", url="https://user:hunter2@example.com/")).decision
    assert (decision.stage, decision.code) == (Stage.CANONICAL, Code.CANONICAL_REFUSED)
    assert "hunter2" not in decision.message
    assert [error.pointer for error in decision.errors] == ["/url"]


SPELLINGS = st.lists(st.sampled_from([".", "..", "a", "b", ".secrets", "", "x"]), min_size=1, max_size=7).map(
    "/".join
)


@given(SPELLINGS.filter(bool), st.booleans())
def test_no_spelling_of_a_denied_file_is_allowed(spelling: str, absolute: bool) -> None:
    """PA2, PA7: where a path ends up decides, by every tool that takes one."""
    path = f"/workspace/{spelling}" if absolute else spelling
    place = posixpath.normpath(posixpath.join("/workspace", path))
    denied = f"{place}/".lstrip("/").startswith("workspace/.secrets/")
    for made in (
        call("fs/file_read", path=path),
        call("fs/file_edit", path=path, text=""),
        call("fs/file_remove", path=path),
        call("fs/file_copy", {"from": path, "to": "/workspace/a"}),
        call("fs/file_copy", {"from": "/workspace/a", "to": path}),
    ):
        assert (decide_in(SECRETS, made).decision.effect is Effect.DENY) is denied
