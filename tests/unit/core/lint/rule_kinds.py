"""The kinds of findings about rules, each with a bundle that has it and the nearest one that has not."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.world import CREDENTIALS, tool, tool_file
from tests.unit.core.lint.bundles import ALLOWED

HEAD = '@id("r") @reason("why") '
ASK = HEAD + '@requires("approval") '
STAFF = '@approvers("Group::\\"staff\\"") '
FINANCE = '@approvers("Group::\\"finance\\"") '
SENDING = 'forbid (principal, action in Action::"bank/mail_send", resource);'
OPEN = '@id("open") permit (principal, action, resource);'
APPROVES = '@id("approves") permit'
APPROVING = 'action in Action::"approve"'
MAILBOX = 'permit (principal, action in Action::"bank/mail_send", resource is Mailbox)'
PLACE = 'action in Action::"read", resource in Directory::"%s"'
GUARDED = MAILBOX + " when { context.resolved };"
NESTED = "groups:\n  frozen: {}\n  inner: {groups: [frozen]}\n"
NAMED_USERS = CREDENTIALS.replace('agents: ["*"]', "agents: [coder-1]").replace(
    'users: ["*"]', "users: [ada]"
)
TAGGED = "users:\n  ada: {tags: {rank: high}}\nagents:\n  coder-1: {tags: {team: red}}\n"
LABELLED = tool_file(
    "notes",
    tool(
        "read",
        [{"verb": "read", "kind": "path", "at": "/path"}],
        {"path": {"type": "string"}},
        returns={"labels": ["private"]},
    ),
)
EXPOSED = 'when { context.session.exposed.contains("%s") };'
CASE = """\
cases:
  - name: read
    call:
      subject: {agent: coder-1, session: s-1}
      tool: {server: fs, name: file_read}
      arguments: {path: /workspace/a}
    expect: {effect: allow, rules: [%s]}
"""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One row: a bundle in which it is found on `line`, and the nearest one in which it is not."""

    code: str
    bad: str
    good: str
    hint: str
    line: int = 1
    parts: dict[str, Any] = field(default_factory=dict)
    good_parts: dict[str, Any] = field(default_factory=dict)


KINDS = [
    Kind(
        code="rule.never-matches",
        bad=HEAD + MAILBOX + " when { false };",
        good=HEAD + MAILBOX + " when { context.sandboxed };",
        hint="delete the rule",
    ),
    Kind(
        code="rule.constant-part",
        bad=HEAD + MAILBOX + " when { 1 < 0 };",
        good=HEAD + MAILBOX + " when { context.sandboxed };",
        hint="compare what was meant",
    ),
    Kind(
        code="rule.constant-part",
        bad=HEAD + MAILBOX + " when { context.sandboxed || 2 > 1 };",
        good=HEAD + MAILBOX + ' when { context.now < datetime("2027-01-01") };',
        hint="compare what was meant",
    ),
    Kind(
        code="rule.constant-part",
        bad=HEAD + 'permit (principal, action in Action::"connect", resource is Endpoint)'
        " when { resource.port > 9223372036854775807 + 1 };",
        good=HEAD + 'permit (principal, action in Action::"connect", resource is Endpoint)'
        " when { resource.port > 9223372036854775807 };",
        hint="the value that was meant",
    ),
    Kind(
        code="rule.undeclared",
        bad=HEAD + f'{MAILBOX} when {{ principal.on_behalf_of == User::"aad" }};',
        good=HEAD + f'{MAILBOX} when {{ principal.on_behalf_of == User::"ada" }};',
        hint="did you mean `ada`?",
    ),
    Kind(
        code="rule.undeclared",
        bad=HEAD + MAILBOX.replace("principal,", 'principal == Agent::"coder-2",') + ";",
        good=HEAD + MAILBOX.replace("principal,", 'principal == Agent::"coder-1",') + ";",
        hint="did you mean `coder-1`?",
    ),
    Kind(
        code="rule.unknown-tag",
        bad=HEAD + f'{MAILBOX} when {{ principal.hasTag("teem") }};',
        good=HEAD + f'{MAILBOX} when {{ principal.hasTag("team") }};',
        hint="did you mean `team`?",
        parts={"entities": TAGGED},
        good_parts={"entities": TAGGED},
    ),
    Kind(
        code="rule.unknown-tag",
        bad=HEAD + f'{MAILBOX} when {{ principal.on_behalf_of.hasTag("team") }};',
        good=HEAD + f'{MAILBOX} when {{ principal.on_behalf_of.hasTag("rank") }};',
        hint="under `tags` of users",
        parts={"entities": TAGGED},
        good_parts={"entities": TAGGED},
    ),
    Kind(
        code="rule.unknown-value",
        bad=HEAD + f'{MAILBOX} when {{ context.tool.name == "mail_sent" }};',
        good=HEAD + f'{MAILBOX} when {{ context.tool.name == "mail_send" }};',
        hint="did you mean `mail_send`?",
    ),
    Kind(
        code="rule.unknown-value",
        bad=HEAD + f'{MAILBOX} when {{ ["banc"].contains(context.tool.server) }};',
        good=HEAD + f'{MAILBOX} when {{ ["bank"].contains(context.tool.server) }};',
        hint="did you mean `bank`?",
    ),
    Kind(
        code="rule.never-matches",
        bad=HEAD + MAILBOX + " when { resource is File };",
        good=HEAD + MAILBOX + " when { context.sandboxed && resource is Mailbox };",
        hint="the same types",
    ),
    Kind(
        code="rule.never-matches",
        bad="\n\n"
        + HEAD
        + MAILBOX
        + ' when { resource.domain == "a.example" && resource.domain == "b.example" };',
        good=HEAD + MAILBOX + ' when { resource.domain == "a.example" || resource.domain == "b.example" };',
        hint="`||`",
        line=3,
    ),
    Kind(
        code="rule.never-matches",
        bad=HEAD
        + MAILBOX
        + ' when { resource.domain == "c" } when { ["a", "b"].contains(resource.domain) };',
        good=HEAD
        + MAILBOX
        + ' when { resource.domain == "a" } when { ["a", "b"].contains(resource.domain) };',
        hint="`||`",
    ),
    Kind(
        code="rule.never-matches",
        bad=HEAD + MAILBOX + " when { context.sandboxed } unless { context.sandboxed };",
        good=HEAD + MAILBOX + " when { context.sandboxed } unless { context.resolved };",
        hint="delete one of the two",
    ),
    Kind(
        code="rule.never-matches",
        bad=HEAD + 'permit (principal, action in Action::"A0", resource) when { action in Action::"A3" };',
        good=HEAD + 'permit (principal, action in Action::"A0", resource) when { action in Action::"read" };',
        hint="the same types and actions",
    ),
    Kind(
        code="rule.dead-alternative",
        bad=HEAD + MAILBOX + " when { context.sandboxed || resource is File };",
        good=HEAD + MAILBOX + " when { context.sandboxed || context.resolved };",
        hint="widen the scope",
    ),
    Kind(
        code="rule.condition-always-holds",
        bad=HEAD + MAILBOX + " when { true };",
        good=HEAD + MAILBOX + ";",
        hint="delete it",
    ),
    Kind(
        code="rule.condition-always-holds",
        bad=HEAD + MAILBOX + " when { resource is Mailbox };",
        good=HEAD + MAILBOX + ' when { resource in Domain::"example.com" };',
        hint="delete it",
    ),
    Kind(
        code="rule.condition-always-holds",
        bad=HEAD + MAILBOX + " when { context.sandboxed || !context.sandboxed };",
        good=HEAD + MAILBOX + " when { context.sandboxed || !context.resolved };",
        hint="delete it",
    ),
    Kind(
        code="rule.condition-always-holds",
        bad=HEAD + MAILBOX + " unless { context.sandboxed && !context.sandboxed };",
        good=HEAD + MAILBOX + " unless { context.sandboxed && !context.resolved };",
        hint="delete it",
    ),
    Kind(
        code="rule.permits-everything",
        bad=HEAD + "permit (principal, action, resource);",
        good=HEAD + 'permit (principal, action in Action::"read", resource);',
        hint="what no rule permits is denied",
    ),
    Kind(
        code="rule.permits-everything",
        bad=HEAD + "permit (principal, action, resource) when { true };",
        good=HEAD + "permit (principal, action, resource) when { context.sandboxed };",
        hint="what no rule permits is denied",
    ),
    Kind(
        code="rule.forbids-everything",
        bad=HEAD + "forbid (principal, action, resource);",
        good=HEAD + "forbid (principal, action, resource) unless { context.sandboxed };",
        hint="denied anyway",
    ),
    Kind(
        code="rule.redundant",
        bad=ALLOWED + "\n" + HEAD + 'permit (principal, action in Action::"fs/file_read", resource is File);',
        good=ALLOWED
        + "\n"
        + HEAD
        + 'permit (principal, action in Action::"fs/file_edit", resource is File);',
        hint="narrow the wider one",
        line=2,
    ),
    Kind(
        code="rule.redundant",
        bad=f'@id("a") {GUARDED}\n{HEAD}{GUARDED}',
        good=f'@id("a") {GUARDED}\n{HEAD}{MAILBOX} when {{ context.sandboxed }};',
        hint="delete one of the two",
        line=2,
    ),
    Kind(
        code="rule.redundant",
        bad=f'@id("a") permit (principal in Group::"staff", {PLACE % "/w"});\n'
        f'{HEAD}permit (principal in Group::"finance", {PLACE % "/w/a"});',
        good=f'@id("a") permit (principal in Group::"finance", {PLACE % "/w"});\n'
        f'{HEAD}permit (principal in Group::"staff", {PLACE % "/w/a"});',
        hint="delete one of the two",
        line=2,
    ),
    Kind(
        code="rule.shadowed",
        bad=f'{HEAD}{MAILBOX};\n@id("f") forbid (principal, action in Action::"send", resource);',
        good=f'{HEAD}{MAILBOX};\n@id("f") forbid (principal, action in Action::"send", resource) '
        "when { context.sandboxed };",
        hint="exception",
    ),
    Kind(
        code="rule.group-undeclared",
        bad=HEAD + 'forbid (principal in Group::"stafff", action, resource);',
        good=HEAD + 'forbid (principal in Group::"staff", action, resource);',
        hint="did you mean `staff`?",
    ),
    Kind(
        code="rule.group-undeclared",
        bad=HEAD + 'forbid (principal, action, resource) when { principal.on_behalf_of in Group::"x" };',
        good=HEAD
        + 'forbid (principal, action, resource) when { principal.on_behalf_of in Group::"finance" };',
        hint="entities.yaml",
    ),
    Kind(
        code="rule.group-empty",
        bad=HEAD + 'forbid (principal in Group::"frozen", action, resource);',
        good=HEAD + 'forbid (principal in Group::"frozen", action, resource);',
        hint="entities.yaml",
        parts={"entities": NESTED},
        good_parts={"entities": NESTED + "agents:\n  a: {groups: [inner]}\n"},
    ),
    Kind(
        code="rule.unassertable",
        bad=HEAD + 'forbid (principal == Agent::"coder1", action, resource);',
        good=HEAD + 'forbid (principal == Agent::"coder-1", action, resource);',
        hint="did you mean `coder-1`?",
        parts={"credentials": NAMED_USERS},
        good_parts={"credentials": NAMED_USERS},
    ),
    Kind(
        code="rule.unassertable",
        bad=HEAD + 'forbid (principal, action, resource) when { principal.on_behalf_of == User::"eve" };',
        good=HEAD + 'forbid (principal, action, resource) when { principal.on_behalf_of == User::"" };',
        hint="`users` of a profile",
        parts={"credentials": NAMED_USERS},
        good_parts={"credentials": NAMED_USERS},
    ),
    Kind(
        code="rule.unassertable",
        bad=HEAD + 'forbid (principal == Agent::"nobody", action, resource);',
        good=HEAD + 'forbid (principal == Agent::"nobody", action, resource);',
        hint="`agents` of a profile",
        parts={"credentials": NAMED_USERS},
    ),
    Kind(
        code="rule.unknown-label",
        bad=HEAD + "forbid (principal, action, resource) " + EXPOSED % "privat",
        good=HEAD + "forbid (principal, action, resource) " + EXPOSED % "private",
        hint="did you mean `private`?",
        parts={"tools": LABELLED},
        good_parts={"tools": LABELLED},
    ),
    Kind(
        code="rule.unknown-value",
        bad=HEAD + 'forbid (principal, action, resource) when { context.untrusted.contains("destinaton") };',
        good=HEAD
        + 'forbid (principal, action, resource) when { context.untrusted.contains("destination") };',
        hint="did you mean `destination`?",
    ),
    Kind(
        code="rule.unknown-value",
        bad=HEAD + 'forbid (principal, action, resource) when { context.sources.target.contains("emial") };',
        good=HEAD + 'forbid (principal, action, resource) when { context.sources.target.contains("email") };',
        hint="did you mean `email`?",
    ),
    Kind(
        code="rule.unknown-value",
        bad=HEAD + 'forbid (principal, action, resource) when { context.scope == "recursive" };',
        good=HEAD + 'forbid (principal, action, resource) when { context.scope == "tree" };',
        hint="object, tree",
    ),
    Kind(
        code="rule.unknown-value",
        bad=HEAD + 'forbid (principal, action, resource is Endpoint) when { resource.class == "internal" };',
        good=HEAD + 'forbid (principal, action, resource is Endpoint) when { resource.class == "private" };',
        hint="private",
    ),
    Kind(
        code="rule.upper-case",
        bad=HEAD
        + 'forbid (principal, action, resource is File) when { resource.names.contains(".Secrets") };',
        good=HEAD
        + 'forbid (principal, action, resource is File) when { resource.names.contains(".secrets") };',
        hint="write `.secrets`",
    ),
    Kind(
        code="rule.upper-case",
        bad=HEAD
        + 'forbid (principal, action, resource is File) when { ["PEM"].contains(resource.extension) };',
        good=HEAD + 'forbid (principal, action, resource is File) when { resource.name == "PEM" };',
        hint="write `pem`",
    ),
    Kind(
        code="rule.never-a-name",
        bad=HEAD + 'forbid (principal, action, resource is File) when { resource.extension == ".env" };',
        good=HEAD + 'forbid (principal, action, resource is File) when { resource.extension == "env" };',
        hint="write `env`",
    ),
    Kind(
        code="rule.never-a-name",
        bad=HEAD + 'forbid (principal, action, resource is File) when { resource.names.contains("a/b") };',
        good=HEAD + 'forbid (principal, action, resource is File) when { resource.names.contains("b") };',
        hint="resource in Directory",
    ),
    Kind(
        code="rule.public-suffix",
        bad=HEAD + 'permit (principal, action in Action::"connect", resource in Domain::"co.uk");',
        good=HEAD + 'permit (principal, action in Action::"connect", resource in Domain::"example.co.uk");',
        hint="the organisation",
    ),
    Kind(
        code="ask.no-approvers",
        bad=ASK + 'forbid (principal, action in Action::"send", resource);',
        good=ASK + STAFF + 'forbid (principal, action in Action::"send", resource);',
        hint="@approvers",
    ),
    Kind(
        code="ask.quorum-unreachable",
        bad=ASK + STAFF + '@quorum("3") forbid (principal, action in Action::"send", resource);',
        good=ASK + STAFF + '@quorum("2") forbid (principal, action in Action::"send", resource);',
        hint="@quorum",
    ),
    Kind(
        code="ask.quorum-unreachable",
        bad=ASK + STAFF + 'forbid (principal, action in Action::"send", resource);',
        good=ASK + STAFF + 'forbid (principal, action in Action::"send", resource);',
        hint="more users",
        # No agent approves.
        parts={"entities": "groups:\n  staff: {}\nagents:\n  a: {groups: [staff]}\n"},
    ),
    Kind(
        code="ask.odd-ttl",
        bad=ASK + STAFF + '@ttl("30d") forbid (principal, action in Action::"send", resource);',
        good=ASK + STAFF + '@ttl("1d") forbid (principal, action in Action::"send", resource);',
        hint='@ttl("1d")',
    ),
    Kind(
        code="ask.odd-ttl",
        bad=ASK + STAFF + '@ttl("5s") forbid (principal, action in Action::"send", resource);',
        good=ASK + STAFF + '@ttl("30s") forbid (principal, action in Action::"send", resource);',
        hint='@ttl("30s")',
    ),
    Kind(
        code="ask.nothing-permitted",
        bad=ASK + STAFF + 'forbid (principal, action in Action::"send", resource);',
        good=ASK + STAFF + 'forbid (principal, action in Action::"send", resource);' + f'@id("p") {MAILBOX};',
        hint="permit as well",
    ),
    Kind(
        code="ask.nothing-permitted",
        bad=ASK + STAFF + "forbid (principal, action, resource is Object);" + f'@id("p") {MAILBOX};',
        good=ASK + STAFF + "forbid (principal, action, resource is Mailbox);" + f'@id("p") {MAILBOX};',
        hint="permit as well",
    ),
    Kind(
        code="ask.nobody-may-approve",
        # What permits whatever is called permits nobody to approve it.
        bad=ASK + STAFF + SENDING + OPEN,
        good=ASK + STAFF + SENDING + OPEN + f"{APPROVES} (principal, {APPROVING}, resource);",
        hint='Action::"approve"',
    ),
    Kind(
        code="ask.nobody-may-approve",
        # Nor does who is in another group.
        bad=ASK + FINANCE + SENDING + f'{APPROVES} (principal == User::"ada", {APPROVING}, resource);',
        good=ASK + FINANCE + SENDING + f'{APPROVES} (principal == User::"grace", {APPROVING}, resource);',
        hint='Action::"approve"',
    ),
    Kind(
        code="ask.nobody-may-approve",
        bad=ASK + SENDING + f'{APPROVES} (principal, action == Action::"approve:fs/file_edit", resource);',
        good=ASK + SENDING + f'{APPROVES} (principal, action == Action::"approve:bank/mail_send", resource);',
        hint='Action::"approve"',
    ),
    Kind(
        code="rule.approving-unscoped",
        bad=HEAD + f"permit (principal, action, resource is Mailbox) when {{ {APPROVING} }};",
        good=HEAD + f"permit (principal, {APPROVING}, resource is Mailbox);",
        hint="in the scope",
    ),
    Kind(
        code="rule.unasked",
        bad=HEAD + MAILBOX + ";",
        good=f'{HEAD}{MAILBOX};\n@id("a") @requires("approval") {STAFF}'
        'forbid (principal, action in Action::"send", resource) when { context.resolved };',
        hint="@requires",
    ),
    Kind(
        code="rule.unasked",
        # It asks about calls of another tool.
        bad=f'{HEAD}{MAILBOX};\n@id("a") @requires("approval") {STAFF}'
        'forbid (principal, action in Action::"A3", resource) when { action in Action::"bank/transfer" };',
        good=HEAD
        + 'permit (principal, action in Action::"write", resource) when { action in Action::"A1" };',
        hint="@requires",
    ),
    Kind(
        code="test.unknown-rule",
        bad=ALLOWED,
        good=ALLOWED,
        hint="did you mean `ok`?",
        line=7,
        parts={"tests": CASE % "okk"},
        good_parts={"tests": CASE % "ok"},
    ),
    Kind(
        code="rule.untested",
        bad=ALLOWED,
        good=ALLOWED,
        hint="tests/*.yaml",
        parts={"tests": None},
        good_parts={"tests": CASE % "ok"},
    ),
    Kind(
        code="rule.no-reason",
        bad=ALLOWED.replace('@reason("r") ', ""),
        good=ALLOWED,
        hint="@reason",
    ),
]
