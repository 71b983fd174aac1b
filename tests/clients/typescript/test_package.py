"""The package as it is given away: README runs, the types are of these sources, and it needs nothing."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.python.guarding import serve
from tests.clients.typescript.noding import PACKAGE, run_script
from tests.support.server import RunningServer

README = (PACKAGE / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```js\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
MANIFEST: dict[str, Any] = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("service")) as running:
        yield running


def example(number: int, folder: Path, server: RunningServer) -> list[str]:
    """What the example prints, line by line."""
    code = BLOCKS[number].replace("http://localhost:8700", server.url)
    return run_script(code, folder=folder, env={"AGENT_KEY": server.key}).splitlines()


def test_asking(server: RunningServer, tmp_path: Path) -> None:
    assert example(0, tmp_path, server) == ["run it with /workspace/app.py"]


def test_asking_nobody(server: RunningServer, tmp_path: Path) -> None:
    code = BLOCKS[0].replace("http://localhost:8700", "http://127.0.0.1:49151")
    assert run_script(code, folder=tmp_path, env={"AGENT_KEY": "k"}).startswith("do not run it: the service")


def test_guarding(server: RunningServer, tmp_path: Path) -> None:
    first, second = example(1, tmp_path, server)
    assert first == "1 sent m-5 to ada@example.com"
    assert second.startswith(
        "2 AlreadyDone `bank/mail_send` was called before (`succeeded`, came of it: `m-5`)"
    )


def test_capabilities(server: RunningServer, tmp_path: Path) -> None:
    assert example(2, tmp_path, server) == ["[ 'main', 'sub-1' ] for ada may [ 'read' ]", "3"]


def test_every_example_is_run() -> None:
    assert len(BLOCKS) == 3


def test_the_types_are_made_from_these_sources() -> None:
    """By a digest, so that Node and TypeScript are not needed to tell."""
    digest = hashlib.sha256()
    for path in sorted(
        (PACKAGE / "src").rglob("*.js"), key=lambda path: path.relative_to(PACKAGE).as_posix()
    ):
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}\n".encode() + path.read_bytes())
    stamp = (PACKAGE / "types" / "SOURCES.sha256").read_text(encoding="ascii").strip()
    assert stamp == digest.hexdigest(), "run `npm ci && npm run types` in clients/typescript"


def test_it_needs_nothing_at_run_time() -> None:
    assert not MANIFEST.keys() & {
        "dependencies",
        "peerDependencies",
        "optionalDependencies",
        "bundleDependencies",
    }
    assert MANIFEST["sideEffects"] is False
    for path in (PACKAGE / "src").rglob("*.js"):
        imported = re.findall(
            r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""", path.read_text(encoding="utf-8")
        )
        assert all(name.startswith(("./", "../")) for name in imported if "import(" not in name), path


def test_what_it_exports_is_there() -> None:
    for target in MANIFEST["exports"].values():
        for name in target.values() if isinstance(target, dict) else [target]:
            assert (PACKAGE / name).is_file(), name


def test_the_lock_names_no_registry() -> None:
    lock = (PACKAGE / "package-lock.json").read_text(encoding="utf-8")
    packages = {name: found for name, found in json.loads(lock)["packages"].items() if name}
    assert '"resolved"' not in lock
    assert packages
    assert all(found["integrity"].startswith("sha512-") for found in packages.values())
