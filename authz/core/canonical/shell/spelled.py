"""Which options of a program a pattern of the shell may spell, by matching a file of that name.

A program that meets an option which it does not have ends before it does anything, so a pattern that every
matching option has a letter in which no option has (`*.md`) can only spell options that take the rest of the
word for their value. Letters and digits are all taken for options.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

_BRACKETS: Final = re.compile(r"\[(?:.*\]|.*)", re.DOTALL)
_MARKS: Final = ("*", "?", "[")
_MAX_CHARACTERS: Final = 64
"""Longer patterns may spell anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpelledOptions:
    """Options that must not be spelled, and how the program reads a word on its way to one."""

    groups: tuple[frozenset[str], ...]
    """Names of one option each: where it was given, it does no more harm."""
    letters: frozenset[str]
    values: frozenset[str]
    """Short options, harmful or not, that take the rest of the word for their value."""
    others: frozenset[str]
    """Characters that are options though they are no letters or digits."""
    names: frozenset[str]
    """Long ones. Any beginning of one may stand for it."""
    valued_names: frozenset[str]

    @staticmethod
    def of(harmful: str, *, flags: str, values: str) -> "SpelledOptions":
        """From letters and long names: `/` between those of one option, `=` behind what takes a value."""
        names = re.split(r"[ /]+", harmful) if harmful else []
        words = [(word.removesuffix("="), word.endswith("=")) for word in names]
        return SpelledOptions(
            groups=tuple(frozenset(group.replace("=", "").split("/")) for group in harmful.split()),
            letters=frozenset(name for name, _ in words if len(name) == 1),
            values=frozenset(values) | {name for name, valued in words if valued and len(name) == 1},
            others=frozenset(letter for letter in flags if not letter.isalnum()),
            names=frozenset(name for name, _ in words if len(name) > 1),
            valued_names=frozenset(name for name, valued in words if valued and len(name) > 1),
        )

    def without(self, given: Collection[str]) -> "SpelledOptions":
        """Where these options were given."""
        known = frozenset(name for group in self.groups if not group.isdisjoint(given) for name in group)
        if not known:
            return self
        return replace(
            self,
            groups=tuple(group for group in self.groups if group.isdisjoint(given)),
            letters=self.letters - known,
            names=self.names - known,
            valued_names=self.valued_names - known,
        )


def may_spell(pattern: str, text: str) -> bool:
    """Whether the pattern may match exactly this name. What stands in brackets, shells read differently."""
    expression = "".join(
        ".*" if mark == "*" else "." if mark == "?" else re.escape(mark) for mark in _tokens(pattern)
    )
    return re.fullmatch(expression, text, re.DOTALL) is not None


def _tokens(pattern: str) -> str:
    """The pattern with any characters in the place of brackets; `*` and `?` are all that is left of marks."""
    return _BRACKETS.sub("*", pattern)


def may_spell_option(pattern: str, harmful: SpelledOptions | None) -> bool:
    """Whether the pattern may match a name that is a harmful option. `None`: any option at all."""
    if not pattern.startswith(_MARKS):
        return False
    if harmful is None:
        return True
    if not harmful.letters and not harmful.names:
        return False
    return len(pattern) > _MAX_CHARACTERS or _may_spell(pattern, harmful)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What a program has made of the first characters of a word."""

    kind: str
    """`start` `dash` `cluster` `long`, or `value` for what takes any rest and has done harm."""
    does_harm: bool = False
    name: str = ""


@lru_cache(maxsize=256)
def _may_spell(pattern: str, harmful: SpelledOptions) -> bool:
    """All that can be read of words that the pattern matches, a character at a time."""
    alphabet = _alphabet(pattern, harmful)
    reached = {_Read(kind="start")}
    for mark in _tokens(pattern):
        if mark == "*":
            pending = list(reached)
            while pending:
                new = {after for after in _after(pending.pop(), alphabet, harmful) if after not in reached}
                reached |= new
                pending += new
        else:
            letters = alphabet if mark == "?" else frozenset(mark)
            reached = {after for one in reached for after in _after(one, letters, harmful)}
    return any(one.does_harm or one.kind == "value" for one in reached)


def _alphabet(pattern: str, harmful: SpelledOptions) -> frozenset[str]:
    """Every character that makes a difference; any other is as good as one of these."""
    named = frozenset("".join(harmful.names))
    return frozenset("-=/a") | frozenset(pattern) | harmful.letters | harmful.values | harmful.others | named


def _after(read: _Read, letters: frozenset[str], harmful: SpelledOptions) -> Iterator[_Read]:
    for letter in letters:
        after = _next(read, letter, harmful)
        if after is not None:
            yield after


def _next(read: _Read, letter: str, harmful: SpelledOptions) -> _Read | None:
    """What is read with one character more; `None` where no harm can come of it any more."""
    if read.kind == "value":
        return read
    if read.kind == "start":
        return _Read(kind="dash") if letter == "-" else None
    if read.kind == "dash" and letter == "-":
        return _Read(kind="long")
    if read.kind == "long":
        return _next_of_name(read.name, letter, harmful)
    does_harm = read.does_harm or letter in harmful.letters
    if letter in harmful.values:
        return _Read(kind="value") if does_harm else None
    is_option = (letter.isascii() and letter.isalnum()) or letter in harmful.others
    return _Read(kind="cluster", does_harm=does_harm) if is_option else None


def _next_of_name(name: str, letter: str, harmful: SpelledOptions) -> _Read | None:
    if letter == "=":
        is_valued = name and any(one.startswith(name) for one in harmful.valued_names)
        return _Read(kind="value") if is_valued else None
    longer = name + letter
    if not any(one.startswith(longer) for one in harmful.names):
        return None
    return _Read(kind="long", name=longer, does_harm=True)
