"""Kind `shell`: a bash line as the accesses that it can make (spec section 4).

`syntax` parses the line, `words` expands what can be known without running anything, `walk` goes over
every command that can be reached, `command` and `redirect` take commands apart, and `programs` says what
well-known programs do. Whatever none of them understands is an access to an `Opaque`: it is added to what
was understood, never put in its place, so that a rule that forbids one part of a line holds for the whole.
"""

import re
from typing import Final

from authz.core.canonical.opaque import FAILED
from authz.core.canonical.shell.effects import Effects, ShellAccess, Unreduced
from authz.core.canonical.shell.programs import PROGRAMS
from authz.core.canonical.shell.walk import walk_line
from authz.core.remembered import ENTRY_BYTES, Remembered, resource_bytes, text_bytes
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
    if len(text) > _MAX_REMEMBERED:
        return _read(text, base, confined)
    key = (text, base, confined)
    found = _remembered.get(key)
    if found is None:
        found = _read(text, base, confined)
        _remembered.put(key, found, _bytes_of(text, base, found))
    return found


_MAX_REMEMBERED: Final = 512
MAX_REMEMBERED_BYTES: Final = 16 * 1024 * 1024
"""Of all lines together, with what they come to: their directories may be far longer than they are."""
_MAX_ENTRY_BYTES: Final = 64 * 1024
_remembered: Final[Remembered[tuple[ShellAccess, ...]]] = Remembered(
    max_bytes=MAX_REMEMBERED_BYTES, max_entry_bytes=_MAX_ENTRY_BYTES
)


def _bytes_of(text: str, base: Base, found: tuple[ShellAccess, ...]) -> int:
    """What a line takes of memory with its key and what it came to."""
    texts = [text, base.cwd or "", base.root or "", base.home or ""]
    texts += [part for one in found if one.pattern is not None for part in one.pattern.parts]
    return ENTRY_BYTES + sum(map(text_bytes, texts)) + resource_bytes(one.resource for one in found)


def _read(text: str, base: Base, confined: bool) -> tuple[ShellAccess, ...]:
    effects = Effects(base, text)
    try:
        walk_line(text, base, effects, confined=confined)
    except Unreduced as unreduced:
        return _not_reduced(text, base, effects, unreduced.reason)
    except RecursionError:
        return _not_reduced(text, base, effects, "too_deep")
    except Exception:  # noqa: BLE001 - a fault of ours is no verdict: what it hid is asked about
        return _not_reduced(text, base, effects, FAILED)
    found = tuple(effects.collected())
    if not found:
        effects.opaque("shell.empty")
        found = tuple(effects.collected())
    return found


def _not_reduced(text: str, base: Base, effects: Effects, reason: str) -> tuple[ShellAccess, ...]:
    """What is known of a line that broke off for this reason. Never raises.

    What is mentioned is one thing more that can be too much, or meet the fault again.
    """
    for known, why in ((effects, reason), (Effects(base, text), reason)):
        try:
            return tuple(_opaque(text, base, known, why).collected())
        except Exception:  # noqa: BLE001, S112 - the next one has less to it
            continue
    return (Effects(base, text).opaque(f"shell.{reason}"),)


def unread_line(text: str, base: Base, reason: str) -> tuple[ShellAccess, ...]:
    """A line that nobody has read: opaque, with the programs and the places that it mentions."""
    return _not_reduced(text, base, Effects(base, text), reason)


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
