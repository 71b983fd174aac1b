"""What a command of a line meets, and how two ways to the same place are joined. Immutable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tree_sitter import Node

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.words import UNKNOWN, Word

MAX_DIRECTORIES: Final = 4
"""That may be in force at one place of a line; with more nobody knows where it is."""
MAX_DEPTH: Final = 12
"""Of lines in lines (`sh -c`), of function calls and of substitutions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Directories, variables and functions of the shell at one place of the line."""

    directories: frozenset[str | None]
    """Those that may be in force; `None` is one that nobody knows."""
    variables: Mapping[str, Word] = field(default_factory=dict)
    """Those that the line has set."""
    functions: Mapping[str, Node] = field(default_factory=dict)
    is_changed: bool = False
    """A variable that may change what programs do has been set."""
    is_over: bool = False
    """The shell has ended: nothing behind this place runs."""

    def assigned(self, name: str, value: Word) -> "State":
        """With this variable set."""
        return replace(self, variables={**self.variables, name: value})

    def moved(self, directories: frozenset[str | None]) -> "State":
        """In one of these directories."""
        known = directories if len(directories) <= MAX_DIRECTORIES else frozenset((None,))
        return self if known == self.directories else replace(self, directories=known)


def in_order(directories: frozenset[str | None]) -> Iterable[str | None]:
    """These, in the same order in every process: sets of strings are not gone over like that."""
    if len(directories) == 1:
        return directories
    return sorted(directories, key=lambda directory: directory or "")


def joined(one: State, other: State) -> State:
    """Either of the two: what holds afterwards is what holds in both."""
    if other is one or other.is_over:
        return one
    if one.is_over:
        return other
    if one.functions != other.functions:
        # Which of them a name means is not known, so it means nothing that is.
        raise Unreduced("function")
    if one == other:
        return one
    names = one.variables.keys() | other.variables.keys()
    variables = {
        name: value if (value := one.variables.get(name, UNKNOWN)) == other.variables.get(name) else UNKNOWN
        for name in names
    }
    either = replace(one, variables=variables, is_changed=one.is_changed or other.is_changed)
    return either.moved(one.directories | other.directories)
