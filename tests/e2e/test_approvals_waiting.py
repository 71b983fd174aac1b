"""Runtimes that wait for answers while the service stops and comes back: none hangs, and none misses one."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.answering import ENTITIES, asking
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.support.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    bundle = write_bundle(tmp_path / "bundle", rules=asking(), entities=ENTITIES)
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var") as running:
        yield running


def ask(client: httpx.Client, name: str = "a") -> str:
    body = {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
        "tool": {"server": "fs", "name": "file_read"},
        "arguments": {"path": f"/workspace/{name}"},
        "context": {"trace_id": "t-1", "turn_id": "1", "tool_call_id": name},
    }
    answer = client.post("/decide", json=body).json()
    assert answer["effect"] == "require_approval", answer
    return str(answer["approval"]["id"])


class Listening(threading.Thread):
    """A client that reads a stream until its end."""

    def __init__(self, server: RunningServer, path: str, last: str = "") -> None:
        super().__init__(daemon=True)
        self._url, self._headers = f"{server.url}{path}", dict(server.headers)
        if last:
            self._headers["Last-Event-ID"] = last
        self.told: list[dict[str, Any]] = []
        self.last = ""
        self.is_over = False
        self.start()

    def run(self) -> None:
        with (
            httpx.Client(trust_env=False, timeout=60) as client,
            client.stream("GET", self._url, headers=self._headers) as response,
        ):
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                if name == "data":
                    self.told.append(json.loads(value))
                elif name == "id":
                    self.last = value
        self.is_over = True


def test_a_stop_ends_every_wait_at_once_and_whoever_comes_back_gets_what_was_missed(
    server: RunningServer,
) -> None:
    with server.client(timeout_seconds=60) as client:
        first, second = ask(client, "a"), ask(client, "b")
    one = Listening(server, f"/approvals/{first}/events")
    every = Listening(server, "/approvals/events")
    polled: list[Any] = []

    def poll() -> None:
        with server.client(timeout_seconds=60) as waiting:
            polled.append(waiting.get(f"/approvals/{second}?wait=55"))

    polling = threading.Thread(target=poll, daemon=True)
    polling.start()
    wait_until(lambda: one.told and every.last)
    wait_until(lambda: _waiters(server) == 3)

    assert server.stop() == 0
    for thread in (one, every, polling):
        thread.join(20)
        assert not thread.is_alive()
    assert one.is_over
    assert every.is_over
    assert polled[0].json()["state"] == "pending"
    assert "Cancel " not in server.printed(), "requests ended by themselves, none was cut off"

    server.start()
    with server.client() as client:
        assert client.post(f"/approvals/{first}/cancel").json()["state"] == "cancelled"
        third = ask(client, "c")
        again = Listening(server, "/approvals/events", last=every.last)
        wait_until(lambda: len(again.told) == 2)
        assert [(told["id"], told["state"]) for told in again.told] == [
            (first, "cancelled"),
            (third, "pending"),
        ]
        assert client.get(f"/approvals/{first}?wait=55").json()["state"] == "cancelled"
        last = Listening(server, f"/approvals/{first}/events", last=one.last)
        wait_until(lambda: last.told)
        assert last.told[0]["state"] == "cancelled"
    assert server.stop() == 0


def test_an_end_by_time_is_written_down_while_the_service_runs(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle", rules=asking(), entities=ENTITIES)
    server = RunningServer(
        bundle=bundle, data_dir=tmp_path / "var", env={"AUTHZ_APPROVAL_PENDING_SECONDS": "10"}
    )
    with server, server.client(timeout_seconds=60) as client:
        approval_id = ask(client)
        assert client.get(f"/approvals/{approval_id}?wait=55").json()["state"] == "expired"
        path = "/decisions?type=approval.expired"
        (told,) = wait_until(lambda: client.get(path).json()["records"])
        assert told["record"]["approval"]["id"] == approval_id


def _waiters(server: RunningServer) -> float:
    with server.client() as client:
        text = client.get("/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("authz_approval_waiters ")]
    return float(line.split()[1])
