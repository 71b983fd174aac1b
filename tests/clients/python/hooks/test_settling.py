"""How a call ended: told by another process than the one that asked, with a lease that nobody else sees."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.clients.python.guarding import records
from tests.clients.python.hooks.runtime import Runtime, event
from tests.support.server import RunningServer


def outcomes(server: RunningServer, call_id: str) -> list[str]:
    """What was told of a call."""
    told = records(server, type="operation.settled")
    return [record["operation"]["to"] for record in told if record["tool_call_id"] == call_id]


@pytest.mark.parametrize(
    ("name", "after", "outcome"),
    [
        ("done", {"tool_response": {"stdout": "a", "stderr": "", "interrupted": False}}, "succeeded"),
        ("text", {"tool_response": "any shape"}, "succeeded"),
        ("failed", {"error": "exit code 1"}, "failed_final"),
        ("stopped", {"error": "stopped", "is_interrupt": True}, "unknown"),
        ("cut", {"tool_response": {"stdout": "", "stderr": "", "interrupted": True}}, "unknown"),
        ("behind", {"tool_response": {"stdout": "", "backgroundTaskId": "b1"}}, "unknown"),
    ],
)
def test_an_outcome_is_told_once_and_its_lease_is_gone(
    name: str,
    after: dict[str, Any],
    outcome: str,
    runtime: Runtime,
    server: RunningServer,
    workspace: Path,
) -> None:
    made = event("Bash", workspace=str(workspace), tool_use_id=f"toolu_{name}")
    result = runtime.call(made)
    assert result.effect == "ran"
    (lease,) = runtime.leases()
    assert stat.S_IMODE(lease.stat().st_mode) == 0o600
    assert stat.S_IMODE(lease.parent.stat().st_mode) == 0o700
    assert made["tool_use_id"] not in lease.name
    assert "lease" not in result.stdout

    told = runtime.after(made, **after)
    assert (told.exit_code, told.stdout, told.reason) == (0, "", "")
    assert outcomes(server, made["tool_use_id"]) == [outcome]
    assert not runtime.leases()


def test_of_a_read_nothing_is_kept_and_nothing_told(
    runtime: Runtime, server: RunningServer, workspace: Path
) -> None:
    made = event("Read", workspace=str(workspace), tool_use_id="toolu_read")
    assert runtime.call(made).effect == "ran"
    assert not runtime.leases()
    assert runtime.after(made, tool_response={"type": "text"}).exit_code == 0
    assert outcomes(server, "toolu_read") == []


def test_a_tool_that_ran_without_a_permission_is_told_of(runtime: Runtime, workspace: Path) -> None:
    made = event("Bash", workspace=str(workspace), tool_use_id="toolu_unasked")
    told = runtime.after(made, tool_response={})
    assert told.exit_code == 2
    assert "ran without a permission that is known here" in told.reason


def test_an_outcome_that_cannot_be_told_now_is_said(runtime: Runtime, workspace: Path) -> None:
    made = event("Bash", workspace=str(workspace), tool_use_id="toolu_untold")
    assert runtime.call(made).effect == "ran"
    runtime.configure(url="http://127.0.0.1:1")
    told = runtime.after(made, tool_response={})
    assert told.exit_code == 2
    assert "how `Bash` ended could not be told: the service cannot be reached" in told.reason
    assert runtime.leases(), "the same event may be sent again"


def test_leases_that_nobody_asks_for_are_taken_away(runtime: Runtime, workspace: Path) -> None:
    first = event("Bash", workspace=str(workspace), tool_use_id="toolu_old")
    assert runtime.call(first).effect == "ran"
    (old,) = runtime.leases()
    os.utime(old, (0, 0))
    assert runtime.call({**first, "tool_use_id": "toolu_new"}).effect == "ran"
    assert old not in runtime.leases()
    assert len(runtime.leases()) == 1


def test_a_place_that_others_may_use_holds_no_lease_and_nothing_runs(
    runtime: Runtime, server: RunningServer, workspace: Path
) -> None:
    folder = Path(runtime.environment["XDG_STATE_HOME"]) / "authz" / "hook"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    made = event("Bash", workspace=str(workspace), tool_use_id="toolu_open")
    result = runtime.call(made)
    assert (result.effect, result.exit_code) == ("blocked", 2)
    assert "it must be this user's, with mode 0700" in result.reason
    assert outcomes(server, "toolu_open") == ["failed_retryable"], "given back: it did not run"
