"""SIGKILL of a runtime after each step, and a new process with the same ids: one effect, or `unknown`."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from authz_client.guard import ApprovalPending

from tests.clients.python.guarding import PAY, Effect, Grace, SyncRuntime, records, serve
from tests.support.fault_proxy import FaultProxy
from tests.support.server import RunningServer
from tests.support.waiting import wait_until

TRACES = itertools.count(1)
LEASE_SECONDS = 5
"""Short, so that tests see its end."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("service")
    with serve(folder, AUTHZ_DECISION_TTL_SECONDS=str(LEASE_SECONDS)) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def grace(server: RunningServer) -> Iterator[Grace]:
    """Signed in before the service has printed so much that her link is out of sight."""
    person = Grace(server)
    yield person
    person.close()


@dataclass
class Child:
    """Runtimes of one call, one process after the other."""

    server: RunningServer
    effects: Path
    kind: str
    trace: str
    resolves: bool = False

    def run(self, step: str = "", *, url: str = "", killed: bool = True) -> str:
        process = self.start(step, url=url)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == (-signal.SIGKILL if step and killed else 0), said
        return said.strip()

    def start(self, step: str = "", *, url: str = "") -> "subprocess.Popen[str]":
        asked = {
            "url": url or self.server.url,
            "key": self.server.key,
            "kind": self.kind,
            "trace": self.trace,
            "step": step,
            "effects": str(self.effects),
            "resolves": self.resolves,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tests.clients.python.guarded_child", json.dumps(asked)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    @property
    def count(self) -> int:
        return len(self.effects.read_text().splitlines()) if self.effects.exists() else 0

    def until_known(self) -> str:
        """What a restarted runtime is told once the lease of the killed one has ended."""

        def again() -> str:
            said = self.run()
            return "" if said == "CallInProgress" else said

        return wait_until(again)


@pytest.fixture(params=["sync", "async"])
def child(request: pytest.FixtureRequest, server: RunningServer, tmp_path: Path) -> Child:
    return Child(server=server, effects=tmp_path / "effects", kind=request.param, trace=f"t-{next(TRACES)}")


@pytest.mark.parametrize("step", ["parsed", "decided"])
def test_before_the_beginning_nothing_is_lost(child: Child, step: str) -> None:
    child.resolves = True
    child.run(step)
    assert child.count == 0
    assert child.until_known() == "done"
    assert child.run() == "AlreadyDone"
    assert child.count == 1


@pytest.mark.parametrize("resolves", [False, True], ids=["folded", "two steps"])
@pytest.mark.parametrize(("step", "count"), [("started", 0), ("effect", 1), ("told", 1)])
def test_between_beginning_and_report_nothing_is_known_and_nothing_is_tried_again(
    child: Child, step: str, count: int, resolves: bool
) -> None:
    child.resolves = resolves
    child.run(step)
    assert child.run() in ("CallInProgress", "OutcomeUnknown")
    assert child.until_known() == "OutcomeUnknown"
    assert child.count == count


def test_after_the_report_the_outcome_comes_back(child: Child) -> None:
    child.run("settled")
    assert child.run() == "AlreadyDone"
    assert child.count == 1


@pytest.mark.parametrize(
    ("path", "count", "said"), [("/decide", 0, "OutcomeUnknown"), ("/settle", 1, "AlreadyDone")]
)
def test_killed_between_what_the_service_wrote_and_its_answer(
    child: Child, path: str, count: int, said: str
) -> None:
    with FaultProxy("127.0.0.1", child.server.port) as proxy:
        killed = threading.Event()

        def kill(method: str, asked: str) -> None:
            if path in asked:
                os.kill(process.pid, signal.SIGKILL)
                killed.set()

        proxy.after = kill
        process = child.start("", url=proxy.url)
        process.communicate(timeout=120)
        assert killed.is_set()
    assert child.until_known() == said
    assert child.count == count


def test_an_approval_outlives_its_runtime_and_is_asked_for_once(server: RunningServer, grace: Grace) -> None:
    effect, trace = Effect(), f"t-{next(TRACES)}"

    def run() -> str:
        """As a process of its own would: nothing is kept from one call to the next."""
        runtime = SyncRuntime(server.url, server.key, trace_id=trace, on_pending="raise")
        try:
            return str(runtime.call(PAY, effect, tool_call_id="c"))
        finally:
            runtime.close()

    seen = []
    for _ in range(3):
        with pytest.raises(ApprovalPending) as caught:
            run()
        seen.append(caught.value.approval.id)
    grace.approve("c")
    assert run() == "done 1"
    assert len(set(seen)) == 1
    linked = {one["approval"]["id"] for one in records(server, trace_id=trace) if one.get("approval")}
    assert linked == set(seen)
