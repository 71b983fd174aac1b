"""README's commands, run as they stand against the service as README starts it."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RunningServer

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
IN_ONE_SHELL = re.compile(
    r"^## (?:A person says yes|A security engineer's hour|Handing work to a subagent)\n.*?(?=^## )",
    re.DOTALL | re.MULTILINE,
)
BLOCKS = BLOCK.findall(IN_ONE_SHELL.sub("", README))
"""All but those of the sections that have a test of their own, each in one shell."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The sample bundle, as `make run` serves it."""
    data_dir = tmp_path_factory.mktemp("readme") / "var"
    with RunningServer(bundle=ROOT / "policies", data_dir=data_dir) as running:
        yield running


def run(command: str, server: RunningServer) -> str:
    """Run one of README's commands; only the port and the place of the environment are another."""
    command = command.replace("localhost:8700", f"localhost:{server.port}")
    command = command.replace(".venv/bin/authz", f"{sys.executable} -m authz")
    ended = subprocess.run(
        ["bash", "-euc", command],
        env=os.environ | {"AUTHZ_DEV_KEY": server.key, "AUTHZ_DATA_DIR": str(server.data_dir)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def is_part_of(shown: Any, answer: Any) -> bool:
    """True when everything that README shows is in the answer, in the same place and order."""
    if isinstance(shown, dict):
        return isinstance(answer, dict) and all(
            name in answer and is_part_of(value, answer[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        return (
            isinstance(answer, list)
            and len(shown) == len(answer)
            and all(is_part_of(left, right) for left, right in zip(shown, answer, strict=True))
        )
    return bool(shown == answer)


def pairs() -> list[tuple[str, Any]]:
    """Each command with the answer that README shows right after it."""
    return [
        (command, json.loads(answer))
        for (kind, command), (next_kind, answer) in itertools.pairwise(BLOCKS)
        if kind == "sh" and next_kind == "json"
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_answer_that_readme_shows_is_the_answer(server: RunningServer) -> None:
    shown = pairs()
    assert {answer["effect"] for _, answer in shown} == {"allow", "deny", "require_approval"}
    for command, answer in shown:
        given = json.loads(run(command, server))
        assert is_part_of(answer, given), json.dumps(given, indent=1)
        assert all(rule["rule"] for rule in given["matched"])


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_other_command_runs(server: RunningServer) -> None:
    answered = {command for command, _ in pairs()}
    others = [text for kind, text in BLOCKS if kind == "sh" and text not in answered]
    assert others
    printed = "".join(run(command, server) for command in others)
    assert '"records"' in printed
    assert "http://127.0.0.1/admin" in printed


def test_the_files_that_readme_names_exist() -> None:
    table = README.partition("## Where things are")[2]
    for names in re.findall(r"^\|[^|]+\|([^|]+)\|$", table, re.MULTILINE):
        folder = Path()
        for name in re.findall(r"`([^`]+)`", names):
            folder = Path(name).parent if "/" in name else folder
            place = Path(name) if "/" in name else folder / name
            assert list(ROOT.glob(str(place).rstrip("/"))), name
    commands = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert commands == {"run", "test"}
