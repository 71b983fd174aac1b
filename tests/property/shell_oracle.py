"""Bash itself as the oracle for lines: what it runs, with which words and where.

Every program is a stand-in that writes down its words and its directory and does nothing else, so a line may
say whatever it likes. Redirects are real: they lie in a scratch directory.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("cat", "rm", "touch", "ls", "cp", "mkdir", "git", "head", "tee", "wc", "sort", "grep")
_STAND_IN = """\
#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd()]) + "\\n")
if not sys.stdin.isatty() and {drain}:
    sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """One program that bash started."""

    name: str
    arguments: list[str]
    cwd: str


class BashOracle:
    """Runs lines in a scratch directory that is the same before each of them."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        self._bin = folder / "bin"
        self.work = folder / "work"
        self._bin.mkdir()
        self._bash = shutil.which("bash") or "bash"
        (self._bin / "bash").symlink_to(self._bash)
        for name in PROGRAMS:
            path = self._bin / name
            path.write_text(
                _STAND_IN.format(
                    python=sys.executable, log=str(self._log), drain=name in ("cat", "wc", "sort")
                )
            )
            path.chmod(0o755)

    def run(self, line: str) -> tuple[list[Ran], set[str]]:
        """What bash ran, and the files that it made or changed."""
        shutil.rmtree(self.work, ignore_errors=True)
        self._log.write_text("")
        for name in ("a", "b c", "d.txt", "e.txt", "sub/x", "sub/a", "sub/deep/y"):
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text("before")
        subprocess.run(
            [self._bash, "--norc", "--noprofile", "-c", line],
            cwd=self.work,
            env={"PATH": str(self._bin), "HOME": str(self.work), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        ran = [Ran(*json.loads(text)) for text in self._log.read_text().splitlines()]
        changed = {
            os.path.join(parent, name)
            for parent, _, names in os.walk(self.work)
            for name in names
            if Path(parent, name).read_text() != "before"
        }
        return ran, changed
