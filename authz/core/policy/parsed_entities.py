"""Entities that Cedar has parsed, kept within a bound: a caller may name any number of agents."""

from collections import OrderedDict
from typing import Any, Final

import cedarpy

from authz.core.entities import PreparedEntities, join_documents
from authz.core.policy.scopes import Uid

MAX_PARSED: Final = 8192
"""In entities of the bundle, over all that is kept: a principal and its user count as two."""
ENTITY_CHARACTERS: Final = 512
"""Of JSON that an entity has at most; what has more counts for several."""

_Key = tuple[PreparedEntities, str, frozenset[Uid]]


class ParsedEntities:
    """The least recently used go first. Not for two threads at once."""

    def __init__(self, max_parsed: int = MAX_PARSED) -> None:
        self._max_parsed = max_parsed
        self._kept: OrderedDict[_Key, tuple[Any, int]] = OrderedDict()
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
            return found[0]
        self.misses += 1
        documents = {tool[0]: tool[1], **principal.documents(literals)}
        document = join_documents(documents)
        parsed = cedarpy.Entities.from_json_str(document, schema)
        # The principal, its user and the literals; and what these lead to, which can be any number of groups.
        weight = max(2 + len(literals), len(document) // ENTITY_CHARACTERS)
        self._kept[key] = parsed, weight
        self._held += weight
        while self._held > self._max_parsed and len(self._kept) > 1:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._held -= dropped
        return parsed
