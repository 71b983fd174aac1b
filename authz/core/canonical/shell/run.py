"""One command that runs, as the descriptions of programs see it: its words, and what they may ask for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from authz.core.canonical.pattern import is_pattern
from authz.core.canonical.shell.effects import Effects, Unreduced
from authz.core.canonical.shell.spelled import may_spell
from authz.core.canonical.shell.state import in_order
from authz.core.canonical.shell.words import Word
from authz.model.resource import Verb


class Runner(Protocol):
    """The walk over the line, for programs that run other programs."""

    def run_words(self, words: Sequence[Word], run: "Run") -> None:
        """A command of these words: a program by its name, without functions and builtins of the shell."""
        ...

    def run_text(self, text: str, run: "Run", *, posix: bool) -> None:
        """A line that another shell reads; `posix` is one that may not know what only bash does."""
        ...


@dataclass(slots=True, kw_only=True)
class Run:
    """One command. `directories` are those that may be in force; `None` is one that nobody knows."""

    words: Sequence[Word]
    directories: frozenset[str | None]
    effects: Effects
    runner: Runner
    stdin: str | None = ""
    """What it reads: a text that stands in the line, empty for nothing of it, `None` for a pipe or a file."""
    depth: int = 0
    guessed: bool = False
    home: str | None = None
    root: str | None = None
    """The declared root, which is taken for the top of a work tree."""
    confined: bool = False
    """Whatever runs is held in a sandbox by the runtime (declared by the bundle, not by the caller)."""

    @property
    def arguments(self) -> Sequence[Word]:
        """The words behind the name."""
        return self.words[1:]

    def program(self, name: str, *, known: bool = True, changes: bool = False) -> None:
        """This command is this program."""
        self.effects.program(name, known=known and not self.guessed, changes=changes)

    def read(self, *words: Word, tree: bool = False) -> None:
        """It reads these files."""
        self._paths(Verb.READ, words, tree=tree)

    def write(self, *words: Word, tree: bool = False) -> None:
        """It writes these files."""
        self._paths(Verb.WRITE, words, tree=tree)

    def delete(self, *words: Word, tree: bool = False) -> None:
        """It deletes these files."""
        self._paths(Verb.DELETE, words, tree=tree)

    def execute(self, *words: Word) -> None:
        """It runs these files."""
        self._paths(Verb.EXECUTE, words, tree=False)

    def here(self, verb: Verb, *, tree: bool = True) -> None:
        """It touches the directory in force."""
        self._paths(verb, (Word(text="."),), tree=tree)

    def matching(self, verb: Verb, above: str, names: Sequence[str]) -> None:
        """It touches what these parts of a pattern of the shell match beneath `above`."""
        for directory in in_order(self.directories):
            self.effects.path(verb, above, directory, matching=names, guessed=self.guessed)

    def _paths(self, verb: Verb, words: Sequence[Word], *, tree: bool) -> None:
        for word in words:
            text, names, whole = pattern_text(word), None, tree
            if word.is_glob:
                text, names = split_pattern(text)
                if not word.by_shell:
                    # What a program makes of a pattern is not known: git's `*` crosses folders.
                    names, whole = None, True
            for directory in in_order(self.directories):
                self.effects.path(verb, text, directory, tree=whole, matching=names, guessed=self.guessed)

    def opaque(self, reason: str) -> None:
        """Something of it is not understood."""
        self.effects.opaque(reason, " ".join(word.text or "?" for word in self.words))

    def code(self, reason: str = "code") -> None:
        """It runs code that nobody has read: opaque, unless the runtime confines whatever runs."""
        if not self.confined:
            self.opaque(reason)


def known_text(word: Word) -> str:
    """The text of a word. Raises `Unreduced` where it is not known, which of a pattern it never is.

    A pattern stands for any number of words that nobody knows, so this is what everything asks that goes by
    the place or the text of a word. A file that a program is given may be a pattern: see `pattern_text`.
    """
    if word.is_glob:
        raise Unreduced("pattern")
    return pattern_text(word)


def pattern_text(word: Word) -> str:
    """The text of a word that may be a pattern. Raises `Unreduced` where it is not known."""
    if word.text is None:
        raise Unreduced("dynamic_argument")
    return word.text


def may_begin_with(word: Word, mark: str) -> bool:
    """Whether the text of a word, or of one that it matches, may begin with this character."""
    text = pattern_text(word)
    return text.startswith(mark) or (word.is_glob and is_pattern(text[:1]))


def positional(words: Sequence[Word], count: int) -> tuple[Sequence[Word], Sequence[Word]]:
    """(the first `count` words, the rest). Raises `Unreduced` where one of them may be several.

    Those are patterns, script, mode, lock: with a pattern among them the rest would begin elsewhere.
    """
    for word in words[:count]:
        known_text(word)
    return words[:count], words[count:]


def split_pattern(text: str) -> tuple[str, list[str]]:
    """The directory beneath which everything lies that the pattern matches, and its parts beneath that.

    Raises `Unreduced` where what it matches may lie above.
    """
    parts = text.split("/")
    at = next((index for index, part in enumerate(parts) if is_pattern(part)), len(parts))
    if at == len(parts):
        return text, []
    # `*/../../x` lies above whatever the pattern matches, and to some shells `.*` matches `..`.
    if any(may_spell(part, "..") for part in parts[at:] if part.startswith(".")):
        raise Unreduced("pattern_above")
    above = "/".join(parts[:at])
    return above or ("/" if text.startswith("/") else "."), parts[at:]
