"""The examples of the client's README, run as they stand; only the address and the folder are others."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from authz_client import Client
from authz_client.capabilities import generate_key, write_key

from tests.clients.python.fetching import READING_TOOLS
from tests.clients.python.webs import serving
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.support.world import CREDENTIALS, PINNED

POLICIES = Path(__file__).parents[3] / "policies"
README = Path(__file__).parents[3] / "clients" / "python" / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machine").resolve() / "workspace"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "today.md").write_text("what is to be done\n")
    return folder


@pytest.fixture(scope="module")
def server(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    bundle = write_bundle(
        tmp_path_factory.mktemp("bundle"),
        credentials=CREDENTIALS.replace("/workspace", str(workspace)),
        tools=READING_TOOLS,
    )
    with RunningServer(bundle=bundle, data_dir=tmp_path_factory.mktemp("data") / "var") as server:
        yield server


def run(block: str, server: RunningServer, workspace: Path, **names: object) -> tuple[str, dict[str, object]]:
    code = block.replace("http://localhost:8700", server.url).replace('"/workspace', f'"{workspace}')
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), names)
    return printed.getvalue(), names


def test_the_settings_of_claude_code_are_those_that_are_tested() -> None:
    (shown,) = re.findall(
        r"^```json\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    tested = Path(__file__).parent / "hooks" / "settings.json"
    assert shown == tested.read_text(encoding="utf-8")


def test_asking(server: RunningServer, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", server.key)
    # The bundle of the tests has another schema for `file_edit` than the shipped one: a clear deny.
    assert "deny schema" in run(BLOCKS[0], server, workspace)[0]


def test_guarding(sample: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", sample.key)
    first, second = at_sample(BLOCKS[1], sample).splitlines()
    assert first == "18 characters to /workspace/plan.md"
    assert second.startswith("`fs/file_write` was called before (`succeeded`")


def test_an_endpoint(sample: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-4"},
        "tool": {"server": "fs", "name": "file_read"},
        "arguments": {"path": "/workspace/docs/plan.md"},
        "provenance": {"/path": {"source": "user"}},
        "context": {"trace_id": "t-4", "turn_id": "1", "tool_call_id": "c", "cwd": "/workspace"},
        "ticket": True,
    }
    with Client(sample.url, api_key=sample.key, deadline_seconds=30) as client:
        decision = client.decide(body)
    call = {
        name: getattr(decision, name) for name in ("ticket", "fingerprint", "arguments", "idempotency_key")
    }
    with sample.client() as service:
        known = {
            "jwks": service.get("/.well-known/jwks.json").json(),
            "revocations": service.get("/revocations").json(),
        }
    said = at_sample(BLOCKS[2], sample, **call, **known)
    assert said == "{'read': '/workspace/docs/plan.md'}\n" * 2
    other = {**call, "arguments": {"path": "/etc/passwd"}}
    assert at_sample(BLOCKS[2], sample, **other, **known) == "endpoint.ticket\n" * 2


def test_opening(server: RunningServer, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", server.key)
    assert run(BLOCKS[3], server, workspace)[0] == "what is to be done\n\n"


def test_fetching(server: RunningServer, workspace: Path) -> None:
    with (
        serving(lambda _: (200, {}, b"page")) as web,
        Client(server.url, api_key=server.key, deadline_seconds=30) as client,
    ):
        request = {
            "subject": {"agent": "coder-1"},
            "tool": {"server": "web", "name": "fetch", "advertised_digest": PINNED},
            "arguments": {"url": f"http://127.0.0.1:{web.port}/"},
        }
        _, names = run(BLOCKS[4], server, workspace, request=request, client=client)
    assert getattr(names["page"], "body", None) == b"page"


def test_capabilities_offline(server: RunningServer, workspace: Path) -> None:
    printed, names = run(BLOCKS[5], server, workspace)
    assert printed == "('ada', 'sub-1') may ['read']\n"
    assert isinstance(names["chain"], tuple)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The sample bundle, whose rules say who may be given what."""
    with RunningServer(bundle=POLICIES, data_dir=tmp_path_factory.mktemp("sample") / "var") as running:
        yield running


def at_sample(block: str, sample: RunningServer, **names: object) -> str:
    """Run a block against the sample bundle, under the name that its tokens say."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = block.replace("localhost:8700", f"localhost:{sample.port}").replace("=2)", "=30)")
        exec(compile(code, str(README), "exec"), names)
    return printed.getvalue()


def test_asking_with_a_capability(
    sample: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_KEY", sample.key)
    key = generate_key()
    write_key(tmp_path / "main.json", key)
    entry = {"type": "agent_tool_call", "actions": ["fs/file_read"], "locations": ["file:///workspace"]}
    with sample.client() as client:
        given = client.post(
            "/capabilities",
            json={
                "agent": "coder-1",
                "on_behalf_of": "ada",
                "holder": key.public.jwk,
                "authorization_details": [entry],
            },
        ).json()
    assert at_sample(BLOCKS[6], sample, capability=given["capability"]).startswith("allow policy.permit")
    monkeypatch.setattr("authz_client.capabilities.read_key", lambda _: generate_key())
    assert "capability.proof" in at_sample(BLOCKS[6], sample, capability=given["capability"])


def test_a_ticket_at_the_endpoint(sample: RunningServer) -> None:
    body = {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-3"},
        "tool": {"server": "fs", "name": "file_read"},
        "arguments": {"path": "/workspace/docs/plan.md"},
        "provenance": {"/path": {"source": "user"}},
        "context": {"trace_id": "t-3", "turn_id": "1", "tool_call_id": "c", "cwd": "/workspace"},
        "ticket": True,
    }
    with Client(sample.url, api_key=sample.key, deadline_seconds=30) as client:
        decision = client.decide(body)
    assert decision.allowed, decision
    assert decision.ticket is not None
    assert decision.ticket not in repr(decision)
    call = {name: getattr(decision, name) for name in ("ticket", "fingerprint", "arguments")}
    assert at_sample(BLOCKS[7], sample, **call) == "run fs/file_read for coder-1\n"
    other = {**call, "arguments": {"path": "/etc/passwd"}}
    assert at_sample(BLOCKS[7], sample, **other).startswith("do not run it: arguments_mismatch")


def test_every_example_is_run() -> None:
    assert len(BLOCKS) == 8
