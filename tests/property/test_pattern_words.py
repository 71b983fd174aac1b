"""A pattern is any number of words that nobody knows: whatever bash makes of it is covered (SH4, SH5).

Bash expands the pattern among files that are called as options, as numbers and as operators are. The words
that come of it, written out, are a line of their own: all that it does was among what the pattern may do.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from authz.core.canonical.shell import ShellAccess, analyse_shell
from authz.model.resource import Base, NotCanonical, Scope
from tests.property.shell_oracle import is_matched

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
]

NAMES: Final = [
    *("a.md", "b.md", "x.py", "main.o", "docs", "secrets", "5", "10", "+x", "HEAD"),
    *("-", "--", "-r", "-R", "-rf", "-f", "-n", "-v", "-c", "-e", "-t", "-A", "-p", "-C", "-i"),
    *("-rf.o", "-e.md", "-f.md", "-t.md", "-ofoo.md", "-re.py", "-RI.py", "-S.md", "-n5.md"),
    *("--recursive", "--files0-from=x.md", "--output=x.md", "--reference=x.py", "--target-directory=docs"),
    *(
        "-delete",
        "!delete",
        "-o",
        "!",
        "(",
        ";",
        "+",
        "@list",
        "@x.md",
        "h:x",
        "A=b",
        "u+s",
        "644",
        "rm",
        "cat",
    ),
]
NAMES_FILES: Final = {"wc", "sort", "du"}
"""They have `--files0-from`, which their descriptions leave out."""
PATTERN: Final = st.sampled_from(
    [
        *(
            "*",
            "?",
            "??",
            "???",
            "?f",
            "?rf",
            "*f",
            "*r",
            "*rf",
            "*.md",
            "*.py",
            "*.o",
            "[-]*",
            "[-]r",
            "[-]rf",
        ),
        *(
            "[-]-*",
            "?-*",
            "*x.md",
            "[!a]*",
            "[[:punct:]]*",
            "[[:punct:]]delete",
            "[@]*",
            "-*",
            "--*",
            "-[r]f",
        ),
        *(
            "./*",
            "./[-]*",
            "docs/*",
            "*/",
            "*delete",
            "--out*",
            "--output=*",
            "-o*",
            "[0-9]*",
            "[\\;+]",
            "?=?",
        ),
    ]
)
WORD: Final = st.one_of(
    PATTERN,
    PATTERN,
    st.sampled_from(["a.md", "docs", "x.py", "-n", "-r", "--", "5", "644", "s/a/b/", "HEAD"]),
)
PROGRAM: Final = st.sampled_from(
    [
        *(
            "rm",
            "rm -f",
            "cat",
            "ls",
            "cp",
            "cp -r",
            "mv",
            "ln -s",
            "head",
            "tail -n 2",
            "wc",
            "sort",
            "grep",
        ),
        *(
            "chmod",
            "chmod 644",
            "touch",
            "mkdir",
            "tee",
            "rmdir",
            "du",
            "diff",
            "uniq",
            "stat",
            "nl",
            "strings",
        ),
        *(
            "sed -n",
            "sed",
            "awk",
            "jq",
            "gzip",
            "gunzip",
            "tar czf x.tgz",
            "tar",
            "zip x.zip",
            "rsync",
            "scp",
        ),
        *(
            "find",
            "find . -name",
            "find . -not -name",
            "find . -exec cat",
            "sha256sum",
            "dd",
            "split",
            "file",
        ),
        *("timeout", "timeout 5", "env", "nice", "nice -n", "xargs", "flock", "taskset", "chrt", "nohup"),
        *("git add", "git rm", "git mv", "git diff", "git log", "git grep", "git -C", "git", "git branch"),
        *(
            "printf",
            "test",
            "[",
            "curl",
            "bash",
            "bash -c",
            "python3",
            "watch",
            "command",
            "exec",
            "eval",
            "cd",
        ),
    ]
)
LOOPED: Final = st.booleans()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("words")
    for name in ("docs", "secrets"):
        (made / name).mkdir()
        (made / name / "-r").touch()
    for name in NAMES:
        if not (made / name).exists():
            (made / name).touch()
    return made


def expanded(words: str, folder: Path) -> list[str]:
    """The words that bash makes of these."""
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "--noprofile", "-c", f"printf '%s\\0' {words}"],
        cwd=folder,
        env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=True,
    )
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]


def accesses(line: str, folder: Path) -> tuple[ShellAccess, ...]:
    found = analyse_shell(line, Base(cwd=str(folder), root=str(folder), home="/home/agent"))
    assert not isinstance(found, NotCanonical)
    return found


def is_understood(found: Iterable[ShellAccess]) -> bool:
    """What is not, and programs that nobody knows, is asked for whatever the words are."""
    entities = [one.resource.entity for one in found]
    return all(one.type != "Opaque" and one.attributes.get("known") is not False for one in entities)


def is_covered(access: ShellAccess, by: Sequence[ShellAccess]) -> bool:
    return any(_covers(one, access) for one in by if one.verb is access.verb)


def _covers(one: ShellAccess, access: ShellAccess) -> bool:
    entity, covering = access.resource.entity, one.resource.entity
    if entity == covering and (one.scope, one.pattern) == (access.scope, access.pattern):
        return True
    if entity.type != "File" or covering.type != "File" or one.scope is Scope.OBJECT:
        return False
    if one.pattern is None:
        return Path(entity.id).is_relative_to(covering.id)
    below = "" if access.scope is Scope.OBJECT else "/\0"
    return access.pattern is None and is_matched(one.pattern, covering.id, entity.id + below)


_CHECKS: Final = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=600, suppress_health_check=_CHECKS)
@given(program=PROGRAM, words=st.lists(WORD, min_size=1, max_size=3), looped=LOOPED)
def test_what_the_expanded_words_do_was_among_what_the_pattern_may_do(
    program: str, words: list[str], looped: bool, folder: Path
) -> None:
    """Also where the pattern comes by way of a loop's variable, which holds one name at a time."""
    if looped:
        lines = [f'for f in {words[0]}; do {program} "$f" {" ".join(words[1:])}; done']
        rest = expanded(" ".join(words[1:]), folder) if words[1:] else []
        written = [[name, *rest] for name in expanded(words[0], folder)]
    else:
        lines = [f"{program} {' '.join(words)}"]
        written = [expanded(" ".join(words), folder)]
    closing = " ]" if program == "[" else ""
    found = accesses(f"{lines[0]}{closing}" if not looped else lines[0], folder)
    if not is_understood(found):
        event("not understood")
        return
    event("understood")
    for arguments in written:
        _check_written(program, arguments, found, folder)


def _check_written(program: str, arguments: list[str], found: Sequence[ShellAccess], folder: Path) -> None:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if program.split(maxsplit=1)[0] in NAMES_FILES:
        assert "--files0-from=x.md" not in options, (program, arguments)
    done = accesses(f"{program} {shlex.join(arguments)}", folder)
    if not is_understood(done):
        return  # an option that the program has not, so that it ends before it does anything
    for access in done:
        if program.startswith("git ") and access.resource.entity.id == str(folder):
            continue  # a name that is written out may be a revision's; one that was matched is a file's
        assert is_covered(access, found), (program, arguments, access)
