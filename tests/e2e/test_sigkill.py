"""SIGKILL at random instants under load: every answer that a client received is in the log, on each store."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from authz.cli.main import main
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer

ROUNDS = 4
CLIENTS = 8


def _body(number: int) -> dict[str, Any]:
    return {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
        "tool": {"server": "fs", "name": "file_edit"},
        "arguments": {"path": f"/workspace/{number}", "text": "x"},
        "context": {
            "trace_id": f"t-{number}",
            "turn_id": "1",
            "tool_call_id": "c",
            "cwd": "/workspace",
            "sandbox_root": "/workspace",
        },
    }


async def _load(server: RunningServer, first: int, kill_after: int) -> dict[str, int]:
    """Ask until the server dies; kill it once `kill_after` answers are in. Sequence by decision id."""
    received: dict[str, int] = {}
    numbers = iter(range(first, first + 100_000))

    async def ask(client: httpx.AsyncClient) -> None:
        while True:
            try:
                response = await client.post("/decide", json=_body(next(numbers)))
            except httpx.TransportError:
                return
            assert response.status_code == 200, response.text
            answer = response.json()
            assert answer["effect"] == "allow"
            received[answer["decision_id"]] = answer["sequence"]
            if len(received) == kill_after:
                server.kill()

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, trust_env=False) as client:
        await asyncio.gather(*(ask(client) for _ in range(CLIENTS)))
    return received


def _allowed(client: httpx.Client) -> dict[str, int]:
    """Every allow in the log: sequence by decision id."""
    found: dict[str, int] = {}
    before: str | None = ""
    while before is not None:
        query = {"effect": "allow", "type": "decision.made", "limit": "500", "before": before}
        page = client.get("/decisions", params=query).json()
        found |= {entry["record"]["decision_id"]: entry["sequence"] for entry in page["records"]}
        before = page["next"]
    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_every_answer_that_was_received_is_in_the_log(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(8700)
    env: dict[str, str] = {}
    if kind == "postgres":
        env["AUTHZ_DATABASE_URL"] = request.getfixturevalue("postgres_url")
        monkeypatch.setenv("AUTHZ_DATABASE_URL", env["AUTHZ_DATABASE_URL"])  # for `authz log verify`
    server = RunningServer(bundle=write_bundle(tmp_path / "bundle"), data_dir=tmp_path / "var", env=env)
    received: dict[str, int] = {}
    for round_number in range(ROUNDS):
        server.start()
        received |= await _load(server, round_number * 100_000, chance.randrange(20, 400))
        assert main(["log", "verify", "--data-dir", str(server.data_dir)]) == 0
    server.start()
    try:
        with server.client() as client:
            assert received.items() <= _allowed(client).items()
            # What was given before the crash is not given again after it.
            repeated = client.post("/decide", json=_body(0)).json()
            assert repeated["repeated"] is True
    finally:
        server.stop()
    assert main(["log", "verify", "--data-dir", str(server.data_dir)]) == 0
    assert len(received) >= ROUNDS * 20
