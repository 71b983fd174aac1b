"""Defaults of a tool's schema: filled in where they hold, and refused at load where they never would."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs

from authz.core.json_schema import (
    REFERENCES,
    SHELVES,
    UNREAD_REFERENCES,
    Placed,
    SchemaUnusable,
    alternatives,
    map_values,
    members_of,
    references,
    resolve_reference,
    subschemas,
    unescaped,
    without_null,
)
from authz.core.pointer import Tokens, format_pointer


def fill_defaults(root: Mapping[str, Any], node: Any, value: Any) -> Any:
    """`value` with the defaults of its schema; the same object when there is nothing to fill.

    What is not followed here is refused at load when it holds a default: see `FilledDefaults`.
    """
    schema = resolve_reference(root, node) if isinstance(node, Mapping) else None
    if schema is None:
        return value
    schema = without_null(root, schema)[0] or schema
    if isinstance(value, Mapping):
        return _fill_object(root, schema, value)
    if isinstance(value, list) and value:
        return _fill_array(root, schema, value)
    return value


def _fill_array(root: Mapping[str, Any], schema: Mapping[str, Any], value: list[Any]) -> list[Any]:
    first = schema.get("prefixItems", [])[: len(value)]
    schemas = [*first, *[schema.get("items")] * (len(value) - len(first))]
    items = [fill_defaults(root, member, item) for member, item in zip(schemas, value, strict=True)]
    return items if any(new is not old for new, old in zip(items, value, strict=True)) else value


def _fill_object(root: Mapping[str, Any], schema: Mapping[str, Any], value: Mapping[str, Any]) -> Any:
    changed: dict[str, Any] = {}
    declared = schema.get("properties", {})
    for name, member in declared.items():
        if not isinstance(member, Mapping):
            continue
        if name in value:
            filled = fill_defaults(root, member, value[name])
            if filled is not value[name]:
                changed[name] = filled
        else:
            described = _nearest_default(root, member)
            if described is not None:
                changed[name] = described["default"]
    others = map_values(schema)
    if others is not None:
        for name, item in value.items():
            filled = item if name in declared else fill_defaults(root, others, item)
            if filled is not item:
                changed[name] = filled
    return {**value, **changed} if changed else value


def _nearest_default(root: Mapping[str, Any], member: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema with the default of a property: its own, else one that its `$ref` stands for."""
    resolved = member if "default" in member else resolve_reference(root, member)
    return resolved if resolved is not None and "default" in resolved else None


SELF: Final = "urn:arguments"


def check_defaults(root: Mapping[str, Any]) -> None:
    """Every default fits its own schema and is complete: defaults are filled in once, not in defaults."""
    registry = jsonschema_rs.Registry([(SELF, dict(root))])
    for pointer, described, schema in subschemas(root, (), ()):
        for name, member in schema.get("properties", {}).items():
            with_default = _nearest_default(root, member) if isinstance(member, Mapping) else None
            if with_default is None:
                continue
            default, where = with_default["default"], format_pointer((*described, name))
            # Judged where it stands in the schema, so that its references resolve.
            alone = {"$ref": SELF + "#" + quote(format_pointer((*pointer, "properties", name)))}
            if not jsonschema_rs.Draft202012Validator(alone, registry=registry, offline=True).is_valid(
                default
            ):
                raise SchemaUnusable(f"the default of `{where}` does not fit its own schema")
            if fill_defaults(root, member, default) is not default:
                raise SchemaUnusable(
                    f"the default of `{where}` leaves out defaults inside it: write them out"
                )


class FilledDefaults:
    """Proves at load that every `default` of a schema is filled in wherever its schema applies.

    It goes where `fill_defaults` goes, and refuses the defaults of whatever else applies on the way. What
    then is still unknown stands where nothing can be absent (an item, the whole), or is never used.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        # A copy in which no two places are one object, so that a place is known by its object.
        self._root: Mapping[str, Any] = json.loads(json.dumps(root))
        self._anchors: dict[str, list[Placed]] = {}
        for place, _, schema in subschemas(self._root, (), ()):
            for name in {schema.get(keyword) for keyword in ("$anchor", "$dynamicAnchor")} - {None}:
                self._anchors.setdefault(str(name), []).append((place, schema))
        self._filled: set[int] = set()
        self._seen: set[tuple[int, str]] = set()

    def check(self) -> None:
        """Raises `SchemaUnusable` naming the first default that is not filled in."""
        self._follow((), self._root, is_property=False)
        for place, _, schema in subschemas(self._root, (), ()):
            if "default" in schema and id(schema) not in self._filled:
                raise _never_filled(place, place)

    def _follow(self, place: Tokens, node: Mapping[str, Any], *, is_property: bool) -> None:
        if not self._is_new(node, "property" if is_property else "present"):
            return
        chain = references(self._root, place, node)
        resolved = resolve_reference(self._root, node)
        if chain is None or resolved is None:
            if is_property:
                self._filled.add(id(node))
            self._refuse_below(place, node, place)
            return
        if is_property:
            # Of several along a reference the nearest is filled in, and stands for the others.
            self._filled.update(id(schema) for _, schema in chain)
        for where, part in chain:
            self._refuse_targets(part, UNREAD_REFERENCES, where)
        self._follow_members(chain, resolved)

    def _follow_members(self, chain: list[Placed], resolved: Mapping[str, Any]) -> None:
        alternative = self._alternative(chain, resolved)
        schema = without_null(self._root, resolved)[0] or resolved
        for where, part in alternative:
            if "default" in part:
                raise _never_filled(where, alternative[0][0])
            self._refuse_targets(part, UNREAD_REFERENCES, where)
        followed = _followed(schema, alternative or chain)
        for where, part in (*chain, *alternative):
            for steps, member in members_of(part):
                there = (*where, *steps)
                if id(member) in followed:
                    self._follow(there, member, is_property=steps[0] == "properties")
                elif steps[0] not in SHELVES and not (alternative and member is alternative[0][1]):
                    self._refuse(there, member, there)

    def _alternative(self, chain: list[Placed], resolved: Mapping[str, Any]) -> list[Placed]:
        """The one alternative besides null that `fill_defaults` takes, with its references."""
        if "type" in resolved or without_null(self._root, resolved)[0] is None:
            return []
        others, _ = alternatives(self._root, resolved) or ([], False)
        for where, part in chain:
            for steps, member in members_of(part):
                if others and member is others[0]:
                    return references(self._root, (*where, *steps), member) or []
        return []

    def _refuse(self, place: Tokens, node: Any, via: Tokens) -> None:
        """Refuse every default in what applies at `via`, where `fill_defaults` does not come."""
        if not isinstance(node, Mapping) or not self._is_new(node, "passed over"):
            return
        if "default" in node:
            raise _never_filled(place, via)
        self._refuse_below(place, node, via)

    def _refuse_below(self, place: Tokens, node: Mapping[str, Any], via: Tokens) -> None:
        for steps, member in members_of(node):
            if steps[0] not in SHELVES:
                self._refuse((*place, *steps), member, via)
        self._refuse_targets(node, REFERENCES, via)

    def _refuse_targets(self, node: Mapping[str, Any], keywords: tuple[str, ...], via: Tokens) -> None:
        for keyword in keywords:
            for where, target in self._targets(node.get(keyword)):
                self._refuse(where, target, via)

    def _targets(self, reference: Any) -> Iterator[tuple[Tokens, Any]]:
        """What the validator takes for a reference: also anchors, and what `fill_defaults` does not read."""
        if not isinstance(reference, str):
            return
        fragment = unquote(reference)[1:]
        if fragment and not fragment.startswith("/"):
            yield from self._anchors.get(fragment, ())
            return
        tokens = unescaped(fragment)
        yield tokens, _at(self._root, tokens)

    def _is_new(self, node: Mapping[str, Any], how: str) -> bool:
        key = (id(node), how)
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new


def _at(root: Any, tokens: Tokens) -> Any:
    """What a reference leads to; a reference is no pattern, so `*` is a name in it."""
    node = root
    for token in tokens:
        if isinstance(node, Mapping):
            node = node.get(token)
        elif isinstance(node, list) and token.isascii() and token.isdigit() and int(token) < len(node):
            node = node[int(token)]
        else:
            return None
    return node


def _followed(schema: Mapping[str, Any], chain: list[Placed]) -> set[int]:
    """The members of `schema`, which `chain` makes up, that `fill_defaults` goes into."""
    followed = [*schema.get("properties", {}).values(), *schema.get("prefixItems", [])]
    values = map_values(schema)
    for _, part in chain:
        # These two apply to what the keywords beside them leave over, and beside means in the same part.
        if part.get("items") is schema.get("items") and part.get("prefixItems") is schema.get("prefixItems"):
            followed.append(part.get("items"))
        is_whole = part.get("properties", {}).keys() == schema.get("properties", {}).keys()
        if part.get("additionalProperties") is values and is_whole and not part.get("patternProperties"):
            followed.append(values)
    return {id(member) for member in followed}


def _never_filled(place: Tokens, via: Tokens) -> SchemaUnusable:
    where = "" if place == via else f" where `{format_pointer(via)}` applies"
    return SchemaUnusable(
        f"the default at `{format_pointer((*place, 'default'))}` is never filled in{where}: give it to a "
        "declared property outside of unions, conditions and patterns, or delete it"
    )
