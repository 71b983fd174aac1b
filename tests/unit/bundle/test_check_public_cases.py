"""Public reports of bundles that said one thing and did another: what `authz check` tells of each.

The cases are those of `../shared/cases` whose fault can be seen before any request; their texts stand here.
"""

from tests.support.world import CREDENTIALS, ENTITIES, MANIFEST, tool, tool_file
from tests.unit.core.lint.bundles import ALLOWED, check, codes, found

READ = tool("read", [{"verb": "read", "kind": "path", "at": "/path"}], {"path": {"type": "string"}})


def test_an_invalid_narrower_file_is_no_empty_one() -> None:
    """CF1, bug-162: the wider allow stood, and the file that denied did not parse."""
    report = check({"wide": ALLOWED, "narrow": '@id("n") forbid (principal, action, resource) when {'})
    assert [(one.file, one.code) for one in report.findings if one.severity == "error"] == [
        ("rules/narrow.cedar", "rule.parse")
    ]


def test_rules_in_a_file_that_holds_none_are_told() -> None:
    """CF1, bug-164: rule-like keys were put into another document, and dropped without a word."""
    report = check(manifest=MANIFEST + "bash: {'git *': ask}\n")
    (finding,) = found(report, "format.unknown-key")
    assert (finding.file, finding.line) == ("bundle.yaml", 3)


def test_a_key_that_is_nearly_one_is_told_with_the_one_that_was_meant() -> None:
    """CF1: `agent: [...]` in place of `agents` would be a profile that may speak for nobody."""
    report = check(credentials=CREDENTIALS.replace("    users:", "    user:"))
    (finding,) = found(report, "format.unknown-key")
    assert finding.hint == "did you mean `users`?"


def test_a_rule_that_no_request_can_match_is_told() -> None:
    """CF1, PA5: unmatched rules are never silently dropped."""
    spelled = ALLOWED + '\n@id("f") forbid (principal, action, resource in Directory::"/workspace/../etc");'
    (finding,) = found(check(spelled), "rule.not-canonical")
    assert (finding.line, finding.hint) == (2, 'write Directory::"/etc"')
    # Over every action it could still be about issuing a capability.
    other_kind = (
        ALLOWED + '\n@id("f") @reason("w") forbid (principal, action in Action::"read", resource is Host);'
    )
    assert codes(check(other_kind)) == {"rule.no-action"}


def test_an_empty_allow_list_allows_nothing_and_rules_for_it_are_told() -> None:
    """CF2, bug-165: a profile that may speak for nobody leaves a rule about an agent without anyone."""
    nobody = CREDENTIALS.replace('agents: ["*"]', "agents: []")
    rule = '@id("r") @reason("w") forbid (principal == Agent::"coder-1", action, resource);'
    assert "rule.unassertable" in codes(check(f"{ALLOWED}\n{rule}", credentials=nobody))
    assert codes(check(f"{ALLOWED}\n{rule}", credentials=CREDENTIALS)) == set()


def test_a_rule_that_is_shown_as_asking_but_never_asks_is_told() -> None:
    """PE4, bug-158: ask rules were displayed as active and never produced a prompt."""
    ask = (
        '\n@id("push") @reason("w") @requires("approval") @approvers("Group::\\"staff\\"") '
        'forbid (principal, action in Action::"bank/transfer", resource);'
    )
    (finding,) = found(check(ALLOWED + ask), "ask.nothing-permitted")
    assert finding.line == 2
    # The same where a forbid without exception stands above it.
    permit = '\n@id("p") @reason("w") permit (principal, action in Action::"bank/transfer", resource);'
    forbid = '\n@id("f") @reason("w") forbid (principal, action in Action::"transact", resource);'
    report = check(ALLOWED + ask + permit + forbid)
    assert {one.line for one in found(report, "rule.shadowed")} == {2, 3}


def test_an_allow_that_grew_without_anybody_noticing_is_told() -> None:
    """MC3: a permit by verb covers a tool that was added later; nobody is asked about it."""
    by_verb = '@id("sends") @reason("w") permit (principal, action in Action::"send", resource);'
    post = tool("post", [{"verb": "send", "kind": "url", "at": "/url"}], {"url": {"type": "string"}})
    tools = {"files": tool_file("files", READ), "web": tool_file("web", post)}
    (finding,) = found(check(f"{ALLOWED}\n{by_verb}", tools=tools), "rule.unasked")
    assert "web/post (send)" in finding.message


def test_a_group_that_was_renamed_is_told_in_every_rule() -> None:
    """PE1: a forbid on a group that is no longer there would quietly hold for nobody."""
    renamed = ENTITIES.replace("staff", "employees")
    rule = '\n@id("f%d") @reason("w") forbid (principal in Group::"staff", action, resource);'
    report = check(ALLOWED + rule % 1 + rule % 2, entities=renamed)
    assert [one.line for one in found(report, "rule.group-undeclared")] == [2, 3]
