"""What the shell does itself. `echo` and `test` are described with the programs, which they are as well.

Source: bash's manual, "Shell Builtin Commands". A builtin that is not here is a program that nobody knows.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from authz.core.canonical.path import lexical_path
from authz.core.canonical.shell.effects import Unreduced, taken_literally
from authz.core.canonical.shell.environment import changes_what_runs
from authz.core.canonical.shell.run import Run, known_text
from authz.core.canonical.shell.state import State
from authz.core.canonical.shell.words import UNKNOWN
from authz.model.resource import Base, NotCanonical, Verb, Volume


class Shell(Protocol):
    """The shell that runs the builtin."""

    state: State
    escaped: list[State]
    """In which a loop or a function was left before its end."""

    def read_here(self, text: str, run: Run) -> None:
        """Read a line in this very shell."""
        ...


_POSIX: Final = Volume()
Builtin = Callable[[Run, Shell], None]


def _cd(run: Run, shell: Shell) -> None:
    """`cd`: logical, as bash does it unless told otherwise. `cd -` goes where nobody knows."""
    arguments = [known_text(word) for word in run.arguments]
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if len(arguments) > 1 or any(word.is_glob for word in run.arguments):
        raise Unreduced("cd")
    if not arguments:
        shell.state = shell.state.moved(frozenset((run.home,)))
        return
    if arguments[0].startswith("-") or not arguments[0]:
        shell.state = shell.state.moved(frozenset((None,)))
        return
    run.program("cd")
    run.read(run.arguments[-1])
    moved = (below(arguments[0], directory) for directory in run.directories)
    shell.state = shell.state.moved(frozenset(moved))


def below(text: str, directory: str | None) -> str | None:
    """Where `text` leads from a directory; `None` where nobody knows."""
    if directory is None and not text.startswith("/"):
        return None
    found = lexical_path(taken_literally(text), Base(cwd=directory, volume=_POSIX))
    return None if isinstance(found, NotCanonical) else found


def _ends(run: Run, shell: Shell) -> None:
    """`exit`: nothing behind it runs, unless bash refuses its words and goes on."""
    run.program("exit")
    texts = [known_text(word) for word in run.arguments]
    if not texts or (len(texts) == 1 and texts[0].isdecimal()):
        shell.state = replace(shell.state, is_over=True)


def _returns(run: Run, shell: Shell) -> None:
    """`return`, `break`, `continue`: the place is left as it is here; what follows may run all the same."""
    shell.escaped.append(shell.state)
    _nothing(run, shell)


def _jobs(run: Run, shell: Shell) -> None:
    """`jobs -x` runs a program, and `wait -p` sets a variable."""
    if any(re.fullmatch(r"-[lnprs]|%?\w+", known_text(word)) is None for word in run.arguments):
        raise Unreduced("builtin")
    if run.words[0].text == "wait" and any(word.text == "-p" for word in run.arguments):
        raise Unreduced("builtin")
    _nothing(run, shell)


def _nothing(run: Run, shell: Shell) -> None:
    """`:`, and what only looks at the shell or sets what no program sees."""
    run.program(known_text(run.words[0]))


def _read(run: Run, shell: Shell) -> None:
    """`read NAME…`: variables that nobody knows."""
    run.program("read")
    for word in run.arguments:
        name = known_text(word)
        if not name.startswith("-"):
            if not name.isidentifier() or not name.islower():
                raise Unreduced("read")
            shell.state = shell.state.assigned(name, UNKNOWN)
            if changes_what_runs(name):
                shell.state = replace(shell.state, is_changed=True)


def _eval(run: Run, shell: Shell) -> None:
    """`eval`: its words, joined, are a line."""
    texts = [known_text(word) for word in run.arguments]
    if any(word.is_glob for word in run.arguments):
        raise Unreduced("dynamic_argument")
    shell.read_here(" ".join(texts), run)


def _command(run: Run, shell: Shell) -> None:
    """`command NAME …` runs a program or a builtin; with `-v` it only says which."""
    arguments = list(run.arguments)
    if arguments and arguments[0].text in ("-v", "-V"):
        run.program("command")
        return
    while arguments and arguments[0].text in ("-p", "--"):
        arguments.pop(0)
    if not arguments:
        return
    name = known_text(arguments[0])
    inner = replace(run, words=tuple(arguments))
    if name in BUILTINS:
        BUILTINS[name](inner, shell)
    else:
        run.runner.run_words(arguments, inner)


def _exec(run: Run, shell: Shell) -> None:
    """`exec NAME …`: the program takes the shell's place. Alone it only makes redirects stay."""
    arguments = list(run.arguments)
    if not arguments and run.stdin != "":
        raise Unreduced("exec_input")  # whatever reads afterwards, reads that
    if arguments and known_text(arguments[0]).startswith("-"):
        raise Unreduced("exec")
    if arguments:
        run.runner.run_words(arguments, run)
        shell.state = replace(shell.state, is_over=True)


def _set(run: Run, shell: Shell) -> None:
    """`set -euo pipefail`: options that only end the line earlier, or print it."""
    # Alone it prints every variable.
    run.program("set")
    if not run.arguments:
        run.program("printenv")
    for word in run.arguments:
        text = known_text(word)
        letters = text[1:] if text[:1] in "-+" else ""
        if not (letters and set(letters) <= set("euxvCof")) and text not in (
            "pipefail",
            "errexit",
            "nounset",
        ):
            raise Unreduced("set")


def _not_understood(run: Run, shell: Shell) -> None:
    """What reads other files, defines aliases and traps, or loads code into the shell."""
    raise Unreduced("builtin")


def _source(run: Run, shell: Shell) -> None:
    """`. FILE`: a script that this shell reads. What it does is not known, nor what it leaves behind."""
    run.read(*run.arguments[:1])
    run.here(Verb.READ, tree=False)
    raise Unreduced("script")


BUILTINS: Final[Mapping[str, Builtin]] = {
    "cd": _cd,
    "exit": _ends,
    "eval": _eval,
    "command": _command,
    "builtin": _command,
    "exec": _exec,
    "set": _set,
    "read": _read,
    ".": _source,
    "source": _source,
    **dict.fromkeys((":", "true", "false", "times", "umask", "type", "shift"), _nothing),
    **dict.fromkeys(("wait", "jobs"), _jobs),
    **dict.fromkeys(("return", "break", "continue"), _returns),
    **dict.fromkeys(
        ("alias", "unalias", "trap", "enable", "bind", "complete", "compgen", "compopt", "hash", "shopt")
        + ("let", "mapfile", "readarray", "getopts", "pushd", "popd", "dirs", "fc", "history", "coproc")
        + ("ulimit", "disown", "logout", "suspend", "caller", "bg", "fg"),
        _not_understood,
    ),
}
