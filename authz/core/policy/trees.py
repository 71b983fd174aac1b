"""Walking the trees of policies."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def children(node: Any) -> Iterable[Any]:
    """The nodes right below `node`: what it holds, in order."""
    if isinstance(node, Mapping):
        return node.values()
    if isinstance(node, tuple):
        return node
    if is_dataclass(node) and not isinstance(node, type):
        return [getattr(node, field.name) for field in fields(node)]
    return ()
