"""Keywords of JSON Schema: one that is misspelt is no constraint to a validator, and nobody is told.

JSON Schema has unknown keywords ignored, so `maxLenght: 100` bounds nothing. Here only those are known that
the vocabularies of 2020-12 have (JSON Schema Core, sections 8, 10 and 11; Validation, sections 6 to 9), those
of older drafts that the validator still heeds, and extensions that say so by `x-`.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from authz.core.json_schema import Placed, members_of, unescaped
from authz.core.pointer import Tokens, format_pointer

EXTENSION: Final = "x-"
VOCABULARIES: Final[Mapping[str, frozenset[str]]] = {
    "core": frozenset(
        "$id $schema $ref $anchor $dynamicRef $dynamicAnchor $vocabulary $comment $defs".split()
    ),
    "applicator": frozenset(
        "prefixItems items contains additionalProperties properties patternProperties dependentSchemas "
        "propertyNames if then else allOf anyOf oneOf not".split()
    ),
    "unevaluated": frozenset("unevaluatedItems unevaluatedProperties".split()),
    "validation": frozenset(
        "type const enum multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength "
        "pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required "
        "dependentRequired".split()
    ),
    "meta-data": frozenset("title description default deprecated readOnly writeOnly examples".split()),
    "format-annotation": frozenset({"format"}),
    "content": frozenset("contentEncoding contentMediaType contentSchema".split()),
}
LEGACY: Final = frozenset({"definitions", "dependencies"})
"""Of older drafts, and reserved by the meta-schema of 2020-12: a shelf for `$ref`, and a constraint that the
validator still holds calls to (which a test asserts)."""
KNOWN: Final = LEGACY.union(*VOCABULARIES.values())
MAX_FOUND: Final = 20
"""Of one schema: each costs a search for the keyword that was meant."""
_MAX_SEARCHED_LENGTH: Final = 64
_ELSEWHERE: Final[Mapping[str, str]] = {
    "nullable": 'write the types as a list, `["string", "null"]`',
    "additionalItems": "write `items` beside `prefixItems`",
    "$recursiveRef": "write `$dynamicRef`",
    "$recursiveAnchor": "write `$dynamicAnchor`",
    "divisibleBy": "write `multipleOf`",
    "id": "write `$id`",
    "example": "write `examples`, a list",
    "optional": "list what is not optional in `required` beside `properties`",
    "discriminator": "write `const` for the member that tells the alternatives apart, and leave this out",
}
"""What other dialects say, and how 2020-12 says it."""


class UnknownKeyword(NamedTuple):
    """A member of a schema that constrains nothing."""

    pointer: Tokens
    """Where it stands in the whole, itself included."""
    hint: str
    """What to write instead."""

    @property
    def says(self) -> str:
        """What is wrong, for people."""
        shown = self.pointer[-1][:_MAX_SEARCHED_LENGTH]
        where = format_pointer(self.pointer[:-1])
        place = f"at `{where}`" if where else "at the top"
        return f"`{shown}` {place} of the schema is no keyword of JSON Schema, so it constrains nothing"


def unknown_keywords(root: Mapping[str, Any]) -> list[UnknownKeyword]:
    """The unknown keywords of a schema, of its subschemas and of whatever a `$ref` makes one; at most
    `MAX_FOUND`, the outer ones first.

    In `default`, `const`, `enum`, `examples` and extensions is no schema, unless a `$ref` leads there.
    """
    places = islice(_unknown(root), MAX_FOUND)
    return [UnknownKeyword(pointer=place, hint=_hint(place[-1])) for place in places]


def _unknown(root: Mapping[str, Any]) -> Iterator[Tokens]:
    pending: deque[Placed] = deque([((), root)])
    seen: set[int] = set()
    while pending:
        place, node = pending.popleft()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for keyword in node:
            if keyword not in KNOWN and not keyword.startswith(EXTENSION):
                yield (*place, keyword)
        pending += [((*place, *steps), member) for steps, member in members_of(node)]
        referred = _referred(root, node)
        if referred is not None:
            pending.append(referred)


def _referred(root: Mapping[str, Any], node: Mapping[str, Any]) -> Placed | None:
    """Where the pointer of a `$ref` leads, percent-decoded as the validator does (RFC 6901, section 6).

    An anchor leads to a schema that is found as a part of another one.
    """
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return None
    place = unescaped(unquote(reference.partition("#")[2]))
    target: Any = root
    for token in place:
        if isinstance(target, list) and token.isascii() and token.isdigit() and int(token) < len(target):
            target = target[int(token)]
        elif isinstance(target, Mapping) and token in target:
            target = target[token]
        else:
            return None
    return (place, target) if isinstance(target, Mapping) else None


def _hint(keyword: str) -> str:
    if keyword in _ELSEWHERE:
        return _ELSEWHERE[keyword]
    if len(keyword) > _MAX_SEARCHED_LENGTH:
        return f"leave it out; an extension begins with `{EXTENSION}`"
    folded = {known.lower(): known for known in sorted(KNOWN)}
    close = get_close_matches(keyword.lower(), folded, n=1, cutoff=0.0)
    return f"the nearest is `{folded[close[0]]}`; an extension begins with `{EXTENSION}`"
