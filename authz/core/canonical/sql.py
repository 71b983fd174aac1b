"""Kind `sql`: `Table` in `Schema` in `Database` accesses, by verb (spec section 4).

A statement is understood or it is not: every node of its tree is of a class on a list, or the whole text is
`Opaque`. So a grammar that grows, a function that reads a file and a dialect's own statement are asked for
until somebody has thought about them. Several statements are several accesses; a hidden one (in a comment
that a server executes, behind an escape that two readers take differently) makes the text opaque as well.

`Table::"prod/shop/orders"` is the table `orders` of the schema `shop` behind the connection that the tool's
descriptor calls `prod`; its uri is `sql:prod/shop/orders`. Names are folded as the dialect folds them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from authz.core.canonical.spelling import check_characters, has_invisible
from authz.core.canonical.sql_names import table_resource
from authz.core.canonical.sql_nodes import UNDERSTOOD
from authz.model.resource import NotCanonical, Resource, Scope, Verb

MAX_SQL_CHARACTERS: Final = 16384
MAX_NESTING: Final = 64
"""Of brackets: the parser recurses, and so do those that walk its tree."""
MAX_STATEMENTS: Final = 32
MAX_NAME_CHARACTERS: Final = 128
DIALECTS: Final = frozenset({"postgres", "mysql", "sqlite", "tsql", "snowflake", "bigquery"})
# Not duckdb, where the name of a table can be that of a file.

# `/*` nests in some dialects and not in others, `/*!` is executed by some; `--` is a comment for some only
# before white space; a backslash ends a string early for some. Readers that differ here are no reader.
_READ_DIFFERENTLY: Final = re.compile(r"/\*|--(?!\s|$)|\\|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OPENERS: Final = ("(", "[", "{", "case", "begin")
_BRACKETS: Final = re.compile(r"[()\[\]{}]|\b(?:case|begin|end)\b", re.IGNORECASE)
MAX_OPERATORS: Final = 512
"""That nest without brackets: `not not x`, `a union b union c`."""


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


def analyse_sql(text: object, connection: Connection) -> tuple[SqlAccess, ...] | NotCanonical:
    """Every access of every statement in `text`.

    A `NotCanonical` that is not `understood` makes the text `Opaque`. One result for one text, always: the
    length is bounded before anything is parsed.
    """
    if not isinstance(text, str):
        return NotCanonical(code="sql.type", message="expected a string, send the statement as a string")
    if len(text) > MAX_SQL_CHARACTERS:
        return _opaque("too_long", f"the statement is over {MAX_SQL_CHARACTERS} characters")
    if check_characters("sql", re.sub(r"[\t\r\n]", " ", text)) or _READ_DIFFERENTLY.search(text):
        return _opaque("ambiguous", "the statement holds characters that readers of SQL take differently")
    if _is_deep(text):
        return _opaque("too_deep", f"the statement is nested over {MAX_NESTING} levels")
    return _analysed(text, connection)


@lru_cache(maxsize=512)
def _analysed(text: str, connection: Connection) -> tuple[SqlAccess, ...] | NotCanonical:
    statements = _parsed(text, connection.dialect)
    if statements is None:
        return _opaque("not_understood", "the statement is not one that is understood here")
    found: dict[tuple[Verb, str, Scope], SqlAccess] = {}
    try:
        for nodes in statements:
            for access in _Statement(nodes, connection).accesses():
                found.setdefault((access.verb, access.resource.uri, access.scope), access)
    except _NotUnderstood as reason:
        return _opaque(reason.code, reason.message)
    finally:
        for node in chain.from_iterable(statements):
            # Nodes know those above them: the garbage collector alone would find the trees.
            node.parent = None
    return tuple(found.values()) or (_on_database(connection),)


def _parsed(text: str, dialect: str) -> list[list[exp.Expr]] | None:
    """The nodes of each statement, its root first; `None` where anything in them is not understood."""
    # What the parser gives up on it returns as a `Command`; it also says so through `logging`, whose text
    # would hold the statement. `UNDERSTOOD` has no `Command`, and the logger is silenced where it is made.
    try:
        parsed = _dialect(dialect).parse(text)
    except (SqlglotError, RecursionError, ValueError):
        return None
    roots = [statement for statement in parsed if statement is not None]
    if not roots or len(roots) > MAX_STATEMENTS:
        return None
    statements = [_tree(root) for root in roots]
    understood = all(
        # What is no statement is a word that the parser takes for a column: `LISTEN x`, `REINDEX`.
        isinstance(nodes[0], _STATEMENTS) and {type(node).__name__ for node in nodes} <= UNDERSTOOD
        for nodes in statements
    )
    return statements if understood else None


@lru_cache(maxsize=len(DIALECTS))
def _dialect(name: str) -> Dialect:
    """One of `DIALECTS`, which holds nothing of what it reads."""
    return Dialect.get_or_raise(name)


def _tree(root: exp.Expr) -> list[exp.Expr]:
    """`root` and every node beneath it, breadth first: walked once, and looked at several times."""
    nodes = [root]
    for node in nodes:
        nodes.extend(node.iter_expressions())
    return nodes


_STATEMENTS: Final = (
    *(exp.Query, exp.Values, exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable, exp.Create),
    *(exp.Drop, exp.Alter, exp.Transaction, exp.Commit, exp.Rollback),
)


class _NotUnderstood(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Statement:
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
            if not isinstance(node, _CHANGING):
                continue
            changes = list(_changes(node))
            # The parser may put a target elsewhere in a later version: then nothing is known of it.
            if not changes:
                raise _NotUnderstood("target", "the statement does not say what it changes")
            for verb, table, scope in changes:
                aliases = self._aliases() if aliases is None else aliases
                changed.add(id(table))
                for target in self._behind(table, aliases):
                    yield self._access(verb, target, scope)
        for table in self._tables:
            if id(table) not in changed and not self._is_cte(table):
                yield self._access(Verb.READ, table, Scope.OBJECT)

    def _is_cte(self, table: exp.Table) -> bool:
        return self._defines_names and _is_cte(table)

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
            raise _NotUnderstood("target", "what the statement changes is a name that it defines itself")
        named = [other for other in aliases.get(table.name.casefold(), ()) if other is not table]
        if not named:
            return [table]
        if any(self._is_cte(other) for other in named if isinstance(other, exp.Table)):
            raise _NotUnderstood("target", "what the statement changes is a name that it defines itself")
        return named if self._connection.dialect in ("mysql", "tsql") else [table, *named]

    def _check_side(self, node: exp.Expr) -> None:
        """Refuse what changes more than its target, and a word that the parser took for a name."""
        if isinstance(node, exp.Identifier):
            if not node.quoted and node.name.casefold() in _ALONE:
                raise _NotUnderstood("name", "a name is one that may be a statement of its own")
        elif isinstance(node, exp.Returning) and node.args.get("into"):
            raise _NotUnderstood("target", "the statement writes its output into another table")
        elif isinstance(node, exp.TruncateTable) and str(node.args.get("option") or "").lower() == "cascade":
            raise _NotUnderstood("cascade", "the statement reaches tables that it does not name")

    def _access(self, verb: Verb, table: exp.Expr, scope: Scope) -> SqlAccess:
        if not isinstance(table, exp.Table):
            raise _NotUnderstood("target", "what the statement changes is no plain table")
        names = self._names(table)
        return SqlAccess(verb=verb, resource=table_resource(self._connection.database, names), scope=scope)

    def _names(self, table: exp.Table) -> tuple[str, ...]:
        spelled = table.parts
        if table.args.get("catalog") is not None or len(spelled) > 2:
            raise _NotUnderstood("catalog", "the statement names another database")
        parts = tuple(map(self._name, spelled))
        if self._connection.dialect == "postgres" and len(parts) == 1 and parts[0].startswith("pg_"):
            return ("pg_catalog", *parts)  # it comes first on every search path
        if len(parts) == 2 or table.this is None:
            return parts  # without `this`, a schema
        if self._connection.default_schema is None:
            raise _NotUnderstood("schema", "a table is named without its schema, and there is no default one")
        return (self._connection.default_schema, *parts)

    def _name(self, part: exp.Expr) -> str:
        if not isinstance(part, exp.Identifier):
            raise _NotUnderstood("name", "a table is named by something that is no name")
        # Folding changes what it is given, so it is given a name of its own: with all that it looks at, and
        # without the rest of a deep copy.
        own = exp.Identifier(this=part.this, quoted=part.args.get("quoted"))
        own.meta.update(part.meta)
        name: str = _dialect(self._connection.dialect).normalize_identifier(own).name
        if (
            not name
            or "*" in name  # many tables, to BigQuery
            or len(name) > MAX_NAME_CHARACTERS
            or check_characters("sql", name)
            or has_invisible(name)
        ):
            raise _NotUnderstood("name", "the name of a table is empty, too long or has invisible characters")
        return name


_CHANGING: Final = (
    *(exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable, exp.Into),
    *(exp.Create, exp.Drop, exp.Alter),
)
_LOOKED_AT: Final = (*_CHANGING, exp.Returning, exp.Identifier)
_ALONE: Final = frozenset(
    ("shutdown", "checkpoint", "reconfigure", "revert", "commit", "rollback", "kill", "dump", "load", "go")
)
"""Statements of one word that need no separator before them in T-SQL, where a name may stand."""
_Change = tuple[Verb, exp.Expr, Scope]


def _changes(node: exp.Expr) -> Iterator[_Change]:
    """What `node`, one of `_CHANGING`, by itself changes."""
    if isinstance(node, exp.Insert):
        yield Verb.WRITE, _target(node.this), Scope.OBJECT
        if node.args.get("overwrite") or str(node.args.get("alternative") or "").lower() == "replace":
            yield Verb.DELETE, _target(node.this), Scope.OBJECT
    elif isinstance(node, exp.Update):
        for table in _joined(node):
            yield Verb.WRITE, table, Scope.OBJECT
    elif isinstance(node, exp.Delete):
        tables = node.args.get("tables")
        if any(table.args.get("alias") is not None for table in tables or ()):
            raise _NotUnderstood("target", "the statement does not say plainly what it deletes from")
        for table in tables or _joined(node):
            yield Verb.DELETE, table, Scope.OBJECT
    elif isinstance(node, exp.Merge):
        yield Verb.WRITE, _target(node.this), Scope.OBJECT
        yield Verb.DELETE, _target(node.this), Scope.OBJECT
    elif isinstance(node, exp.TruncateTable):
        for table in node.expressions:
            yield Verb.DELETE, table, Scope.OBJECT
    elif isinstance(node, exp.Into):
        yield Verb.ADMINISTER, _target(node.this), Scope.OBJECT
    else:
        yield from _definitions(node)


def _definitions(node: exp.Expr) -> Iterator[_Change]:
    """Changes of what there is, not of what it holds: always A3."""
    if isinstance(node, exp.Create):
        if node.kind not in ("TABLE", "VIEW"):
            raise _NotUnderstood("definition", "the statement defines something else than a table or a view")
        yield Verb.ADMINISTER, _target(node.this), Scope.OBJECT
    elif isinstance(node, exp.Drop):
        if node.kind not in ("TABLE", "VIEW", "SCHEMA"):
            raise _NotUnderstood("definition", "the statement drops something else than a table or a view")
        whole = node.kind == "SCHEMA"
        if node.args.get("cascade") and not whole:
            raise _NotUnderstood("cascade", "the statement reaches tables that it does not name")
        for table in node.args.get("tables") or [_target(node.this)]:
            yield Verb.ADMINISTER, table, Scope.TREE if whole else Scope.OBJECT
            yield Verb.DELETE, table, Scope.TREE if whole else Scope.OBJECT
    elif isinstance(node, exp.Alter):
        if node.args.get("kind") not in ("TABLE", "VIEW"):
            raise _NotUnderstood("definition", "the statement alters something else than a table or a view")
        yield Verb.ADMINISTER, _target(node.this), Scope.OBJECT
        for action in node.args.get("actions") or ():
            if isinstance(action, exp.AlterRename):
                yield Verb.ADMINISTER, _target(action.this), Scope.OBJECT


def _target(node: exp.Expr | None) -> exp.Expr:
    if isinstance(node, exp.Schema):
        return _target(node.this)
    if node is None:
        raise _NotUnderstood("target", "the statement does not say what it changes")
    return node


def _joined(node: exp.Expr) -> list[exp.Expr]:
    """The target of an update or delete; where tables are joined into it, any of them may be changed."""
    target = _target(node.this)
    return [target, *(join.this for join in target.args.get("joins") or ())]


def _is_cte(table: exp.Table) -> bool:
    """Whether `table` is a name that a `WITH` around it has defined, and so no table of the database.

    Inside its own definition, and in those before it, the name still is a table, unless `RECURSIVE`.
    """
    if table.args.get("db") is not None:
        return False
    name = table.name.casefold()
    inside: list[exp.Expr] = []
    node: exp.Expr | None = table
    while node is not None:
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With):
            for cte in with_.expressions:
                within = any(part is cte for part in inside)
                if cte.alias.casefold() == name and (not within or with_.recursive):
                    return True
                if within:
                    break
        inside.append(node)
        node = node.parent
    return False


def _on_database(connection: Connection) -> SqlAccess:
    """What a statement without tables (`SELECT 1`, `BEGIN`) touches."""
    resource = table_resource(connection.database, ())
    return SqlAccess(verb=Verb.READ, resource=resource, scope=Scope.OBJECT)


def _is_deep(text: str) -> bool:
    if len(text) <= MAX_OPERATORS and text.isascii():
        folded = text.lower()
        if sum(folded.count(opener) for opener in _OPENERS) <= MAX_NESTING:
            return False  # there is not enough in it, in whatever order
    depth = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in ")]}" or found[0].lower() == "end":
            depth -= 1
        else:
            depth += 1
            if depth > MAX_NESTING:
                return True
    return len(re.findall(r"\b(?:not|union|except|intersect)\b|[-+~!]", text, re.IGNORECASE)) > MAX_OPERATORS


def _opaque(code: str, message: str) -> NotCanonical:
    return NotCanonical(code=f"sql.{code}", message=message, understood=False)
