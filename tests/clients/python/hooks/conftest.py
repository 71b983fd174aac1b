"""The sample bundle around a workspace that is really there, and a runtime with the README's settings."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.clients.python.guarding import Grace
from tests.clients.python.hooks.runtime import Runtime
from tests.support.server import RunningServer
from tests.support.world import tool, tool_file

SAMPLE: Final = Path(__file__).parents[4] / "policies"
AGENTS: Final = tool_file(
    "agents",
    tool(
        "start",
        [{"verb": "connect", "kind": "id", "type": "agent_kind", "at": "/kind"}],
        {"kind": {"type": "string", "maxLength": 100}, "task": {"type": "string", "maxLength": 10000}},
        roles={"/kind": "target", "/task": "payload"},
    ),
)
TRACKER: Final = tool_file(
    "issues",
    tool(
        "issue__close",
        [{"verb": "write", "kind": "id", "type": "issue", "at": "/id"}],
        {"id": {"type": "string", "maxLength": 100}},
    ),
)
RULES: Final = """\
@id("explorers") @reason("Looking around is delegated freely.")
permit (principal, action in Action::"agents/start", resource);
@id("issues") @reason("Issues are closed freely.")
permit (principal, action in Action::"issues/issue__close", resource);
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.path.realpath(tmp_path_factory.mktemp("home"))) / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("a = 1\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, workspace: Path) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("service")
    bundle = folder / "bundle"
    shutil.copytree(SAMPLE, bundle, ignore=shutil.ignore_patterns("tests"))
    for path in (*bundle.rglob("*.cedar"), *bundle.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("/workspace", str(workspace)), encoding="utf-8")
    (bundle / "tools" / "agents.yaml").write_text(AGENTS, encoding="utf-8")
    (bundle / "tools" / "issues.yaml").write_text(TRACKER, encoding="utf-8")
    (bundle / "rules" / "more.cedar").write_text(RULES, encoding="utf-8")
    with RunningServer(bundle=bundle, data_dir=folder / "var") as running:
        yield running


@pytest.fixture(scope="module")
def grace(server: RunningServer) -> Iterator[Grace]:
    person = Grace(server)
    yield person
    person.close()


@pytest.fixture
def runtime(tmp_path: Path, server: RunningServer, workspace: Path) -> Runtime:
    """With the settings of the README; a settings file says the rest."""
    made = Runtime(
        {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "AUTHZ_HOOK_KEY": server.key,
        }
    )
    # A loaded machine is slow, not broken.
    made.configure(url=server.url, sandbox_root=str(workspace), deadline_seconds=20, approval_seconds=0)
    return made
