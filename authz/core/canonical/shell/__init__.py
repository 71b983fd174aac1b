"""Kind `shell`: a bash line as the accesses that it can make (spec section 4).

`syntax` parses the line, `words` expands what can be known without running anything, `walk` goes over
every command that can be reached, `command` and `redirect` take commands apart, and `programs` says what
well-known programs do. Whatever none of them understands is an access to an `Opaque`: it is added to what
was understood, never put in its place, so that a rule that forbids one part of a line holds for the whole.
"""

import re
from functools import lru_cache
from typing import Final

from authz.core.canonical.shell.effects import Effects, ShellAccess, Unreduced
from authz.core.canonical.shell.programs import PROGRAMS
from authz.core.canonical.shell.walk import walk_line
from authz.model.resource import Base, NotCanonical, Verb

__all__ = ["ShellAccess", "analyse_shell", "unread_line"]

MAX_MENTIONED: Final = 64
_TOKEN: Final = re.compile(r"[^\s;&|<>(){}`'\"$=,]+")
_PATH_LIKE: Final = re.compile(r"[~.]?\.?/|.*/")


def analyse_shell(
    text: object, base: Base, *, confined: bool = False
) -> tuple[ShellAccess, ...] | NotCanonical:
    """Every access that the line can make when a bash reads it in `base.cwd`.

    Pure and the same every time: the size of a line is bounded before it is parsed. `confined` says that the
    runtime holds whatever runs in a sandbox, so that code which nobody has read may run there.
    """
    if not isinstance(text, str):
        return NotCanonical(code="shell.type", message="expected a string, send the command as a string")
    return _remembered(text, base, confined) if len(text) <= _MAX_REMEMBERED else _read(text, base, confined)


def _read(text: str, base: Base, confined: bool) -> tuple[ShellAccess, ...]:
    effects = Effects(base, text)
    try:
        walk_line(text, base, effects, confined=confined)
    except (Unreduced, RecursionError) as unreduced:
        reason = unreduced.reason if isinstance(unreduced, Unreduced) else "too_deep"
        effects = _opaque(text, base, effects, reason)
    found = tuple(effects.collected())
    if not found:
        effects.opaque("shell.empty")
        found = tuple(effects.collected())
    return found


_MAX_REMEMBERED: Final = 512
_remembered = lru_cache(maxsize=1024)(_read)


def unread_line(text: str, base: Base, reason: str) -> tuple[ShellAccess, ...]:
    """A line that nobody has read: opaque, with the programs and the places that it mentions."""
    return tuple(_opaque(text, base, Effects(base, text), reason).collected())


def _opaque(text: str, base: Base, effects: Effects, reason: str) -> Effects:
    """The line as a whole is not understood: what is known so far, and whatever it mentions."""
    if reason == "too_many":
        effects = Effects(base, text)
    effects.opaque(f"shell.{reason}")
    mentioned = list(dict.fromkeys(_TOKEN.findall(text[:_MAX_SCANNED])))
    for token in mentioned:
        name = token.replace("\\", "").rpartition("/")[2]
        if name in PROGRAMS:
            effects.program(name, known=False, changes=True)
    for token in [one for one in mentioned if _PATH_LIKE.match(one)][:MAX_MENTIONED]:
        for verb in (Verb.READ, Verb.WRITE):
            effects.path(verb, token, base.cwd, guessed=True)
    return effects


_MAX_SCANNED: Final = 65536
