"""Options of programs, as `getopt_long` reads them: order, clusters and long forms make no difference.

A name that a pattern matches may be an option: `rm *` meets a file called `-rf`. So a pattern that does not
begin with a name is refused, but where its program is known to do no harm by any option that it can spell.
`./*` and what stands behind `--` is always a file.

Source: POSIX.1-2017, "Utility Syntax Guidelines", and getopt_long(3).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.spelled import SpelledOptions, may_spell, may_spell_option
from authz.core.canonical.shell.words import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """The options that are known. Any other makes the command one that is not understood."""

    flags: str = ""
    """Short options without a value."""
    values: str = ""
    """Short options with one."""
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    long_optional: frozenset[str] = frozenset()
    """Long options whose value follows after `=` or not at all."""
    permutes: bool = True
    """Options may stand behind operands."""
    abbreviates: bool = False
    """Every long option of the program is here: only then is it known what a beginning of one stands for."""
    optional: str = ""
    """Short options whose value is glued on or not there at all."""
    harmful: SpelledOptions | None = None
    """Of every option that the program really has, those that a pattern must not be able to spell: what it
    does, or what it takes for a file, would be another. `None`: nobody has looked, so none may be spelled.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What was given."""

    options: Mapping[str, tuple[Word, ...]]
    """By name without dashes, with every value; an empty tuple for a flag."""
    operands: tuple[Word, ...]
    order: tuple[str, ...] = field(default=())
    ended: int | None = None
    """How many operands stand before `--`, where there is one."""

    def has(self, *names: str) -> bool:
        """Whether one of these options was given."""
        return not self.options.keys().isdisjoint(names)

    def values(self, *names: str) -> tuple[Word, ...]:
        """The values of these options."""
        return tuple(value for name in names for value in self.options.get(name, ()))


@cache
def spec(
    flags: str = "",
    values: str = "",
    long: str = "",
    *,
    harmful: str | None = None,
    optional: str = "",
    permutes: bool = True,
    abbreviates: bool = False,
) -> OptionSpec:
    """A spec in one line: `long` has `name`, `name=` and `name?` (an optional value), by blanks.

    `harmful` has letters and long names, by blanks, with `/` between those of one option and `=` behind what
    takes a value.
    """
    names = long.split()
    return OptionSpec(
        flags=flags,
        values=values,
        long_flags=frozenset(name for name in names if name[-1] not in "=?"),
        long_values=frozenset(name[:-1] for name in names if name[-1] == "="),
        long_optional=frozenset(name[:-1] for name in names if name[-1] == "?"),
        harmful=None if harmful is None else SpelledOptions.of(harmful, flags=flags, values=values),
        optional=optional,
        permutes=permutes,
        abbreviates=abbreviates,
    )


def parse_options(arguments: Sequence[Word], known: OptionSpec) -> Parsed:
    """Read `arguments`. Raises `Unreduced` for an option that is not known and for a word that is not."""
    options: dict[str, list[Word]] = {}
    operands: list[Word] = []
    order: list[str] = []
    ended: int | None = None
    may_have_ended = False
    pending = list(arguments)
    while pending:
        word = pending.pop(0)
        text = word.text
        if text is None:
            raise Unreduced("dynamic_argument")
        if text == "--":
            ended = len(operands)
            operands += pending
            break
        if not word.is_option:
            may_have_ended |= word.is_glob and may_spell(text, "--")
            operands.append(word)
            if not known.permutes:
                operands += pending
                break
            continue
        if may_have_ended:
            raise Unreduced("pattern_as_option")  # behind a name that is `--` this is a file
        names = _long(word, known, pending) if text.startswith("--") else _short(word, known, pending)
        for name, value in names:
            order.append(name)
            options.setdefault(name, []).extend(() if value is None else (value,))
    if any(word.text is None for word in pending):
        raise Unreduced("dynamic_argument")
    for word in operands[: ended if known.permutes else 1]:
        _check_no_option(word, known, options)
    return Parsed(
        options={name: tuple(values) for name, values in options.items()},
        operands=tuple(operands),
        order=tuple(order),
        ended=ended,
    )


def _check_no_option(word: Word, known: OptionSpec, given: Collection[str]) -> None:
    """Refuse a pattern that may match a name which the program takes for an option that does harm."""
    harmful = known.harmful.without(given) if known.harmful is not None else None
    if word.is_glob and may_spell_option(word.text or "", harmful):
        raise Unreduced("pattern_as_option")


def _long(word: Word, known: OptionSpec, pending: list[Word]) -> list[tuple[str, Word | None]]:
    name, equals, value = (word.text or "")[2:].partition("=")
    name = _full_name(name, known)
    if name in known.long_flags and not equals:
        return [(name, None)]
    if name in known.long_optional:
        return [(name, _glued(word, value) if equals else None)]
    if name in known.long_values:
        return [(name, _glued(word, value) if equals else _next(pending))]
    raise Unreduced("unknown_option")


def _glued(word: Word, value: str) -> Word:
    """The value in a word. Where the word is a pattern it is one too, of which the shell knows nothing."""
    return replace(word, text=value, by_shell=False)


def _full_name(name: str, known: OptionSpec) -> str:
    """GNU programs take any unambiguous beginning of a long option, unless it is an option itself."""
    if name in known.long_flags or name in known.long_values or name in known.long_optional:
        return name
    if not known.abbreviates:
        return name
    every = known.long_flags | known.long_values | known.long_optional
    found = [one for one in every if one.startswith(name)] if name else []
    return found[0] if len(found) == 1 else name


def _short(word: Word, known: OptionSpec, pending: list[Word]) -> list[tuple[str, Word | None]]:
    found: list[tuple[str, Word | None]] = []
    cluster = (word.text or "")[1:]
    for index, letter in enumerate(cluster):
        if letter in known.flags:
            found.append((letter, None))
        elif letter in known.values:
            rest = cluster[index + 1 :]
            found.append((letter, _glued(word, rest) if rest else _next(pending)))
            return found
        elif letter in known.optional:
            rest = cluster[index + 1 :]
            found.append((letter, _glued(word, rest) if rest else None))
            return found
        elif letter.isdigit() and "0" in known.flags:
            found.append(("0", None))  # `head -20`
        else:
            raise Unreduced("unknown_option")
    return found


def _next(pending: list[Word]) -> Word:
    if not pending:
        raise Unreduced("missing_value")
    word = pending.pop(0)
    if word.text is None or word.is_glob:
        raise Unreduced("dynamic_argument")
    return word
