"""Values that name accesses instead of resources: a shell line, a SQL statement (spec section 4).

For every other kind the descriptor says the verb, and the value the resource. Here the value says both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from authz.core.canonical.shell import ShellAccess, analyse_shell
from authz.core.canonical.sql import Connection, analyse_sql
from authz.core.claims import BelievedClaims
from authz.core.lines import Line, Lines
from authz.model.resource import Authority, NotCanonical, PathPattern, Resource, Scope, Verb
from authz.model.tool import AccessSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One access that a value asks for."""

    verb: Verb
    resource: Resource
    scope: Scope = Scope.OBJECT
    pattern: PathPattern | None = None
    """Of a tree: the names of it that are reached; `None` for all of them."""
    changes: bool = False
    """Of an `execute`: whether it does more than the other effects of the value say."""


EFFECT_KINDS: Final = frozenset({"shell", "sql"})

_A0: Final = frozenset({Authority.A0})
_A3: Final = frozenset({Authority.A3})
_SANDBOX: Final = frozenset({Authority.A1, Authority.A3})
POSSIBLE: Final[Mapping[str, Mapping[Verb, tuple[frozenset[str], frozenset[Authority]]]]] = {
    "shell": {
        Verb.READ: (frozenset({"File", "Endpoint", "Repo", "Branch"}), _A0),
        Verb.CONNECT: (frozenset({"Endpoint", "Host", "Repo"}), _A0),
        Verb.WRITE: (frozenset({"File", "Repo", "Branch"}), _SANDBOX),
        Verb.DELETE: (frozenset({"File", "Repo", "Branch"}), _SANDBOX),
        Verb.SEND: (frozenset({"Endpoint", "Host"}), _A3),
        Verb.EXECUTE: (frozenset({"Program", "File", "Opaque"}), _A0 | _SANDBOX),
    },
    "sql": {
        Verb.READ: (frozenset({"Table", "Database"}), _A0),
        Verb.WRITE: (frozenset({"Table"}), frozenset({Authority.A2, Authority.A3})),
        Verb.DELETE: (frozenset({"Table", "Schema", "Database"}), frozenset({Authority.A2, Authority.A3})),
        Verb.ADMINISTER: (frozenset({"Table", "Schema", "Database"}), _A3),
        Verb.EXECUTE: (frozenset({"Opaque"}), _A3),
    },
}
"""What a value of each kind can come to: by verb, the types of its resources and its levels.

A value that is not understood is an `Opaque` that is executed, whatever the descriptor's own verb is.
"""


def effects_of(
    spec: AccessSpec, value: object, believed: BelievedClaims, lines: Lines
) -> tuple[Effect, ...] | NotCanonical:
    """Every effect of a value of a kind in `EFFECT_KINDS`. `lines` have been read already."""
    if spec.kind == "shell":
        line = _line(value, believed, lines)
        if isinstance(line, NotCanonical):
            return line
        return tuple(
            Effect(
                verb=one.verb,
                resource=one.resource,
                scope=one.scope,
                pattern=one.pattern,
                changes=one.changes,
            )
            for one in line
        )
    # The bundle's loader has seen to it that an access of kind `sql` says both.
    connection = Connection(
        database=spec.database or "", dialect=spec.dialect or "", default_schema=spec.default_schema
    )
    statement = analyse_sql(value, connection)
    if isinstance(statement, NotCanonical):
        return statement
    return tuple(Effect(verb=one.verb, resource=one.resource, scope=one.scope) for one in statement)


def _line(value: object, believed: BelievedClaims, lines: Lines) -> tuple[ShellAccess, ...] | NotCanonical:
    if lines and isinstance(value, str):
        found = lines.get(Line(text=value, base=believed.base, confined=believed.confined))
        if found is not None:
            return found
    return analyse_shell(value, believed.base, confined=believed.confined)
