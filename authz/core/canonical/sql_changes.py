"""What a node of a SQL statement changes, and which names are no tables at all."""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from authz.model.resource import Scope, Verb


class NotUnderstood(Exception):
    """A statement that makes the whole text opaque."""

    def __init__(self, code: str, message: str) -> None:
        """`code` without `sql.`; `message` for people and models, without echoing the text."""
        super().__init__(message)
        self.code = code
        self.message = message


CHANGING: Final = (
    *(exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable, exp.Into),
    *(exp.Create, exp.Drop, exp.Alter),
)
_Change = tuple[Verb, exp.Expr, Scope]


def changes_of(node: exp.Expr) -> Iterator[_Change]:
    """What `node`, one of `CHANGING`, by itself changes."""
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
            raise NotUnderstood("target", "the statement does not say plainly what it deletes from")
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
            raise NotUnderstood("definition", "the statement defines something else than a table or a view")
        yield Verb.ADMINISTER, _target(node.this), Scope.OBJECT
    elif isinstance(node, exp.Drop):
        if node.kind not in ("TABLE", "VIEW", "SCHEMA"):
            raise NotUnderstood("definition", "the statement drops something else than a table or a view")
        whole = node.kind == "SCHEMA"
        if node.args.get("cascade") and not whole:
            raise NotUnderstood("cascade", "the statement reaches tables that it does not name")
        for table in node.args.get("tables") or [_target(node.this)]:
            yield Verb.ADMINISTER, table, Scope.TREE if whole else Scope.OBJECT
            yield Verb.DELETE, table, Scope.TREE if whole else Scope.OBJECT
    elif isinstance(node, exp.Alter):
        if node.args.get("kind") not in ("TABLE", "VIEW"):
            raise NotUnderstood("definition", "the statement alters something else than a table or a view")
        yield Verb.ADMINISTER, _target(node.this), Scope.OBJECT
        for action in node.args.get("actions") or ():
            if isinstance(action, exp.AlterRename):
                yield Verb.ADMINISTER, _target(action.this), Scope.OBJECT


def _target(node: exp.Expr | None) -> exp.Expr:
    if isinstance(node, exp.Schema):
        return _target(node.this)
    if node is None:
        raise NotUnderstood("target", "the statement does not say what it changes")
    return node


def _joined(node: exp.Expr) -> list[exp.Expr]:
    """The target of an update or delete; where tables are joined into it, any of them may be changed."""
    target = _target(node.this)
    return [target, *(join.this for join in target.args.get("joins") or ())]


def is_cte(table: exp.Table) -> bool:
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
