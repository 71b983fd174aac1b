"""What a pattern of the shell can match, as a `PathPattern`: never less than the truth (spec section 4).

Source: bash's manual, "Pattern Matching" and "Filename Expansion". A leading dot is matched by a dot alone: a
line that sets `dotglob` is not understood, and a shell that starts with it is none that lines are read for.
Letter case (`nocaseglob`) and `**` (`globstar`) are taken at their widest. A pattern without a match stays a
word of the line, so a bracket is its own text too: it becomes `*`, which is both. Where a name may be written
otherwise on the disk than here (a volume that folds case or composes characters, anything that is not ASCII),
the whole name is `*`.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from authz.model.resource import PathPattern, Volume

ANY_DEPTH: Final = "**"
MAX_PARTS: Final = 32
"""Of a pattern; one with more stands for the whole tree."""
_MARKS: Final = re.compile(r"[*?\[]")
# A name that every volume knows by this spelling and its letter cases alone.
_PLAIN: Final = re.compile(r"(?!.*\.\Z)[A-Za-z0-9_.,=+@%*?-]*")
_BRACKETS: Final = re.compile(r"\[(?:.*\]|.*)", re.DOTALL)
_RUNS: Final = re.compile(r"\*+[*?]*\*|\*\?+")


def is_pattern(name: str) -> bool:
    """Whether a part of a path holds a mark of the shell's patterns."""
    return _MARKS.search(name) is not None


def path_pattern(names: Sequence[str], volume: Volume, *, whole: bool = False) -> PathPattern | None:
    """What the parts of a shell's pattern match beneath their folder; `None` for anything at all.

    `whole`: what matches is reached with everything beneath it.
    """
    is_exact = volume.case_sensitive and volume.normalization == "none"
    parts: list[str] = []
    for name in names:
        part = _widened(name, is_exact=is_exact)
        if part and not (part == ANY_DEPTH and parts[-1:] == [ANY_DEPTH]):
            parts.append(part)
    if whole and parts[-1:] != [ANY_DEPTH]:
        parts.append(ANY_DEPTH)
    if len(parts) > MAX_PARTS or all(part == ANY_DEPTH for part in parts):
        return None
    return PathPattern(parts=tuple(parts))


def _widened(name: str, *, is_exact: bool) -> str:
    """One part, as `PathPattern` has it; empty for one that names nothing."""
    if name in ("", "."):
        return ""
    if ANY_DEPTH in name:
        return ANY_DEPTH
    wide = _BRACKETS.sub("*", name)
    if not is_exact:
        wide = wide.replace("?", "*")  # one character on the disk may be several here
    if _PLAIN.fullmatch(wide) is None:
        return ".*" if name.startswith(".") else "*"
    return _RUNS.sub("*", wide)


def reaches(pattern: PathPattern, names: Sequence[str]) -> bool:
    """Whether the place of these names beneath the folder is matched, or something in it may be."""
    alive = set(_from(pattern.parts, 0))
    for name in names:
        alive = {after for at in alive if at < len(pattern.parts) for after in _step(pattern.parts, at, name)}
        if not alive:
            return False
    return True


def _step(parts: Sequence[str], at: int, name: str) -> Iterator[int]:
    if parts[at] == ANY_DEPTH:
        yield from _from(parts, at)
    elif may_match(parts[at], name):
        yield from _from(parts, at + 1)


def _from(parts: Sequence[str], at: int) -> Iterator[int]:
    """`at`, and what may come next where any depth stands there, which may be none."""
    yield at
    if at < len(parts) and parts[at] == ANY_DEPTH:
        yield at + 1  # two of them never stand in a row


def may_match(part: str, name: str) -> bool:
    """Whether one part, which is not `**`, may match this name."""
    if name.startswith(".") and not part.startswith("."):
        return False
    return not name.isascii() or fnmatchcase(name.lower(), part.lower())
