"""Stage 3: validate arguments against the tool's JSON Schema (2020-12) and fill in its defaults.

What policy judges, the approver sees and the executor runs includes the defaults. A `$ref` never
fetches: only references inside the schema are taken, and the validator itself is offline as well.
"""

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs

from authz.core.pointer import WILDCARD, Tokens, find, format_pointer
from authz.core.strict_json import type_names
from authz.model.decision import ArgumentError

MAX_REPORTED_ERRORS: Final = 20
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class SchemaUnusable(ValueError):
    """A tool's schema that cannot be used to validate arguments; the message says why."""


class ArgumentSchema:
    """One tool's argument schema, compiled once at load."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `SchemaUnusable` for a schema that is invalid, foreign or refers outside itself."""
        self.schema = schema
        _check_dialect(schema)
        _check_references(schema, is_root=True)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema),
                offline=True,
                validate_formats=True,
                mask="the value",
                # Linear-time matching: a pattern that backtracks would let a model stop the service.
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise SchemaUnusable(f"the schema is invalid: {_first_line(error)}") from None
        _check_defaults(schema)
        _FilledDefaults(schema).check()

    def check(self, arguments: Mapping[str, Any]) -> "Mapping[str, Any] | tuple[ArgumentError, ...]":
        """The arguments with defaults filled in, or every fault found (at most 20)."""
        if not self._validator.is_valid(arguments):
            return self._errors(arguments)
        filled: Mapping[str, Any] = _fill(self.schema, self.schema, arguments)
        if filled is arguments:
            return arguments
        # A default may complete a condition elsewhere in the schema, so the whole is judged again.
        if not self._validator.is_valid(filled):
            return self._errors(filled)
        return filled

    def _errors(self, arguments: Mapping[str, Any]) -> tuple[ArgumentError, ...]:
        found = []
        for error in self._validator.iter_errors(arguments):
            found.append(_argument_error(arguments, error))
            if len(found) == MAX_REPORTED_ERRORS:
                break
        return tuple(found)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _check_dialect(schema: Mapping[str, Any]) -> None:
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        raise SchemaUnusable(f"`$schema` must be absent or `{DIALECT}`")
    if schema.get("type") != "object":
        raise SchemaUnusable('the schema of arguments must say `"type": "object"`')


_LOCAL_POINTER: Final = re.compile(r"#(?:/[^%]*)?")
_UNREAD_REFERENCES: Final = ("$dynamicRef", "$recursiveRef")
_REFERENCES: Final = ("$ref", *_UNREAD_REFERENCES)


def _check_references(node: Any, *, is_root: bool = False) -> None:
    if isinstance(node, Mapping):
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str) and not reference.startswith("#"):
                raise SchemaUnusable(f"`{keyword}` must stay inside the schema (`#/…`), not `{reference}`")
        if not is_root and isinstance(node.get("$id"), str):
            # Below one, `#/…` would mean another place to the validator than to `resolve_reference`.
            raise SchemaUnusable("`$id` may stand only at the top of the schema")
        for value in node.values():
            _check_references(value)
    elif isinstance(node, list):
        for value in node:
            _check_references(value)


def resolve_reference(root: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What `node` stands for after its local `$ref`; `None` when that is not a schema object."""
    chain = _references(root, (), node)
    if chain is None:
        return None
    resolved = chain[-1][1]
    for _, referring in reversed(chain[:-1]):
        resolved = _with_siblings(resolved, referring)
    return resolved


_Placed = tuple[Tokens, Mapping[str, Any]]
"""Where a schema stands in the whole, and the schema."""


def _references(root: Mapping[str, Any], place: Tokens, node: Mapping[str, Any]) -> list[_Placed] | None:
    """`node` and what its `$ref` stands for, one after the other; `None` when one is not understood."""
    chain = [(place, node)]
    while "$ref" in node:
        reference = node["$ref"]
        # Anchors and percent-encoded pointers are for the validator alone: here they are not understood.
        if len(chain) > 16 or not isinstance(reference, str) or not _LOCAL_POINTER.fullmatch(reference):
            return None
        target: Any = root
        place = _unescaped(reference)
        for name in place:
            if not isinstance(target, Mapping) or name not in target:
                return None
            target = target[name]
        if not isinstance(target, Mapping):
            return None
        node = target
        chain.append((place, node))
    return chain


def _unescaped(reference: str) -> Tokens:
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in reference.split("/")[1:])


def _with_siblings(target: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a `$ref` and the keywords beside it, which hold both."""
    siblings = {name: value for name, value in node.items() if name != "$ref"}
    if "properties" in siblings and "properties" in target:
        siblings["properties"] = {**target["properties"], **siblings["properties"]}
    if "required" in siblings and "required" in target:
        siblings["required"] = [*target["required"], *siblings["required"]]
    return {**target, **siblings}


def without_null(root: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """(the schema less its null alternative, whether it had one).

    The schema is `None` when what is left is a union of its own.
    """
    kind = schema.get("type")
    if isinstance(kind, list):
        types = [name for name in kind if name != "null"]
        return ({**schema, "type": types[0]} if len(types) == 1 else None), "null" in kind
    if isinstance(kind, str):
        # Whatever `anyOf` and `oneOf` say beside a type, they only narrow it.
        return schema, False
    union = _alternatives(root, schema)
    if union is not None:
        others, nullable = union
        only = others[0] if nullable and len(others) == 1 else None
        return (resolve_reference(root, only) if isinstance(only, Mapping) else None), nullable
    if isinstance(schema.get("enum"), list) and None in schema["enum"]:
        return {**schema, "enum": [value for value in schema["enum"] if value is not None]}, True
    return schema, False


def _alternatives(root: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[list[Any], bool] | None:
    """(the alternatives of a union but for null, whether null is one); `None` when it is no union."""
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            others = [option for option in options if not _is_null(root, option)]
            return others, len(others) < len(options)
    return None


def _is_null(root: Mapping[str, Any], option: Any) -> bool:
    resolved = resolve_reference(root, option) if isinstance(option, Mapping) else None
    return resolved is not None and resolved.get("type") == "null"


def _fill(root: Mapping[str, Any], node: Any, value: Any) -> Any:
    """`value` with the defaults of its schema; the same object when there is nothing to fill.

    What is not followed here is refused at load when it holds a default: see `_FilledDefaults`.
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
    items = [_fill(root, member, item) for member, item in zip(schemas, value, strict=True)]
    return items if any(new is not old for new, old in zip(items, value, strict=True)) else value


def _fill_object(root: Mapping[str, Any], schema: Mapping[str, Any], value: Mapping[str, Any]) -> Any:
    changed: dict[str, Any] = {}
    declared = schema.get("properties", {})
    for name, member in declared.items():
        if not isinstance(member, Mapping):
            continue
        if name in value:
            filled = _fill(root, member, value[name])
            if filled is not value[name]:
                changed[name] = filled
        else:
            described = _nearest_default(root, member)
            if described is not None:
                changed[name] = described["default"]
    others = _map_values(schema)
    if others is not None:
        for name, item in value.items():
            filled = item if name in declared else _fill(root, others, item)
            if filled is not item:
                changed[name] = filled
    return {**value, **changed} if changed else value


def _nearest_default(root: Mapping[str, Any], member: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema with the default of a property: its own, else one that its `$ref` stands for."""
    resolved = member if "default" in member else resolve_reference(root, member)
    return resolved if resolved is not None and "default" in resolved else None


def _map_values(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of members without one of their own; `None` when patterns would have to tell which."""
    others = schema.get("additionalProperties")
    return others if isinstance(others, Mapping) and not schema.get("patternProperties") else None


def _check_defaults(root: Mapping[str, Any]) -> None:
    """Every default fits its own schema and is complete: defaults are filled in once, not in defaults."""
    registry = jsonschema_rs.Registry([(_SELF, dict(root))])
    for pointer, described, schema in _subschemas(root, (), ()):
        for name, member in schema.get("properties", {}).items():
            with_default = _nearest_default(root, member) if isinstance(member, Mapping) else None
            if with_default is None:
                continue
            default, where = with_default["default"], format_pointer((*described, name))
            # Judged where it stands in the schema, so that its references resolve.
            alone = {"$ref": _SELF + "#" + quote(format_pointer((*pointer, "properties", name)))}
            if not jsonschema_rs.Draft202012Validator(alone, registry=registry, offline=True).is_valid(
                default
            ):
                raise SchemaUnusable(f"the default of `{where}` does not fit its own schema")
            if _fill(root, member, default) is not default:
                raise SchemaUnusable(
                    f"the default of `{where}` leaves out defaults inside it: write them out"
                )


class _FilledDefaults:
    """Proves at load that every `default` of a schema is filled in wherever its schema applies.

    It goes where `_fill` goes, and refuses the defaults of whatever else applies on the way. What
    then is still unknown stands where nothing can be absent (an item, the whole), or is never used.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        # A copy in which no two places are one object, so that a place is known by its object.
        self._root: Mapping[str, Any] = json.loads(json.dumps(root))
        self._filled: set[int] = set()
        self._seen: set[tuple[int, str]] = set()

    def check(self) -> None:
        """Raises `SchemaUnusable` naming the first default that is not filled in."""
        self._follow((), self._root, is_property=False)
        for place, _, schema in _subschemas(self._root, (), ()):
            if "default" in schema and id(schema) not in self._filled:
                raise _never_filled(place, place)

    def _follow(self, place: Tokens, node: Mapping[str, Any], *, is_property: bool) -> None:
        if not self._is_new(node, "property" if is_property else "present"):
            return
        chain = _references(self._root, place, node)
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
            self._refuse_targets(part, _UNREAD_REFERENCES, where)
        self._follow_members(chain, resolved)

    def _follow_members(self, chain: list[_Placed], resolved: Mapping[str, Any]) -> None:
        alternative = self._alternative(chain, resolved)
        schema = without_null(self._root, resolved)[0] or resolved
        for where, part in alternative:
            if "default" in part:
                raise _never_filled(where, alternative[0][0])
            self._refuse_targets(part, _UNREAD_REFERENCES, where)
        followed = _followed(schema, alternative or chain)
        for where, part in (*chain, *alternative):
            for steps, member in _members(part):
                there = (*where, *steps)
                if id(member) in followed:
                    self._follow(there, member, is_property=steps[0] == "properties")
                elif steps[0] not in _SHELVES and not (alternative and member is alternative[0][1]):
                    self._refuse(there, member, there)

    def _alternative(self, chain: list[_Placed], resolved: Mapping[str, Any]) -> list[_Placed]:
        """The one alternative besides null that `_fill` takes in place of the union, with its references."""
        if "type" in resolved or without_null(self._root, resolved)[0] is None:
            return []
        others, _ = _alternatives(self._root, resolved) or ([], False)
        for where, part in chain:
            for steps, member in _members(part):
                if others and member is others[0]:
                    return _references(self._root, (*where, *steps), member) or []
        return []

    def _refuse(self, place: Tokens, node: Any, via: Tokens) -> None:
        """Refuse every default in what applies at `via`, where `_fill` does not come."""
        if not isinstance(node, Mapping) or not self._is_new(node, "passed over"):
            return
        if "default" in node:
            raise _never_filled(place, via)
        self._refuse_below(place, node, via)

    def _refuse_below(self, place: Tokens, node: Mapping[str, Any], via: Tokens) -> None:
        for steps, member in _members(node):
            if steps[0] not in _SHELVES:
                self._refuse((*place, *steps), member, via)
        self._refuse_targets(node, _REFERENCES, via)

    def _refuse_targets(self, node: Mapping[str, Any], keywords: tuple[str, ...], via: Tokens) -> None:
        for keyword in keywords:
            for where, target in self._targets(node.get(keyword)):
                self._refuse(where, target, via)

    def _targets(self, reference: Any) -> Iterator[tuple[Tokens, Any]]:
        """What the validator takes for a reference: also anchors, and pointers that `_fill` does not read."""
        if not isinstance(reference, str):
            return
        fragment = unquote(reference)[1:]
        if fragment and not fragment.startswith("/"):
            for place, _, schema in _subschemas(self._root, (), ()):
                if fragment in (schema.get("$anchor"), schema.get("$dynamicAnchor")):
                    yield place, schema
            return
        tokens = _unescaped(fragment)
        for _, target in find(self._root, tokens):
            yield tokens, target

    def _is_new(self, node: Mapping[str, Any], how: str) -> bool:
        key = (id(node), how)
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new


def _followed(schema: Mapping[str, Any], chain: list[_Placed]) -> set[int]:
    """The members of `schema`, which `chain` makes up, that `_fill` goes into."""
    followed = [*schema.get("properties", {}).values(), *schema.get("prefixItems", [])]
    values = _map_values(schema)
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


_SELF: Final = "urn:arguments"
_SHELVES: Final = ("$defs", "definitions")
"""Where schemas are kept that apply only by reference."""
_MAPS_OF_SCHEMAS: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies", *_SHELVES)
_LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS_OF_MEMBERS: Final = (
    "items", "additionalProperties", "contains", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_SCHEMAS: Final = (*_SCHEMAS_OF_MEMBERS, "if", "then", "else", "not", "propertyNames", "contentSchema")


def _members(node: Mapping[str, Any]) -> Iterator[_Placed]:
    """The schemas directly in a schema, by the steps that lead there. Booleans are left out."""
    for keyword in _MAPS_OF_SCHEMAS:
        members = node.get(keyword)
        for name, member in members.items() if isinstance(members, Mapping) else ():
            if isinstance(member, Mapping):
                yield (keyword, name), member
    for keyword in _LISTS_OF_SCHEMAS:
        members = node.get(keyword)
        for index, member in enumerate(members if isinstance(members, list) else ()):
            if isinstance(member, Mapping):
                yield (keyword, str(index)), member
    for keyword in _SCHEMAS:
        if isinstance(node.get(keyword), Mapping):
            yield (keyword,), node[keyword]


def _subschemas(
    node: Mapping[str, Any], pointer: Tokens, described: Tokens
) -> Iterator[tuple[Tokens, Tokens, Mapping[str, Any]]]:
    """Every schema in a valid schema, itself first: (where it stands, what it describes, the schema)."""
    yield pointer, described, node
    for steps, member in _members(node):
        place = described
        if steps[0] in ("properties", "prefixItems"):
            place = (*described, steps[1])
        elif steps[0] == "patternProperties" or steps[0] in _SCHEMAS_OF_MEMBERS:
            place = (*described, WILDCARD)
        yield from _subschemas(member, (*pointer, *steps), place)


class Undeclared(ValueError):
    """A pointer to what a schema does not declare; the message says where it leaves the schema."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
        """What is declared there instead."""


def check_declared(root: Mapping[str, Any], pattern: Tokens) -> None:
    """Walk a pointer pattern through the schema of arguments. Raises `Undeclared` where it leaves it.

    What leads on must be typed: where anything goes, or a text as well as an object, another value
    would pass the schema, and what the pattern was to name would silently not be there. Of several
    objects (of a tagged union) one has to declare it.
    """
    places: list[Any] = [root]
    for depth, token in enumerate(pattern):
        declared = [schema for place in places for schema in _typed(root, place)]
        if depth == 0 and token == WILDCARD:
            # Arguments are named one by one: no role is looked up for all of them.
            declared = []
        places = [member for schema in declared for member in _places_at(schema, token)]
        if not places:
            names = {name: None for schema in declared for name in _names_in(schema)}
            raise _undeclared(pattern, depth, list(names))


def _typed(root: Mapping[str, Any], node: Any) -> list[Mapping[str, Any]]:
    """The schemas of an object, an array, or a union of only objects or only arrays, and null."""
    schema = resolve_reference(root, node) if isinstance(node, Mapping) else None
    if schema is None:
        return []
    only = without_null(root, schema)[0]
    options: list[Mapping[str, Any] | None] = [only] if only is not None else []
    if only is None and "type" not in schema:
        others, _ = _alternatives(root, schema) or ([], False)
        options = [(resolve_reference(root, one) if isinstance(one, Mapping) else None) for one in others]
    kinds = [option.get("type") if option is not None else None for option in options]
    if any(kind not in ("object", "array") or kind != kinds[0] for kind in kinds):
        return []
    return [option for option in options if option is not None]


_INDEX: Final = re.compile(r"0|[1-9][0-9]*")


def _places_at(schema: Mapping[str, Any], token: str) -> list[Any]:
    """The schemas of what `token` names in a value of this schema: what `pointer.find` would go into."""
    named, others = _parts(schema)
    if token == WILDCARD:
        return [*named.values(), *others]
    if token in named:
        return [named[token]]
    return others if schema.get("type") == "array" and _INDEX.fullmatch(token) else []


def _names_in(schema: Mapping[str, Any]) -> list[str]:
    named, others = _parts(schema)
    return [*named, WILDCARD] if others else [*named]


def _parts(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Any]]:
    """(members or items with a schema of their own, the schemas that the others share)."""
    if schema.get("type") == "array":
        named = {str(index): item for index, item in enumerate(schema.get("prefixItems", ()))}
        others = [schema["items"]] if "items" in schema else []
    else:
        named = schema.get("properties", {})
        others = [*schema.get("patternProperties", {}).values()]
        # `true` lets anything through, which declares nothing.
        others += (
            [schema["additionalProperties"]] if schema.get("additionalProperties", True) is not True else []
        )
    declared = {name: member for name, member in named.items() if member is not False}
    return declared, [member for member in others if member is not False]


def _undeclared(pattern: Tokens, depth: int, names: list[str]) -> Undeclared:
    parent = pattern[:depth]
    message = f"`{format_pointer(pattern)}` is no declared argument"
    if depth and names:
        message += f": `{format_pointer(parent)}` has no `{pattern[depth]}`"
    elif depth:
        message += f": nothing is declared in `{format_pointer(parent)}`, or it is not always of one type"
    close = get_close_matches(pattern[depth], names, n=1, cutoff=0)
    if close:
        return Undeclared(message, f"the nearest that is declared is `{format_pointer((*parent, close[0]))}`")
    if not depth:
        return Undeclared(message, "name one argument of `properties`")
    return Undeclared(message, "give it `type: object` and `properties`, or `type: array` and `items`")


def _argument_error(arguments: Mapping[str, Any], error: Any) -> ArgumentError:
    tokens = tuple(str(part) for part in error.instance_path)
    kind = type(error.kind).__name__.rpartition("_")[2]
    detail = error.kind.as_dict()
    found = arguments
    for part in error.instance_path:
        found = found[part]
    # A missing or surplus member is reported at its own place, where the model has to act.
    if "property" in detail and kind == "Required":
        tokens = (*tokens, str(detail["property"]))
        return ArgumentError(
            pointer=format_pointer(tokens),
            found="nothing",
            expected="a value",
            message=f"add the required argument `{detail['property']}`",
        )
    if detail.get("unexpected"):
        tokens = (*tokens, str(detail["unexpected"][0]))
        return ArgumentError(
            pointer=format_pointer(tokens),
            found="an argument that the tool does not have",
            expected="only declared arguments",
            message=f"remove {', '.join(f'`{_short(name)}`' for name in detail['unexpected'][:5])}",
        )
    expected = _expected(kind, detail)
    where = format_pointer(tokens) or "the arguments"
    return ArgumentError(
        pointer=format_pointer(tokens),
        found=type_names.get(type(found), "value"),
        expected=expected,
        message=f"change `{where}`: expected {expected}, found {type_names.get(type(found), 'a value')}",
    )


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 60 else text[:57] + "…"


def _expected(kind: str, detail: Mapping[str, Any]) -> str:
    if "types" in detail:
        return " or ".join(str(name) for name in detail["types"])
    if "options" in detail:
        options = detail["options"]
        listed = ", ".join(f"`{option}`" for option in options[:20])
        return f"one of {listed}" if len(options) > 1 else listed
    if "expected_value" in detail:
        return f"`{detail['expected_value']}`"
    words = "".join(" " + char.lower() if char.isupper() else char for char in kind).strip()
    for name in ("limit", "pattern", "format", "multiple_of"):
        if name in detail:
            return f"{words} {detail[name]}"
    return f"a value that satisfies `{words}`"
