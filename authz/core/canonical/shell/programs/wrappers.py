"""Programs that run the rest of their words: what is judged is what they run, wherever it stands."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.environment import SHELL_OWN, changes_what_runs, names_place
from authz.core.canonical.shell.options import OptionSpec, Parsed, parse_options, spec
from authz.core.canonical.shell.programs.describe import Description
from authz.core.canonical.shell.run import Run, known_text, positional
from authz.core.canonical.shell.words import UNKNOWN, Word

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


def _plain(name: str, known: OptionSpec, *, skip: int = 0) -> Description:
    """A wrapper with these options and `skip` operands of its own before the command."""

    def describe(run: Run) -> None:
        found = parse_own(run, known)
        _, command = positional(found.operands, skip)
        run.program(name)
        if not command:
            raise Unreduced("operands")
        run.runner.run_words(command, run)

    return describe


def parse_own(run: Run, known: OptionSpec) -> Parsed:
    """The wrapper's own options; what stands behind its first operand is not its own.

    A word of the command that is not known stays so, for the command's own description to judge.
    """
    own: list[Word] = []
    rest = list(run.arguments)
    takes_value = False
    while rest:
        word = rest[0]
        if not takes_value and not word.is_option:
            break
        own.append(rest.pop(0))
        takes_value = not takes_value and _wants_value(word, known)
        if word.text == "--":
            break
    found = parse_options(own, known)
    return Parsed(options=found.options, operands=tuple(rest), order=found.order)


def _wants_value(word: Word, known: OptionSpec) -> bool:
    text = word.text or ""
    if text.startswith("--"):
        return text[2:] in known.long_values
    return len(text) > 1 and text[-1] in known.values and all(letter in known.flags for letter in text[1:-1])


def _env(run: Run) -> None:
    """`env NAME=value PROGRAM …`. `-S` splits a text into words by rules of its own."""
    found = parse_own(run, spec("i0v", "uC", "ignore-environment unset= chdir= null help version"))
    words = list(found.operands)
    guessed = run.guessed or any(changes_what_runs(known_text(name)) for name in found.values("u", "unset"))
    while words and (assigned := _ASSIGNMENT.match(words[0].text or "")):
        if assigned[1] in SHELL_OWN:
            raise Unreduced("assignment")
        value = assigned.string[assigned.end() :]
        guessed |= changes_what_runs(assigned[1], value)
        if names_place(assigned[1]):
            run.effects.place(value, run.directories)
        words.pop(0)
    if found.has("C", "chdir"):
        raise Unreduced("chdir")
    # Alone it prints every variable.
    run.program("env")
    if not words:
        run.program("printenv")
    else:
        run.runner.run_words(words, replace(run, guessed=guessed))


def _sudo(run: Run) -> None:
    """`sudo`, `doas`: the command as somebody else. What it may do then is not what it may do here."""
    found = parse_own(
        run, spec("nEHkKsibA", "ugphUD", "user= group= non-interactive preserve-env? login shell")
    )
    run.program(known_text(run.words[0]), changes=True)
    run.opaque("other_user")
    words = list(found.operands)
    while words and _ASSIGNMENT.match(words[0].text or ""):
        words.pop(0)
    if words:
        run.runner.run_words(words, replace(run, guessed=True))


def _xargs(run: Run) -> None:
    """`xargs PROGRAM …`: more words come from its input, and nobody knows them."""
    known = spec(
        "0oprtx",
        "adEILnPs",
        "null no-run-if-empty verbose interactive max-args= max-procs= max-lines? replace? "
        "delimiter= arg-file= help",
    )
    arguments, replaced = _without_optional(run.arguments)
    found = parse_own(replace(run, words=(run.words[0], *arguments)), known)
    run.program("xargs")
    run.read(*found.values("a", "arg-file"))
    words: Sequence[Word] = found.operands or (Word(text="echo"),)
    marks = [known_text(word) for word in found.values("I", "replace")] + replaced
    marks += ["{}"] if found.has("replace") else []
    if marks:
        # The mark is replaced inside of words too: of the text for a shell, of an option.
        words = [UNKNOWN if any(mark in (word.text or "") for mark in marks) else word for word in words]
    # A file of arguments leaves the input to the program.
    stdin = run.stdin if found.has("a", "arg-file") else ""
    run.runner.run_words((*words, UNKNOWN), replace(run, stdin=stdin))


def _without_optional(arguments: Sequence[Word]) -> tuple[list[Word], list[str]]:
    """(the rest, marks): `-i`, `-e` and `-l` take a value only when it is glued on."""
    rest: list[Word] = []
    marks: list[str] = []
    takes_value = False
    for index, word in enumerate(arguments):
        if not takes_value and not word.is_option:
            return [*rest, *arguments[index:]], marks
        found = None if takes_value else re.fullmatch(r"-([iel])(.*)", word.text or "", re.DOTALL)
        takes_value = not takes_value and re.fullmatch(r"-[0oprtx]*[adEILnPs]", word.text or "") is not None
        if found is None:
            rest.append(word)
        elif found[1] == "i":
            marks.append(found[2] or "{}")
    return rest, marks


def _nohup(run: Run) -> None:
    """`nohup PROGRAM …`: what a terminal would have been told goes to `nohup.out`.

    It lies here. Where nothing can be written here it lies at home, which is left out: then it holds what the
    terminal would have shown, under a name that nothing reads.
    """
    found = parse_own(run, spec("", "", "help version"))
    run.program("nohup")
    if not found.operands:
        raise Unreduced("operands")
    run.write(Word(text="nohup.out"))
    run.runner.run_words(found.operands, run)


def _watch(run: Run) -> None:
    """`watch TEXT`: a shell reads the words, joined."""
    found = parse_own(run, spec("bcdegtxw", "n", "interval= no-title differences? exec"))
    run.program("watch")
    if any(word.is_glob for word in found.operands):
        raise Unreduced("pattern_as_script")  # a name that matches may hold a command
    if found.has("x", "exec"):
        run.runner.run_words(found.operands, run)
    else:
        run.runner.run_text(" ".join(known_text(word) for word in found.operands), run, posix=True)


def _flock(run: Run) -> None:
    """`flock FILE PROGRAM …` or `flock FILE -c TEXT`."""
    found = parse_own(run, spec("nsxuo", "wE", "nonblock shared exclusive timeout= wait= close"))
    if len(found.operands) < 2:
        raise Unreduced("operands")
    [lock], command = positional(found.operands, 1)
    run.program("flock")
    run.write(lock)
    if command[0].text == "-c" and any(word.is_glob for word in command):
        raise Unreduced("pattern_as_script")
    if command[0].text == "-c":
        run.runner.run_text(known_text(command[1]) if len(command) == 2 else "", run, posix=True)
    else:
        run.runner.run_words(command, run)


PROGRAMS: Final[Mapping[str, Description]] = {
    "env": _env,
    **dict.fromkeys(("sudo", "doas"), _sudo),
    "xargs": _xargs,
    "watch": _watch,
    "flock": _flock,
    "nohup": _nohup,
    "setsid": _plain("setsid", spec("cfw", "", "ctty fork wait help version")),
    "time": _plain("time", spec("pv", "f", "portability verbose format= help version")),
    "timeout": _plain(
        "timeout",
        spec("v", "ks", "kill-after= signal= preserve-status foreground verbose help version"),
        skip=1,
    ),
    "nice": _plain("nice", spec("0", "n", "adjustment= help version")),
    "ionice": _plain("ionice", spec("t", "cn", "class= classdata= ignore")),
    "stdbuf": _plain("stdbuf", spec("", "ioe", "input= output= error= help version")),
    "unbuffer": _plain("unbuffer", spec("p", "", "")),
    "chrt": _plain("chrt", spec("bfior", "", ""), skip=1),
    "taskset": _plain("taskset", spec("c", "", "cpu-list"), skip=1),
}
