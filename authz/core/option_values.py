"""Values that a program would take for options (spec section 4).

What a tool does with its arguments is its own affair: many hand them to a program, as words of its command
line, and a word that begins with `-` is then an option, which may write a file or run a helper. No descriptor
can say for sure that its tool does not, least of all one that was drafted from what a server says, so it is
the other way about: at stage 4 such a value is refused wherever it can be a word of its own, unless a
reviewer has listed the argument under `may_start_with_dash` (the tool runs no command line, or ends its
options by `--`).

Judged is the canonical value, which is what the executor gets: a path is absolute by then, so a file called
`-rf` is a file. Text that is meant to be read (`payload`), commands and secrets begin with whatever they
like; of a draft nobody has said which arguments are, so there they must not look like an option. `- milk`
does not: no program has an option that is a blank.

A list and a value with members are looked through. Which names an object has is the schema's to bound.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from authz.core.pointer import format_pointer, leaves, matches
from authz.core.provenance import UNDECLARED, RoleTable
from authz.model.decision import ArgumentError
from authz.model.tool import Descriptor, Role

_WORDS: Final = frozenset((Role.TARGET.value, Role.DESTINATION.value, Role.OPTION.value, UNDECLARED))
"""Roles of values that can be words of a command line."""
_TEXTS: Final = frozenset((Role.PAYLOAD.value, Role.CREDENTIAL.value))
_LIKE_AN_OPTION: Final = re.compile(r"\s*--?[^\s-]")


def is_word(role: str) -> bool:
    """Whether a value of this role can be a word of a command line."""
    return role in _WORDS


def option_values(
    descriptor: Descriptor, roles: RoleTable, arguments: Mapping[str, Any]
) -> Iterator[ArgumentError]:
    """What is wrong with each canonical argument that a program could take for an option."""
    for tokens, value in leaves(arguments):
        if not isinstance(value, str) or not value.lstrip().startswith("-"):
            continue
        role = roles.role_of(tokens)
        refused = is_word(role) or (
            role in _TEXTS and not descriptor.reviewed and _LIKE_AN_OPTION.match(value) is not None
        )
        if refused and not any(matches(pattern, tokens) for pattern in descriptor.may_start_with_dash):
            pointer = format_pointer(tokens)
            yield ArgumentError(
                pointer=pointer,
                found="string",
                expected="a value that no program takes for an option",
                message=f"change `{pointer}`: it begins with `-`, and a program would take it for an option; "
                "write a value that does not, for a file `./` and its name",
            )
