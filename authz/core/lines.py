"""Shell lines that are long enough to be read elsewhere, and what came of it.

Reading a line is pure, but the parser may take tens of milliseconds for a line that was made to, and nothing
else runs meanwhile. So the service has long lines read by a process that it can kill, and hands the result to
the decision as a fact. A line for which there is none is read in place: the result is the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz.core.canonical.shell import ShellAccess
from authz.core.claims import check_claims
from authz.core.pointer import Tokens, find
from authz.model.call import Call
from authz.model.caller import Profile
from authz.model.resource import Base
from authz.model.tool import Descriptor

LONG_LINE_CHARACTERS: Final = 256
"""Up to this size any line is read within a few milliseconds, whatever stands in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, and what its meaning depends on."""

    text: str
    base: Base
    confined: bool


Lines = Mapping[Line, tuple[ShellAccess, ...]]
"""What lines come to, as facts of a decision."""


def long_lines(call: Call, descriptor: Descriptor, profile: Profile) -> Iterator[Line]:
    """The long lines of a call. Whether it may be made at all is not looked at."""
    for spec in descriptor.accesses:
        if spec.kind != "shell" or spec.at is None:
            continue
        for value in _each(call.arguments, spec.at):
            if isinstance(value, str) and len(value) > LONG_LINE_CHARACTERS:
                believed = check_claims(call.claims, profile)
                yield Line(text=value, base=believed.base, confined=believed.confined)


def _each(arguments: Mapping[str, Any], pattern: Tokens) -> Iterator[Any]:
    """What stands at a pointer; an array stands for each of its items, as when it is judged."""
    for _, value in find(arguments, pattern):
        yield from value if isinstance(value, list) else (value,)
