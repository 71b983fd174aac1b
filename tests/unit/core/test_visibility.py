"""List and call agree (MC2): hidden is unknown by any spelling, shown is not denied by its name."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.catalogue import visible_entries
from authz.core.fingerprint import advertised_digest
from authz.core.ruleset import Ruleset
from authz.core.visibility import hidden_because
from authz.model.call import Subject
from authz.model.decision import Code, Effect
from tests.support.world import ENTITIES, PERMIT_ALL, TEXT, call, caller_of, decide_in, tool, tool_file, world

# A call of each tool that has nothing wrong with it.
CALLS = {
    "fs/file_read": call("fs/file_read", path="/workspace/a"),
    "fs/file_edit": call("fs/file_edit", path="/workspace/a", text=""),
    "fs/file_remove": call("fs/file_remove", path="/workspace/a"),
    "fs/file_copy": call("fs/file_copy", {"from": "/workspace/a", "to": "/workspace/b"}),
    "web/fetch": call("web/fetch", url="https://example.com/"),
    "bank/transfer": call("bank/transfer", to="a-1", amount=1),
    "bank/mail_send": call("bank/mail_send", to="a@example.com", body=""),
}


def shown(ruleset: Ruleset, agent: str = "coder-1", user: str | None = "ada") -> set[str]:
    """The tools of local servers that the catalogue shows, and those that a call finds."""
    listed = {
        f"{alias}/{found.name}"
        for alias, server in ruleset.servers.items()
        if server.local
        for found in visible_entries(
            ruleset, ruleset.profiles["runtime"], Subject(agent=agent, on_behalf_of=user), alias, None
        )
    }
    callable_ = {
        name
        for name, made in CALLS.items()
        if decide_in(
            ruleset, replace(made, subject=replace(made.subject, agent=agent, on_behalf_of=user))
        ).decision.code
        is not Code.TOOL_UNKNOWN
    }
    assert listed == callable_ - {"web/fetch"}
    return callable_


ALL = set(CALLS)
FILES = {name for name in CALLS if name.startswith("fs/")}
OF_STAFF = "when { principal.on_behalf_of in Group::%s }"


def permit(scope: str, when: str = "") -> str:
    return f'@id("p") permit ({scope}) {when};'


def but(scope: str, when: str = "", mark: str = "") -> str:
    return PERMIT_ALL + f'@id("f") {mark} forbid ({scope}) {when};'


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (PERMIT_ALL, ALL),
        (permit('principal, action in Action::"read", resource'), {"fs/file_read"}),
        (permit('principal, action in Action::"fs/file_edit", resource'), {"fs/file_edit"}),
        (
            permit('principal, action in Action::"A3", resource'),
            ALL - {"fs/file_read", "fs/file_copy", "web/fetch"},
        ),
        (permit('principal == Agent::"other", action, resource'), set()),
        (permit('principal in Group::"nobody", action, resource'), set()),
        (permit("principal, action, resource", OF_STAFF % '"staff"'), ALL),
        (permit("principal, action, resource", OF_STAFF % '"finance"'), set()),
        (permit("principal, action, resource", 'when { context.session.id == "x" }'), ALL),
        (but('principal, action in Action::"transact", resource'), ALL - {"bank/transfer"}),
        # Copying always writes, so what may never write may never copy.
        (but('principal, action in Action::"write", resource'), ALL - {"fs/file_edit", "fs/file_copy"}),
        (but('principal == Agent::"coder-1", action, resource'), set()),
        (but('principal == Agent::"other", action, resource'), ALL),
        # Whether it holds depends on the arguments: such a tool is shown.
        (but('principal, action, resource in Directory::"/"'), ALL),
        (but("principal, action, resource", "when { context.sandboxed }"), ALL),
        (but('principal, action == Action::"fs/file_edit:write:A1", resource'), ALL),
        # An ask is no deny.
        (but("principal, action, resource", mark='@requires("approval")'), ALL),
    ],
)
def test_what_could_never_be_allowed_is_hidden_and_the_rest_is_shown(rules: str, expected: set[str]) -> None:
    assert shown(world(rules)) == expected


@pytest.mark.parametrize("scope", ["resource is File", 'resource in Directory::"/workspace"'])
def test_a_tool_whose_resources_no_permit_can_be_about_is_hidden(scope: str) -> None:
    assert shown(world(permit(f"principal, action, {scope}"))) == FILES


def test_who_asks_is_part_of_the_answer() -> None:
    ruleset = world(
        '@id("p") permit (principal, action, resource) when { principal.on_behalf_of in Group::"finance" };'
        '@id("q") permit (principal == Agent::"root", action, resource);'
    )
    assert shown(ruleset, user="ada") == set()
    assert shown(ruleset, user="grace") == ALL
    assert shown(ruleset, user=None) == set()
    assert shown(ruleset, agent="root", user=None) == ALL
    assert shown(ruleset, user="ada") == set()  # the second time as well


HIDING = world(PERMIT_ALL + '@id("f") forbid (principal, action in Action::"fs/file_read", resource);')


SPELLINGS = """fs/file_read FS/file_read fs/FILE_READ fs//file_read fs/./file_read fs/file-read fs__file_read
mcp__fs__file_read fs:file_read fs/file_read# /file_read fs/fıle_read ｆｓ/file_read local:fs/file_read
file_read fs/file_edit/../file_read""".split()


@pytest.mark.parametrize(
    "name", [*SPELLINGS, "fs/file_read ", " fs/file_read", "fs/file_read\x00", "fs/file_re\u200bad"]
)
def test_a_hidden_tool_is_unknown_by_any_spelling(name: str) -> None:
    decision = decide_in(HIDING, call(name, path="/workspace/a")).decision
    assert (decision.effect, decision.code) == (Effect.DENY, Code.TOOL_UNKNOWN)
    assert decision.descriptor_digest is None


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "x", "inputSchema": {"type": "object"}, **more}


def catalogue(ruleset: Ruleset, alias: str, entries: list[Any], profile: str = "runtime") -> list[str]:
    found = visible_entries(ruleset, ruleset.profiles[profile], Subject(agent="coder-1"), alias, entries)
    return [one.name for one in found]


def test_an_advertised_catalogue_is_filtered_to_what_was_reviewed_and_not_changed() -> None:
    good = entry("fetch")
    pinned = tool("fetch", [{"verb": "connect", "kind": "url", "at": "/url"}], {"url": TEXT},
                  advertised_digest=advertised_digest(good))  # fmt: skip
    ruleset = world(
        tools=tool_file("web", pinned, local=False, identity="https://web.example.com/mcp"),
        credentials="profiles:\n  runtime: {agents: ['*']}\n  other: {agents: ['*']}\n",
    )
    assert catalogue(ruleset, "web", [good]) == ["fetch"]
    assert catalogue(ruleset, "web", [entry("fetch", description="new words")]) == []
    assert catalogue(ruleset, "web", [entry("other"), good, entry("Fetch")]) == ["fetch"]
    # MC1: a name that stands twice is ambiguous.
    assert catalogue(ruleset, "web", [good, good]) == []
    assert catalogue(ruleset, "web", [good, entry("fetch", x=1)]) == []
    assert catalogue(ruleset, "web", [{"name": 5}, {"name": None}, {}, good]) == ["fetch"]
    assert catalogue(ruleset, "nowhere", [good]) == []
    assert catalogue(ruleset, "web", [good], profile="other") == []
    # What is shown comes with the digest that a call of it has to send.
    (found,) = visible_entries(ruleset, ruleset.profiles["runtime"], Subject(agent="a"), "web", [good])
    made = call("web/fetch", url="https://example.com/", digest=found.digest)
    assert decide_in(ruleset, made, caller=caller_of(ruleset)).decision.effect is Effect.ALLOW


SCOPES = st.tuples(
    st.sampled_from(
        ["principal", 'principal == Agent::"coder-1"', 'principal in Group::"staff"', "principal is Agent"]
    ),
    st.sampled_from(
        ["action", 'action in Action::"write"', 'action in Action::"A3"', 'action in Action::"fs/file_copy"']
        + ['action == Action::"fs/file_edit:write:A1"', 'action in [Action::"read", Action::"connect"]']
    ),
    st.sampled_from(["resource", "resource is File", 'resource in Directory::"/workspace"']),
).map(lambda three: f"({', '.join(three)})")
WHEN = st.sampled_from(
    ["", 'when { principal.on_behalf_of in Group::"staff" }', "when { context.sandboxed }"]
)
KINDS = st.sampled_from(["permit", "permit", "forbid", '@requires("approval") forbid'])


@given(
    st.lists(st.tuples(KINDS, SCOPES, WHEN), min_size=1, max_size=6), st.sampled_from(["ada", "eve", None])
)
@settings(max_examples=100)
def test_list_and_call_agree_under_any_rules(parts: list[tuple[str, str, str]], user: str | None) -> None:
    """Shown implies that some permit could match; hidden implies that a call is a deny in full as well."""
    rules = []
    for number, (kind, scope, when) in enumerate(parts):
        mark, _, effect = kind.rpartition(" ")
        rules.append(f'@id("r{number}") {mark} {effect} {scope} {when};')
    ruleset = world("\n".join(rules), entities=ENTITIES)
    found = shown(ruleset, user=user)
    engine_says = {
        name: decide_in(ruleset, replace(made, subject=replace(made.subject, on_behalf_of=user))).decision
        for name, made in CALLS.items()
    }
    for name, decision in engine_says.items():
        assert (decision.code is Code.TOOL_UNKNOWN) == (name not in found)
        if decision.effect is not Effect.DENY:
            assert name in found


def test_what_is_asked_for_stays_and_what_is_not_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller that names ever new users does not cost the others what is remembered of them."""
    monkeypatch.setattr(Ruleset, "MAX_CACHED_VISIBILITY", 3)
    ruleset = world()
    tool_ = ruleset.tools["fs", "file_read"]
    for user in ("ada", "grace", "lin", "ada", "eve"):
        assert hidden_because(ruleset, tool_, "coder-1", user) is None
    assert [user for _, user, _ in ruleset.visibility] == ["lin", "ada", "eve"]
    for number in range(10):
        hidden_because(ruleset, tool_, "coder-1", f"u{number}")
        hidden_because(ruleset, tool_, "coder-1", "ada")
        assert "ada" in {user for _, user, _ in ruleset.visibility}
        assert len(ruleset.visibility) == 3
