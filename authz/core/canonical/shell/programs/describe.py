"""The shapes that most descriptions have."""

from collections.abc import Callable, Sequence

from authz.core.canonical.pattern import is_pattern
from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import OptionSpec, Parsed, parse_options
from authz.core.canonical.shell.run import Run, pattern_text
from authz.core.canonical.shell.words import Word

Description = Callable[[Run], None]
"""Adds the accesses of one run. Raises `Unreduced` for what it does not know."""


def named(name: str) -> Description:
    """A program that touches nothing, whatever its arguments are."""

    def describe(run: Run) -> None:
        run.program(name)

    return describe


def reads(
    name: str, known: OptionSpec, *, tree: bool = False, tree_if: tuple[str, ...] = (), here: bool = False
) -> Description:
    """A program that reads its operands. `here`: without any it reads the directory in force."""

    def describe(run: Run) -> None:
        found = parse_options(run.arguments, known)
        run.program(name)
        operands = _files(found.operands)
        if here and not operands:
            operands = [Word(text=".")]
        run.read(*operands, tree=tree or found.has(*tree_if))

    return describe


def _files(operands: Sequence[Word]) -> list[Word]:
    """Operands without `-`, which is standard input."""
    return [word for word in operands if word.text != "-"]


def files(found: Parsed) -> list[Word]:
    """The operands that are files."""
    return _files(found.operands)


def may_be_remote(word: Word) -> bool:
    """Whether `rsync` and `scp` may take it for `HOST:path`: a colon before any slash."""
    first = pattern_text(word).partition("/")[0]
    return ":" in first or (word.is_glob and is_pattern(first))


def at_most(words: Sequence[Word], count: int) -> Sequence[Word]:
    """`words`, of which the program takes no more than `count`."""
    if len(words) > count:
        raise Unreduced("operands")
    return words
