"""What networks do to requests and answers, between a hook and the real service."""

from pathlib import Path
from typing import Final

import pytest

from tests.clients.python.guarding import records
from tests.clients.python.hooks.runtime import Runtime, event
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.server import RunningServer

REPEATED: Final = {
    Fault.DROP_REQUEST,
    Fault.HANG_REQUEST,
    Fault.DROP_REPLY,
    Fault.HANG_REPLY,
    Fault.DUPLICATE,
    Fault.CUT,
    Fault.STATUS_503,
}
"""After these the same bytes are sent again, and have one effect."""


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.WRONG_ID])
def test_a_decision_that_met_a_fault_is_asked_for_again_or_is_a_block(
    fault: Fault, runtime: Runtime, server: RunningServer, workspace: Path
) -> None:
    made = event("Bash", workspace=str(workspace), tool_use_id=f"toolu_{fault.name}")
    with FaultProxy("127.0.0.1", server.port) as proxy:
        runtime.configure(url=proxy.url, deadline_seconds=10)
        proxy.plan("/decide", fault)
        result = runtime.call(made)
    if fault in REPEATED:
        assert result.effect == "ran", result
    else:
        assert (result.effect, result.exit_code) == ("blocked", 2), result
    allowed = [r for r in records(server, type="decision.made") if r["tool_call_id"] == made["tool_use_id"]]
    assert len(allowed) <= 1, "one decision, however often it was asked for"


def test_an_outcome_that_another_decision_would_get_is_not_taken(
    runtime: Runtime, server: RunningServer, workspace: Path
) -> None:
    made = event("Bash", workspace=str(workspace))
    with FaultProxy("127.0.0.1", server.port) as proxy:
        runtime.configure(url=proxy.url)
        proxy.plan("/decide", Fault.WRONG_ID)
        assert runtime.call(made).effect == "ran"
        told = runtime.after(made, tool_response={})
    assert told.exit_code == 2
    assert "how `Bash` ended is not taken" in told.reason
    assert not runtime.leases()


@pytest.mark.parametrize("fault", sorted(REPEATED, key=lambda fault: fault.name))
def test_an_outcome_is_told_once(
    fault: Fault, runtime: Runtime, server: RunningServer, workspace: Path
) -> None:
    made = event("Bash", workspace=str(workspace), tool_use_id=f"toolu_settle_{fault.name}")
    with FaultProxy("127.0.0.1", server.port) as proxy:
        runtime.configure(url=proxy.url, deadline_seconds=10)
        assert runtime.call(made).effect == "ran"
        proxy.plan("/settle", fault)
        assert runtime.after(made, tool_response={}).exit_code == 0
    told = [r for r in records(server, type="operation.settled") if r["tool_call_id"] == made["tool_use_id"]]
    assert [record["operation"]["to"] for record in told] == ["succeeded"]
    assert not runtime.leases()


def test_by_a_unix_socket(runtime: Runtime, server: RunningServer, workspace: Path, tmp_path: Path) -> None:
    with FaultProxy("127.0.0.1", server.port, uds=tmp_path / "s") as proxy:
        runtime.configure(url="http://authz.internal", uds=str(tmp_path / "s"))
        made = event("Write", workspace=str(workspace))
        assert runtime.call(made).effect == "ran"
        assert runtime.after(made, tool_response={}).exit_code == 0
        assert [path.rsplit("/", 1)[-1] for _, path in proxy.seen] == ["decide", "start", "settle"]
