"""Reloading a real server under load: every answer is by the old version or the new one, and on record."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from authz.bundle.load import read_sources
from tests.support.bundles import write_bundle
from tests.support.reloading import FORBID
from tests.support.server import RunningServer
from tests.support.waiting import wait_until
from tests.support.world import PERMIT_ALL

CLIENTS = 4
_numbers = count(1)


def _decide(client: httpx.Client) -> dict[str, Any]:
    response = client.post(
        "/decide",
        json={
            "subject": {"agent": "coder-1"},
            "tool": {"server": "fs", "name": "file_read"},
            "arguments": {"path": "/workspace/a"},
            "context": {"trace_id": "t", "turn_id": "1", "tool_call_id": f"c-{next(_numbers)}"},
        },
    )
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


class Clients:
    """Threads that ask all the time, and what they were told, in the order of asking, a list a client."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._over = threading.Event()
        self.told: list[list[tuple[str, str]]] = [[] for _ in range(CLIENTS)]
        self.faults: list[BaseException] = []

    def _ask(self, told: list[tuple[str, str]]) -> None:
        try:
            with self._server.client() as client:
                while not self._over.is_set():
                    answer = _decide(client)
                    told.append((answer["policy_version"], answer["effect"]))
        except BaseException as fault:  # noqa: BLE001 - told by the test, which otherwise would not see it
            self.faults.append(fault)

    @contextmanager
    def asking(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._ask, args=(told,)) for told in self.told]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        assert self.faults == []

    def heard(self) -> int:
        return sum(len(told) for told in self.told)


def _version(client: httpx.Client) -> str:
    version: str = client.get("/policies").json()["version"]
    return version


def _records(client: httpx.Client, **query: str) -> list[dict[str, Any]]:
    """Newest first."""
    records: list[dict[str, Any]] = []
    before = ""
    while True:
        page = client.get("/decisions", params={"limit": "500", "before": before, **query}).json()
        records += [entry["record"] for entry in page["records"]]
        if page["next"] is None:
            return records
        before = page["next"]


def test_rules_change_under_load_without_a_decision_by_neither_version(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    data_dir = tmp_path / "var"
    with RunningServer(bundle=bundle, data_dir=data_dir) as server, server.client() as client:
        first = _version(client)
        clients = Clients(server)
        expected = {first: "allow"}
        with clients.asking():
            wait_until(lambda: clients.heard() > 20)
            (bundle / "rules/main.cedar").write_text(FORBID)
            second = read_sources(bundle).version
            expected[second] = "deny"
            wait_until(lambda: _version(client) == second)
            # Broken: the second holds, and it is said where.
            (bundle / "rules/main.cedar").write_text(FORBID + "\npermit (principal,")
            wait_until(lambda: client.get("/readyz").json()["status"] == "degraded")
            found = client.get("/policies").json()
            assert (found["version"], found["state"]) == (second, "degraded")
            assert found["last_attempt"]["problems"][0]["file"] == "rules/main.cedar"
            assert found["last_attempt"]["problems"][0]["line"] == 2
            heard = clients.heard()
            wait_until(lambda: clients.heard() > heard + 20)
            # Healed, with something else again.
            (bundle / "rules/main.cedar").write_text(PERMIT_ALL.replace("everything", "all-of-it"))
            third = read_sources(bundle).version
            expected[third] = "allow"
            wait_until(lambda: _version(client) == third)
            assert client.get("/readyz").json()["status"] == "ready"
            heard = clients.heard()
            wait_until(lambda: clients.heard() > heard + 20)
        for told in clients.told:
            assert all(expected[version] == effect for version, effect in told)
            versions = [version for version, _ in told]
            # A client that waits for its answers sees each version once, in order: none comes back.
            assert [v for n, v in enumerate(versions) if n == 0 or versions[n - 1] != v] == [
                first,
                second,
                third,
            ]
        loaded = [record["policy_version"] for record in _records(client, type="bundle.loaded")]
        assert loaded == [third, second, first]
        assert len(_records(client, type="bundle.rejected")) == 1
        decided = _records(client, type="decision.made")
        assert len(decided) == clients.heard()
        assert {(record["policy_version"], record["effect"]) for record in decided} == set(expected.items())
        # In the log, no decision of a version comes before the record that it is in force.
        begins = {
            record["policy_version"]: record["sequence"] for record in _records(client, type="bundle.loaded")
        }
        assert all(record["sequence"] > begins[record["policy_version"]] for record in decided)
    verified = subprocess.run(
        [sys.executable, "-m", "authz", "log", "verify", "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.parametrize("asked_by", ["signal", "api"])
def test_without_the_watch_a_reload_is_asked_for(tmp_path: Path, asked_by: str) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    server = RunningServer(bundle=bundle, data_dir=tmp_path / "var", arguments=("--no-watch",))
    with server, server.client() as client:
        first = _version(client)
        assert client.get("/policies").json()["watch"]["by"] == "off"
        (bundle / "rules/main.cedar").write_text(FORBID)
        assert _decide(client)["policy_version"] == first
        if asked_by == "signal":
            server.signal(signal.SIGHUP)
            wait_until(lambda: _version(client) != first)
        else:
            assert client.post("/policies/reload").json()["outcome"] == "loaded"
        assert _decide(client)["effect"] == "deny"
        last = client.get("/policies").json()["last_attempt"]
        assert (last["trigger"], last["outcome"]) == (asked_by, "loaded")


def test_a_reload_is_abandoned_when_the_service_stops(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var") as server:
        (bundle / "rules/main.cedar").write_text(FORBID)
        server.signal(signal.SIGHUP)
        server.signal(signal.SIGTERM)
        assert server.stop() == 0
    assert "Traceback" not in server.output.read_text()


def test_the_log_names_rules_that_left_and_places_that_are_wrong(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle", rules={"main": PERMIT_ALL, "more": FORBID})
    server = RunningServer(bundle=bundle, data_dir=tmp_path / "var", arguments=("--no-watch",))
    with server, server.client() as client:
        (bundle / "rules/more.cedar").unlink()
        assert client.post("/policies/reload").json()["outcome"] == "loaded"
        (bundle / "bundle.yaml").write_text("format: 1\nname: test\nnmae: test\n")
        assert client.post("/policies/reload").json()["outcome"] == "rejected"
    said = [json.loads(line) for line in server.output.read_text().splitlines() if line.startswith("{")]
    [left] = [line for line in said if line["message"] == "rules were removed"]
    assert left["names"] == ["closed"]
    [wrong] = [line for line in said if line["level"] == "error"]
    assert wrong["problems"][0].startswith("bundle.yaml:3: `nmae`: unknown key")
