"""Programs that search: `grep`, `rg`, `find`.

A listing is a read of the tree, though it reads no file's contents: what a folder holds are its names, so a
rule that nobody may read a folder would be passed by listing the one above it. This holds for `ls -R`, `tree`
and `du` as it does for `find`, and for the tools of descriptors: their `scope` says it.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import parse_options, spec
from authz.core.canonical.shell.programs.describe import Description
from authz.core.canonical.shell.run import Run, known_text, pattern_text, positional, split_pattern
from authz.core.canonical.shell.words import Word

_HELP = "help version"


def _grep(run: Run) -> None:
    """`grep`: the first operand is the pattern unless `-e` or `-f` gave one; `-r` reads trees."""
    name = known_text(run.words[0])
    known = spec(
        "abcEFGhHilLnoPqrRsTUvVwxyzZ0",
        "eABCmfdD",
        "regexp= file= ignore-case invert-match word-regexp line-regexp count color? colour? "
        "files-with-matches "
        "files-without-match max-count= only-matching quiet silent no-messages line-number with-filename "
        "no-filename recursive dereference-recursive include= exclude= exclude-dir= after-context= "
        "before-context= context= extended-regexp fixed-strings perl-regexp basic-regexp text null "
        f"binary-files= {_HELP}",
    )
    found = parse_options(run.arguments, known)
    given = found.has("e", "regexp", "f", "file")
    operands = list(positional(found.operands, 0 if given else 1)[1])
    recursive = found.has("r", "R", "recursive", "dereference-recursive")
    recursive |= any(known_text(word) != "skip" for word in found.values("d"))
    run.program(name)
    run.read(*found.values("f", "file"))
    if recursive and not operands:
        operands = [Word(text=".")]
    run.read(*(word for word in operands if word.text != "-"), tree=recursive)


def _ripgrep(run: Run) -> None:
    """`rg`: recursive by nature. `--pre` and `--hostname-bin` run programs; a config file may too."""
    known = spec(
        "aceFhHiIlLnNoPqSsUuvwxz0p.",
        "eABCmMfgtTjdEr",
        "regexp= file= ignore-case smart-case invert-match word-regexp count files files-with-matches glob= "
        "type= type-not= hidden no-ignore max-count= max-depth= line-number no-line-number "
        "only-matching quiet "
        "fixed-strings after-context= before-context= context= color= heading no-heading json "
        "multiline pcre2 "
        f"sort= follow stats no-messages with-filename no-filename vimgrep {_HELP}",
    )
    found = parse_options(run.arguments, known)
    given = found.has("e", "regexp", "f", "file", "files")
    operands = list(positional(found.operands, 0 if given else 1)[1]) or [Word(text=".")]
    run.program("rg")
    run.read(*found.values("f", "file"))
    run.read(*(word for word in operands if word.text != "-"), tree=True)


def _find(run: Run) -> None:
    """`find`: reads trees; `-delete` deletes, `-exec` runs, `-fprint` writes."""
    starts: list[Word] = []
    arguments = list(run.arguments)
    while arguments and not _is_expression(arguments[0]):
        word = arguments.pop(0)
        if word.text is None:
            raise Unreduced("dynamic_argument")
        if word.is_glob and (word.text or "")[:1] in "*?[":
            raise Unreduced("pattern_as_option")  # a file may be called `-delete`
        if word.text not in ("-H", "-L", "-P"):
            starts.append(word)
    starts = starts or [Word(text=".")]
    run.program("find")
    run.read(*starts, tree=True)
    while arguments:
        _find_part(run, starts, arguments)


def _is_expression(word: Word) -> bool:
    text = word.text or ""
    return text in ("(", ")", "!", ",") or (text.startswith("-") and text not in ("-H", "-L", "-P"))


def _find_part(run: Run, starts: list[Word], arguments: list[Word]) -> None:
    """One test or action of an expression; takes it from `arguments`."""
    text = known_text(arguments.pop(0))
    if text in _FIND_ALONE:
        if text == "-delete":
            run.delete(*starts, tree=True)
    elif text in _FIND_VALUE and arguments:
        value = arguments.pop(0)
        if value.text is None:
            raise Unreduced("dynamic_argument")
        if value.is_glob and not _UNLIKE_FIND.search(value.text):
            raise Unreduced("pattern_as_option")  # it may match several names, and one of them be an action
        if text in ("-newer", "-anewer", "-cnewer", "-samefile"):
            run.read(value)
    elif text in ("-fprint", "-fls", "-fprint0") and arguments:
        known_text(arguments[0])
        run.write(arguments.pop(0))
    elif text in ("-exec", "-execdir", "-ok", "-okdir"):
        command: list[Word] = []
        while arguments and not _ends_command(arguments[0], command):
            command.append(arguments.pop(0))
        if not arguments or not command:
            raise Unreduced("find_exec")
        arguments.pop(0)
        for word in command:
            known_text(word)  # a name may be `;` or `+`, and what stands behind it a part of the expression
        # Of `-execdir` nobody knows where it runs.
        nowhere = replace(run, directories=frozenset((None,)))
        _find_exec(run if text in ("-exec", "-ok") else nowhere, starts, command)
    else:
        raise Unreduced("unknown_option")


def _ends_command(word: Word, command: list[Word]) -> bool:
    """`;` always, `+` only behind `{}`."""
    return word.text == ";" or (word.text == "+" and bool(command) and command[-1].text == "{}")


def _find_exec(run: Run, starts: list[Word], command: list[Word]) -> None:
    """The command of `-exec`, with anything under the starting points in place of `{}`."""
    for start in starts:
        if None in run.directories and not pattern_text(start).startswith("/"):
            # What is found stays known by its name from where `find` was started.
            run.opaque("directory")
        folder = split_pattern(start.text or "")[0] if start.is_glob else known_text(start)
        above = Word(text=f"{folder.rstrip('/') or '/'}/*", is_glob=True)
        filled = [above if word.text == "{}" else word for word in command]
        if any("{}" in (word.text or "") for word in filled):
            raise Unreduced("find_exec")
        run.runner.run_words(filled, run)


_FIND_ALONE: Final = frozenset(
    (
        "(",
        ")",
        "!",
        ",",
        "-a",
        "-and",
        "-o",
        "-or",
        "-not",
        "-depth",
        "-d",
        "-mount",
        "-xdev",
        "-empty",
        "-print",
    )
    + ("-print0", "-ls", "-prune", "-quit", "-delete", "-true", "-false", "-daystart", "-follow", "-readable")
    + ("-writable", "-executable", "-nouser", "-nogroup", "-noleaf")
)
# No test, action or operator of `find` has one of these in it: where a name has, and stands where none may,
# `find` ends before it does anything.
_UNLIKE_FIND: Final = re.compile(r"\A[^\[]*[._/~:%=][^\[]*\Z", re.DOTALL)
_FIND_VALUE: Final = frozenset(
    ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-xtype")
    + ("-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-anewer", "-cnewer")
    + ("-maxdepth", "-mindepth", "-user", "-group", "-perm", "-links", "-inum", "-samefile", "-fstype")
    + ("-printf", "-newermt", "-uid", "-gid")
)

PROGRAMS: Final[Mapping[str, Description]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), _grep),
    "rg": _ripgrep,
    "find": _find,
}
