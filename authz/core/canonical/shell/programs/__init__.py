"""What well-known programs do: one table, from a name to a function that says it.

A program that is not here is an `execute` access on itself that is not `known`, with guessed accesses for
operands that look like paths or urls. To describe one, write a function in the file it fits and add its name
to that file's table; `describe` shows the common shapes.
"""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.programs import (
    archives,
    files,
    git,
    interpreters,
    network,
    packages,
    scripts,
    search,
    text,
    wrappers,
)
from authz.core.canonical.shell.programs.describe import Description
from authz.core.canonical.shell.run import Run
from authz.core.canonical.shell.words import Word
from authz.model.resource import Verb

PROGRAMS: Final[Mapping[str, Description]] = {
    **files.PROGRAMS,
    **text.PROGRAMS,
    **search.PROGRAMS,
    **scripts.PROGRAMS,
    **archives.PROGRAMS,
    **git.PROGRAMS,
    **network.PROGRAMS,
    **interpreters.PROGRAMS,
    **packages.PROGRAMS,
    **wrappers.PROGRAMS,
}
_SYSTEM: Final = frozenset(
    ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin")
)
_URL: Final = re.compile(r"(?:https?|wss?|ftp)://", re.IGNORECASE)
_PATH: Final = re.compile(r"[./~]|[^=]*/|[^\s=]+\.[A-Za-z0-9]{1,8}$")


def run_program(run: Run) -> None:
    """A program by its name or path: as it is described, or guessed."""
    if not run.words:
        raise Unreduced("operands")  # a wrapper around nothing: some of them start a shell
    name = run.words[0].text
    if not name or run.words[0].is_glob:
        raise Unreduced("dynamic_program")
    if "/" in name:
        folder, base = posixpath.split(name)
        if folder not in _SYSTEM:
            _by_path(run)
            return
        name = base
        run = replace(run, words=(Word(text=name), *run.arguments))
    description = PROGRAMS.get(name)
    if description is None:
        _guess(run, name)
        return
    try:
        description(run)
    except Unreduced as unreduced:
        # The rest of the line is still judged: a rule that forbids what it does holds all the same.
        _guess(run, name)
        run.opaque(unreduced.reason)


def _by_path(run: Run) -> None:
    """A file that is run: a script or a program that lies somewhere, of which nothing is known."""
    run.read(run.words[0])
    run.execute(run.words[0])
    run.code("script")
    _guess_operands(run)


def _guess(run: Run, name: str) -> None:
    run.program(name, known=False, changes=True)
    _guess_operands(replace(run, guessed=True))


def _guess_operands(run: Run) -> None:
    """Operands that look like paths or urls, and commands that an unknown launcher may be handing on."""
    run = replace(run, guessed=True)
    for index, word in enumerate(run.arguments):
        text = word.text
        if text is None:
            continue
        value = text.partition("=")[2] if text.startswith("-") else text
        if _URL.match(value):
            run.effects.url(Verb.CONNECT, value, guessed=True)
        elif value and (word.is_glob or _PATH.match(value)):
            # What an option's value matches, the program finds out by itself.
            operand = replace(word, text=value, by_shell=word.by_shell and value == text)
            run.read(operand, tree=word.is_glob)
            run.write(operand, tree=word.is_glob)
        folder, _, name = text.rpartition("/")
        is_program = name in PROGRAMS and (not folder or folder in _SYSTEM)
        if is_program and run.words[0].text not in PROGRAMS and run.depth < _MAX_GUESSES:
            rest = tuple(run.arguments[index:])
            run_program(replace(run, words=rest, depth=run.depth + 1))


_MAX_GUESSES: Final = 6
