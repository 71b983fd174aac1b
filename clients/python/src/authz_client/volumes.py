"""How a directory tells names apart: whether it folds letter case, and whether it composes characters.

The service folds only where the bundle's profile declares it (`volume:`). `probe` is how an operator, or a
runtime at its start, finds out what to declare. It only reads: it asks for names that exist by another
spelling of theirs, so it knows nothing (`UNKNOWN`) of a directory that holds no name to ask for. Unknown is
no licence to assume: declare the volume that folds, whose rules are the stricter ones.

Rules can differ by directory (ext4 and NTFS mark single ones) and end at a mount, so an answer is one about
the names in `directory`, not about those below its subfolders.
"""

import itertools
import os
import platform
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["NameRule", "VolumeRules", "probe"]

MAX_NAMES: Final = 2000
"""Names that are looked at in one directory."""

_PC_CASE_SENSITIVE: Final = 11
"""macOS, <sys/unistd.h>."""


class NameRule(StrEnum):
    """What two spellings of a name are to a directory."""

    DISTINCT = "distinct"
    """Two names: two objects."""
    SAME = "same"
    """One name: one object."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRules:
    """Of one directory."""

    letter_case: NameRule
    """Of `a` and `A`."""
    composition: NameRule
    """Of a composed and a decomposed `é` (NFC and NFD)."""


def probe(directory: str) -> VolumeRules:
    """The rules for names in `directory`. Raises `OSError` where it cannot be listed. Writes nothing."""
    names = _listed(directory)
    letter_case = _judge(directory, names, lambda name: _others(name, name.swapcase(), name.casefold()))
    if letter_case is NameRule.UNKNOWN:
        letter_case = _said_by_system(directory)
    composition = _judge(
        directory,
        names,
        lambda name: _others(name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)),
    )
    return VolumeRules(letter_case=letter_case, composition=composition)


def _listed(directory: str) -> frozenset[str]:
    with os.scandir(directory) as entries:
        return frozenset(entry.name for entry in itertools.islice(entries, MAX_NAMES))


def _others(name: str, *spellings: str) -> Iterator[str]:
    return (spelling for spelling in spellings if spelling != name)


def _judge(directory: str, names: Iterable[str], respell: Callable[[str], Iterable[str]]) -> NameRule:
    """What other spellings of existing names lead to. One contradiction makes the answer unknown."""
    found: set[NameRule] = set()
    for name in names:
        for spelling in respell(name):
            found.add(_compare(directory, name, spelling))
    found.discard(NameRule.UNKNOWN)
    return found.pop() if len(found) == 1 else NameRule.UNKNOWN


def _compare(directory: str, name: str, spelling: str) -> NameRule:
    try:
        known = os.lstat(os.path.join(directory, name))
        try:
            other = os.lstat(os.path.join(directory, spelling))
        except FileNotFoundError:
            return NameRule.DISTINCT
    except (OSError, UnicodeEncodeError):
        return NameRule.UNKNOWN  # it vanished, or the spelling is too long or not encodable
    if (known.st_dev, known.st_ino) != (other.st_dev, other.st_ino):
        return NameRule.DISTINCT
    # One object under two names may as well be two hard links: then both stand in the list.
    listed = frozenset(os.listdir(directory))
    return NameRule.DISTINCT if name in listed and spelling in listed else NameRule.SAME


def _said_by_system(directory: str) -> NameRule:
    """What the system says outright: macOS of a volume."""
    if platform.system() != "Darwin":
        return NameRule.UNKNOWN
    try:
        sensitive = os.pathconf(directory, _PC_CASE_SENSITIVE)
    except (OSError, ValueError):
        return NameRule.UNKNOWN
    return {0: NameRule.SAME, 1: NameRule.DISTINCT}.get(sensitive, NameRule.UNKNOWN)
