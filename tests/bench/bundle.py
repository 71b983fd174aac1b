"""The bundle that is measured: N realistic rules over several tools, the same bytes every time.

Of each ten rules four apply to the benchmarked action by their action scope (one permit, one permit by
group, one forbid over every action, one that asks for a person) and six are about other actions. So the
share of rules that an index by action can leave out is the same at 10 rules as at 10,000. They are spread
over as many folders, sites and offices as there are blocks of ten, and over twelve teams; what is said of
everything is one rule in all, as in a bundle that people maintain.
"""

from pathlib import Path
from typing import Final

RULES_PER_BLOCK: Final = 10
GROUPS: Final = 12
PEOPLE: Final = 48
"""Agents, each with its user."""

_MANIFEST: Final = """\
format: 1
name: bench
description: Generated for the benchmark.
"""

_CREDENTIALS: Final = """\
profiles:
  runtime:
    agents: ["*"]
    users: ["*"]
    sandboxes: [/workspace]
    home: /home/agent
    sources: [user, system, project, tool_result, file, web, email, memory, agent, secret, model]
"""

_FILE_TOOLS: Final = """\
server:
  alias: fs
  identity: local:fs
  local: true
  profiles: [runtime]
tools:
  - name: file_edit
    description: Replace text in a file.
    input_schema:
      type: object
      properties:
        path: {type: string, minLength: 1, maxLength: 4096}
        old_str: {type: string, maxLength: 100000}
        new_str: {type: string, maxLength: 100000}
        allow_multiple: {type: boolean, default: false}
      required: [path, old_str, new_str]
      additionalProperties: false
    roles: {/path: target, /old_str: option, /new_str: payload, /allow_multiple: option}
    accesses:
      - {verb: write, kind: path, at: /path}
    side_effect: idempotent
    leaves_sandbox: false
    returns: {trust: trusted}
  - name: file_read
    description: Read a file.
    input_schema:
      type: object
      properties: {path: {type: string, minLength: 1, maxLength: 4096}}
      required: [path]
      additionalProperties: false
    roles: {/path: target}
    accesses:
      - {verb: read, kind: path, at: /path}
    side_effect: none
  - name: file_delete
    description: Delete a file.
    input_schema:
      type: object
      properties: {path: {type: string, minLength: 1, maxLength: 4096}}
      required: [path]
      additionalProperties: false
    roles: {/path: target}
    accesses:
      - {verb: delete, kind: path, at: /path}
    side_effect: idempotent
    leaves_sandbox: false
"""

_NET_TOOLS: Final = """\
server:
  alias: net
  identity: local:net
  local: true
  profiles: [runtime]
tools:
  - name: fetch
    description: Fetch a page.
    input_schema:
      type: object
      properties:
        url: {type: string, minLength: 1, maxLength: 4096}
        max_length: {type: integer, minimum: 1, default: 5000}
      required: [url]
      additionalProperties: false
    roles: {/url: destination, /max_length: option}
    accesses:
      - {verb: connect, kind: url, at: /url}
    side_effect: none
  - name: send_mail
    description: Send a message.
    input_schema:
      type: object
      properties:
        to: {type: string, minLength: 3, maxLength: 320}
        subject: {type: string, maxLength: 1000}
        body: {type: string, maxLength: 100000}
      required: [to, subject, body]
      additionalProperties: false
    roles: {/to: destination, /subject: payload, /body: payload}
    accesses:
      - {verb: send, kind: email, at: /to}
    side_effect: cumulative
"""

_BANK_TOOLS: Final = """\
server:
  alias: bank
  identity: local:bank
  local: true
  profiles: [runtime]
tools:
  - name: transfer
    description: Move money.
    input_schema:
      type: object
      properties:
        account: {type: string, minLength: 1, maxLength: 64}
        amount: {type: integer, minimum: 1}
      required: [account, amount]
      additionalProperties: false
    roles: {/account: destination, /amount: amount}
    accesses:
      - {verb: transact, kind: id, type: account, at: /account}
    side_effect: cumulative
"""

# The four that apply to the benchmarked action. The permit of the first block is what allows it.
_WRITE_PERMIT: Final = """\
@id("write-{n}")
@reason("Changes inside the declared sandbox can be discarded.")
permit (principal, action in Action::"write", resource in Directory::"{directory}")
when {{ context.sandboxed && action in Action::"A1" }};
"""

_TEAM_PERMIT: Final = """\
@id("team-{n}")
@reason("A team's agents work on its own services.")
permit (
  principal in Group::"team-{group}",
  action in [Action::"write", Action::"read"],
  resource in Directory::"/srv/team-{n}"
)
when {{ principal.on_behalf_of in Group::"team-{group}" && !context.untrusted.contains("target") }};
"""

_SECRET_FORBID: Final = """\
@id("secrets-{n}")
@reason("Keys and credentials stay where they are.")
forbid (principal, action, resource)
when {{ resource is File && resource in Directory::"/home/agent/.vault-{n}" }};
"""

# In the first block, in place of the one above.
_EXPOSED_FORBID: Final = """\
@id("exposed-{n}")
@reason("Who has read secrets and strangers' words sends nothing.")
forbid (principal, action, resource)
when {{ context.session.exposed.contains("secret") && context.session.exposed.contains("untrusted") }};
"""

_PIPELINE_ASK: Final = """\
@id("pipeline-{n}")
@reason("What builds and releases is changed by two people.")
@requires("approval")
@approvers("Group::\\"team-{group}\\"")
forbid (principal, action in Action::"write", resource in Directory::"/workspace/.pipeline/job-{n}");
"""

# The six about other actions.
_READ_PERMIT: Final = """\
@id("read-{n}")
@reason("Reading shared material is harmless.")
permit (principal, action in Action::"read", resource in Directory::"/data/set-{n}")
when {{ !context.session.exposed.contains("untrusted") || context.sandboxed }};
"""

_FETCH_PERMIT: Final = """\
@id("fetch-{n}")
@reason("Reviewed sites may be read.")
permit (principal, action in Action::"connect", resource in Domain::"site-{n}.example.com")
when {{ resource is Endpoint && resource.scheme == "https" && context.secret.isEmpty() }};
"""

_FETCH_FORBID: Final = """\
@id("upload-{n}")
@reason("Nothing secret leaves by a url.")
forbid (principal, action in Action::"net/fetch", resource in Domain::"upload-{n}.example.net")
unless {{ context.arguments.max_length < {limit} }};
"""

_MAIL_PERMIT: Final = """\
@id("mail-{n}")
@reason("Colleagues may be written to.")
permit (principal, action in Action::"send", resource in Domain::"office-{n}.example.org")
when {{ principal.on_behalf_of in Group::"team-{group}" }};
"""

_DELETE_FORBID: Final = """\
@id("keep-{n}")
@reason("What is kept by law is not deleted.")
forbid (principal, action in Action::"delete", resource in Directory::"/srv/archive/{n}");
"""

_TRANSFER_ASK: Final = """\
@id("transfer-{n}")
@reason("Money moves with a second pair of eyes.")
@requires("approval")
@approvers("Group::\\"team-{group}\\"")
forbid (principal in Group::"team-{group}", action in Action::"transact", resource)
when {{ action in Action::"bank/transfer" && context.arguments.amount > {limit} }};
"""

# One file a concern, as in a bundle that people maintain.
_TEMPLATES: Final = {
    "files": (_WRITE_PERMIT, _TEAM_PERMIT, _SECRET_FORBID, _PIPELINE_ASK, _READ_PERMIT, _DELETE_FORBID),
    "network": (_FETCH_PERMIT, _FETCH_FORBID, _MAIL_PERMIT),
    "payments": (_TRANSFER_ASK,),
}


def write_bundle(folder: Path, rules: int) -> None:
    """Write a bundle of `rules` rules into `folder`, which must not exist. Ten rules are a block."""
    if rules < RULES_PER_BLOCK or rules % RULES_PER_BLOCK:
        raise ValueError(f"the number of rules must be a multiple of {RULES_PER_BLOCK}, not {rules}")
    blocks = range(rules // RULES_PER_BLOCK)
    files = {
        "bundle.yaml": _MANIFEST,
        "credentials.yaml": _CREDENTIALS,
        "entities.yaml": _entities(),
        "tools/fs.yaml": _FILE_TOOLS,
        "tools/net.yaml": _NET_TOOLS,
        "tools/bank.yaml": _BANK_TOOLS,
    }
    for name in ("rules", "tools"):
        (folder / name).mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, templates in _TEMPLATES.items():
        text = "\n".join(_fill(template, block) for block in blocks for template in templates)
        text = text.replace(_fill(_SECRET_FORBID, 0), _fill(_EXPOSED_FORBID, 0))
        (folder / "rules" / f"{name}.cedar").write_text(text, encoding="utf-8")


def _fill(template: str, block: int) -> str:
    return template.format(
        n=block,
        group=block % GROUPS,
        limit=100 * (block + 1),
        directory="/workspace" if block == 0 else f"/workspace/service-{block}",
    )


def _entities() -> str:
    """Groups that nest, and agents and users in them: those who make the requests."""
    lines = ["groups:", "  staff: {}"]
    lines += [f"  team-{n}: {{groups: [staff]}}" for n in range(GROUPS)]
    lines += ["users:", "  ada: {groups: [team-3]}"]
    lines += [f"  user-{n}: {{groups: [team-{n % GROUPS}]}}" for n in range(PEOPLE)]
    lines += ["agents:"]
    lines += [f"  agent-{n}: {{groups: [team-{n % GROUPS}]}}" for n in range(PEOPLE)]
    return "\n".join(lines) + "\n"


def change_one_rule(folder: Path, number: int) -> None:
    """Write one more rule, in a file of its own, other than it was."""
    (folder / "rules" / "zz-reload.cedar").write_text(
        f'@id("reload-{number}") '
        f'forbid (principal, action in Action::"read", resource in Directory::"/r{number}");\n',
        encoding="utf-8",
    )
