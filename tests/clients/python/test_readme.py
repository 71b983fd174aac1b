"""The examples of the client's README, run as they stand; only the address and the folder are others."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from authz_client import Client

from tests.clients.python.fetching import READING_TOOLS
from tests.clients.python.webs import serving
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.support.world import CREDENTIALS, PINNED

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


def test_asking(server: RunningServer, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", server.key)
    # The bundle of the tests has another schema for `file_edit` than the shipped one: a clear deny.
    assert "deny schema" in run(BLOCKS[0], server, workspace)[0]


def test_opening(server: RunningServer, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", server.key)
    assert run(BLOCKS[1], server, workspace)[0] == "what is to be done\n\n"


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
        _, names = run(BLOCKS[2], server, workspace, request=request, client=client)
    assert getattr(names["page"], "body", None) == b"page"


def test_every_example_is_run() -> None:
    assert len(BLOCKS) == 3
