"""Behind a reverse proxy: whose try to sign in it was, by whom the proxy says it was for."""

from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.support.bundles import write_bundle
from tests.support.server import RunningServer

MOST_TRIES = 2000


def _tries(server: RunningServer, forwarded: Iterator[str]) -> Iterator[int]:
    """Statuses of tries with links that there are not, each of its own: a single one is limited, too."""
    with httpx.Client(base_url=f"http://localhost:{server.port}", timeout=30, trust_env=False) as client:
        for number, told in zip(range(MOST_TRIES), forwarded, strict=False):
            path = f"/ui/sign-in/link?token=azl_{number}"
            yield client.get(path, headers={"x-forwarded-for": told}).status_code


def test_one_stranger_uses_up_no_tries_but_its_own(tmp_path: Path) -> None:
    env = {"AUTHZ_TRUSTED_PROXIES": "127.0.0.1,::1"}
    bundle = write_bundle(tmp_path / "bundle")
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var", env=env) as server:
        # What the client itself claims stands before what the proxy adds.
        stranger = (f"198.51.100.{number % 250}, 203.0.113.9" for number in range(MOST_TRIES))
        assert 429 in _tries(server, stranger)
        assert next(_tries(server, iter(["198.51.100.7"]))) == 401


def test_nobody_is_believed_unless_it_is_configured(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    with RunningServer(bundle=bundle, data_dir=tmp_path / "var") as server:
        assert 429 in _tries(server, (f"203.0.113.{number % 250}" for number in range(MOST_TRIES)))
