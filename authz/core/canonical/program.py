"""Kind `program`: `Program::"git/clean"` in `Program::"git"` (spec section 4).

A program of the system's folders goes by its name, whatever path it was called by; one that has subcommands
is in the `Program` of its name. What lies elsewhere is a `File` that is executed.
"""

import re

from authz.core.canonical.spelling import percent_encoded
from authz.model.resource import Entity, NotCanonical, Resource

_NAME = re.compile(r"[^\s/\x00-\x1f\x7f\ud800-\udfff]+(?:/[A-Za-z0-9][A-Za-z0-9_-]*)?")


def program_resource(name: str, *, known: bool = True) -> Resource | NotCanonical:
    """The program of this canonical name. `known`: all that it does is said elsewhere."""
    refused = program_id(name)
    if isinstance(refused, NotCanonical):
        return refused
    parts = name.split("/")
    chain = tuple(
        Entity(
            type="Program",
            id="/".join(parts[:end]),
            attributes={"name": parts[0], "known": known if end == len(parts) else True},
        )
        for end in range(len(parts), 0, -1)
    )
    return Resource(kind="program", uri=f"program:{percent_encoded(name)}", value=name, chain=chain)


def program_id(text: str) -> str | NotCanonical:
    """The id of a `Program` as rules write it: `git`, `git/clean`."""
    if _NAME.fullmatch(text) is None or len(text) > 256:
        return NotCanonical(
            code="program.name",
            message="a program goes by its name, with a subcommand by `name/subcommand`, without its folder",
        )
    return text
