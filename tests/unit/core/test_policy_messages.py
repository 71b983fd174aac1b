"""What Cedar's validator finds, in words that name the slip and what to write instead."""

import pytest

from tests.support.world import PERMIT_ALL, fault_of, faults_of

READING = 'action in Action::"fs/file_read", resource'
EDITING = 'action in Action::"fs/file_edit", resource'
MOVING = 'action in Action::"bank/transfer", resource'
MAILING = 'action in Action::"bank/mail_send", resource'

# (rule after its effect, code, words of the message, words of the hint)
SLIPS = [
    ('(principal, action in Action::"raed", resource);', "unknown-action", '"raed"', "did you mean `read`?"),
    (
        '(principal, action in [Action::"fs/file_raed"], resource);',
        "unknown-action",
        '"fs/file_raed"',
        "did you mean `fs/file_read`?",
    ),
    ('(principal, action in Action::"zzz", resource);', "unknown-action", '"zzz"', "`server/tool`"),
    (
        '(principal, action == Action::"fs/file_read", resource);',
        "no-action",
        "it is a group of actions",
        'action in Action::"fs/file_read"',
    ),
    (
        '(principal, action in Action::"administer", resource);',
        "no-action",
        "no tool has the action `administer`",
        "some tool has",
    ),
    ("(principal, action in [], resource);", "no-action", "empty set", "name an action"),
    ('(principal in Gruop::"staff", action, resource);', "unknown-type", "`Gruop`", "did you mean `Group`?"),
    ("(principal, action, resource is Fiel);", "unknown-type", "`Fiel`", "did you mean `File`?"),
    (
        '(principal is User, action in Action::"read", resource);',
        "no-action",
        "always an Agent",
        "on_behalf_of",
    ),
    ('(principal is Agent, action in Action::"approve", resource);', "no-action", "always a User", "User::…"),
    ('(principal, action == Action::"approve", resource);', "no-action", "group of actions", "action in"),
    ("(principal is User, action, resource);", "no-action", "who only approves", 'Action::"approve"'),
    (
        '(principal, action, resource) when { [Agent::"a"].contains(principal) };',
        "types",
        "Agent and User are not compatible",
        "principal is Agent",
    ),
    ('(principal == Tool::"fs/file_read", action, resource);', "no-action", "never a Tool", "Agent::…"),
    (f"(principal, {MAILING} is File);", "no-action", "is about a File", "`Mailbox`, `Opaque`"),
    (f'(principal, {MAILING} == File::"/a");', "no-action", "is about a File", "`Mailbox`, `Opaque`"),
    (
        f'(principal, {READING} is File) when {{ resource.nmae == "a" }};',
        "unknown-attribute",
        "`File` has no attribute `nmae`",
        "did you mean `name`?",
    ),
    (
        f'(principal, {READING}) when {{ resource.extension == "a" }};',
        "unknown-attribute",
        "`Opaque` has no attribute `extension`",
        "`resource is File && …` first",
    ),
    (
        '(principal, action, resource) when { principal.on_behalf == User::"ada" };',
        "unknown-attribute",
        "`Agent`, `User` have no attribute `on_behalf`",
        "did you mean `on_behalf_of`?",
    ),
    (
        f'(principal, {EDITING}) when {{ context.arguments.pth == "a" }};',
        "unknown-attribute",
        "no `context.arguments.pth` for `fs/file_edit`",
        "did you mean `path`?",
    ),
    (
        '(principal, action, resource) when { context.sources.destinaton.contains("web") };',
        "unknown-attribute",
        "no `context.sources.destinaton`",
        "did you mean `destination`?",
    ),
    (
        '(principal, action in Action::"fs/file_read", resource) when { context.tool.nam == "x" };',
        "unknown-attribute",
        "`Tool` has no attribute `nam`",
        "did you mean `name`?",
    ),
    (
        '(principal, action in Action::"write", resource) when { context.arguments.append };',
        "unknown-attribute",
        "`context.arguments.append` is not there for `fs/file_copy`",
        "`context.arguments has append && …`",
    ),
    (
        f"(principal, {MOVING}) when {{ context.arguments.amount.long > 5 }};",
        "maybe-absent",
        "`context.arguments.amount.long` may be absent",
        "`context.arguments.amount has long && …`",
    ),
    (f"(principal, {MOVING}) when {{ context.arguments.amount > 5 }};", "types", "is a record", "has long"),
    (f"(principal, {EDITING}) when {{ context.arguments.path }};", "types", "expected Bool", "compare"),
    (f"(principal, {EDITING}) when {{ context.arguments.path > 3 }};", "types", "saw String", "one type"),
    (
        f'(principal, {MAILING} is Mailbox) when {{ resource.domain.contains("a") }};',
        "types",
        "expected Set<anything> but saw String",
        "`==` or `like`",
    ),
    (
        '(principal, action, resource) when { principal.getTag("b") == "x" };',
        "types",
        'the tag "b" may be absent',
        'hasTag("b")',
    ),
    (
        f"(principal, {EDITING}) when {{ context.arguments has pth }};",
        "has-unknown",
        "context.arguments.pth",
        "did you mean `path`?",
    ),
]


@pytest.mark.parametrize(("rule", "code", "message", "hint"), SLIPS, ids=[slip[0] for slip in SLIPS])
def test_a_slip_is_one_problem_that_names_it_and_what_to_write(
    rule: str, code: str, message: str, hint: str
) -> None:
    problem = fault_of({"ok": PERMIT_ALL, "slip": f'\n@id("slip")\npermit {rule}'})
    assert (problem.code, problem.file, problem.line) == (f"rule.{code}", "rules/slip.cedar", 2)
    assert problem.message.startswith("`slip`: ")
    assert message in problem.message
    assert hint in problem.hint
    assert "__cedar" not in problem.message


def test_every_slip_of_a_rule_is_told() -> None:
    rule = f"(principal, {EDITING}) when {{ context.sandbox && context.arguments.pth == 3 && context.nwo }};"
    problems = faults_of(PERMIT_ALL + f'@id("slips") permit {rule}')
    assert [problem.hint for problem in problems] == [
        "did you mean `path`?",
        "did you mean `now`?",
        "did you mean `sandboxed`?",
    ]


def test_the_faults_of_several_rules_are_told_in_the_order_of_the_file() -> None:
    rules = "\n".join(
        f'@id("r{n}") permit (principal, action in Action::"{name}", resource);'
        for n, name in enumerate(("raed", "read", "wriet", "delete", "fs/file_raed"))
    )
    assert [problem.line for problem in faults_of(rules)] == [1, 3, 5]


def test_a_misspelt_type_is_not_also_a_rule_that_never_matches() -> None:
    """Only the cause is told, not what follows from it."""
    problems = faults_of(
        PERMIT_ALL + '@id("r") permit (principal in Gruop::"a", action in Action::"raed", resource);'
    )
    assert [problem.code for problem in problems] == ["rule.unknown-action", "rule.unknown-type"]


@pytest.mark.parametrize("condition", ["false && context.nwo", "resource is Mailbox && context.nwo"])
def test_a_name_that_cedar_never_gets_to_must_exist_all_the_same(condition: str) -> None:
    """Cedar does not type what is behind a condition that never holds; a later edit may bring it to life."""
    problem = fault_of(PERMIT_ALL + f'@id("r") forbid (principal, {READING} is File) when {{ {condition} }};')
    assert (problem.code, problem.hint) == ("rule.unknown-attribute", "did you mean `now`?")
