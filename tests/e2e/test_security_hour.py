"""README's hour of a security engineer, run as it stands in one shell.

Only the port, the place of the environment and the folder that stands for the clone are others. What README
shows of the output must be there, line by line and in order; `…` stands for what differs from run to run.
"""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from tests.support.server import free_port
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SECTION: Final = "## A security engineer's hour\n"
BLOCK: Final = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
END: Final = "-- block ended with"
BLOCK_SECONDS: Final = 120
"""Each block waits for conditions; a loaded machine is slow, not broken."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


class Shell:
    """One bash for all blocks, so that what one of them sets is there for the next."""

    def __init__(self, clone: Path, port: int) -> None:
        self._clone = clone
        self._folder = clone.parent
        self._said = clone.parent / "said.txt"
        self._port = port
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
        for name in ("COLUMNS", "FORCE_COLOR"):
            clean.pop(name, None)
        with self._said.open("wb") as output:
            self._bash = subprocess.Popen(
                ["bash", "--noprofile", "--norc"],
                cwd=clone,
                env=clean | {"AUTHZ_PORT": str(port), "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own, so that nothing it started outlives a failed test.
                start_new_session=True,
            )

    def run(self, block: str) -> str:
        """What the block prints, standard error included. Fails when it does not end in time, or badly."""
        script = self._folder / "block.sh"
        script.write_text(block.replace("localhost:8700", f"localhost:{self._port}"), encoding="utf-8")
        begun = self._said.stat().st_size
        assert self._bash.stdin is not None
        # Sourced, so that no command of the block can read the next one from the shell's input.
        self._bash.stdin.write(f'. "{script}" < /dev/null; echo "{END} $?"\n'.encode())
        self._bash.stdin.flush()

        def ended() -> str:
            assert self._bash.poll() is None, self._since(begun)
            said = self._since(begun)
            return said if re.search(rf"^{END} \d+\n", said, re.MULTILINE) else ""

        try:
            said = wait_until(ended, seconds=BLOCK_SECONDS)
        except AssertionError:
            log = self._clone / "hour" / "serve.log"
            served = log.read_text(encoding="utf-8")[-4000:] if log.exists() else ""
            said = self._since(begun)
            raise AssertionError(f"{block}\ndid not end; it printed:\n{said}\n{served}") from None
        shown, _, code = said.rpartition(END)
        assert code.split() == ["0"], f"{block}\nended with{code}, after:\n{shown}"
        return shown

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()

    def _since(self, begun: int) -> str:
        return self._said.read_bytes()[begun:].decode("utf-8", errors="replace")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the commands need of a clone: the sample bundle and the environment."""
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copytree(ROOT / "policies", folder / "policies")
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    return folder


def steps() -> Iterator[tuple[str, list[str]]]:
    """Each block of commands with the lines that README shows after it, if any."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, found, rest = readme.partition(SECTION)
    assert found
    blocks = BLOCK.findall(rest.partition("\n## ")[0])
    for (kind, text), (next_kind, shown) in itertools.pairwise([*blocks, ("", "")]):
        if kind == "sh":
            yield text, shown.splitlines() if next_kind == "text" else []


def missing(shown: list[str], said: str) -> str | None:
    """The first line of README that the output does not have after the one before it."""
    lines = iter([line.rstrip() for line in said.splitlines()])
    for expected in shown:
        pattern = re.compile(".*".join(re.escape(part) for part in expected.rstrip().split("…")))
        if not any(pattern.fullmatch(line) for line in lines):
            return expected
    return None


def test_a_missing_line_is_noticed() -> None:
    assert missing(["a …", "c"], "a 1  \nb\nc\n") is None
    assert missing(["c", "a …"], "a 1\nb\nc\n") == "a …"
    assert missing(["a"], "a 1\n") == "a"


def test_the_hour_goes_as_readme_shows_it(clone: Path) -> None:
    blocks = list(steps())
    assert len(blocks) > 6
    assert sum(bool(shown) for _, shown in blocks) >= 6
    with Shell(clone, free_port()) as shell:
        for block, shown in blocks:
            said = shell.run(block)
            assert missing(shown, said) is None, f"{block}\nprinted:\n{said}"
    answers = (clone / "hour" / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    # Nothing but decisions, whatever happened to the bundle meanwhile.
    assert answers
    assert all(line.startswith('{"decision_id":"') for line in answers)
    assert "notes-stay-inside" in (clone / "hour" / "case.yaml").read_text(encoding="utf-8")
