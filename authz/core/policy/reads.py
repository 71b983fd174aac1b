"""What rules read, found in their trees: the context fields they use and the literals they look into."""

from collections.abc import Iterable, Iterator
from typing import Any

from cedarpy import pst

from authz.core.cedar_context import EVERY_FIELD, Reads
from authz.core.policy.trees import children


def context_reads(trees: Iterable[pst.Template]) -> Reads:
    """What of the context these policies read. A use of `context` as a whole reads all of it."""
    found: dict[str, set[str] | None] = {}
    for tree in trees:
        for clause in tree.clauses:
            for name, member in _context_paths(clause.expr):
                if name is None:
                    found.update(dict.fromkeys(EVERY_FIELD))
                elif member is None:
                    found[name] = None
                elif (members := found.setdefault(name, set())) is not None:
                    members.add(member)
    return {name: None if members is None else frozenset(members) for name, members in sorted(found.items())}


def _context_paths(node: Any) -> Iterator[tuple[str | None, str | None]]:
    """(field, member) of every use of the context under `node`; `None` stands for the whole."""
    path = _context_path(node)
    if path is not None:
        yield (path[0] if path else None), (path[1] if len(path) > 1 else None)
        return
    for child in children(node):
        yield from _context_paths(child)


def _context_path(node: Any) -> tuple[str, ...] | None:
    """The attribute path of an expression that starts at `context`, or `None` for another one."""
    if isinstance(node, pst.Var):
        return () if node.name == "context" else None
    if isinstance(node, pst.GetAttr):
        base = _context_path(node.base)
        return None if base is None else (*base, node.attr)
    if isinstance(node, pst.HasAttr):
        base = _context_path(node.base)
        return None if base is None else (*base, *node.attrs)
    return None


def literals_looked_into(node: Any) -> Iterator[tuple[str, str]]:
    """Literals under `node` that are looked into, not only compared with.

    `principal in Group::"a"` needs nothing of the group itself; `Group::"a" in Group::"b"` and
    `User::"x".hasTag("y")` do. Whatever is not clearly a comparison counts as looked into.
    """
    if isinstance(node, pst.EntityLit):
        yield str(node.value.type), node.value.id
    elif isinstance(node, pst.BinaryOp) and node.op in ("in", "eq", "not_eq", "contains"):
        sides = (node.right,) if node.op in ("in", "contains") else (node.left, node.right)
        yield from (
            found
            for side in (node.left, node.right)
            if not (any(side is one for one in sides) and _only_literals(side))
            for found in literals_looked_into(side)
        )
    else:
        for child in children(node):
            yield from literals_looked_into(child)


def _only_literals(node: Any) -> bool:
    return isinstance(node, pst.EntityLit) or (
        isinstance(node, pst.Set) and all(isinstance(element, pst.EntityLit) for element in node.elements)
    )
