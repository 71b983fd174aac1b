"""Accounts by the command line, beside a service that runs, and what is left of a dev run in another one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import httpx
import pytest

from authz.cli.people_orders import DEV_LINK_MS, new_link
from authz.model.account_writes import OrderKind, PersonOrder
from authz.service.people import digest_secret
from authz.store.person_orders import find_outcome, leave_order
from tests.support.server import RunningServer, free_port
from tests.support.signing_in import command_line_code

ROOT: Final = Path(__file__).resolve().parents[2]
POLLS: Final = 600


def authz(folder: Path, *words: str, port: int = 8700) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
    environment |= {
        "AUTHZ_DATA_DIR": str(folder / "data"),
        "AUTHZ_PORT": str(port),
        "AUTHZ_SESSION_FILE": str(folder / "session.json"),
    }
    return subprocess.run(
        [sys.executable, "-m", "authz", *words], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def server(tmp_path: Path) -> RunningServer:
    return RunningServer(bundle=ROOT / "policies", data_dir=tmp_path / "data")


def people(folder: Path) -> dict[str, dict[str, object]]:
    listed = authz(folder, "people", "list", "--json").stdout.splitlines()
    return {each["person"]: each for each in map(json.loads, listed)}


def test_an_operator_invites_disables_and_enables(server: RunningServer, tmp_path: Path) -> None:
    with server:
        done = authz(tmp_path, "people", "invite", "heidi", "--role", "approve", port=server.port)
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(
            rf"http://localhost:{server.port}/ui/sign-in/link\?token=azl_\S{{43}}\n", done.stdout
        )
        for words, state in ((("disable", "heidi"), True), (("enable", "heidi"), False)):
            assert authz(tmp_path, "people", *words).returncode == 0
            assert (people(tmp_path)["heidi"]["disabled_at"] is not None) == state
        nobody = authz(tmp_path, "people", "invite", "nobody", "--role", "approve")
        assert nobody.returncode == 2
        assert "no user of that id" in nobody.stderr
        assert nobody.stdout == ""
        with server.client() as client:
            found = client.get("/decisions", params={"type": "account.changed", "limit": "50"}).json()
        changes = [entry["record"]["change"] for entry in reversed(found["records"])]
        assert changes == ["dev_account", "invited", "disabled", "enabled", "order_refused"]


def test_a_session_of_the_command_line_comes_and_goes(server: RunningServer, tmp_path: Path) -> None:
    with server:
        url = f"http://localhost:{server.port}"
        done = authz(tmp_path, "sign-in", "--url", url, "--code", command_line_code(server))
        assert done.returncode == 0, done.stderr
        assert "signed in as grace" in done.stderr
        token = json.loads((tmp_path / "session.json").read_text())["token"]
        assert token not in done.stderr + done.stdout
        again = authz(tmp_path, "sign-in", "--url", url, "--code", "azc_nothing")
        assert again.returncode == 2
        assert "this code is not good" in again.stderr
        assert authz(tmp_path, "sign-out").returncode == 0
        assert not (tmp_path / "session.json").exists()
        asked = httpx.get(f"{url}/approvals", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        assert asked.status_code == 401


def test_a_code_goes_over_no_network_in_the_clear(tmp_path: Path) -> None:
    done = authz(tmp_path, "sign-in", "--url", "http://authz.example.test", "--code", "azc_x")
    assert done.returncode == 2
    assert "must be `https`" in done.stderr


def test_what_a_dev_run_let_in_is_void_in_another_run(server: RunningServer, tmp_path: Path) -> None:
    with server:
        link = re.findall(r"http://\S+token=(\S+)", server.printed())[-1]
        with httpx.Client(base_url=f"http://localhost:{server.port}", trust_env=False) as browser:
            fresh = authz(tmp_path, "people", "sign-in-link", "grace", port=server.port).stdout.strip()
            page = browser.get(fresh).text
            csrf = re.search(r'name="csrf_token" value="([^"]+)"', page)
            assert csrf is not None
            fields = {"csrf_token": csrf[1], "token": fresh.partition("token=")[2]}
            assert browser.post("/ui/sign-in/link", data=fields).status_code == 303
            assert browser.get("/ui/account").status_code == 200
            cookie = {"cookie": f"authz-session={browser.cookies['authz-session']}"}
    assert people(tmp_path)["grace"]["roles"] == ["approve", "audit"]
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
    environment |= {"AUTHZ_PORT": str(port), "AUTHZ_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "authz", "serve", "--policies", str(ROOT / "policies")]
    url = f"http://localhost:{port}"
    with (tmp_path / "log").open("wb") as output:
        service = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            _wait_until_ready(url, service)
            assert people(tmp_path)["grace"]["roles"] == []
            assert httpx.get(f"{url}/ui/account", headers=cookie, trust_env=False).status_code == 303
            used = httpx.get(f"{url}/ui/sign-in/link", params={"token": link}, trust_env=False)
            assert used.status_code == 401
            refused = authz(tmp_path, "people", "sign-in-link", "grace")
            assert refused.returncode == 2
            assert "`--dev` alone" in refused.stderr
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(20)


def test_an_order_without_a_service_is_carried_out_by_the_next(server: RunningServer, tmp_path: Path) -> None:
    with server:
        pass
    now_ms, token = time.time_ns() // 1_000_000, new_link()
    order = PersonOrder(
        order_id="o-1",
        tenant="default",
        kind=OrderKind.INVITE,
        person="heidi",
        display_name="Heidi",
        roles=frozenset({"approve"}),
        link_digest=digest_secret(token),
        link_expires_at_ms=now_ms + DEV_LINK_MS,
        at_ms=now_ms,
    )
    leave_order(tmp_path / "data" / "authz.db", order)
    assert "heidi" not in people(tmp_path)
    with server:
        for _ in range(POLLS):
            if find_outcome(tmp_path / "data" / "authz.db", "o-1"):
                break
            time.sleep(0.05)
        assert people(tmp_path)["heidi"]["display_name"] == "Heidi"


def _wait_until_ready(url: str, service: "subprocess.Popen[bytes]") -> None:
    for _ in range(POLLS):
        assert service.poll() is None
        try:
            if httpx.get(f"{url}/readyz", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("the service was not ready")
