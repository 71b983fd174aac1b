"""Bash itself as the oracle for lines: what it runs, with which words and where.

Every program is a stand-in that writes down its words and its directory and does nothing else, so a line may
say whatever it likes. Redirects are real: they lie in a scratch directory.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from authz.core.canonical.shell import ShellAccess, analyse_shell
from authz.model.resource import Base, NotCanonical, PathPattern, Scope, Verb

PROGRAMS = ("cat", "rm", "touch", "ls", "cp", "mkdir", "git", "head", "tee", "wc", "sort", "grep")
DRAINING = frozenset(("cat", "wc", "sort"))
FAILING = frozenset(("git", "grep"))
"""Those that say that they failed, so that lines take their other way."""
REAL = ("bash", "dash", "env", "xargs", "find", "timeout", "nice", "nohup")
"""What runs other programs runs them here too: it finds no others than these and the stand-ins."""
NAMES = ("a", "b c", "d.txt", "e.txt", "-rf", "sub/x", "sub/a", "sub/-n", "sub/deep/y")
# One `printf` of the shell is one write: stand-ins in a pipeline do not tear each other's lines.
_STAND_IN = """\
#!/bin/sh
printf '%s\\0' "${{0##*/}}" "$PWD" "$#" "$@" >> '{log}'
{drain}
exit {status}
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
        for name in REAL:
            found = shutil.which(name)
            if found is not None:
                (self._bin / name).symlink_to(found)
        (self._bin / "sh").symlink_to(shutil.which("dash") or self._bash)
        for name in PROGRAMS:
            path = self._bin / name
            drain = "while read -r line; do :; done" if name in DRAINING else ""
            status = 1 if name in FAILING else 0
            path.write_text(_STAND_IN.format(log=self._log, drain=drain, status=status))
            path.chmod(0o755)

    def run(self, line: str) -> tuple[list[Ran], set[str]]:
        """What bash ran, and the files that it made or changed."""
        shutil.rmtree(self.work, ignore_errors=True)
        self._log.write_text("")
        for name in NAMES:
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
        ran = list(_entries(self._log.read_bytes().decode().split("\0")[:-1]))
        changed = {
            os.path.join(parent, name)
            for parent, _, names in os.walk(self.work)
            for name in names
            if Path(parent, name).read_text() != "before"
        }
        return ran, changed


def _entries(fields: list[str]) -> Iterator[Ran]:
    """Each entry of the log is a name, a directory, the number of words, and the words."""
    while fields:
        name, cwd, count, *fields = fields
        yield Ran(name, fields[: int(count)], cwd)
        fields = fields[int(count) :]


def check_predicted(line: str, bash: BashOracle) -> bool:
    """What bash does with `line` was predicted, or something of it was not understood, and it is asked for.

    Returns whether it was not understood, and then nothing is run.
    """
    work = str(bash.work)
    found = analyse_shell(line, Base(cwd=work, home=work))
    assert not isinstance(found, NotCanonical)
    if any(access.resource.kind == "opaque" for access in found):
        return True
    ran, changed = bash.run(line)
    programs = {access.resource.entity.id.split("/")[0] for access in found if access.verb is Verb.EXECUTE}
    for one in ran:
        assert one.name in programs, (line, one)
        _check_operands(line, one, found)
    for path in changed:
        assert _covers(found, Verb.WRITE, path), (line, path)
    return False


def _check_operands(line: str, ran: Ran, found: Sequence[ShellAccess]) -> None:
    verb = {"rm": Verb.DELETE, "touch": Verb.WRITE, "mkdir": Verb.WRITE}.get(ran.name, Verb.READ)
    skipped = {"-f", "-la", "-p", "-n", "2", "-rf", "log", "-", "--", "-n1"}
    for argument in ran.arguments:
        if argument in skipped or argument.startswith("/dev/fd/"):
            continue
        path = os.path.normpath(os.path.join(ran.cwd, argument))
        assert _covers(found, verb, path), (line, ran, path)


def _covers(found: Sequence[ShellAccess], verb: Verb, path: str) -> bool:
    for access in found:
        resource = access.resource.entity
        if access.verb is not verb or resource.type != "File":
            continue
        if access.pattern is not None:
            if is_matched(access.pattern, resource.id, path):
                return True
        elif resource.id == path or (access.scope is Scope.TREE and Path(path).is_relative_to(resource.id)):
            return True
    return False


def is_matched(pattern: PathPattern, folder: str, path: str) -> bool:
    """Whether the path is one that the pattern matches in the folder, by a regular expression of its own."""
    text = "".join(
        "(?:/[^/]+)*"
        if part == "**"
        else "/" + re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        for part in pattern.parts
    )
    return path.startswith(folder) and re.fullmatch(text, path[len(folder) :], re.IGNORECASE) is not None
