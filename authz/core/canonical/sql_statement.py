"""The accesses of one SQL statement that was understood."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from authz.core.canonical.spelling import check_characters, has_invisible
from authz.core.canonical.sql_changes import CHANGING, NotUnderstood, changes_of, is_cte
from authz.core.canonical.sql_names import table_resource
from authz.model.resource import Resource, Scope, Verb

MAX_NAME_CHARACTERS: Final = 128
DIALECTS: Final = frozenset({"postgres", "mysql", "sqlite", "tsql", "snowflake", "bigquery"})
# Not duckdb, where the name of a table can be that of a file.


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAccess:
    """One access of a statement."""

    verb: Verb
    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What a tool's descriptor says of the database that it speaks to."""

    database: str
    """What rules call it: `prod`."""
    dialect: str
    """One of `DIALECTS`."""
    default_schema: str | None = None
    """Where names without a schema are; without it they are not understood."""


@lru_cache(maxsize=len(DIALECTS))
def dialect_of(name: str) -> Dialect:
    """One of `DIALECTS`, which holds nothing of what it reads."""
    return Dialect.get_or_raise(name)


class Statement:
    """The accesses of one statement: what it changes by its own rule, and reads of every other table."""

    def __init__(self, nodes: list[exp.Expr], connection: Connection) -> None:
        self._nodes = nodes
        self._tables = [node for node in nodes if isinstance(node, exp.Table)]
        self._defines_names = any(isinstance(node, exp.With) for node in nodes)
        self._connection = connection

    def accesses(self) -> Iterator[SqlAccess]:
        """Changes of the statement and of every changing statement inside it, then the reads."""
        changed: set[int] = set()
        aliases: dict[str, list[exp.Expr]] | None = None
        looked_at = {kind for kind in set(map(type, self._nodes)) if issubclass(kind, _LOOKED_AT)}
        for node in self._nodes:
            if type(node) not in looked_at:
                continue
            self._check_side(node)
            if not isinstance(node, CHANGING):
                continue
            changes = list(changes_of(node))
            # The parser may put a target elsewhere in a later version: then nothing is known of it.
            if not changes:
                raise NotUnderstood("target", "the statement does not say what it changes")
            for verb, table, scope in changes:
                aliases = self._aliases() if aliases is None else aliases
                changed.add(id(table))
                for target in self._behind(table, aliases):
                    yield self._access(verb, target, scope)
        for table in self._tables:
            if id(table) not in changed and not self._is_cte(table):
                yield self._access(Verb.READ, table, Scope.OBJECT)

    def _is_cte(self, table: exp.Table) -> bool:
        return self._defines_names and is_cte(table)

    def _aliases(self) -> dict[str, list[exp.Expr]]:
        """The tables of the statement by what it calls them, so far as it calls them something else."""
        found: dict[str, list[exp.Expr]] = {}
        for table in self._tables:
            if table.alias:
                found.setdefault(table.alias.casefold(), []).append(table)
        return found

    def _behind(self, table: exp.Expr, aliases: dict[str, list[exp.Expr]]) -> list[exp.Expr]:
        """What is changed where `table` is named: `DELETE x FROM orders x` deletes from `orders`."""
        if not isinstance(table, exp.Table) or table.args.get("db") is not None:
            return [table]
        if self._is_cte(table):
            raise NotUnderstood("target", "what the statement changes is a name that it defines itself")
        named = [other for other in aliases.get(table.name.casefold(), ()) if other is not table]
        if not named:
            return [table]
        if any(self._is_cte(other) for other in named if isinstance(other, exp.Table)):
            raise NotUnderstood("target", "what the statement changes is a name that it defines itself")
        return named if self._connection.dialect in ("mysql", "tsql") else [table, *named]

    def _check_side(self, node: exp.Expr) -> None:
        """Refuse what changes more than its target, and a word that the parser took for a name."""
        if isinstance(node, exp.Identifier):
            if not node.quoted and node.name.casefold() in _ALONE:
                raise NotUnderstood("name", "a name is one that may be a statement of its own")
        elif isinstance(node, exp.Returning) and node.args.get("into"):
            raise NotUnderstood("target", "the statement writes its output into another table")
        elif isinstance(node, exp.TruncateTable) and str(node.args.get("option") or "").lower() == "cascade":
            raise NotUnderstood("cascade", "the statement reaches tables that it does not name")

    def _access(self, verb: Verb, table: exp.Expr, scope: Scope) -> SqlAccess:
        if not isinstance(table, exp.Table):
            raise NotUnderstood("target", "what the statement changes is no plain table")
        names = self._names(table)
        return SqlAccess(verb=verb, resource=table_resource(self._connection.database, names), scope=scope)

    def _names(self, table: exp.Table) -> tuple[str, ...]:
        spelled = table.parts
        if table.args.get("catalog") is not None or len(spelled) > 2:
            raise NotUnderstood("catalog", "the statement names another database")
        parts = tuple(map(self._name, spelled))
        if self._connection.dialect == "postgres" and len(parts) == 1 and parts[0].startswith("pg_"):
            return ("pg_catalog", *parts)  # it comes first on every search path
        if len(parts) == 2 or table.this is None:
            return parts  # without `this`, a schema
        if self._connection.default_schema is None:
            raise NotUnderstood("schema", "a table is named without its schema, and there is no default one")
        return (self._connection.default_schema, *parts)

    def _name(self, part: exp.Expr) -> str:
        if not isinstance(part, exp.Identifier):
            raise NotUnderstood("name", "a table is named by something that is no name")
        # Folding changes what it is given, so it is given a name of its own: with all that it looks at, and
        # without the rest of a deep copy.
        own = exp.Identifier(this=part.this, quoted=part.args.get("quoted"))
        own.meta.update(part.meta)
        name: str = dialect_of(self._connection.dialect).normalize_identifier(own).name
        if (
            not name
            or "*" in name  # many tables, to BigQuery
            or len(name) > MAX_NAME_CHARACTERS
            or check_characters("sql", name)
            or has_invisible(name)
        ):
            raise NotUnderstood("name", "the name of a table is empty, too long or has invisible characters")
        return name


_LOOKED_AT: Final = (*CHANGING, exp.Returning, exp.Identifier)
_ALONE: Final = frozenset(
    ("shutdown", "checkpoint", "reconfigure", "revert", "commit", "rollback", "kill", "dump", "load", "go")
)
"""Statements of one word that need no separator before them in T-SQL, where a name may stand."""
