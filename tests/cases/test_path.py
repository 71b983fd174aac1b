"""The public failure cases of kind `path`, as far as the service decides: where a link leads is `resolved`.

That the executor finds out where a path leads, and holds to it, is the client package's: `tests/clients`.
Where our answer is stricter than a case's it is said there; none is weaker.
"""

from typing import Any, Final

import pytest

from authz.core.decide import Outcome
from authz.model.resource import ResolvedPath
from tests.cases.judged import READS, WRITES, accesses_of, asks_unless, check, runs
from tests.cases.served import SHELL, ids_of_kind, ids_of_tests
from tests.support.world import CREDENTIALS, FS, PERMIT_ALL, TEXT, faults_of, tool, tool_file, world

FOLDING: Final = f"{CREDENTIALS}    volume: {{case_sensitive: false}}\n"


def forbids(place: str, verbs: str = "read") -> str:
    named = ", ".join(f'Action::"{verb}"' for verb in verbs.split())
    return f'@id("no") forbid (principal, action in [{named}], resource in {place});'


def reads(
    policy: str, path: str, effect: str, *rules: str, to: str | None = None, credentials: str = CREDENTIALS
) -> Outcome:
    """A read of `path`, which leads to `to` where the executor says so."""
    resolved = {} if to is None else {"/path": ResolvedPath(path=to)}
    ruleset = world(policy, tools=FS, credentials=credentials)
    return check(ruleset, "fs/file_read", {"path": path}, effect, list(rules), resolved=resolved)


def writes(policy: str, path: str, effect: str, *rules: str, to: str | None = None, **files: Any) -> Outcome:
    resolved = {} if to is None else {"/path": ResolvedPath(path=to)}
    ruleset = world(policy, tools=FS, **files)
    arguments = {"path": path, "text": "x"}
    return check(ruleset, "fs/file_edit", arguments, effect, list(rules), resolved=resolved)


def test_bug_034_containment_is_by_component() -> None:
    reads(READS, "/workspace-secret/loot.md", "deny")
    reads(READS, "/workspace", "allow", "reads")
    reads(READS, "/workspace/-secret/loot.md", "allow", "reads")


def test_bug_035_a_link_out_of_the_allowed_folder() -> None:
    outcome = reads(READS, "/workspace/link/passwd", "deny", to="/etc/passwd")
    assert accesses_of(outcome) == {"read /workspace/link/passwd", "read /etc/passwd"}
    reads(READS, "/workspace/link/passwd", "allow", "reads", to="/workspace/etc/passwd")


def test_bug_036_a_link_to_a_denied_file() -> None:
    policy = READS + forbids('Directory::"/workspace/private"')
    reads(policy, "/workspace/ok.txt", "deny", "no", to="/workspace/private/key")
    reads(policy, "/workspace/private/key", "deny", "no", to="/workspace/ok.txt")
    reads(policy, "/workspace/ok.txt", "allow", "reads", to="/workspace/ok2.txt")


def test_bug_037_a_new_file_behind_a_linked_folder() -> None:
    policy = WRITES + forbids('Directory::"/srv/policy"', "write")
    writes(policy, "/workspace/bait/new.json", "deny", "no", to="/srv/policy/new.json")
    writes(policy, "/workspace/bait/new.json", "allow", "writes", to="/workspace/real/new.json")


def test_bug_038_home_is_expanded_before_it_is_judged() -> None:
    policy = asks_unless('resource in Directory::"/workspace"')
    outcome = reads(policy, "~/secret", "require_approval", "others-ask")
    assert accesses_of(outcome) == {"read /home/agent/secret"}
    reads(policy, "./~/secret", "allow", "everything")


def test_bug_039_a_rule_that_could_never_match_is_refused() -> None:
    """A rule has no home to expand, so it names the folder; one that does not is no rule."""
    rule = '@id("projects") permit (principal, action in Action::"read", resource in Directory::"{}");'
    assert faults_of(rule.format("~/Projects"), tools=FS)
    policy = rule.format("/home/agent/Projects")
    reads(policy, "/home/agent/Projects/a/README.md", "allow", "projects")
    reads(policy, "~/Projects/a/README.md", "allow", "projects")


def test_bug_041_one_object_however_it_is_given() -> None:
    policy = READS + (
        '@id("no") forbid (principal, action in Action::"read", resource is File) when '
        '{ resource.names.contains(".env") || resource.extension == "env" };'
    )
    for path in (
        ".env",
        "./server/../.env",
        "server/.env",
        "/workspace/server/.env",
        "server//.ENV",
        "x.env",
    ):
        reads(policy, path, "deny", "no")
    reads(policy, "server/env", "allow", "reads")


def test_bug_042_a_relative_path_is_relative_to_the_declared_directory() -> None:
    outcome = reads(READS, "audit/message.log", "allow", "reads")
    assert accesses_of(outcome) == {"read /workspace/audit/message.log"}
    ruleset = world(READS, tools=FS)
    check(ruleset, "fs/file_read", {"path": "audit/message.log"}, "deny", [], cwd=None, sandbox_root=None)


def test_bug_044_another_letter_case_on_a_volume_that_folds_it() -> None:
    """Rules go by the key of the volume: folded where any profile's volume folds."""
    policy = WRITES + forbids('Directory::"/workspace/.agent/mcp.json"', "write")
    for path in ("/workspace/.Agent/MCP.json", "/WORKSPACE/.agent/mcp.JSON", ".agent/mcp.json"):
        writes(policy, path, "deny", "no", credentials=FOLDING)
    writes(policy, "/workspace/.Agent/MCP2.json", "allow", "writes", credentials=FOLDING)


@pytest.mark.parametrize(
    "path", ["\\\\localhost\\C$\\Windows\\x.dll", "\\\\?\\C:\\Windows\\x", "//./C:/Windows/x", "C:\\ws\\x"]
)
def test_bug_046_a_share_is_no_file_of_this_machine(path: str) -> None:
    """Stricter than asked: no Windows spelling is a place that a rule could permit."""
    outcome = writes('@id("all") permit (principal, action, resource is File);', path, "deny")
    assert outcome.decision.code in ("policy.no_match", "canonical.refused")


@pytest.mark.parametrize("path", ["C:\\ws\\file.txt:payload.exe", "C:/ws/file.txt::$DATA", "C:file.txt"])
def test_bug_047_a_stream_is_no_plain_file(path: str) -> None:
    outcome = writes('@id("all") permit (principal, action, resource is File);', path, "deny")
    assert outcome.decision.code in ("policy.no_match", "canonical.refused")


def test_bug_048_a_file_uri_is_decoded_once_and_is_a_path() -> None:
    policy = READS + forbids('Directory::"/etc"')
    reads(policy, "file:///workspace/%2e%2e/etc/shadow", "deny", "no")
    reads(policy, "file:///etc/shadow", "deny", "no")
    reads(policy, "file:///workspace/%252e%252e/etc/shadow", "allow", "reads")
    reads(policy, "/workspace/%2e%2e/etc/shadow", "allow", "reads")


def test_bug_052_a_carve_out_under_a_linked_root_stays_in_force() -> None:
    policy = (
        '@id("link") permit (principal, action in Action::"write", resource) when '
        '{ resource in [Directory::"/data/link", Directory::"/mnt/real"] };'
        + forbids('Directory::"/data/link/private"', "write")
    )
    writes(policy, "/data/link/private/x", "deny", "no", to="/mnt/real/private/x")
    writes(policy, "/data/link/x", "allow", "link", to="/mnt/real/x")
    # The link's target alone, without a rule that names it, is no part of the grant.
    narrow = '@id("link") permit (principal, action in Action::"write", resource in Directory::"/data/link");'
    writes(narrow, "/data/link/x", "deny", to="/mnt/real/x")


MANY: Final = tool_file(
    "fs",
    tool(
        "read_many",
        [{"verb": "read", "kind": "path", "at": "/paths"}],
        {"paths": {"type": "array", "items": TEXT}},
    ),
    tool(
        "apply_patch",
        [{"verb": "write", "kind": "path", "at": "/files"}],
        {"files": {"type": "array", "items": TEXT}},
    ),
)


def test_bug_053_one_denied_element_denies_the_call() -> None:
    ruleset = world(READS + forbids('Directory::"/workspace/secrets.env"'), tools=MANY)
    for paths in (["README.md", "secrets.env"], ["secrets.env"], ["a", "b", "./x/../secrets.env", "c"]):
        check(ruleset, "fs/read_many", {"paths": paths}, "deny", ["no"], {"read /workspace/secrets.env"})
    check(ruleset, "fs/read_many", {"paths": ["README.md", "secrets.env.md"]}, "allow", ["reads"])


def test_bug_054_the_same_read_by_the_shell() -> None:
    policy = (
        READS
        + runs("cat")
        + (
            '@id("outside") forbid (principal, action in Action::"read", resource is File) '
            'unless { resource in Directory::"/workspace" };'
        )
    )
    ruleset = world(policy, tools={"fs": FS, "shell": SHELL})
    check(ruleset, "fs/file_read", {"path": "/etc/passwd"}, "deny", ["outside"])
    for line in ("cat /etc/passwd", "cat ../etc/passwd", "cd / && cat etc/passwd", "cat < /etc/passwd"):
        check(ruleset, "shell/run", {"command": line}, "deny", ["outside"], {"read /etc/passwd"})
    check(ruleset, "shell/run", {"command": "cat etc/passwd"}, "allow", ["runs", "reads"])


def test_bug_055_the_roots_hold_for_every_tool_that_writes() -> None:
    policy = (
        '@id("pkg") permit (principal, action in Action::"write", resource in Directory::"/workspace/pkg");'
        + runs("touch")
    )
    ruleset = world(policy, tools={"fs": MANY, "shell": SHELL})
    check(ruleset, "fs/apply_patch", {"files": ["/workspace/other/a.py"]}, "deny", [])
    check(ruleset, "fs/apply_patch", {"files": ["pkg/a.py", "pkg/../other/a.py"]}, "deny", [])
    check(ruleset, "shell/run", {"command": "touch other/a.py"}, "deny", [])
    check(ruleset, "fs/apply_patch", {"files": ["pkg/a.py"]}, "allow", ["pkg"])


def test_bug_056_every_file_that_is_staged_lies_in_the_repository() -> None:
    """By the tool of git and by the shell: staging reads what is staged."""
    git = tool_file(
        "git",
        tool(
            "add",
            [
                {"verb": "write", "kind": "path", "at": "/repo"},
                {"verb": "read", "kind": "path", "at": "/files"},
            ],
            {"repo": TEXT, "files": {"type": "array", "items": TEXT}},
        ),
    )
    ruleset = world(READS + WRITES + runs("git/add"), tools={"git": git, "shell": SHELL})
    arguments = {"repo": "/workspace", "files": ["../.kube/config"]}
    check(ruleset, "git/add", arguments, "deny", [], {"read /.kube/config"})
    check(ruleset, "git/add", {"repo": "/workspace", "files": ["a", "b"]}, "allow", ["writes", "reads"])
    for line in ("git add ../.kube/config", "git -C sub add ../../.kube/config"):
        check(ruleset, "shell/run", {"command": line}, "deny", [], {"read /.kube/config/**"})


def test_bug_206_an_absolute_path_in_a_rule_is_absolute() -> None:
    policy = PERMIT_ALL + forbids('Directory::"/home/user-1/Downloads"')
    reads(policy, "/home/user-1/Downloads/a.pdf", "deny", "no")
    reads(policy, "home/user-1/Downloads/a.pdf", "allow", "everything")
    relative = PERMIT_ALL + forbids('Directory::"home/user-1/Downloads"')
    assert faults_of(relative, tools=FS)


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("path")
