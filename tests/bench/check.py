"""`authz check` on a large bundle: 1,000 rules over 200 tools, with what people write in both.

Of each ten rules four are about one tool, three about a verb and a place, two about any action, and one reads
an argument of one tool. The tools have the schemas of ordinary ones, three to eight arguments each.
"""

import resource
import statistics
import time
from pathlib import Path
from typing import Any, Final

from authz.bundle.check import check_folder
from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from tests.bench.bundle import write_bundle

RULES: Final = 1000
TOOLS: Final = 200
SERVERS: Final = 20
_RULES_IN_A_BLOCK: Final = 10

_SERVER: Final = """\
server:
  alias: s{server}
  identity: local:s{server}
  local: true
  profiles: [runtime]
tools:
"""

_TOOL: Final = """\
  - name: change_{tool}
    description: Change record {tool} of the system, and tell those who watch it.
    input_schema:
      type: object
      properties:
        record: {{type: string, minLength: 1, maxLength: 200}}
        path: {{type: string, minLength: 1, maxLength: 4096}}
        title_{tool}: {{type: string, maxLength: 500}}
        amount_{tool}_eur: {{type: number, minimum: 0, maximum: 100000}}
        labels: {{type: array, items: {{type: string, maxLength: 64}}, maxItems: 20}}
        notify: {{type: boolean, default: true}}
      required: [record, path]
      additionalProperties: false
    roles:
      /record: target
      /path: target
      /title_{tool}: payload
      /amount_{tool}_eur: amount
      /labels: payload
      /notify: option
    accesses:
      - {{verb: {verb}, kind: id, type: record, at: /record}}
      - {{verb: write, kind: path, at: /path}}
    side_effect: idempotent
    leaves_sandbox: {leaves}
    returns: {{trust: untrusted, labels: [private]}}
"""

_BLOCK: Final = """\
@id("tool-{n}")
@reason("The tool is for its own team.")
permit (principal in Group::"team-{group}", action in Action::"{tool}", resource is Object);
@id("tool-ask-{n}")
@reason("A change of a record is looked at.")
@requires("approval")
@approvers("Group::\\"staff\\"")
forbid (principal, action in Action::"{tool}", resource is Object)
when {{ context.untrusted.contains("target") }};
@id("tool-read-{n}")
@reason("Notes may be kept with a record.")
permit (principal, action in [Action::"{tool}", Action::"{other}"], resource in Directory::"/workspace/r{n}")
when {{ context.sandboxed }};
@id("tool-forbid-{n}")
@reason("Secrets stay out of titles.")
forbid (principal, action in Action::"{tool}", resource)
when {{ context.secret.contains("payload") }};
@id("place-{n}")
@reason("The place is the team's.")
permit (principal in Group::"team-{group}", action in Action::"write", resource in Directory::"/srv/p{n}")
when {{ !context.session.exposed.contains("untrusted") }};
@id("place-ask-{n}")
@reason("What is built from here is looked at.")
@requires("approval")
@approvers("Group::\\"staff\\"")
forbid (principal, action in Action::"write", resource in Directory::"/srv/p{n}/build");
@id("level-{n}")
@reason("What leaves the sandbox from here is looked at.")
@requires("approval")
@approvers("Group::\\"staff\\"")
forbid (principal, action in [Action::"A2", Action::"A3"], resource in Directory::"/srv/q{n}");
@id("any-{n}")
@reason("Keys stay where they are.")
forbid (principal, action, resource)
when {{ resource is File && resource in Directory::"/home/agent/.vault-{n}" }};
@id("any-names-{n}")
@reason("What is named so is not touched.")
forbid (principal, action, resource is File)
when {{ resource.names.contains(".hidden-{n}") || resource.extension == "k{n}" }};
@id("argument-{n}")
@reason("Large amounts are for people.")
forbid (principal, action in Action::"{tool}", resource)
when {{
  context.arguments has amount_{number}_eur &&
  context.arguments.amount_{number}_eur has long &&
  context.arguments.amount_{number}_eur.long > {limit}
}};
"""


def write_large_bundle(folder: Path, rules: int = RULES, tools: int = TOOLS) -> None:
    """Write the bundle into `folder`, which must not exist."""
    write_bundle(folder, _RULES_IN_A_BLOCK)
    for path in (*folder.glob("rules/*.cedar"), *folder.glob("tools/*.yaml")):
        path.unlink()
    names = [f"s{number % SERVERS}/change_{number}" for number in range(tools)]
    for server in range(SERVERS):
        text = _SERVER.format(server=server) + "".join(
            _TOOL.format(
                tool=number,
                verb=("write", "delete", "send", "administer")[number % 4],
                leaves="true" if number % 2 else "false",
            )
            for number in range(server, tools, SERVERS)
        )
        (folder / "tools" / f"s{server}.yaml").write_text(text, encoding="utf-8")
    blocks = [
        _BLOCK.format(
            n=block,
            number=block % tools,
            tool=names[block % tools],
            other=names[(block + 7) % tools],
            group=block % 12,
            limit=100 + block,
        )
        for block in range(rules // _RULES_IN_A_BLOCK)
    ]
    (folder / "rules" / "all.cedar").write_text("\n".join(blocks), encoding="utf-8")


def measure_check(folder: Path, *, runs: int) -> dict[str, Any]:
    """Seconds to check and to load the large bundle, and what was found; the memory is the process's peak."""
    write_large_bundle(folder)
    checks, loads = [], []
    findings = 0
    for _ in range(runs):
        start = time.perf_counter()
        report = check_folder(folder)
        checks.append(time.perf_counter() - start)
        findings = len(report.findings)
        start = time.perf_counter()
        load_bundle(folder, Protected())
        loads.append(time.perf_counter() - start)
    return {
        "rules": RULES,
        "tools": TOOLS,
        "check_seconds": round(statistics.median(checks), 2),
        "load_seconds": round(statistics.median(loads), 2),
        "findings": findings,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
