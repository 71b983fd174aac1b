"""`authz serve` as a process: what it prints, where it listens, and when it refuses to start."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from authz.app import running
from authz.config import Config
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.support.waiting import wait_until

REQUEST = {
    "subject": {"agent": "coder-1"},
    "tool": {"server": "fs", "name": "file_read"},
    "arguments": {"path": "/workspace/a"},
}


def _serve(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path
) -> "subprocess.CompletedProcess[str]":
    """Run `authz serve` where it is expected to end by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
    return subprocess.run(
        [sys.executable, "-m", "authz", "serve", *arguments],
        env=environment | (env or {}),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_dev_key_is_made_and_printed_once(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    # An empty variable is none: the service makes a key of its own.
    server = RunningServer(bundle=bundle, data_dir=tmp_path / "var", env={"AUTHZ_DEV_KEY": ""})
    keys = []
    for _ in range(2):
        with server:
            printed = server.printed()
            keys.append(re.findall(r"azk_[A-Za-z0-9_-]{43}", printed)[-1])
            for key, status in ((keys[-1], 200), (keys[0], 200 if len(keys) == 1 else 401)):
                headers = {"Authorization": f"Bearer {key}"}
                response = httpx.post(f"{server.url}/decide", json=REQUEST, headers=headers, trust_env=False)
                assert response.status_code == status
    assert keys[0] != keys[1]
    everything = server.output.read_text()
    assert [everything.count(key) for key in keys] == [1, 1]
    for path in (tmp_path / "var").iterdir():
        content = path.read_bytes()
        assert all(key.encode() not in content for key in keys), path


def test_it_listens_on_loopback_only_under_both_names(tmp_path: Path) -> None:
    with RunningServer(bundle=write_bundle(tmp_path / "bundle"), data_dir=tmp_path / "var") as server:
        for host in ("127.0.0.1", "localhost"):
            answer = httpx.post(
                f"http://{host}:{server.port}/decide", json=REQUEST, headers=server.headers, trust_env=False
            )
            assert answer.json()["effect"] == "allow"
        for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}:
            if not str(address).startswith("127.") and ":" not in str(address):
                with socket.socket() as probe:
                    assert probe.connect_ex((address, server.port)) != 0


def test_the_dev_key_never_approves(tmp_path: Path) -> None:
    with RunningServer(bundle=write_bundle(tmp_path / "bundle"), data_dir=tmp_path / "var") as server:
        assert server.port
    listed = subprocess.run(
        [sys.executable, "-m", "authz", "keys", "list", "--data-dir", str(tmp_path / "var")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "decide" in listed
    assert "approve" not in listed
    assert server.key not in listed


def test_a_bad_bundle_at_start_refuses_to_start(tmp_path: Path) -> None:
    bundle = write_bundle(
        tmp_path / "bundle",
        rules='@id("a") permit (principal, action, resource)\nwhen { context.sandboxd };\n',
    )
    ended = _serve("--dev", "--policies", str(bundle), "--data-dir", "var", cwd=tmp_path)
    assert ended.returncode == 2
    assert "rules/main.cedar:1" in ended.stderr
    assert "sandboxd" in ended.stderr
    assert not (tmp_path / "var").exists(), "a service that does not start leaves nothing behind"


@pytest.mark.parametrize(
    ("env", "arguments", "said"),
    [
        ({"AUTHZ_PROT": "1"}, (), "`AUTHZ_PROT` is no setting"),
        ({"AUTHZ_PORT": "http"}, (), "the setting `port`"),
        ({"AUTHZ_DEV_KEY": "too-short"}, (), "32 or more"),
        ({"AUTHZ_CONFIG": "absent.toml"}, (), "cannot be read"),
        ({}, ("--host", "0.0.0.0"), "loopback only"),
        ({}, ("--policies", "nowhere"), "there is no such folder"),
    ],
)
def test_a_faulty_configuration_is_named(
    tmp_path: Path, env: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    ended = _serve("--dev", *arguments, env=env, cwd=tmp_path)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "too-short" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_two_services_do_not_share_one_database(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
        places = ("--policies", str(bundle), "--data-dir", str(tmp_path / "var"))
        ended = _serve("--dev", *places, "--port", str(free), cwd=tmp_path)
    assert ended.returncode == 2
    assert "another process" in ended.stderr


def test_a_taken_port_is_said_plainly(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = _serve("--dev", "--policies", str(bundle), "--port", str(port), cwd=tmp_path)
    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in ended.stderr
    assert not (tmp_path / "var").exists(), "a service that does not start leaves nothing behind"


@pytest.mark.parametrize("place", ["a-file", "/proc/authz"])
def test_a_data_directory_that_cannot_be_is_said_plainly(tmp_path: Path, place: str) -> None:
    (tmp_path / "a-file").write_text("")
    bundle = write_bundle(tmp_path / "bundle")
    ended = _serve("--dev", "--policies", str(bundle), "--data-dir", place, cwd=tmp_path)
    assert ended.returncode == 2
    assert f"the data directory `{place}` cannot be made" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_dev_says_that_it_does_not_listen_where_it_was_told(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    server = RunningServer(bundle=bundle, data_dir=tmp_path / "var", env={"AUTHZ_HOST": "0.0.0.0"})
    with server:
        assert "loopback only, so the configured host is not used" in server.printed()


async def test_a_start_without_dev_ends_the_dev_keys_of_earlier_runs(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var") as server:
        pass
    config = Config(policies=bundle, data_dir=tmp_path / "var")
    async with running(config) as application:
        transport = httpx.ASGITransport(app=application)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://authz.test") as client:
            assert (await client.post("/decide", json=REQUEST, headers=server.headers)).status_code == 401
        keys = await application.api.state.services.ledger.list_api_keys()
        assert [(key.dev, key.revoked_at_ms is not None) for key in keys] == [(True, True)]


def test_its_own_places_are_out_of_reach_and_its_log_is_json(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var") as server, server.client() as client:
        for path in (bundle / "rules" / "main.cedar", bundle / "new.yaml", tmp_path / "var" / "keys.json"):
            request = REQUEST | {"arguments": {"path": str(path)}}
            answer = client.post("/decide", json=request).json()
            assert answer["effect"] == "deny"
            assert [rule["rule"] for rule in answer["matched"]] == ["authz.self-protection"]
        for host in ("127.0.0.1", "localhost", "127.9.9.9", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]"):
            request = {
                "subject": {"agent": "coder-1"},
                "tool": {"server": "web", "name": "fetch", "advertised_digest": "sha256:" + "a" * 64},
                "arguments": {"url": f"http://{host}:{server.port}/decide"},
            }
            answer = client.post("/decide", json=request).json()
            assert [rule["rule"] for rule in answer["matched"]] == ["authz.self-protection"], host
        server.signal(signal.SIGTERM)
        assert server.stop() == 0
    said = [json.loads(line) for line in server.output.read_text().splitlines() if line.startswith("{")]
    # The log was drained and its head said, for whoever anchors it outside.
    assert any("head" in line for line in said)
    assert server.key not in server.output.read_text()


def test_a_hangup_while_it_starts_does_not_end_it(tmp_path: Path) -> None:
    """As from a deploy that reloads at once: who asks too early gets a reload, and not a dead service."""
    server = RunningServer(
        bundle=write_bundle(tmp_path / "bundle"), data_dir=tmp_path / "var", arguments=("--no-watch",)
    )
    over = threading.Event()

    def hang_up() -> None:
        # Its keys are made once the bundle is loaded, and long before it serves.
        while not over.wait(0.001):
            if (tmp_path / "var/keys.json").exists():
                server.signal(signal.SIGHUP)
                return

    sender = threading.Thread(target=hang_up)
    sender.start()
    try:
        with server, server.client() as client:
            sender.join()

            def reloaded() -> bool:
                attempt = client.get("/policies").json()["last_attempt"]
                return attempt is not None and (attempt["trigger"], attempt["outcome"]) == (
                    "signal",
                    "unchanged",
                )

            wait_until(reloaded)
    finally:
        over.set()
        sender.join()
