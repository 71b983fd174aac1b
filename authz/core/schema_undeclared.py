"""Which values of a call its tool's schema does not declare at their place, whether the call is valid or not.

A role is reviewed for what the schema declares. What else a model put there (a member of what should be a
text, one beside those that an object lists) nobody has reviewed, so the role says nothing of it. A schema
that says of its value only that it is an object, or nothing at all, was reviewed as one for anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs

from authz.core.json_schema import references
from authz.core.pointer import Tokens, leaves

_ANYTHING: Final[Mapping[str, Any]] = {}
_ANNOTATIONS: Final = frozenset(
    "title description default deprecated readOnly writeOnly examples $comment".split()
)
_LISTING: Final = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties")
"""Keywords that say which members there are, unless they let anything through."""
_Schemas = Sequence[Mapping[str, Any]]


def undeclared_places(root: Mapping[str, Any], arguments: Mapping[str, Any], most: int) -> frozenset[Tokens]:
    """The topmost undeclared places beneath declared arguments; an argument itself is told by its role.

    With over `most` undeclared values beneath one argument, that argument is told as a whole.
    """
    nested = {name: value for name, value in arguments.items() if isinstance(value, Mapping | list) and value}
    if not nested:
        return frozenset()
    declared = _Declared(root)
    found: set[Tokens] = set()
    top = declared.applying([root])
    for name, value in nested.items():
        count = 0
        places: set[Tokens] = set()
        for place, branch in declared.beyond(declared.member(top, name), (name,), value):
            places.add(place)
            count += sum(1 for _ in leaves(branch))
            if count > most:
                places = {(name,)}
                break
        found |= places
    return frozenset(found)


class _Declared:
    """Reads one schema for one call; what applies at a place is found once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._applying: dict[tuple[int, ...], _Schemas] = {}

    def beyond(self, schemas: Sequence[Any], at: Tokens, value: Any) -> Iterator[tuple[Tokens, Any]]:
        """The topmost undeclared (place, value) beneath `at`, which is declared by `schemas`."""
        applying = self.applying(schemas)
        if _is_for_anything(applying, value):
            return
        for step, found, member in self._members(applying, value):
            if not found:
                yield (*at, step), member
            elif isinstance(member, Mapping | list) and member:
                yield from self.beyond(found, (*at, step), member)

    def _members(self, schemas: _Schemas, value: Any) -> Iterator[tuple[str, list[Any], Any]]:
        """(step, schemas of what is there, what is there) of everything directly in an object or array."""
        if isinstance(value, Mapping):
            for name, member in value.items():
                yield name, self.member(schemas, name), member
            return
        first = max((len(schema.get("prefixItems", ())) for schema in schemas), default=0)
        # Of many items all but the first few have the same schemas.
        others = self.member(schemas, first)
        for index, item in enumerate(value):
            yield str(index), self.member(schemas, index) if index < first else others, item

    def applying(self, schemas: Sequence[Any]) -> _Schemas:
        """These schemas and all that describe the same value: references, parts and alternatives."""
        key = tuple(map(id, schemas))
        if key not in self._applying:
            self._applying[key] = list(self._describing(schemas))
        return self._applying[key]

    def _describing(self, schemas: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        seen: set[int] = set()
        pending = list(schemas)
        while pending:
            node = pending.pop()
            if not isinstance(node, Mapping) or id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            if "$ref" in node:
                # One that is not understood declares nothing.
                pending += [target for _, target in references(self._root, (), node) or ()]
            for keyword in ("allOf", "anyOf", "oneOf"):
                pending += node.get(keyword, ())
            for keyword in ("dependentSchemas", "dependencies"):
                pending += node.get(keyword, {}).values()
            pending += [node.get("then"), node.get("else")]

    @staticmethod
    def member(schemas: _Schemas, step: str | int) -> list[Any]:
        """The schemas of one member or item; none for what no schema declares."""
        if isinstance(step, int):
            return [found for schema in schemas for found in _of_item(schema, step)]
        return [found for schema in schemas for found in _of_member(schema, step)]


def _is_for_anything(schemas: _Schemas, value: Any) -> bool:
    """Whether the role of `value` was given to whatever is in it."""
    if len(schemas) == 1 and schemas[0].keys() <= _ANNOTATIONS:
        return True
    lists = any(schema.get(keyword, True) not in (True, {}) for schema in schemas for keyword in _LISTING)
    return isinstance(value, Mapping) and not lists and any(_says(schema, "object") for schema in schemas)


def _says(schema: Mapping[str, Any], kind: str) -> bool:
    named = schema.get("type")
    return named == kind or (isinstance(named, list) and kind in named)


def _of_item(schema: Mapping[str, Any], index: int) -> Iterator[Any]:
    says_array = _says(schema, "array")
    if "type" in schema and not says_array:
        return
    first = schema.get("prefixItems", ())
    # Whoever declares an array means its items, whatever they are (as pointers of accesses do).
    rest = schema.get("items", schema.get("unevaluatedItems", says_array))
    own = first[index] if index < len(first) else rest
    if own is not False:
        yield _ANYTHING if own is True else own


def _of_member(schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    if "type" in schema and not _says(schema, "object"):
        return
    declared = [schema["properties"][name]] if name in schema.get("properties", {}) else []
    patterns = schema.get("patternProperties", {})
    declared += [member for pattern, member in patterns.items() if _pattern(pattern).is_valid(name)]
    if not declared:
        # `true` and `{}` let anything through, which declares nothing.
        rest = [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
        declared = [others for others in rest if isinstance(others, Mapping) and others]
    for own in declared:
        if own is not False:
            yield _ANYTHING if own is True else own


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> jsonschema_rs.Draft202012Validator:
    """As the validator of arguments reads it, in linear time."""
    return jsonschema_rs.Draft202012Validator(
        {"pattern": pattern}, offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )
