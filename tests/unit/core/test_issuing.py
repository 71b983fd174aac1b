"""Who may be given what: rules about `issue`, and the rules about everything that are asked there too."""

from typing import Any

import pytest
from authz_client.capabilities import generate_key

from authz.core.issuing import (
    Grant,
    IssueRequest,
    IssueVerdict,
    RightRefused,
    grants_of,
    issue_context,
    judge_issue,
    read_entries,
)
from authz.core.ruleset import Ruleset
from authz.errors import MalformedInput
from authz.model.caller import Profile
from authz.model.decision import Code, Effect
from tests.support.chains import entry
from tests.support.world import NOW_MS, PERMIT_ALL, fault_of, world

CALLS = '@id("calls") permit (principal, action in [Action::"read", Action::"write"], resource);'
WORKSPACE = """
@id("hand-out") permit (principal, action == Action::"issue", resource in Directory::"/workspace");
"""
READ = entry(["read"], ["file:///workspace"])


def grants(ruleset: Ruleset, *details: dict[str, Any], profile: str = "runtime") -> tuple[Grant, ...]:
    known = ruleset.profiles[profile]
    found = grants_of(read_entries(list(details), known), ruleset, "coder-1", "ada", known)
    assert not isinstance(found, RightRefused), found
    return found


def request(*details: dict[str, Any], **changes: Any) -> IssueRequest:
    given: dict[str, Any] = {
        "agent": "coder-1",
        "user": "ada",
        "holder": generate_key().public,
        "details": details,
        "lifetime_seconds": 600,
        "max_depth": 1,
    }
    return IssueRequest(**(given | changes))


def verdict(rules: str, *details: dict[str, Any], **changes: Any) -> IssueVerdict:
    ruleset = world(rules)
    asked = request(*details, **changes)
    return judge_issue(asked, grants(ruleset, *details), ruleset, ruleset.profiles["runtime"], NOW_MS)


def names(found: IssueVerdict) -> list[str]:
    return [rule.rule for rule in found.rules]


def test_nothing_is_given_unless_a_rule_permits_it() -> None:
    found = verdict(CALLS, READ)
    assert (found.effect, found.code, names(found)) == (Effect.DENY, Code.POLICY_NO_MATCH, [])
    found = verdict(CALLS + WORKSPACE, READ)
    assert (found.effect, names(found)) == (Effect.ALLOW, ["hand-out"])


def test_a_rule_about_everything_is_about_issuing_too() -> None:
    assert names(verdict(PERMIT_ALL, READ)) == ["everything"]
    closed = '@id("closed") forbid (principal, action, resource in Directory::"/workspace/.secrets");'
    secret = entry(["read"], ["file:///workspace/.secrets/key"])
    found = verdict(PERMIT_ALL + closed, secret)
    assert (found.effect, found.code, names(found)) == (Effect.DENY, Code.POLICY_FORBID, ["closed"])
    # What lies beneath is judged call by call: otherwise nothing above a secret could be given.
    assert verdict(PERMIT_ALL + closed, READ).effect is Effect.ALLOW


def test_what_such_a_rule_reads_of_a_call_says_that_there_is_none() -> None:
    reads = """@id("delegated") forbid (principal, action, resource)
    when { context.session.delegated || context.capability.presented || context.sandboxed ||
           context.untrusted.contains("target") || context.tool == Tool::"fs/file_read" };"""
    assert verdict(PERMIT_ALL + reads, READ).effect is Effect.ALLOW
    unless = '@id("boxed") forbid (principal, action, resource) unless { context.sandboxed };'
    assert names(verdict(PERMIT_ALL + unless, READ)) == ["boxed"]


def test_an_asking_rule_gives_nothing() -> None:
    asks = '@id("asks") @requires("approval") forbid (principal, action == Action::"issue", resource);'
    found = verdict(CALLS + WORKSPACE + asks, READ)
    assert (found.effect, found.code, names(found)) == (
        Effect.REQUIRE_APPROVAL,
        Code.APPROVAL_REQUIRED,
        ["asks"],
    )


def test_a_rule_that_fails_gives_nothing() -> None:
    overflow = """@id("sum") forbid (principal, action == Action::"issue", resource)
    when { context.lifetime_seconds + 9223372036854775807 > 0 };"""
    found = verdict(CALLS + WORKSPACE + overflow, READ)
    assert (found.effect, found.code) == (Effect.DENY, Code.POLICY_ERROR)


@pytest.mark.parametrize(
    ("condition", "changes", "matches"),
    [
        ('context.verbs == ["read"]', {}, True),
        ('context.tools == ["fs/file_read", "fs/file_copy"]', {}, True),
        ("context.lifetime_seconds == 600", {}, True),
        ("context.lifetime_seconds < 600", {}, False),
        ("context.max_depth == 1 && !context.has_budget", {}, True),
        ('context.profile == "runtime"', {}, True),
        ('context.now > datetime("2026-11-30T09:59:59Z")', {}, True),
        ('principal == Agent::"coder-1" && principal.on_behalf_of == User::"ada"', {}, True),
        ("context.max_depth == 3", {"max_depth": 3}, True),
    ],
)
def test_rules_see_what_is_asked_for(condition: str, changes: dict[str, Any], matches: bool) -> None:
    rule = f'@id("r") permit (principal, action == Action::"issue", resource) when {{ {condition} }};'
    found = verdict(CALLS + rule, READ, **changes)
    assert (found.effect is Effect.ALLOW) is matches, found


@pytest.mark.parametrize(
    ("location", "scope"),
    [
        ("file:///workspace/a", 'resource in Directory::"/workspace"'),
        ("https://api.example.com/v1", 'resource in Domain::"example.com"'),
        ("host:api.example.com", 'resource in Domain::"example.com"'),
        ("domain:api.example.com", 'resource in Domain::"example.com"'),
        ("domain:example.com", 'resource == Domain::"example.com"'),
        ("mailto:ada@example.com", 'resource == Mailbox::"ada@example.com"'),
        ("repo:git.example.com/team/app#main", 'resource in Repo::"git.example.com/team"'),
        ("sql:prod/shop/orders", 'resource in Schema::"prod/shop"'),
        ("sql:prod", 'resource == Database::"prod"'),
        ("program:git", 'resource == Program::"git"'),
        ("id:account:7", 'resource == Object::"account:7"'),
    ],
)
def test_every_kind_of_location_is_a_resource(location: str, scope: str) -> None:
    rule = f'@id("r") permit (principal, action == Action::"issue", {scope});'
    assert verdict(CALLS + rule, entry(["read"], [location])).effect is Effect.ALLOW
    assert verdict(CALLS + WORKSPACE, entry(["read"], ["file:///srv", location])).effect is Effect.DENY


def test_rights_come_to_verbs_and_tools() -> None:
    ruleset = world()
    (found,) = grants(ruleset, entry(["fs/file_copy"], ["file:///workspace"]))
    assert found.verbs == {"read", "write"}
    assert found.tools == {"fs/file_copy"}
    digest = ruleset.tools["fs", "file_copy"].descriptor.digest
    assert found.digests == {"fs/file_copy": digest}
    (found,) = grants(ruleset, entry(["fs/file_copy:read", "transact"], ["file:///workspace"]))
    assert found.verbs == {"read", "transact"}
    assert found.tools == {"fs/file_copy", "bank/transfer"}
    # A verb by itself is given whatever the tools are; it is no right to one that was reviewed.
    assert found.digests.keys() == {"fs/file_copy"}
    # A verb that no tool has today is a verb all the same: a tool that has it may come.
    (found,) = grants(ruleset, entry(["administer"], ["file:///workspace"]))
    assert found.verbs == {"administer"}
    assert found.tools == frozenset()


def test_a_bare_name_is_that_tool_on_every_server() -> None:
    (found,) = grants(world(), entry(["fetch"], ["domain:example.com"]))
    assert found.tools == {"web/fetch"}


def test_the_context_is_the_whole_or_the_part_that_rules_read() -> None:
    ruleset = world()
    (grant,) = grants(ruleset, READ)
    whole = issue_context(request(READ), grant, Profile(name="p"), NOW_MS)
    part = issue_context(
        request(READ), grant, Profile(name="p"), NOW_MS, {"verbs": None, "session": frozenset({"id"})}
    )
    assert part == {"verbs": whole["verbs"], "session": {"id": ""}}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ('permit (principal, action == Action::"issue", resource) when { context.verb == ["read"] };', None),
        ('permit (principal, action == Action::"read", resource) when { context.verbs == ["read"] };', None),
        ('permit (principal, action == Action::"issues", resource);', "rule.unknown-action"),
        ('permit (principal, action == Action::"issue", resource) when { context has verb };', None),
        ('permit (principal, action == Action::"issue", resource) when { context.tool == Tool::"" };', None),
    ],
)
def test_slips_in_rules_about_issuing_are_faults_at_load(rule: str, code: str | None) -> None:
    fault = fault_of(f'{CALLS}\n@id("slip") {rule}')
    assert fault.line == 2
    assert code is None or fault.code == code


def test_a_rule_about_everything_cannot_read_arguments() -> None:
    fault = fault_of('@id("r") permit (principal, action, resource) when { context.arguments.path == "a" };')
    assert "arguments" in fault.message


def test_a_location_that_only_one_volume_spells_so_is_refused() -> None:
    folding = Profile(name="laptop", volume_case_sensitive=False, volume_normalization="nfc")
    with pytest.raises(MalformedInput, match="file:///workspace"):
        read_entries([entry(["read"], ["file:///Workspace"])], folding)
    assert read_entries([entry(["read"], ["file:///Workspace"])], Profile(name="server"))


def test_there_is_a_bound_on_what_is_asked_at_once() -> None:
    many = [entry(["read"], [f"file:///workspace/{n}/{m}" for m in range(64)]) for n in range(5)]
    with pytest.raises(MalformedInput) as caught:
        read_entries(many, Profile(name="runtime"))
    assert caught.value.code == "capability.details_invalid"
