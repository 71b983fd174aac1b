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
from typing import Final
from urllib.parse import unquote

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from authz.core.canonical.spelling import check_characters, has_invisible, percent_encoded
from authz.core.canonical.sql_nodes import UNDERSTOOD
from authz.model.resource import Entity, NotCanonical, Resource, Scope, Verb

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
_DATABASE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_BRACKETS: Final = re.compile(r"[()\[\]{}]|\b(?:case|begin|end)\b", re.IGNORECASE)


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
        for statement in statements:
            for access in _Statement(statement, connection).accesses():
                found.setdefault((access.verb, access.resource.uri, access.scope), access)
    except _NotUnderstood as reason:
        return _opaque(reason.code, reason.message)
    return tuple(found.values()) or (_on_database(connection),)


def _parsed(text: str, dialect: str) -> list[exp.Expr] | None:
    # What the parser gives up on it returns as a `Command`; it also says so through `logging`, whose text
    # would hold the statement. `UNDERSTOOD` has no `Command`, and the logger is silenced where it is made.
    try:
        parsed = sqlglot.parse(text, read=dialect)
    except (SqlglotError, RecursionError, ValueError):
        return None
    statements = [statement for statement in parsed if statement is not None]
    if not statements or len(statements) > MAX_STATEMENTS:
        return None
    understood = all(
        type(node).__name__ in UNDERSTOOD for statement in statements for node in statement.walk()
    )
    return statements if understood else None


class _NotUnderstood(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Statement:
    """The accesses of one statement: what it changes by its own rule, and reads of every other table."""

    def __init__(self, statement: exp.Expr, connection: Connection) -> None:
        self._root = statement
        self._connection = connection

    def accesses(self) -> Iterator[SqlAccess]:
        """Changes of the statement and of every changing statement inside it, then the reads."""
        changed: set[int] = set()
        for node in self._root.walk():
            changes = list(_changes(node))
            # The parser may put a target elsewhere in a later version: then nothing is known of it.
            if isinstance(node, _CHANGING) and not changes:
                raise _NotUnderstood("target", "the statement does not say what it changes")
            for verb, table, scope in changes:
                changed.add(id(table))
                yield self._access(verb, table, scope)
        for table in self._root.find_all(exp.Table):
            if id(table) not in changed and not _is_cte(table):
                yield self._access(Verb.READ, table, Scope.OBJECT)

    def _access(self, verb: Verb, table: exp.Expr, scope: Scope) -> SqlAccess:
        if not isinstance(table, exp.Table):
            raise _NotUnderstood("target", "what the statement changes is no plain table")
        names = self._names(table)
        return SqlAccess(verb=verb, resource=table_resource(self._connection.database, names), scope=scope)

    def _names(self, table: exp.Table) -> tuple[str, ...]:
        if table.args.get("catalog") is not None or len(table.parts) > 2:
            raise _NotUnderstood("catalog", "the statement names another database")
        parts = tuple(self._name(part) for part in table.parts)
        if len(parts) == 2 or table.this is None:
            return parts  # without `this`, a schema
        if self._connection.default_schema is None:
            raise _NotUnderstood("schema", "a table is named without its schema, and there is no default one")
        return (self._connection.default_schema, *parts)

    def _name(self, part: exp.Expr) -> str:
        if not isinstance(part, exp.Identifier):
            raise _NotUnderstood("name", "a table is named by something that is no name")
        folded = Dialect.get_or_raise(self._connection.dialect).normalize_identifier(part.copy())
        name: str = folded.name
        if (
            not name
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
_Change = tuple[Verb, exp.Expr, Scope]


def _changes(node: exp.Expr) -> Iterator[_Change]:
    """What `node` by itself changes. Nodes that change nothing yield nothing."""
    if isinstance(node, exp.Insert):
        yield Verb.WRITE, _target(node.this), Scope.OBJECT
        if node.args.get("overwrite"):
            yield Verb.DELETE, _target(node.this), Scope.OBJECT
    elif isinstance(node, exp.Update):
        for table in _joined(node):
            yield Verb.WRITE, table, Scope.OBJECT
    elif isinstance(node, exp.Delete):
        for table in node.args.get("tables") or _joined(node):
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
        if node.kind not in ("TABLE", "VIEW", "SCHEMA", "DATABASE"):
            raise _NotUnderstood("definition", "the statement drops something else than a table or a view")
        whole = node.kind in ("SCHEMA", "DATABASE") or bool(node.args.get("cascade"))
        for table in node.args.get("tables") or [_target(node.this)]:
            yield Verb.ADMINISTER, table, Scope.TREE if whole else Scope.OBJECT
            yield Verb.DELETE, table, Scope.TREE if whole else Scope.OBJECT
    elif isinstance(node, exp.Alter):
        if node.args.get("kind") not in ("TABLE", "VIEW"):
            raise _NotUnderstood("definition", "the statement alters something else than a table or a view")
        yield Verb.ADMINISTER, _target(node.this), Scope.OBJECT


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


def table_resource(database: str, names: tuple[str, ...]) -> Resource:
    """The table (or schema, with one name; or database, with none) behind a connection."""
    path = (database, *(percent_encoded(name).replace("/", "%2F") for name in names))
    types = ("Database", "Schema", "Table")
    chain = tuple(
        Entity(type=types[length - 1], id="/".join(path[:length])) for length in range(len(path), 0, -1)
    )
    return Resource(kind="sql", uri=f"sql:{chain[0].id}", value=chain[0].id, chain=chain)


def sql_resource(text: str) -> Resource | NotCanonical:
    """The table, schema or database of a canonical id: `prod/shop/orders`, `prod/shop`, `prod`."""
    database, *names = text.split("/")
    if len(names) > 2 or not _DATABASE.fullmatch(database) or not all(names):
        return NotCanonical(code="sql.name", message="write `database/schema/table`, each percent-encoded")
    return table_resource(database, tuple(unquote(name) for name in names))


def sql_id(text: str, parts: int) -> str | NotCanonical:
    """The id of a `Table` (3 parts), `Schema` (2) or `Database` (1) as rules write it."""
    found = sql_resource(text)
    if isinstance(found, NotCanonical):
        return found
    if len(found.chain) != parts:
        return NotCanonical(code="sql.name", message=f"this type has {parts} parts: `database/schema/table`")
    return found.entity.id


def _on_database(connection: Connection) -> SqlAccess:
    """What a statement without tables (`SELECT 1`, `BEGIN`) touches."""
    resource = table_resource(connection.database, ())
    return SqlAccess(verb=Verb.READ, resource=resource, scope=Scope.OBJECT)


def _is_deep(text: str) -> bool:
    depth = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in ")]}" or found[0].lower() == "end":
            depth -= 1
        else:
            depth += 1
            if depth > MAX_NESTING:
                return True
    return len(re.findall(r"\b(?:not|union|except|intersect)\b|[-+~!]", text, re.IGNORECASE)) > 512


def _opaque(code: str, message: str) -> NotCanonical:
    return NotCanonical(code=f"sql.{code}", message=message, understood=False)
