"""Revocation across real processes: two on one PostgreSQL, and one that starts again over its own file."""

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from authz_client.capabilities import SigningKey, generate_key, narrow, new_jti, prove, request_digest

from tests.support.bundles import write_bundle
from tests.support.chains import entry
from tests.support.server import RunningServer
from tests.support.waiting import wait_until

PUBLIC: Final = "https://authz.example.com"
READ: Final = entry(["fs/file_read"], ["file:///workspace"])
BOUND_SECONDS: Final = 2.0
"""`revocation_max_staleness_seconds` as shipped."""


@pytest.fixture
def servers(tmp_path: Path, postgres_url: str) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two processes with folders of their own on one database, with the same keys and the same name."""
    bundle = write_bundle(tmp_path / "bundle")
    env = {"AUTHZ_DATABASE_URL": postgres_url, "AUTHZ_PUBLIC_URL": PUBLIC}
    one, other = (
        RunningServer(bundle=bundle, data_dir=tmp_path / name, env=env) for name in ("one", "other")
    )
    with one:
        other.data_dir.mkdir(mode=0o700)
        shutil.copy2(one.data_dir / "keys.json", other.data_dir / "keys.json")
        other.key = one.key
        with other:
            yield one, other


def issue(client: httpx.Client) -> tuple[SigningKey, dict[str, Any]]:
    key = generate_key()
    body = {
        "agent": "coder-1",
        "on_behalf_of": "ada",
        "holder": key.public.jwk,
        "authorization_details": [READ],
        "max_depth": 3,
    }
    response = client.post("/capabilities", json=body)
    assert response.status_code == 201, response.text
    return key, response.json()


def child_of(chain: list[str], key: SigningKey, agent: str) -> tuple[SigningKey, list[str]]:
    own = generate_key()
    made = narrow(chain, key, holder=own.public, agent=agent, jti=new_jti(), iat=int(time.time()))
    return own, list(made)


def call(client: httpx.Client, chain: list[str], key: SigningKey, agent: str) -> str:
    body = {
        "subject": {"agent": agent, "on_behalf_of": "ada", "session": f"s-{agent}"},
        "tool": {"server": "fs", "name": "file_read"},
        "arguments": {"path": "/workspace/a"},
        "context": {"trace_id": "t", "turn_id": "1", "tool_call_id": new_jti(), "cwd": "/workspace"},
    }
    proof = prove(
        chain[-1],
        key,
        audience=f"{PUBLIC}/decide",
        request_digest=request_digest(body),
        jti=new_jti(),
        iat=int(time.time()),
    )
    answer = client.post("/decide", json={**body, "capability": chain, "proof": proof})
    told: Mapping[str, Any] = answer.json()
    if answer.status_code == 503:
        return str(told["code"])
    assert answer.status_code == 200, answer.text
    return str(told["effect"] if told["effect"] == "allow" else told["code"])


def test_a_revocation_reaches_the_other_process(
    servers: tuple[RunningServer, RunningServer],
) -> None:
    with servers[0].client() as one, servers[1].client() as other:
        key, root = issue(one)
        chain = root["capability"]
        own, made = child_of(chain, key, "sub-1")
        for client in (one, other):
            assert call(client, chain, key, "coder-1") == "allow"
            assert call(client, made, own, "sub-1") == "allow"
        body = {"link": root["link"], "reason": "done"}
        assert one.post("/capabilities/revoke", json=body).status_code == 200
        # At once on the node that took it, for everything beneath.
        assert call(one, chain, key, "coder-1") == "capability.revoked"
        assert call(one, made, own, "sub-1") == "capability.revoked"
        wait_until(lambda: call(other, made, own, "sub-1") == "capability.revoked", seconds=30)
        assert call(other, chain, key, "coder-1") == "capability.revoked"
        listed = other.get("/revocations").json()
        assert listed["links"] == [root["link"]]


def test_no_call_is_allowed_after_the_bound(servers: tuple[RunningServer, RunningServer]) -> None:
    """By the clock of whoever asks: a call that is sent later than the bound is never allowed."""
    with servers[0].client() as one, servers[1].client() as other:
        for _ in range(3):
            key, root = issue(one)
            chain = root["capability"]
            assert call(other, chain, key, "coder-1") == "allow"
            body = {"holder": key.public.thumbprint, "reason": "lost"}
            assert one.post("/capabilities/revoke", json=body).status_code == 200
            revoked_s = time.monotonic()
            while True:
                sent_s = time.monotonic()
                answer = call(other, chain, key, "coder-1")
                if answer == "allow":
                    assert sent_s - revoked_s <= BOUND_SECONDS
                # Decided before the revocation was known here, and not told any more.
                elif answer != "capability.revoked_meanwhile":
                    assert answer == "capability.revoked"
                    break


def test_a_restart_forgets_no_revocation(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    server = RunningServer(bundle=bundle, data_dir=tmp_path / "data", env={"AUTHZ_PUBLIC_URL": PUBLIC})
    with server, server.client() as client:
        key, root = issue(client)
        kept_key, kept = issue(client)
        own, made = child_of(root["capability"], key, "sub-1")
        assert call(client, made, own, "sub-1") == "allow"
        body = {"jti": root["jti"], "reason": "done"}
        assert client.post("/capabilities/revoke", json=body).status_code == 200
        server.kill()
        server.start()
        with server.client() as again:
            assert call(again, root["capability"], key, "coder-1") == "capability.revoked"
            assert call(again, made, own, "sub-1") == "capability.revoked"
            assert call(again, kept["capability"], kept_key, "coder-1") == "allow"
            assert again.get("/revocations").json()["links"] == [root["link"]]
