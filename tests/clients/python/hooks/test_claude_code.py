"""Tool calls of Claude Code, decided: what it is told, what runs, and what is on record."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from authz_client.hooks._tools import DEFAULT_TOOLS

from tests.clients.python.guarding import records
from tests.clients.python.hooks.runtime import Runtime, event
from tests.support.server import RunningServer

TASK: Final = "Find where the total is computed."
CALLS: Final = [
    ("Bash", "shell/run", {"command": "ls -la", "timeout_seconds": 120}),
    ("Read", "fs/file_read", {"path": "{}/src/app.py", "first_line": 1, "max_lines": 2000}),
    (
        "Edit",
        "fs/file_edit",
        {"path": "{}/src/app.py", "old_str": "a = 1", "new_str": "a = 2", "allow_multiple": False},
    ),
    ("Write", "fs/file_write", {"path": "{}/notes.md", "content": "# Notes\n"}),
    ("Glob", "fs/file_search", {"path": "{}", "pattern": "src/**/*.py", "max_results": 200}),
    ("Grep", "fs/file_search", {"path": "{}/src", "pattern": "TODO", "max_results": 50}),
    (
        "WebFetch",
        "web/fetch",
        {"url": "https://docs.example.com/start", "max_bytes": 1000000, "timeout_seconds": 30},
    ),
    ("Agent", "agents/start", {"kind": "Explore", "task": TASK}),
    ("Task", "agents/start", {"kind": "Explore", "task": TASK}),
]
SESSION: Final = "7d4b4a0e-2f0e-4d0c-9a55-0d6b1c1f3a10"


def record_of(server: RunningServer, call_id: str) -> dict[str, Any]:
    """The one decision on a call."""
    made = records(server, type="decision.made")
    (found,) = (record for record in made if record["tool_call_id"] == call_id)
    return found


def told(value: Any, expected: Any) -> Any:
    """A value of a record: of a payload it tells the length alone."""
    if isinstance(value, dict) and "redacted" in value and isinstance(expected, str):
        return expected if value["length"] == len(expected) else value
    return value


@pytest.mark.parametrize(("name", "tool", "arguments"), CALLS)
def test_a_tool_is_decided_as_a_tool_of_the_registry(
    name: str,
    tool: str,
    arguments: dict[str, Any],
    runtime: Runtime,
    server: RunningServer,
    workspace: Path,
) -> None:
    made = event(name, workspace=str(workspace), tool_use_id=f"toolu_mapped_{name}")
    result = runtime.call(made)
    record = record_of(server, f"toolu_mapped_{name}")
    expected = {"allow": "ran", "deny": "blocked", "require_approval": "blocked"}
    assert (result.effect, result.exit_code) == (expected[record["effect"]], 0), result
    assert record["effect"] == "allow" or name in ("Glob", "Grep"), result.reason
    assert f"{record['tool']['server']}/{record['tool']['name']}" == tool
    judged = json.loads(json.dumps(arguments).replace("{}", str(workspace)))
    assert {key: told(value, judged.get(key)) for key, value in record["arguments"].items()} == judged
    assert record["subject"] == {
        "agent": "coder-1",
        "on_behalf_of": "ada",
        "session": SESSION,
        "parent_agent": None,
    }
    assert (record["trace_id"], record["turn_id"]) == (SESSION, made["prompt_id"])
    assert record["claims"]["cwd"] == record["claims"]["sandbox_root"] == str(workspace)
    # Where the input does not say a folder, the hook does; all else the model wrote.
    sources = {pointer: leaf["source"] for pointer, leaf in record["provenance"]["leaves"].items()}
    if name == "Glob":
        assert sources.pop("/path") == "system"
    assert set(sources.values()) <= {"model"}


def test_what_runs_is_what_was_judged(runtime: Runtime, workspace: Path) -> None:
    read = runtime.call(event("Read", workspace=str(workspace)))
    assert read.updated
    assert read.tool_input == {"file_path": f"{workspace}/src/app.py", "offset": 1, "limit": 2000}
    bash = runtime.call(event("Bash", workspace=str(workspace)))
    assert bash.tool_input == {
        "command": "ls -la",
        "description": "List files in current directory",
        "timeout": 120000,
    }
    # Nothing to change: the input is what was judged already.
    edit = event("Edit", workspace=str(workspace))
    result = runtime.call(edit)
    assert (result.effect, result.updated, result.tool_input) == ("ran", False, edit["tool_input"])


@pytest.mark.parametrize(
    ("name", "tool_input", "words"),
    [
        ("Bash", {"command": "sudo ls"}, ["Rule `other-users`", "Agents do not become another user"]),
        ("Read", {"file_path": "/etc/shadow"}, ["`fs/file_read` did not run"]),
        ("WebFetch", {"url": "http://169.254.169.254/", "prompt": ""}, ["inside-addresses"]),
        ("Read", {"file_path": "/etc/passwd", "limit": "many"}, ["`fs/file_read` did not run", "/max_lines"]),
    ],
)
def test_a_deny_is_told_to_the_model_with_its_rule_and_reason(
    name: str, tool_input: dict[str, Any], words: list[str], runtime: Runtime, workspace: Path
) -> None:
    result = runtime.call(event(name, workspace=str(workspace), tool_input=tool_input))
    assert (result.effect, result.exit_code) == ("blocked", 0)
    for word in words:
        assert word.removeprefix("Rule ") in result.reason, result.reason


def test_a_link_is_judged_by_where_it_leads(runtime: Runtime, server: RunningServer, workspace: Path) -> None:
    link = workspace / "src" / "harmless.txt"
    link.symlink_to("/etc/shadow")
    made = event("Write", workspace=str(workspace), tool_use_id="toolu_link")
    made["tool_input"] = {"file_path": str(link), "content": "root::0:0"}
    assert runtime.call(made).effect == "blocked"
    record = record_of(server, "toolu_link")
    assert record["effect"] != "allow"
    assert "file:///etc/shadow" in {access["uri"] for access in record["accesses"]}


def test_a_subagent_is_one_by_its_id(runtime: Runtime, server: RunningServer, workspace: Path) -> None:
    typed = event("Bash", workspace=str(workspace), tool_use_id="toolu_typed", agent_type="Explore")
    assert runtime.call(typed).effect == "ran", "the main thread may have an `agent_type` too"
    assert record_of(server, "toolu_typed")["subject"]["parent_agent"] is None

    made = {**typed, "tool_use_id": "toolu_sub", "agent_id": "a1b2c3"}
    result = runtime.call(made)
    subject = record_of(server, "toolu_sub")["subject"]
    assert (subject["agent"], subject["parent_agent"]) == ("coder-1/a1b2c3", "coder-1")
    assert result.effect == "blocked"
    assert "delegated-needs-a-capability" in result.reason


def test_a_tool_of_an_mcp_server_is_named_by_the_mapping_of_its_server(
    runtime: Runtime, server: RunningServer, tmp_path: Path
) -> None:
    name = "mcp__tracker__issue__close"
    unmapped = runtime.call(event(name))
    assert (unmapped.effect, unmapped.exit_code) == ("blocked", 0)
    assert f"no tool of the registry is named for `{name}`" in unmapped.reason

    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps({"format": 1, "mcp_servers": {"tracker": "issues"}}), encoding="utf-8")
    runtime.configure(tools=str(tools))
    runtime.call(event(name, tool_use_id="toolu_mcp"))
    record = record_of(server, "toolu_mcp")
    assert (record["tool"]["server"], record["tool"]["name"]) == ("issues", "issue__close")
    assert record["arguments"] == {"id": "42"}
    # The runtime says which server it is of, where it does.
    assert runtime.call(event(name, mcp_server="other")).reason.startswith(f"`{name}` did not run: no tool")

    both = {"tracker": "issues", "tracker__issue": "fs"}
    tools.write_text(json.dumps({"format": 1, "mcp_servers": both}), encoding="utf-8")
    assert "more than one MCP server" in runtime.call(event(name)).reason


def test_a_judged_input_that_cannot_be_handed_back_does_not_run(
    runtime: Runtime, server: RunningServer, workspace: Path, tmp_path: Path
) -> None:
    made = event("Edit", workspace=str(workspace), tool_use_id="toolu_long")
    made["tool_input"]["new_string"] = "a" * 20_000
    del made["tool_input"]["replace_all"]
    # What the runtime takes an absent member for anyway need not be handed back.
    result = runtime.call({**made, "tool_use_id": "toolu_short"})
    assert (result.effect, result.updated) == ("ran", False), result.reason
    (lease,) = runtime.leases()
    lease.unlink()

    tools = json.loads(DEFAULT_TOOLS.read_text(encoding="utf-8"))
    tools["tools"]["Edit"]["arguments"]["allow_multiple"] = "replace_all"
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    runtime.configure(tools=str(tmp_path / "tools.json"))
    result = runtime.call(made)
    assert result.effect == "blocked"
    assert "was allowed and did not run" in result.reason
    (settled,) = (
        record
        for record in records(server, type="operation.settled")
        if record["tool_call_id"] == "toolu_long"
    )
    assert settled["operation"]["to"] == "failed_retryable"
    assert not runtime.leases()


def test_what_is_left_to_the_runtime_is_named_and_is_no_allow(runtime: Runtime, tmp_path: Path) -> None:
    made = event("Bash", tool_name="TodoWrite", tool_input={"todos": []})
    assert runtime.call(made).effect == "blocked"
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps({"format": 1, "left_to_runtime": ["TodoWrite"]}), encoding="utf-8")
    runtime.configure(tools=str(tools))
    assert runtime.call(made).effect == "undecided"


def test_a_call_is_let_run_once(runtime: Runtime, workspace: Path) -> None:
    made = event("Bash", workspace=str(workspace), tool_use_id="toolu_twice")
    assert runtime.call(made).effect == "ran"
    again = runtime.call(made)
    assert (again.effect, again.exit_code) == ("blocked", 0)
    assert "may have run" in again.reason


def test_it_starts_without_the_service_and_without_its_http_client() -> None:
    script = (
        "import sys; from authz.cli.main import main\n"
        "try: main(['hook', 'claude-code', '--help'])\n"
        "except SystemExit: print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.splitlines()[-1].split())
    assert "authz_client" in loaded
    assert not loaded & {
        "httpx",
        "pydantic",
        "cedarpy",
        "sqlmodel",
        "fastapi",
        "asyncio",
        "cryptography",
        "jwt",
    }


def test_the_key_is_said_nowhere(runtime: Runtime, server: RunningServer, workspace: Path) -> None:
    made = event("Bash", workspace=str(workspace))
    result = runtime.call(made)
    (lease,) = runtime.leases()
    after = runtime.after(made, tool_response={})
    said = result.stdout + result.reason + after.stdout + after.reason
    assert server.key not in said
    assert json.loads(result.stdout)["hookSpecificOutput"].keys() == {
        *("hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput"),
    }
    assert not lease.exists()
