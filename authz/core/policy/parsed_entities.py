"""Entities that Cedar has parsed, kept within a bound: a caller may name any number of agents."""

from collections import OrderedDict
from typing import Any, Final

import cedarpy

from authz.core.entities import PreparedEntities, join_documents
from authz.core.policy.scopes import Uid

MAX_PARSED: Final = 8192
"""In entities of the bundle, over all that is kept: a principal and its user count as two."""

_Key = tuple[PreparedEntities, str, frozenset[Uid]]


class ParsedEntities:
    """The least recently used go first. Not for two threads at once."""

    def __init__(self, max_parsed: int = MAX_PARSED) -> None:
        self._max_parsed = max_parsed
        self._kept: OrderedDict[_Key, Any] = OrderedDict()
        self._held = 0
        self.hits = 0
        self.misses = 0

    def get(
        self,
        principal: PreparedEntities,
        action: str,
        schema: Any,
        tool: tuple[Uid, bytes],
        literals: frozenset[Uid],
    ) -> Any:
        """The entities around a principal, with these literals, under the schema of one action.

        Cedar adds the schema's actions to what it parses, and copies all of it when a call adds its own:
        under the schema of the bundle, every tool would make every decision dearer.
        Raises `ValueError` for entities that the schema does not have; no request can cause that.
        """
        key = (principal, action, literals)
        found = self._kept.get(key)
        if found is not None:
            self.hits += 1
            self._kept.move_to_end(key)
            return found
        self.misses += 1
        documents = {tool[0]: tool[1], **principal.documents(literals)}
        found = cedarpy.Entities.from_json_str(join_documents(documents), schema)
        self._kept[key] = found
        self._held += _weight(key)
        while self._held > self._max_parsed and len(self._kept) > 1:
            dropped, _ = self._kept.popitem(last=False)
            self._held -= _weight(dropped)
        return found


def _weight(key: _Key) -> int:
    """What an entry counts for: the principal, its user and the literals; not what these lead to."""
    return 2 + len(key[2])
