"""Where a rule asks for a person: the hook waits, or says how to go on, or hands over if it was told to."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients.python.guarding import Grace, records
from tests.clients.python.hooks.runtime import Result, Runtime, event
from tests.support.server import RunningServer

ASKS: Final = {"command": "printenv", "timeout": 120000}


def asking(workspace: Path, call_id: str, command: str = "printenv") -> dict[str, Any]:
    """A call that a rule of the sample bundle asks about."""
    tool_input = {"command": command, "timeout": 120000}
    return event("Bash", workspace=str(workspace), tool_use_id=call_id, tool_input=tool_input)


def meanwhile(runtime: Runtime, made: dict[str, Any], act: Callable[[], object]) -> Result:
    """What becomes of a call while somebody answers."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(runtime.call(made)))
    thread.start()
    try:
        act()
    finally:
        thread.join(120)
    (result,) = results
    return result


@pytest.fixture
def waiting(runtime: Runtime) -> Runtime:
    runtime.configure(approval_seconds=90, timeout_seconds=200)
    runtime.set(timeout=200)
    return runtime


def test_a_yes_lets_it_run_and_is_on_record(
    waiting: Runtime, server: RunningServer, grace: Grace, workspace: Path
) -> None:
    made = asking(workspace, "toolu_yes")
    result = meanwhile(waiting, made, lambda: grace.approve("toolu_yes"))
    assert (result.effect, result.tool_input) == ("ran", ASKS), result
    told = [r["effect"] for r in records(server, type="decision.made") if r["tool_call_id"] == "toolu_yes"]
    assert told == ["require_approval", "allow"]
    assert waiting.after(made, tool_response={}).exit_code == 0


def test_a_no_comes_back_with_the_person_s_words(waiting: Runtime, grace: Grace, workspace: Path) -> None:
    made = asking(workspace, "toolu_no", "printenv HOME")
    result = meanwhile(waiting, made, lambda: grace.deny("toolu_no", "Not with these variables"))
    assert (result.effect, result.exit_code) == ("blocked", 0)
    assert "Not with these variables" in result.reason


def test_without_an_answer_it_says_how_to_go_on_and_a_later_yes_counts(
    runtime: Runtime, grace: Grace, workspace: Path
) -> None:
    result = runtime.call(asking(workspace, "toolu_late", "printenv LANG"))
    assert (result.effect, result.exit_code) == ("blocked", 0)
    for words in ("a person has to agree first", "/ui/approvals/", "`environment-asks`", "made again later"):
        assert words in result.reason
    assert not runtime.leases()

    grace.approve("toolu_late")
    again = runtime.call(asking(workspace, "toolu_late_2", "printenv LANG"))
    assert again.effect == "ran", again


def test_the_runtime_s_own_dialog_is_used_only_if_told_so_and_says_what_its_yes_is_worth(
    runtime: Runtime, server: RunningServer, workspace: Path
) -> None:
    runtime.configure(on_ask="dialog")
    made = asking(workspace, "toolu_dialog", "printenv SHELL")
    del made["tool_input"]["timeout"]
    result = runtime.call(made)
    assert (result.effect, result.exit_code) == ("asked", 0)
    assert "neither bound to what was judged nor on record" in result.reason
    assert "`environment-asks`" in result.reason
    assert result.tool_input["timeout"] == 120000, "what is shown is what was judged"
    # Nobody is kept waiting there for what is answered here.
    assert [record["type"] for record in records(server, type="approval.cancelled")] == ["approval.cancelled"]
    assert runtime.after(made, tool_response={}).exit_code == 0, "nothing is to be told of it"
