"""Walking the trees of policies."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from cedarpy import pst

_FIELD_NAMES: Final[dict[type, tuple[str, ...]]] = {}
"""The field names of each node type that was met: there are a few dozen of them."""


def children(node: Any) -> Iterable[Any]:
    """The nodes right below `node`: what it holds, in order."""
    kind = type(node)
    if kind is str or kind is bool or kind is int:
        return ()
    if kind is tuple:
        return node  # type: ignore[no-any-return]
    names = _FIELD_NAMES.get(kind)
    if names is None:
        if isinstance(node, Mapping):
            return node.values()
        names = tuple(field.name for field in fields(node)) if is_dataclass(node) else ()
        _FIELD_NAMES[kind] = names
    return [getattr(node, name) for name in names]


def entity_uids(node: Any) -> frozenset[pst.EntityUid]:
    """Every entity that is named at or below `node`, in scopes as well as in conditions."""
    found: set[pst.EntityUid] = set()
    pending = [node]
    while pending:
        node = pending.pop()
        if type(node) is pst.EntityUid:
            found.add(node)
        else:
            pending.extend(children(node))
    return frozenset(found)
