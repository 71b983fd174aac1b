"""Signing keys beside a running service: it notices what an operator does, and its log stays whole."""

import os
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.support.waiting import wait_until


def authz(*arguments: str) -> str:
    """What a command prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
    done = subprocess.run(
        [sys.executable, "-m", "authz", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kids_of(server: RunningServer) -> list[str]:
    """The keys that it publishes."""
    response = httpx.get(f"{server.url}/.well-known/jwks.json", trust_env=False)
    assert response.headers["cache-control"] == "public, max-age=150"
    return [key["kid"] for key in response.json()["keys"]]


def test_a_running_service_publishes_and_drops_keys(tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path / "var"))
    server = RunningServer(bundle=write_bundle(tmp_path / "bundle"), data_dir=tmp_path / "var")
    with server:
        (first,) = kids_of(server)
        authz("signing-keys", "rotate", *where)
        second = wait_until(lambda: [kid for kid in kids_of(server) if kid != first])[0]
        authz("signing-keys", "withdraw", first, *where)
        wait_until(lambda: kids_of(server) == [second])
    # A record later there is a checkpoint by the key that took over, and it covers those before it.
    with server:
        assert kids_of(server) == [second]
    authz("log", "verify", *where)
    assert "signing keys were read again" in server.output.read_text()
    assert '"d":' not in server.output.read_text()
