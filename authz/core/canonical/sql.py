"""Kind `sql`: `Table` in `Schema` in `Database` accesses, by verb (spec section 4).

A statement is understood or it is not: every node of its tree is of a class on a list, or the whole text is
`Opaque`. So a grammar that grows, a function that reads a file and a dialect's own statement are asked for
until somebody has thought about them. Several statements are several accesses; a hidden one (in a comment
that a server executes, behind an escape that two readers take differently) makes the text opaque as well.

`Table::"prod/shop/orders"` is the table `orders` of the schema `shop` behind the connection that the tool's
descriptor calls `prod`; its uri is `sql:prod/shop/orders`. Names are folded as the dialect folds them.
"""

import re
from itertools import chain
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from authz.core.canonical.opaque import FAILED
from authz.core.canonical.spelling import check_characters
from authz.core.canonical.sql_changes import NotUnderstood
from authz.core.canonical.sql_names import table_resource
from authz.core.canonical.sql_nodes import UNDERSTOOD
from authz.core.canonical.sql_statement import DIALECTS, Connection, SqlAccess, Statement, dialect_of
from authz.core.remembered import ENTRY_BYTES, Remembered, resource_bytes, text_bytes
from authz.model.resource import NotCanonical, Scope, Verb

__all__ = ["DIALECTS", "Connection", "SqlAccess", "analyse_sql"]

MAX_SQL_CHARACTERS: Final = 16384
MAX_NESTING: Final = 64
"""Of brackets: the parser recurses, and so do those that walk its tree."""
MAX_STATEMENTS: Final = 32

# `/*` nests in some dialects and not in others, `/*!` is executed by some; `--` is a comment for some only
# before white space; a backslash ends a string early for some. Readers that differ here are no reader.
_READ_DIFFERENTLY: Final = re.compile(r"/\*|--(?!\s|$)|\\|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OPENERS: Final = ("(", "[", "{", "case", "begin")
_BRACKETS: Final = re.compile(r"[()\[\]{}]|\b(?:case|begin|end)\b", re.IGNORECASE)
MAX_OPERATORS: Final = 512
"""That nest without brackets: `not not x`, `a union b union c`."""


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
    if len(text) > _MAX_REMEMBERED:
        return _analysed(text, connection)
    key = (text, connection)
    found = _remembered.get(key)
    if found is None:
        found = _analysed(text, connection)
        resources = () if isinstance(found, NotCanonical) else (one.resource for one in found)
        _remembered.put(key, found, ENTRY_BYTES + text_bytes(text) + resource_bytes(resources))
    return found


_MAX_REMEMBERED: Final = 2048
MAX_REMEMBERED_BYTES: Final = 8 * 1024 * 1024
"""Of all statements together, with what they come to."""
_remembered: Final[Remembered[tuple[SqlAccess, ...] | NotCanonical]] = Remembered(
    max_bytes=MAX_REMEMBERED_BYTES, max_entry_bytes=64 * 1024
)


def _analysed(text: str, connection: Connection) -> tuple[SqlAccess, ...] | NotCanonical:
    try:
        return _understood(text, connection)
    except Exception:  # noqa: BLE001 - a fault of ours is no verdict: what it hid is asked about
        return _opaque(FAILED, "reading the statement failed, write it plainly")


def _understood(text: str, connection: Connection) -> tuple[SqlAccess, ...] | NotCanonical:
    statements = _parsed(text, connection.dialect)
    if statements is None:
        return _opaque("not_understood", "the statement is not one that is understood here")
    found: dict[tuple[Verb, str, Scope], SqlAccess] = {}
    try:
        for nodes in statements:
            for access in Statement(nodes, connection).accesses():
                found.setdefault((access.verb, access.resource.uri, access.scope), access)
    except NotUnderstood as reason:
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
        parsed = dialect_of(dialect).parse(text)
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
