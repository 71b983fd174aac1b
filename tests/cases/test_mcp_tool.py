"""The public failure cases of kind `mcp-tool`, each told in this product's words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from authz.core.catalogue import visible_entries
from authz.core.ruleset import Ruleset
from authz.model.call import Subject
from authz.model.decision import Decision, Effect
from tests.support.shared import require_shared
from tests.support.world import (
    PERMIT_ALL,
    PINNED,
    TEXT,
    call,
    caller_of,
    decide_in,
    faults_of,
    rules_of,
    tool,
    tool_file,
    world,
)

SAMPLE: Final = Path(__file__).parents[2] / "policies"
CODER: Final = Subject(agent="coder-1", on_behalf_of="ada", session="s-1")
READS: Final = [{"verb": "read", "kind": "id", "type": "thing", "resource": "all"}]


def simple(name: str, **properties: Any) -> dict[str, Any]:
    """A tool that reads one fixed thing."""
    return tool(name, READS, properties)


def decided(ruleset: Ruleset, called: str, /, **arguments: Any) -> Decision:
    """The decision on one call."""
    return decide_in(ruleset, call(called, arguments, digest=None)).decision


def shown(ruleset: Ruleset, alias: str, advertised: list[dict[str, Any]] | None = None) -> list[str]:
    """What of a catalogue the coder may see."""
    profile = caller_of(ruleset).profile
    return [entry.name for entry in visible_entries(ruleset, profile, CODER, alias, advertised)]


def bug_074() -> None:
    """A rule for every tool of a server holds for every tool of it, however it is called."""
    ruleset = world(
        '@id("speech") permit (principal, action, resource) when { context.tool.server == "speech" };',
        tools={
            "speech": tool_file("speech", simple("say", text=TEXT), simple("a/b"), simple("a.b-c")),
            "other": tool_file("speech2", simple("say", text=TEXT)),
        },
    )
    for name, arguments in (("say", {"text": "hi"}), ("a/b", {}), ("a.b-c", {})):
        assert decided(ruleset, f"speech/{name}", **arguments).effect is Effect.ALLOW
    assert decided(ruleset, "speech2/say", text="hi").effect is Effect.DENY


def bug_076() -> None:
    """Aliases that differ in case or punctuation only are not registered together."""
    first, second = tool_file("my-server", simple("run")), tool_file("My_Server", simple("run"))
    assert any(
        "`my-server` differs from `My_Server` in case or punctuation only" in fault.message
        or "`My_Server` differs from `my-server` in case or punctuation only" in fault.message
        for fault in faults_of(tools={"a": first, "b": second})
    )
    ruleset = world(tools={"a": first})
    assert decided(ruleset, "my-server/run").effect is Effect.ALLOW
    for spelling in ("my_server/run", "My-Server/run", "/mcp__my_server__run", "my-server/Run"):
        assert decided(ruleset, spelling).code == "tool.unknown"


def bug_077() -> None:
    """Two pairs that runtimes would write as one word are not registered together."""
    pairs = ((("acme_", "status"), ("acme", "_status")), (("a", "b__c"), ("a__b", "c")))
    for one, other in pairs:
        files = {alias: tool_file(alias, simple(name)) for alias, name in (one, other)}
        faults = [fault.message for fault in faults_of(tools=files)]
        assert any("where runtimes write it into a word" in message for message in faults), faults


ADMIN: Final = (
    f'{PERMIT_ALL} @id("no-admin") forbid (principal, action in Action::"hub/admin_tool", resource);'
)


def bug_079() -> None:
    """What a search or list may show is what may be called."""
    ruleset = world(ADMIN, tools=tool_file("hub", simple("find_tool", query=TEXT), simple("admin_tool")))
    assert decided(ruleset, "hub/find_tool", query="admin").effect is Effect.ALLOW
    assert shown(ruleset, "hub") == ["find_tool"]
    assert decided(ruleset, "hub/admin_tool").code == "tool.unknown"


def bug_080() -> None:
    """An entry that is not understood is not passed on."""
    ruleset = world(
        '@id("none") forbid (principal, action, resource);', tools=tool_file("hub", simple("one"))
    )
    strange: list[dict[str, Any]] = [{}, {"name": None}, {"name": ["one"]}, {"name": "one"}, {"x": "one"}]
    assert shown(ruleset, "hub", strange) == []


def bug_081() -> None:
    """A rule on the argument of one tool does not match a tool that has no such argument."""
    rules = (
        f'{PERMIT_ALL} @id("no-rm") forbid (principal, action, resource) when '
        '{ context.arguments has command && context.arguments.command like "rm -rf*" };'
    )
    ruleset = world(
        rules,
        tools={
            "shell": tool_file("shell", simple("run", command=TEXT)),
            "editor": tool_file("editor", simple("context")),
        },
    )
    outcome = decide_in(ruleset, call("editor/context", digest=None))
    assert (outcome.decision.effect, rules_of(outcome)) == (Effect.ALLOW, ["everything"])
    assert decided(ruleset, "shell/run", command="rm -rf /").effect is Effect.DENY


def bug_082() -> None:
    """One tool that invokes any other is not understood, so no grant to it covers what is inside."""
    ruleset = load_with(
        tool_file(
            "gateway",
            tool(
                "invoke",
                [{"verb": "execute", "kind": "dispatch", "at": "/name"}],
                {"name": TEXT, "args": {"type": "object"}},
                roles={"/name": "command", "/args": "payload"},
                side_effect="cumulative",
            ),
        )
    )
    for inner in ("mail_delete", "mail_search"):
        decision = decided(ruleset, "gateway/invoke", name=inner, args={"id": "m1"})
        assert decision.effect is Effect.REQUIRE_APPROVAL
        assert decision.accesses[0].resource.kind == "opaque"


def bug_084() -> None:
    """A definition that changed after it was trusted is another tool."""
    ruleset = world(
        tools=tool_file("notes", {**simple("read_file"), "advertised_digest": PINNED}, local=False)
    )
    pinned = decide_in(ruleset, call("notes/read_file", digest=PINNED)).decision
    changed = decide_in(ruleset, call("notes/read_file", digest="sha256:" + "b" * 64)).decision
    assert pinned.effect is Effect.ALLOW
    assert (changed.effect, changed.code) == (Effect.DENY, "tool.changed")


def bug_086() -> None:
    """No value that git would read as its own can begin like an option: not in any function."""
    ruleset = load_bundle(SAMPLE, Protected())
    checked = 0
    for (alias, name), each in ruleset.tools.items():
        if alias != "git":
            continue
        properties = each.descriptor.input_schema["properties"]
        # A url is a word of its own kind: what begins with a dash is none.
        texts = [key for key, node in properties.items() if node["type"] == "string" and key != "url"]
        for key in texts:
            good = {
                other: {"url": "https://git.example.com/x", "message": "m", "directory": "d"}.get(other, "x")
                for other in each.descriptor.input_schema["required"]
            }
            decision = decided(ruleset, f"{alias}/{name}", **{**good, key: "--output=/workspace/x"})
            assert (decision.effect, decision.code) == (Effect.DENY, "schema.invalid"), (name, key)
            checked += 1
    assert checked >= 8
    # Of any other tool too, reviewed or drafted, whatever its schema lets through.
    for reviewed in (True, False):
        for role in ("target", "option"):
            shows = tool("show", READS, {"revision": TEXT}, roles={"/revision": role}, reviewed=reviewed)
            other = load_with(tool_file("vcs", shows), PERMIT_ALL)
            decision = decided(other, "vcs/show", revision="--output=/workspace/x")
            assert (decision.effect, decision.code) == (Effect.DENY, "canonical.refused")
            assert decided(other, "vcs/show", revision="main").effect is Effect.ALLOW


def bug_201() -> None:
    """Who may see a server is asked in one place, whatever the transport."""
    ruleset = world(tools=tool_file("team", simple("plans"), profiles=[]))
    assert shown(ruleset, "team") == []
    assert shown(ruleset, "team", [{"name": "plans"}]) == []
    assert decided(ruleset, "team/plans").code == "tool.unknown"


def load_with(tools: str, rules: str = "") -> Ruleset:
    """A world with these rules, or the sample's on what is not understood."""
    rules = rules or (SAMPLE / "rules" / "opaque.cedar").read_text(encoding="utf-8")
    return world(rules, tools=tools)


CASES: Final[dict[str, Callable[[], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(bug_074, bug_076, bug_077, bug_079, bug_080),
        *(bug_081, bug_082, bug_084, bug_086, bug_201),
    )
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    CASES[case]()


def test_every_case_of_this_kind_is_here() -> None:
    text = (require_shared() / "cases" / "cases.jsonl").read_text(encoding="utf-8")
    known = [json.loads(line) for line in text.split("\n") if line]
    assert {case["id"] for case in known if case["kind"] == "mcp-tool"} == CASES.keys()
