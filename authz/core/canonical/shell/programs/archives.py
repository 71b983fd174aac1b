"""Archives and compression."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import Parsed, parse_options, spec
from authz.core.canonical.shell.programs.describe import Description, files, may_be_remote
from authz.core.canonical.shell.run import (
    Run,
    known_text,
    may_begin_with,
    pattern_text,
    positional,
    split_pattern,
)
from authz.core.canonical.shell.words import Word
from authz.model.resource import Verb

_TAR: Final = spec(
    "cxtzjJavpkhSP",
    "fCX",
    "create extract get list gzip bzip2 xz zstd auto-compress verbose preserve-permissions "
    "keep-old-files file= "
    "directory= exclude= exclude-from= strip-components= no-same-owner no-same-permissions same-owner "
    "one-file-system dereference wildcards overwrite sort= owner= group= mtime= numeric-owner help version",
)


_MOVES: Final = re.compile(r"-[A-Za-z]*C|--d")


def _tar(run: Run) -> None:
    """`tar`: `--to-command`, `-I`, `--checkpoint-action`, `--rsh-command` run programs: not known."""
    arguments = list(run.arguments)
    if arguments and arguments[0].text and not arguments[0].text.startswith("-"):
        arguments = _old_style(arguments)
    found = parse_options(arguments, _TAR)
    creates = found.has("c", "create")
    extracts = found.has("x", "extract", "get")
    archives = [word for word in found.values("f", "file") if word.text != "-"]
    if any(":" in known_text(word) for word in archives) or creates + extracts > 1:
        raise Unreduced("tar")  # `host:file` is a tape over rsh
    folders = found.values("C", "directory")
    if len(folders) > 1 or any(may_begin_with(word, "@") for word in found.operands):
        raise Unreduced("tar")  # `@archive` is one that is read
    run.program("tar")
    run.read(*found.values("X", "exclude-from"))
    if creates:
        run.write(*archives)
        moved = next((at for at, word in enumerate(arguments) if _MOVES.match(word.text or "")), 0)
        # What stands before `-C` is looked for here.
        here = [word for word in found.operands if any(word is one for one in arguments[:moved])]
        there = [word for word in found.operands if not any(word is one for one in here)]
        run.read(*here, *(_inside(folders, word) for word in there), tree=True)
    else:
        run.read(*archives)
    if extracts:
        target = folders[0] if folders else Word(text=".")
        run.write(target, tree=True)
        run.delete(target, tree=True)
        if found.has("P"):
            raise Unreduced("absolute_names")


def _old_style(arguments: list[Word]) -> list[Word]:
    """`tar czf a.tgz x`: letters without a dash, whose values follow in their order."""
    letters = known_text(arguments[0])
    rest = arguments[1:]
    options: list[Word] = []
    for letter in letters:
        options.append(Word(text=f"-{letter}"))
        if letter in _TAR.values:
            if not rest:
                raise Unreduced("missing_value")
            options.append(rest.pop(0))
    return [*options, *rest]


def _inside(folders: tuple[Word, ...], word: Word) -> Word:
    text = pattern_text(word)
    if not folders or text.startswith("/"):
        return word
    return Word(text=f"{known_text(folders[0])}/{text}", is_glob=word.is_glob)


def _compress(run: Run) -> None:
    """`gzip` and its like: a new file beside the old one, which goes unless it is kept."""
    known = spec(
        "cdfklnNqrtvz0",
        "S",
        "stdout to-stdout decompress uncompress force keep list quiet recursive test best fast "
        "suffix= verbose help version",
    )
    found = parse_options(run.arguments, known)
    tree = found.has("r", "recursive")
    run.program(known_text(run.words[0]))
    for word in files(found):
        run.read(word, tree=tree)
        if not found.has("c", "stdout", "to-stdout", "t", "test", "l", "list"):
            run.delete(word, tree=tree)
            _compressed(run, word, found, tree=tree)


_SUFFIXES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("gzip", "gunzip"), ".gz"),
    **dict.fromkeys(("bzip2", "bunzip2"), ".bz2"),
    **dict.fromkeys(("xz", "unxz"), ".xz"),
    **dict.fromkeys(("zstd", "unzstd"), ".zst"),
}
_ENDING: Final = re.compile(
    r"(?:[.-](?:gz|z|bz2?|xz|lzma|zst)|_z|\.t(?:gz|az|bz2?|xz|lz|zst))\Z", re.IGNORECASE
)
_ENDINGS: Final = (".gz", ".z", ".Z", "-gz", "-z", "_z", ".tgz", ".bz2", ".bz", ".xz", ".lzma", ".zst")


def _compressed(run: Run, word: Word, found: Parsed, *, tree: bool) -> None:
    """The new file beside the old one: with an ending more, or with one less."""
    name, text = known_text(run.words[0]), pattern_text(word)
    if found.has("S", "suffix"):
        raise Unreduced("suffix")
    if tree:
        run.write(word, tree=True)
    restores = name.startswith(("un", "gun", "bun")) or found.has("d", "decompress", "uncompress")
    if not restores or found.has("z"):
        run.write(replace(word, text=text + _SUFFIXES[name]))
    if restores:
        _restored(run, word, keeps_name=found.has("N"))


def _restored(run: Run, word: Word, *, keeps_name: bool) -> None:
    """Without its ending, which may be `.tar` for `.tgz`; a name that has none is looked for with each."""
    text = pattern_text(word)
    ending = _ENDING.search(text)
    if keeps_name or (word.is_glob and ending is None):
        # It is called as it was once, or the pattern does not say which ending there is.
        folder = split_pattern(text)[0] if word.is_glob else posixpath.dirname(text) or "."
        run.write(Word(text=posixpath.join(folder, "*"), is_glob=True))
    stem = text[: ending.start()] if ending else text
    run.write(*(replace(word, text=stem + more) for more in ("", ".tar", ".out")))
    for more in () if ending else _ENDINGS:
        run.read(replace(word, text=text + more))
        run.delete(replace(word, text=text + more))


def _zip(run: Run) -> None:
    found = parse_options(run.arguments, spec("rqvjyX0", "xi", "help"))
    if not found.operands:
        raise Unreduced("operands")
    [archive], members = positional(found.operands, 1)
    run.program("zip")
    run.write(archive, Word(text=f"{known_text(archive)}.zip"))
    run.read(*members, tree=found.has("r"))


def _unzip(run: Run) -> None:
    found = parse_options(run.arguments, spec("lnoqtvjp", "dx", "help"))
    if not found.operands:
        raise Unreduced("operands")
    run.program("unzip")
    archive = known_text(found.operands[0])
    for name in (archive, f"{archive}.zip", f"{archive}.ZIP"):
        # It matches patterns by itself, with quotes around them too.
        run.read(Word(text=name, is_glob=any(mark in archive for mark in "*?[")))
    if not found.has("l", "t", "v", "p"):
        target = (found.values("d") or (Word(text="."),))[0]
        run.write(target, tree=True)


def _rsync(run: Run) -> None:
    """`rsync` between folders of this machine. `-e`, a daemon and a remote side are unknown."""
    known = spec(
        "avzrlptgoDnuihPcxSHAXqW",
        "",
        "archive verbose recursive delete delete-after delete-excluded dry-run exclude= include= "
        "progress stats "
        "partial update checksum human-readable itemize-changes links perms times help version",
    )
    found = parse_options(run.arguments, known)
    if len(found.operands) < 2 or any(may_be_remote(word) for word in found.operands):
        raise Unreduced("remote")
    *sources, target = found.operands
    known_text(target)  # of names that match, the last is where the others go
    run.program("rsync")
    run.read(*sources, tree=True)
    if not found.has("n", "dry-run"):
        run.write(target, tree=True)
        if any(name.startswith("delete") for name in found.options):
            run.delete(target, tree=True)


def _cpio(run: Run) -> None:
    run.here(Verb.READ)
    raise Unreduced("named_by_input")


PROGRAMS: Final[Mapping[str, Description]] = {
    "tar": _tar,
    "bsdtar": _tar,
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd"), _compress),
    "zip": _zip,
    "unzip": _unzip,
    "rsync": _rsync,
    "cpio": _cpio,
}
