"""Who may approve, by Cedar: the person is the principal, and every access of the call must be permitted."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from authz.core.approve import Permission, approve_questions, may_approve
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.decision import Effect
from tests.support.approvals import SHELL
from tests.support.world import FS, NOW_MS, TOOLS, call, decide_in, facts, fault_of, source, world

HOUR_MS = 3_600_000
PEOPLE = """\
groups:
  staff: {}
  finance: {groups: [staff]}
  robots: {}
  chiefs: {groups: [finance]}
users:
  ada: {groups: [staff]}
  grace: {groups: [finance], tags: {floor: "3"}}
  lin: {}
agents:
  coder-1: {groups: [robots]}
  coder-2: {}
"""
CALLS = '@id("calls") permit (principal, action, resource);\n'
ASKS = '@id("asks") @requires("approval") forbid (principal, action, resource);\n'
STAFF = '@id("staff") permit (principal in Group::"staff", action in Action::"approve", resource);\n'
EDIT = call("fs/file_edit", path="/workspace/a.py", text="x")
COPY = call("fs/file_copy", {"from": "/workspace/a", "to": "/etc/b"})
REMOVE = call("fs/file_remove", path="/workspace", recursive=True)


def bundle(rules: str, **parts: Any) -> Ruleset:
    """A bundle in which everything is asked for, with these rules about approving."""
    return world(CALLS + ASKS + rules, **{"entities": PEOPLE, "tools": {**TOOLS, "shell": SHELL}, **parts})


def asked(made: Call = EDIT, under: Ruleset | None = None, **known: Any) -> bytes:
    """What is kept of a call that is asked for."""
    ruleset = under or bundle("")
    outcome = decide_in(ruleset, made, **known)
    assert outcome.decision.effect is Effect.REQUIRE_APPROVAL, outcome.decision.message
    tool = ruleset.tools[(made.server, made.tool)]
    return approve_questions(made, facts(ruleset, **known), outcome, tool)


def told(
    rules: str, person: str = "ada", made: Call = EDIT, groups: frozenset[str] = frozenset(), **known: Any
) -> Permission:
    """What these rules say to a person who would approve the call."""
    return may_approve(bundle(rules), asked(made, **known), person, groups, now_ms=NOW_MS)


def forbids(condition: str, **more: Any) -> bool:
    """Whether such a forbid keeps `ada` from approving; without it she may."""
    assert told(STAFF, **more).permitted
    scope = 'principal, action == Action::"approve:fs/file_edit", resource is File'
    found = told(f'{STAFF}@id("no") forbid ({scope}) when {{ {condition} }};', **more)
    assert found.permitted or [rule.rule for rule in found.rules] == ["no"], found.because
    return not found.permitted


def test_a_permit_that_names_approving_lets_its_people_approve() -> None:
    permission = told(STAFF)

    assert permission.permitted
    assert [rule.rule for rule in permission.rules] == ["staff"]
    assert permission.because == "`staff` permits it"
    assert permission.entities == {'User::"ada"', 'Group::"staff"'}


def test_groups_are_those_above_as_well() -> None:
    permission = told(STAFF, "grace")

    assert permission.permitted
    assert permission.entities == {'User::"grace"', 'Group::"finance"', 'Group::"staff"'}


def test_whom_no_rule_permits_may_not() -> None:
    permission = told(STAFF, "lin")

    assert (permission.permitted, permission.rules) == (False, ())
    assert permission.because == "no rule permits this person to approve it"


@pytest.mark.parametrize(
    "rule",
    [
        "permit (principal, action, resource);",
        'permit (principal in Group::"staff", action, resource);',
        'permit (principal, action in Action::"write", resource);',
        'permit (principal, action in Action::"A1", resource);',
        'permit (principal, action in Action::"fs/file_edit", resource);',
        'permit (principal, action == Action::"fs/file_edit:write:A1", resource);',
        'permit (principal, action, resource) when { action in Action::"approve" };',
        'permit (principal, action == Action::"approve:fs/file_read", resource);',
        'permit (principal, action in Action::"approve", resource is Mailbox);',
    ],
)
def test_what_permits_calls_lets_nobody_approve_them(rule: str) -> None:
    assert not told(f'@id("p") {rule}').permitted


@pytest.mark.parametrize(
    "rule",
    [
        'permit (principal, action == Action::"approve:fs/file_edit", resource);',
        'permit (principal, action in [Action::"read", Action::"approve"], resource);',
        'permit (principal == User::"ada", action in Action::"approve", resource is File);',
        'permit (principal, action in Action::"approve", resource in Directory::"/workspace");',
        'permit (principal is User, action in Action::"approve", resource == File::"/workspace/a.py");',
    ],
)
def test_it_is_named_by_the_tool_or_by_the_group(rule: str) -> None:
    assert told(f'@id("p") {rule}').permitted


@pytest.mark.parametrize(
    "rule",
    [
        "forbid (principal, action, resource);",
        'forbid (principal, action, resource) when { principal.on_behalf_of == User::"ada" };',
        'forbid (principal in Group::"staff", action, resource);',
        'forbid (principal, action, resource in Directory::"/workspace");',
    ],
)
def test_a_forbid_over_every_action_is_about_approving_too(rule: str) -> None:
    permission = told(f'{STAFF}@id("no") @reason("Not now.") {rule}')

    assert not permission.permitted
    assert [rule.rule for rule in permission.rules] == ["no"]
    assert permission.because == "`no` forbids it: Not now"


def test_a_forbid_of_calls_is_not() -> None:
    under = bundle(STAFF + '@id("no") forbid (principal, action in Action::"write", resource);')

    assert may_approve(under, asked(), "ada", now_ms=NOW_MS).permitted


def test_asking_rules_are_not_asked_again() -> None:
    """`asks` is over every action, and there is nobody to ask who may answer."""
    named = (
        '@id("a") @requires("approval") '
        'forbid (principal, action in [Action::"approve", Action::"read"], resource);'
    )

    assert told(STAFF + named).permitted
    only = '@id("a") @requires("approval") forbid (principal, action in Action::"approve", resource);'
    assert "nobody is asked" in fault_of(only).message


@pytest.mark.parametrize(
    "condition",
    [
        "context.requester.on_behalf_of == principal",
        'context.requester.agent == Agent::"coder-1"',
        'context.requester.agent in Group::"robots"',
        'context.requester.on_behalf_of in Group::"staff"',
        'context.requester.agent.on_behalf_of == User::"ada"',
        'context.requester.agents.contains(Agent::"coder-1")',
        'context.verb == "write" && context.authority == "A1"',
        'context.asked_by.contains("asks")',
        'context.tool == Tool::"fs/file_edit" && context.scope == "object" && context.role == "target"',
        'context.arguments.text == "x" && !context.arguments.append',
        'context.untrusted.contains("payload")',
        'context.session.exposed.contains("web") && context.session.id == "s-1"',
        "!context.capability.presented",
        'context.now == datetime("2026-11-30T10:00:00.123Z")',
        'resource.extension == "py"',
        'User::"grace".hasTag("floor")',
    ],
)
def test_what_rules_see_of_the_call_and_of_who_asks(condition: str) -> None:
    made = call("fs/file_edit", path="/workspace/a.py", text="x", provenance={"/text": source("web")})
    assert forbids(condition, made=made, exposed=frozenset({"web"}))


def test_whoever_did_not_ask_is_not_the_requester() -> None:
    assert not forbids("context.requester.on_behalf_of == principal", made=call_for("grace"))


def call_for(user: str | None) -> Call:
    """The edit, on behalf of somebody."""
    return call("fs/file_edit", path="/workspace/a.py", text="x", user=user)


def test_every_access_must_be_permitted() -> None:
    workspace = (
        '@id("w") permit (principal, action in Action::"approve", resource in Directory::"/workspace");\n'
    )
    assert told(workspace, made=EDIT).permitted
    assert told(workspace, made=COPY).because == "no rule permits this person to approve it"

    both = told(workspace + STAFF, made=COPY)
    assert both.permitted
    assert {rule.rule for rule in both.rules} == {"w", "staff"}


@pytest.mark.parametrize("person", ["", "nobody", "coder-1", "Ada"])
def test_who_is_not_known_may_not(person: str) -> None:
    """Also where anybody may: a name that the bundle does not have is nobody's."""
    anybody = '@id("any") permit (principal, action in Action::"approve", resource);'
    permission = told(anybody, person)

    assert not permission.permitted
    assert permission.because == "neither this person nor any group of it is known"


def test_a_group_that_the_sign_in_says_is_a_group_of_the_bundle() -> None:
    finance = '@id("f") permit (principal in Group::"finance", action in Action::"approve", resource);'
    assert not told(finance, "lin").permitted
    assert told(finance, "lin", groups=frozenset({"finance"})).permitted

    above = told(STAFF, "zoe", groups=frozenset({"chiefs", "elsewhere"}))
    assert above.permitted
    assert above.entities == {
        *('User::"zoe"', 'Group::"chiefs"', 'Group::"finance"', 'Group::"staff"', 'Group::"elsewhere"')
    }


def test_a_group_of_the_sign_in_counts_against_its_person_as_well() -> None:
    frozen = STAFF + '@id("no") forbid (principal in Group::"robots", action in Action::"approve", resource);'
    assert told(frozen).permitted
    assert not told(frozen, groups=frozenset({"robots"})).permitted
    # Of nobody else.
    assert told(frozen, "grace").permitted


def test_a_sign_in_says_nothing_of_who_asks() -> None:
    condition = 'context.requester.on_behalf_of in Group::"chiefs"'
    assert not forbids(condition, made=call_for("grace"), groups=frozenset({"chiefs"}))
    # Of the same person it is one and the same.
    assert forbids(condition, made=call_for("ada"), groups=frozenset({"chiefs"}))


def test_a_rule_that_is_written_later_finds_all_that_it_reads() -> None:
    """Nothing read the context when the call was made."""
    stored = asked(call_for("grace"), world(CALLS + ASKS))
    later = STAFF + (
        '@id("later") forbid (principal, action == Action::"approve:fs/file_edit", resource is File) when '
        '{ context.arguments.text == "x" && resource.name == "a.py" && context.sources has target && '
        'context.requester.on_behalf_of == User::"grace" };'
    )
    assert may_approve(bundle(STAFF), stored, "ada", now_ms=NOW_MS).permitted
    assert [rule.rule for rule in may_approve(bundle(later), stored, "ada", now_ms=NOW_MS).rules] == ["later"]


def test_the_time_is_that_of_the_answer() -> None:
    late = STAFF + (
        '@id("late") forbid (principal, action in Action::"approve", resource) '
        'when { context.now > datetime("2026-11-30T10:30:00Z") };'
    )
    assert may_approve(bundle(late), asked(), "ada", now_ms=NOW_MS).permitted
    assert not may_approve(bundle(late), asked(), "ada", now_ms=NOW_MS + HOUR_MS).permitted


def test_a_tool_that_is_gone_or_another_one_refuses() -> None:
    stored = asked()
    gone = bundle(STAFF, tools={key: text for key, text in TOOLS.items() if key != "fs"})
    changed = bundle(STAFF, tools={**TOOLS, "fs": FS.replace("The tool file_edit.", "Edits a file.")})

    assert (
        may_approve(gone, stored, "ada", now_ms=NOW_MS).because == "there is no tool `fs/file_edit` any more"
    )
    because = may_approve(changed, stored, "ada", now_ms=NOW_MS).because
    assert because == "the tool `fs/file_edit` has been changed since it was asked for"


def test_a_rule_that_fails_refuses() -> None:
    failing = STAFF + (
        '@id("sum") forbid (principal, action in Action::"approve", resource) '
        "when { 9223372036854775807 + (if context.sandboxed then 1 else 2) < 0 };"
    )
    permission = told(failing)

    assert not permission.permitted
    assert permission.because == "the rules could not be evaluated: `sum`"


def test_a_failing_rule_that_asks_changes_nothing() -> None:
    failing = STAFF + (
        '@id("sum") @requires("approval") forbid (principal, action, resource) '
        "when { 9223372036854775807 + (if context.sandboxed then 1 else 2) < 0 };"
    )
    assert may_approve(bundle(failing), asked(), "ada", now_ms=NOW_MS).permitted


@pytest.mark.parametrize(
    "rule",
    [
        'permit (principal in Group::"staff", action in Action::"approve", resource in Directory::"/");',
        'permit (principal in Group::"staff", action in Action::"approve", resource is File);',
    ],
)
def test_a_tree_is_approved_where_rules_speak_of_places(rule: str) -> None:
    assert told(f'@id("p") {rule}', made=REMOVE).permitted


@pytest.mark.parametrize(
    "rule",
    [
        'permit (principal, action in Action::"approve", resource == File::"/workspace");',
        'permit (principal, action in Action::"approve", resource is File) when { resource.name != "a" };',
    ],
)
def test_a_permit_that_looks_closer_does_not_do_for_a_tree(rule: str) -> None:
    permission = told(f'@id("p") {rule}', made=REMOVE)

    assert not permission.permitted
    assert "everything beneath a place" in permission.because


@pytest.mark.parametrize(
    "rule",
    [
        'forbid (principal, action in Action::"approve", resource in Directory::"/workspace/keys");',
        'forbid (principal, action, resource in Directory::"/workspace/keys");',
        'forbid (principal, action in Action::"approve", resource is File) when { resource.name == "k" };',
    ],
)
def test_a_forbid_beneath_a_tree_refuses_all_of_it(rule: str) -> None:
    under = bundle(STAFF + f'@id("no") {rule}')
    assert may_approve(under, asked(EDIT), "ada", now_ms=NOW_MS).permitted
    assert not may_approve(under, asked(REMOVE), "ada", now_ms=NOW_MS).permitted


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b'{"version": 1}',
        b'{"version": 1, "accesses": [], "context": {}}',
    ],
)
def test_what_cannot_be_read_refuses(stored: bytes) -> None:
    permission = may_approve(bundle(STAFF), stored, "ada", now_ms=NOW_MS)
    assert not permission.permitted
    assert permission.because == "what was asked for can no longer be read"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"accesses": []},
        {"tool_digest": "sha256:" + "0" * 64},
        {"context": {}},
        {"agents": [1]},
        {"tool": "fs/none"},
    ],
)
def test_what_was_changed_refuses(change: Mapping[str, Any]) -> None:
    kept = orjson.loads(asked())
    under = bundle(
        '@id("any") permit (principal, action in Action::"approve", resource) when { context.sandboxed };'
    )
    assert may_approve(under, orjson.dumps(kept), "ada", now_ms=NOW_MS).permitted

    assert not may_approve(under, orjson.dumps({**kept, **change}), "ada", now_ms=NOW_MS).permitted


def test_the_same_call_leaves_the_same_bytes() -> None:
    assert asked() == asked()
    assert asked() != asked(call_for("grace"))


def test_arguments_are_kept_once_however_many_accesses_there_are() -> None:
    """Arguments can be long, and accesses many."""
    line = "cat " + " ".join(f"/srv/{number}" for number in range(50))
    kept = asked(call("shell/run", command=line))

    assert len(orjson.loads(kept)["accesses"]) > 50
    assert kept.count(line.encode()) == 1


def test_a_call_that_ended_before_the_rules_has_nothing_to_approve() -> None:
    ruleset, made = bundle(""), call("fs/file_edit", path="/workspace/a")
    outcome = decide_in(ruleset, made)
    assert outcome.decision.effect is Effect.DENY

    with pytest.raises(ValueError, match="ended before rules"):
        approve_questions(made, facts(ruleset), outcome, ruleset.tools[("fs", "file_edit")])


def test_a_session_without_a_name_may_have_read_anything() -> None:
    made = call("fs/file_edit", path="/workspace/a.py", text="x", session=None)
    assert forbids('context.session.exposed.contains("untrusted")', made=made)
