"""A body that is slow to come keeps nothing alive: neither a revoked key nor a version that was replaced."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.bundles import write_bundle
from tests.support.reloading import FORBID
from tests.support.server import RunningServer
from tests.support.waiting import wait_until

CALL = {
    "subject": {"agent": "coder-1"},
    "tool": {"server": "fs", "name": "file_read"},
    "arguments": {"path": "/workspace/a"},
}
BODIES: dict[str, Any] = {
    "/decide": CALL,
    "/decide/batch": {"calls": [CALL, CALL]},
    "/explain": CALL,
    "/tools/visible": {"subject": CALL["subject"], "servers": [{"server": "fs"}]},
}


class HeldRequest:
    """A request of which all but the last byte is sent."""

    def __init__(self, server: RunningServer, path: str, key: str) -> None:
        body = json.dumps(BODIES[path]).encode()
        self._rest = body[-1:]
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: authz.test\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body[:-1])

    def finish(self) -> tuple[int, Any]:
        """Send the last byte. (status, body) of the answer."""
        with self._socket:
            self._socket.sendall(self._rest)
            response = HTTPResponse(self._socket)
            response.begin()
            return response.status, json.loads(response.read())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    bundle = write_bundle(tmp_path / "bundle")
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var", arguments=("--no-watch",)) as running:
        yield running


def _begun(server: RunningServer, client: httpx.Client, held: int) -> None:
    """Until the service has `held` requests in hand: a first look at their keys has been taken."""
    # The service takes connections in turn, and a later request that is answered was read after them.
    for _ in range(held):
        assert client.get("/policies").status_code == 200


def test_what_is_held_back_is_answered_by_the_version_in_force(server: RunningServer) -> None:
    with server.client() as client:
        before = client.get("/policies").json()["version"]
        held = {path: HeldRequest(server, path, server.key) for path in BODIES}
        _begun(server, client, len(held))
        (server.bundle / "rules/main.cedar").write_text(FORBID)
        now = client.post("/policies/reload").json()["version"]
        assert now != before
        answers = {path: request.finish() for path, request in held.items()}
    assert {status for status, _ in answers.values()} == {200}
    decided = [answers["/decide"][1], *answers["/decide/batch"][1]["decisions"]]
    assert [(one["effect"], one["policy_version"]) for one in decided] == [("deny", now)] * 3
    explained = answers["/explain"][1]
    assert (explained["decision"]["effect"], explained["policy_version"]) == ("deny", now)
    visible = answers["/tools/visible"][1]
    assert (visible["servers"][0]["tools"], visible["policy_version"]) == ([], now)


def test_a_key_that_is_revoked_meanwhile_is_refused_and_on_record(server: RunningServer) -> None:
    def keys(*arguments: str) -> str:
        command = (sys.executable, "-m", "authz", "keys", *arguments, "--data-dir", str(server.data_dir))
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    made = keys("create", "--name", "late", "--roles", "decide,policy", "--profile", "runtime")
    [key] = re.findall(r"azk_[A-Za-z0-9_-]+", made)
    [key_id] = [entry.split()[0] for entry in keys("list").splitlines() if " late " in entry]
    with server.client() as client:
        headers = {"Authorization": f"Bearer {key}"}
        assert client.post("/decide", json=CALL, headers=headers).status_code == 200
        held = {path: HeldRequest(server, path, key) for path in BODIES}
        _begun(server, client, len(held))
        keys("revoke", key_id)
        wait_until(lambda: client.post("/decide", json=CALL, headers=headers).status_code == 401)
        answers = {path: request.finish() for path, request in held.items()}
        assert {path: (status, body["code"]) for path, (status, body) in answers.items()} == dict.fromkeys(
            BODIES, (401, "caller.unauthenticated")
        )
        refused = client.get("/decisions", params={"type": "request.refused"}).json()["records"]
        told = [(entry["record"]["caller"]["key_id"], entry["record"]["code"]) for entry in refused]
        assert told == [(key_id, "caller.unauthenticated")] * len(BODIES)
