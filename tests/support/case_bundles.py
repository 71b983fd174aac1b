"""A small bundle with cases, for tests of what runs cases."""

from pathlib import Path
from typing import Final

from authz.bundle.cases import parse_cases
from authz.core.cases.case import Case
from tests.support.bundles import write_bundle

RULES: Final = """\
@id("reads")
@reason("Files of the workspace may be read.")
permit (principal, action in Action::"read", resource in Directory::"/workspace");

@id("writes")
permit (principal, action in Action::"write", resource in Directory::"/workspace");

@id("secrets")
@reason("A place for secrets.")
forbid (principal, action, resource in Directory::"/workspace/.secrets")
unless { principal in Group::"keepers" };

@id("big-asks")
@requires("approval")
forbid (principal, action in Action::"write", resource in Directory::"/workspace/big");
"""
ENTITIES: Final = """\
groups:
  staff: {}
  keepers: {}
users:
  ada: {groups: [staff]}
agents:
  coder-1: {}
"""
DEFAULTS: Final = """\
defaults:
  subject: {agent: coder-1, on_behalf_of: ada, session: s-1}
  context: {cwd: /workspace, sandbox_root: /workspace}
"""
CASES: Final = (
    DEFAULTS
    + """\
cases:
  - name: read
    call: {tool: {server: fs, name: file_read}, arguments: {path: a.txt}}
    expect: {effect: allow, rules: [reads], authority: A0}
  - name: write
    call: {tool: {server: fs, name: file_edit}, arguments: {text: x}}
    columns: [/arguments/path, expect.effect, expect.rules, expect.overruled]
    each:
      - [a.txt, allow, [writes], []]
      - [big/a.txt, require_approval, [big-asks], [writes]]
    expect: {authority: A1}
  - name: a secret
    call: {tool: {server: fs, name: file_read}}
    columns: [/arguments/path]
    each:
      - .secrets/a
      - /workspace/x/../.secrets
    expect: {effect: deny, code: policy.forbid, rules: [secrets]}
  - name: a keeper's secret
    call: {tool: {server: fs, name: file_read}, arguments: {path: .secrets/a}}
    given: {groups: {agents: {coder-1: [keepers]}}}
    expect: {effect: allow, rules: [reads]}
"""
)


def write_case_bundle(folder: Path, cases: str = CASES, rules: str = RULES) -> Path:
    """Write the bundle, with its cases in tests/files.yaml, and return its folder."""
    write_bundle(folder, rules=rules, entities=ENTITIES)
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "files.yaml").write_text(cases, encoding="utf-8")
    return folder


def one_case(expect: str, *, call: str, given: str = "{}") -> Case:
    """A case of tests/f.yaml, with the defaults above."""
    text = f"{DEFAULTS}cases:\n  - name: one\n    call: {call}\n    given: {given}\n    expect: {expect}\n"
    (case,) = parse_cases("tests/f.yaml", text.encode())
    return case
