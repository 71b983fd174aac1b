"""Options of programs, as `getopt_long` reads them: order, clusters and long forms make no difference.

Source: POSIX.1-2017, "Utility Syntax Guidelines", and getopt_long(3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from authz.core.canonical.shell.effects import Unreduced
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
    refuses_patterns: bool = False
    """An option would do harm, and a pattern such as `*` can match a name that is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What was given."""

    options: Mapping[str, tuple[Word, ...]]
    """By name without dashes, with every value; an empty tuple for a flag."""
    operands: tuple[Word, ...]
    order: tuple[str, ...] = field(default=())

    def has(self, *names: str) -> bool:
        """Whether one of these options was given."""
        return not self.options.keys().isdisjoint(names)

    def values(self, *names: str) -> tuple[Word, ...]:
        """The values of these options."""
        return tuple(value for name in names for value in self.options.get(name, ()))


@cache
def spec(flags: str = "", values: str = "", long: str = "", **more: bool) -> OptionSpec:
    """A spec in one line: `long` has `name`, `name=` and `name?` (an optional value), by blanks."""
    names = long.split()
    return OptionSpec(
        flags=flags,
        values=values,
        long_flags=frozenset(name for name in names if name[-1] not in "=?"),
        long_values=frozenset(name[:-1] for name in names if name[-1] == "="),
        long_optional=frozenset(name[:-1] for name in names if name[-1] == "?"),
        **more,
    )


def parse_options(arguments: Sequence[Word], known: OptionSpec) -> Parsed:
    """Read `arguments`. Raises `Unreduced` for an option that is not known and for a word that is not."""
    options: dict[str, list[Word]] = {}
    operands: list[Word] = []
    order: list[str] = []
    pending = list(arguments)
    while pending:
        word = pending.pop(0)
        text = word.text
        if text is None:
            raise Unreduced("dynamic_argument")
        if text == "--":
            operands += pending
            break
        if text == "-" or not text.startswith("-"):
            if word.is_glob and text[:1] in "*?[" and known.refuses_patterns:
                raise Unreduced("pattern_as_option")
            operands.append(word)
            if not known.permutes:
                operands += pending
                break
            continue
        names = _long(text, known, pending) if text.startswith("--") else _short(text, known, pending)
        for name, value in names:
            order.append(name)
            options.setdefault(name, []).extend(() if value is None else (value,))
    if any(word.text is None for word in pending):
        raise Unreduced("dynamic_argument")
    return Parsed(
        options={name: tuple(values) for name, values in options.items()},
        operands=tuple(operands),
        order=tuple(order),
    )


def _long(text: str, known: OptionSpec, pending: list[Word]) -> list[tuple[str, Word | None]]:
    name, equals, value = text[2:].partition("=")
    name = _full_name(name, known)
    if name in known.long_flags and not equals:
        return [(name, None)]
    if name in known.long_optional:
        return [(name, Word(text=value) if equals else None)]
    if name in known.long_values:
        return [(name, Word(text=value) if equals else _next(pending))]
    raise Unreduced("unknown_option")


def _full_name(name: str, known: OptionSpec) -> str:
    """GNU programs take any unambiguous beginning of a long option."""
    if name in known.long_flags or name in known.long_values or name in known.long_optional:
        return name
    every = known.long_flags | known.long_values | known.long_optional
    found = [one for one in every if one.startswith(name)] if name else []
    return found[0] if len(found) == 1 else name


def _short(text: str, known: OptionSpec, pending: list[Word]) -> list[tuple[str, Word | None]]:
    found: list[tuple[str, Word | None]] = []
    cluster = text[1:]
    for index, letter in enumerate(cluster):
        if letter in known.flags:
            found.append((letter, None))
        elif letter in known.values:
            rest = cluster[index + 1 :]
            found.append((letter, Word(text=rest) if rest else _next(pending)))
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
