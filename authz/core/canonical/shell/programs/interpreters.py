"""Shells and interpreters. Text for a shell is read like the line itself; other code is not read."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.programs.describe import Description
from authz.core.canonical.shell.run import Run, known_text
from authz.core.canonical.shell.words import Word


def _shell(run: Run) -> None:
    """`sh -c TEXT`, `bash -lc TEXT`, `bash <<'EOF'`; a script file is code."""
    arguments = list(run.arguments)
    reads_text = False
    while arguments and (arguments[0].is_option or (arguments[0].text or "").startswith("+")):
        option = known_text(arguments.pop(0))
        if option in ("--", "-"):
            break
        if option in ("--login", "--noprofile", "--norc", "--posix"):
            continue
        letters = option[1:]
        if option.startswith(("--", "+")) or not set(letters) <= set("ceuxlnfv"):
            raise Unreduced("unknown_option")
        reads_text |= "c" in letters
    run.program(known_text(run.words[0]))
    if reads_text:
        if not arguments:
            raise Unreduced("operands")
        _text(run, known_text(arguments[0]))
    elif arguments:
        _script(run, arguments[0])
    elif run.stdin:
        _text(replace(run, stdin=None), run.stdin)
    elif run.stdin is None:
        raise Unreduced("program_from_input")
    # Without any of them it reads the terminal, which has nothing to say here.


def _text(run: Run, text: str) -> None:
    name = known_text(run.words[0])
    if name in ("zsh", "ksh"):
        run.opaque("other_shell")  # patterns and words of theirs run commands, in ways of their own
    run.runner.run_text(text, run, posix=name not in ("bash", "rbash"))


def _script(run: Run, word: Word) -> None:
    known_text(word)  # the first of several names is run, and it may be an option
    run.read(word)
    run.execute(word)
    run.code("script")


def _interpreter(
    inline: frozenset[str], harmless: frozenset[str], valued: frozenset[str], says: tuple[str, ...] = ()
) -> Description:
    """An interpreter whose `inline` options are given code, and whose first operand is a script.

    `says` are short options that print something and read nothing: python's `-v` is none of them.
    """

    def describe(run: Run) -> None:
        arguments = list(run.arguments)
        name = known_text(run.words[0])
        if len(arguments) == 1 and arguments[0].text in ("--version", "--help", *says):
            run.program(name)
            return
        run.program(name, changes=True)
        while arguments:
            word = arguments.pop(0)
            text = known_text(word)
            if text in inline or text == "-":
                run.code()
                return
            if not word.is_option:
                _script(run, word)
                return
            if text in valued and arguments:
                known_text(arguments.pop(0))
            elif text not in harmless:
                raise Unreduced("unknown_option")
        run.code("program_from_input")

    return describe


def _busybox(run: Run) -> None:
    """`busybox NAME …`: a multi-call program is the program that it is called as."""
    if not run.arguments:
        run.program(known_text(run.words[0]))
        return
    run.runner.run_words(run.arguments, run)


def _inner(make: Callable[[Run], Run]) -> Description:
    def describe(run: Run) -> None:
        run.runner.run_words(run.arguments, make(run))

    return describe


def _always_code(run: Run) -> None:
    run.program(known_text(run.words[0]), changes=True)
    run.code()


_PYTHON: Final = _interpreter(
    frozenset(("-c", "-m")),
    frozenset(("-u", "-B", "-E", "-I", "-s", "-S", "-q", "-O", "-OO", "-b", "-d")),
    frozenset(("-W", "-X")),
    ("-V", "-h"),
)
_NODE: Final = _interpreter(
    frozenset(("-e", "--eval", "-p", "--print", "--test", "--check", "-c")),
    frozenset(),
    frozenset(),
    ("-v", "-h"),
)
_OTHER: Final = _interpreter(frozenset(("-e", "-E", "-r", "-n")), frozenset(("-w",)), frozenset())

PROGRAMS: Final[Mapping[str, Description]] = {
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh", "ash", "rbash"), _shell),
    **dict.fromkeys(("python", "python3", "python2", "pypy", "pypy3"), _PYTHON),
    **{f"python3.{minor}": _PYTHON for minor in range(6, 20)},
    **dict.fromkeys(("node", "nodejs", "deno", "bun"), _NODE),
    **dict.fromkeys(("ruby", "perl", "php", "lua", "Rscript", "pwsh"), _OTHER),
    # They read their input whatever options they are given.
    **dict.fromkeys(("tclsh", "osascript"), _always_code),
    **dict.fromkeys(("busybox", "toybox"), _busybox),
    "fakeroot": _inner(lambda run: replace(run, guessed=True)),
}
