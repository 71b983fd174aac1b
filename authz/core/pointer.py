"""JSON Pointers (RFC 6901) into arguments, and patterns in which `*` stands for every item."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from authz.core.strict_json import escape_pointer

Tokens = tuple[str, ...]

WILDCARD = "*"


_REMEMBERED_CHARACTERS: Final = 128
"""Longer pointers are not remembered, so that nobody can fill memory with them."""


def parse_pointer(text: str) -> Tokens:
    """The reference tokens of a JSON Pointer. Raises `ValueError` when it is none."""
    return (_known_pointer if len(text) <= _REMEMBERED_CHARACTERS else _parse_pointer)(text)


def _parse_pointer(text: str) -> Tokens:
    if text == "":
        return ()
    if not text.startswith("/"):
        raise ValueError(f"`{text}` is not a JSON Pointer: it must start with `/`")
    tokens = text[1:].split("/")
    for token in tokens:
        if "~" in token.replace("~0", "").replace("~1", ""):
            raise ValueError(f"`{text}` is not a JSON Pointer: `~` must be written `~0`")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


_known_pointer = lru_cache(maxsize=1024)(_parse_pointer)


def format_pointer(tokens: Tokens) -> str:
    """The JSON Pointer of reference tokens."""
    return "".join("/" + escape_pointer(token) for token in tokens)


def find(document: Any, pattern: Tokens) -> Iterator[tuple[Tokens, Any]]:
    """Every (pointer, value) in `document` that `pattern` names. Nothing when it is absent."""
    if not pattern:
        yield (), document
        return
    head, rest = pattern[0], pattern[1:]
    for token, child in _children(document, head):
        for tokens, value in find(child, rest):
            yield (token, *tokens), value


def find_or_none(document: Any, pattern: Tokens) -> Iterator[tuple[Tokens, Any]]:
    """Like `find`, and (pointer, `None`) for each branch that ends before `pattern` does.

    A `*` over nothing is such a branch too: there is no item to lack the value.
    """
    if not pattern:
        yield (), document
        return
    head, rest = pattern[0], pattern[1:]
    found = False
    for token, child in _children(document, head):
        found = True
        for tokens, value in find_or_none(child, rest):
            yield (token, *tokens), value
    if not found:
        yield (head, *rest), None


def _children(document: Any, token: str) -> Iterator[tuple[str, Any]]:
    if isinstance(document, Mapping):
        if token == WILDCARD:
            yield from document.items()
        elif token in document:
            yield token, document[token]
    elif isinstance(document, list):
        if token == WILDCARD:
            for index, item in enumerate(document):
                yield str(index), item
        elif token.isascii() and token.isdigit() and int(token) < len(document):
            yield token, document[int(token)]


def leaves(document: Any, prefix: Tokens = ()) -> Iterator[tuple[Tokens, Any]]:
    """Every scalar, empty array and empty object of `document`, with its pointer."""
    if isinstance(document, Mapping) and document:
        for name, value in document.items():
            yield from leaves(value, (*prefix, name))
    elif isinstance(document, list) and document:
        for index, value in enumerate(document):
            yield from leaves(value, (*prefix, str(index)))
    else:
        yield prefix, document


def replace_leaf(document: Any, tokens: Tokens, value: Any) -> Any:
    """A copy of `document` with `value` at `tokens`; only the containers on the way are copied."""
    if not tokens:
        return value
    head, rest = tokens[0], tokens[1:]
    if isinstance(document, list):
        items = list(document)
        items[int(head)] = replace_leaf(items[int(head)], rest, value)
        return items
    return {**document, head: replace_leaf(document[head], rest, value)}


def matches(pattern: Tokens, tokens: Tokens) -> bool:
    """True when `pattern` is a prefix of `tokens`, `*` matching any one token."""
    return len(pattern) <= len(tokens) and all(
        expected in (WILDCARD, token) for expected, token in zip(pattern, tokens, strict=False)
    )
