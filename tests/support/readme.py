"""README's sections whose commands belong together: run in one shell, and held against what README shows.

    for block, shown in steps("A security engineer's hour"):
        assert missing(shown, shell.run(block)) is None

What README shows must be printed, line by line and in order; `…` stands for what differs from run to run.
"""

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.waiting import wait_until

README: Final = Path(__file__).resolve().parents[2] / "README.md"
BLOCK: Final = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
END: Final = "-- block ended with"
BLOCK_SECONDS: Final = 120
"""Each block waits for conditions; a loaded machine is slow, not broken."""


class Shell:
    """One bash for all blocks, so that what one of them sets is there for the next."""

    def __init__(self, clone: Path, port: int, *, log: Path, env: Mapping[str, str] | None = None) -> None:
        """`log` is what the service prints: it is told when a block fails."""
        self._log = log
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
                env=clean
                | {"AUTHZ_PORT": str(port), "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
                | dict(env or {}),
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
            served = self._log.read_text(encoding="utf-8")[-4000:] if self._log.exists() else ""
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


def steps(title: str) -> Iterator[tuple[str, list[str]]]:
    """Each block of commands of a section with the lines that README shows after it, if any."""
    _, found, rest = README.read_text(encoding="utf-8").partition(f"\n## {title}\n")
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


def make_clone(folder: Path) -> Path:
    """A folder that stands for a clone after `make run`: it has the environment of this run."""
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    return folder
