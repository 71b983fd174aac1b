"""Programs that list, make, move and remove files."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import Parsed, parse_options, spec
from authz.core.canonical.shell.programs.describe import Description, at_most, files
from authz.core.canonical.shell.run import Run, known_text, pattern_text, positional, split_pattern
from authz.core.canonical.shell.words import Word

_HELP = "help version"


def _ls(run: Run) -> None:
    """`ls`: without operands the directory in force; `-R` reads trees."""
    known = spec(
        "aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ10",
        "ITw",
        "all almost-all human-readable recursive reverse size sort= time= color? classify? directory "
        "full-time "
        f"group-directories-first inode no-group numeric-uid-gid si time-style= ignore= hide= width= {_HELP}",
    )
    found = parse_options(run.arguments, known)
    run.program("ls")
    run.read(*(files(found) or [Word(text=".")]), tree=found.has("R", "recursive"))


def _touch(run: Run) -> None:
    known = spec("acfhm", "drt", f"no-create date= reference= time= no-dereference {_HELP}")
    found = parse_options(run.arguments, known)
    run.program("touch")
    run.read(*found.values("r", "reference"))
    run.write(*files(found))


def _mkdir(run: Run) -> None:
    known = spec("pvZ", "m", f"parents verbose mode= {_HELP}", harmful="", abbreviates=True)
    found = parse_options(run.arguments, known)
    run.program("mkdir")
    run.write(*found.operands)


def _rmdir(run: Run) -> None:
    known = spec(
        "pv",
        "",
        f"parents verbose ignore-fail-on-non-empty {_HELP}",
        harmful="p/parents",
        abbreviates=True,
    )
    found = parse_options(run.arguments, known)
    run.program("rmdir")
    run.delete(*found.operands)
    if found.has("p", "parents"):
        for word in found.operands:
            parts = known_text(word).split("/")
            run.delete(*(Word(text="/".join(parts[:end]) or "/") for end in range(1, len(parts))))


def _rm(run: Run) -> None:
    """`rm`: with `-r` a tree."""
    known = spec(
        "fiIrRdv",
        "",
        "force recursive dir verbose interactive? one-file-system preserve-root? no-preserve-root " + _HELP,
        harmful="r/R/recursive",
        abbreviates=True,
    )
    found = parse_options(run.arguments, known)
    run.program("rm")
    run.delete(*found.operands, tree=found.has("r", "R", "recursive"))


def _targets(found: Parsed) -> tuple[list[Word], list[Word]]:
    """(sources, targets) of `cp`, `mv`, `ln`, `install`: where things go, under every name that they may get.

    Whether the last operand is a folder is not known, so both it and the names inside it are targets.
    """
    if found.has("b", "backup", "S", "suffix"):
        raise Unreduced("backup")  # what was there goes under another name
    into = list(found.values("t", "target-directory"))
    operands = list(found.operands)
    if not into:
        if len(operands) < 2:
            raise Unreduced("operands")
        into = [operands.pop()]
    targets = list(into)
    for word in into:
        folder = known_text(word).rstrip("/") or "/"
        for source in operands:
            name = posixpath.basename(pattern_text(source).rstrip("/"))
            if name in ("", ".", ".."):
                targets.append(Word(text=f"{folder}/*", is_glob=True))
            else:
                targets.append(replace(source, text=posixpath.join(folder, name)))
    return operands, targets


def _cp(run: Run) -> None:
    """`cp`: reads its sources and writes the target."""
    known = spec(
        "abdfHilLnpPrRsTuvxZ",
        "St",
        "archive backup? force interactive link dereference no-clobber no-dereference preserve? no-preserve= "
        "parents recursive remove-destination strip-trailing-slashes symbolic-link suffix= target-directory= "
        f"no-target-directory update? verbose one-file-system reflink? sparse= {_HELP}",
    )
    found = parse_options(run.arguments, known)
    sources, targets = _targets(found)
    tree = found.has("a", "r", "R", "archive", "recursive")
    run.program("cp")
    run.read(*sources, tree=tree)
    if found.has("l", "s", "link", "symbolic-link"):
        _links(run, sources, targets)
    # With `--parents` the folders of a source come too.
    run.write(*targets, tree=tree or found.has("parents"))


def _mv(run: Run) -> None:
    """`mv`: what was there is gone, and what it held is elsewhere. A folder is a tree."""
    known = spec(
        "bfinTuvZ",
        "St",
        "backup? force interactive no-clobber strip-trailing-slashes suffix= target-directory= "
        f"no-target-directory update? verbose {_HELP}",
    )
    found = parse_options(run.arguments, known)
    sources, targets = _targets(found)
    run.program("mv")
    run.read(*sources, tree=True)
    run.delete(*sources, tree=True)
    run.write(*targets, tree=True)


def _ln(run: Run) -> None:
    """`ln`: makes a second name, through which everything behind the first can be reached."""
    known = spec(
        "bdfFiLnPrsTv",
        "St",
        "backup? directory force interactive logical no-dereference physical relative symbolic suffix= "
        f"target-directory= no-target-directory verbose {_HELP}",
    )
    found = parse_options(run.arguments, known)
    if found.has("b", "backup", "S", "suffix"):
        raise Unreduced("backup")
    operands, into = list(found.operands), list(found.values("t", "target-directory"))
    if not operands:
        raise Unreduced("operands")
    if not into:
        # Of names that match, the last is where the others go.
        known_text(operands[-1])
        into = [Word(text=".")] if len(operands) == 1 else [operands.pop()]
    for word in into:
        known_text(word)
    run.program("ln")
    _links(run, operands, into)
    run.write(*into, tree=True)


def _links(run: Run, sources: Sequence[Word], into: Sequence[Word]) -> None:
    """Reading and writing through a link will be judged by the link's own name.

    A symbolic one is relative to where it lies, which is the target or the folder of it.
    """
    run.read(*sources, tree=True)
    run.write(*sources, tree=True)
    for source in sources:
        text = pattern_text(source)
        if text.startswith("/"):
            continue
        for word in into:
            name = pattern_text(word)
            for folder in (split_pattern(name)[0],) if word.is_glob else (name, posixpath.dirname(name)):
                behind = replace(source, text=posixpath.join(folder, text))
                run.read(behind, tree=True)
                run.write(behind, tree=True)


def _install(run: Run) -> None:
    known = spec(
        "bcCdDpsTv",
        "gmost",
        f"directory mode= owner= group= target-directory= verbose {_HELP}",
    )
    found = parse_options(run.arguments, known)
    if found.has("s", "o", "owner", "g", "group"):
        raise Unreduced("unknown_option")
    run.program("install")
    if found.has("d", "directory"):
        run.write(*found.operands)
        return
    sources, targets = _targets(found)
    run.read(*sources)
    run.write(*targets)


def _tee(run: Run) -> None:
    known = spec("aip", "", f"append ignore-interrupts output-error? {_HELP}", harmful="", abbreviates=True)
    found = parse_options(run.arguments, known)
    run.program("tee")
    run.write(*found.operands)  # `-` is a file like any other


def _truncate(run: Run) -> None:
    found = parse_options(run.arguments, spec("co", "rs", f"no-create reference= size= {_HELP}"))
    run.program("truncate")
    run.read(*found.values("r", "reference"))
    run.write(*found.operands)


def _dd(run: Run) -> None:
    """`dd if=… of=…`."""
    run.program("dd")
    for word in run.arguments:
        name, equals, value = known_text(word).partition("=")
        if not equals or name not in _DD:
            raise Unreduced("unknown_option")
        if name == "if":
            run.read(Word(text=value))
        elif name == "of":
            run.write(Word(text=value))


_DD: Final = frozenset("if of bs ibs obs cbs count skip seek conv iflag oflag status".split())


def _split(run: Run) -> None:
    """`split FILE PREFIX`: writes files beside the prefix. `--filter` runs a program."""
    known = spec("dxe", "abClnt", f"numeric-suffixes? lines= bytes= number= suffix-length= verbose {_HELP}")
    found = parse_options(run.arguments, known)
    at_most(found.operands, 2)
    if any(word.is_glob for word in found.operands):
        raise Unreduced("pattern_as_output")
    run.program("split")
    run.read(*(word for word in found.operands[:1] if word.text != "-"))
    prefix = known_text(found.operands[1]) if len(found.operands) == 2 else "x"
    run.write(Word(text=f"{prefix}*", is_glob=True))


def _mktemp(run: Run) -> None:
    found = parse_options(
        run.arguments, spec("dqut", "p", f"directory dry-run quiet tmpdir? suffix= {_HELP}")
    )
    folders = list(found.values("p", "tmpdir")) or [Word(text="/tmp")]  # noqa: S108 - what mktemp does
    run.program("mktemp")
    run.write(*folders, tree=True)
    for template in found.operands:
        run.write(Word(text=f"{known_text(template)}*", is_glob=True))


def _chmod(run: Run) -> None:
    """`chmod`: who may do what with a file. A set-id bit makes programs run as somebody else."""
    arguments = list(run.arguments)
    if arguments and (arguments[0].text or "").lstrip("-")[:1] in tuple("rwxXst") and arguments[0].is_option:
        raise Unreduced("unknown_option")  # `chmod -w file`: a mode, not an option
    found = parse_options(
        arguments, spec("cfvR", "", f"changes silent quiet verbose recursive reference= {_HELP}")
    )
    modes, operands = positional(found.operands, 0 if found.has("reference") else 1)
    if not found.has("reference"):
        mode = known_text(modes[0]) if modes else ""
        if "s" in mode or any(len(digits.lstrip("0")) > 3 for digits in re.findall(r"\d+", mode)):
            raise Unreduced("set_id")
    else:
        raise Unreduced("set_id")  # the other file may have it
    run.program("chmod")
    run.write(*operands, tree=found.has("R", "recursive"))


def _date(run: Run) -> None:
    found = parse_options(
        run.arguments, spec("uRI", "dfr", f"date= file= iso-8601? rfc-3339= utc reference= {_HELP}")
    )
    if any(not known_text(word).startswith("+") for word in found.operands):
        raise Unreduced("sets_clock")
    run.program("date")
    run.read(*found.values("f", "file", "r", "reference"))


def _df(run: Run) -> None:
    found = parse_options(
        run.arguments, spec("aBhHiklPT", "tx", f"all human-readable inodes total type= {_HELP}")
    )
    run.program("df")
    run.read(*found.operands)


PROGRAMS: Final[Mapping[str, Description]] = {
    "ls": _ls,
    "dir": _ls,
    "touch": _touch,
    "mkdir": _mkdir,
    "rmdir": _rmdir,
    "rm": _rm,
    "unlink": _rm,
    "cp": _cp,
    "mv": _mv,
    "ln": _ln,
    "install": _install,
    "tee": _tee,
    "truncate": _truncate,
    "dd": _dd,
    "split": _split,
    "mktemp": _mktemp,
    "chmod": _chmod,
    "date": _date,
    "df": _df,
}
