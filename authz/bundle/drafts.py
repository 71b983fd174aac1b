"""From a server's `tools/list` entry to a draft: what can be guessed of a tool, and said to be guessed.

A draft is a place for a reviewer to start from. It is at A3 until somebody reviews it, it always makes one
access that nobody has understood (an `Opaque` resource, see `UNREVIEWED_KIND`), and the server's own
annotations are hints for people, never believed. Names decide what is guessed; a wrong guess costs a
correction and allows nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz.core.fingerprint import advertised_digest
from authz.core.json_schema import resolve_reference, subschemas, without_null
from authz.core.pointer import WILDCARD, Tokens, format_pointer
from authz.core.schema_keywords import unknown_keywords
from authz.core.schema_places import Undeclared, check_declared
from authz.errors import AuthzError

UNREVIEWED_KIND: Final = "unreviewed"
"""No kind of resource has this name, so what it names comes out `Opaque`."""
MAX_GUESSED_ACCESSES: Final = 12
MAX_GUESS_DEPTH: Final = 4
MAX_SUGGESTIONS: Final = 12
MAX_ARGUMENTS: Final = 1000
"""Of one tool, those inside others included; more are more than anybody would review."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class NoDraft(AuthzError):
    """An entry that no descriptor can be drafted from; the message says why."""

    code = "catalogue.entry"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedAccess:
    """One access that the names of arguments suggest."""

    verb: str
    kind: str
    at: str
    tree: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a reviewer starts from."""

    name: str
    description: str
    digest: str
    """The advertised digest: over the whole entry as the server sent it."""
    schema: Mapping[str, Any]
    """The advertised schema, unchanged."""
    annotations: Mapping[str, Any]
    roles: tuple[tuple[str, str], ...]
    """(JSON Pointer, guessed role), every argument once."""
    accesses: tuple[GuessedAccess, ...]
    closings: tuple[str, ...]
    """What a reviewer will want to close in the schema, in words."""
    corrections: tuple[str, ...]
    """What a reviewer has to correct in the schema: keywords that are none, which constrain nothing."""


def draft_of(entry: Mapping[str, Any]) -> Draft:
    """The draft of one advertised entry. Raises `NoDraft` for what no tool can be made of."""
    name = entry.get("name")
    schema = entry.get("inputSchema")
    if not isinstance(name, str):
        raise NoDraft("the entry has no name")
    if not isinstance(schema, Mapping):
        raise NoDraft("the entry has no `inputSchema`")
    try:
        digest = advertised_digest(entry)
    except ValueError as error:
        raise NoDraft(f"the entry has no RFC 8785 form: {error}") from None
    description = entry.get("description")
    annotations = entry.get("annotations")
    words = frozenset(words_of(name))
    guesses = [_Guess(words, tokens, node) for tokens, node in _strings(schema)]
    return Draft(
        name=name,
        description=description.strip() if isinstance(description, str) else "",
        digest=digest,
        schema=schema,
        annotations=annotations if isinstance(annotations, Mapping) else {},
        roles=tuple(_roles(schema, guesses)),
        accesses=tuple(_accesses(schema, words, guesses)),
        closings=tuple(_closings(schema)),
        corrections=tuple(f"{found.says}; {found.hint}" for found in unknown_keywords(schema)),
    )


def words_of(name: str) -> list[str]:
    """The lower-case words of a name, however it joins them: `filePath`, `file-path`, `file_path`."""
    return [word.lower() for word in _WORD.findall(name)]


_PATHS: Final = frozenset(
    "path paths file files filename filenames filepath dir directory directories folder folders cwd".split()
)
_URLS: Final = frozenset("url urls uri uris href link links webhook endpoint".split())
_HOSTS: Final = frozenset("host hosts hostname hostnames domain domains".split())
_EMAILS: Final = frozenset("email emails mail mailbox".split())
_RECIPIENTS: Final = frozenset(
    "to cc bcc recipient recipients attendee attendees participants invitees".split()
)
_MAILING: Final = frozenset("mail email invite event calendar newsletter".split())
_COMMANDS: Final = frozenset("command commands cmd shell bash script cmdline".split())
_SECRETS: Final = frozenset("password passwd token secret apikey credential credentials passphrase".split())
_AMOUNTS: Final = frozenset("amount price total sum budget cost".split())
_DESTINATIONS: Final = frozenset("destination dest to target".split())
_SOURCES: Final = frozenset("source src from".split())
_FORMATS: Final = {
    "uri": "url", "uri-reference": "url", "iri": "url", "iri-reference": "url", "url": "url",
    "email": "email", "idn-email": "email",
    "hostname": "host", "idn-hostname": "host", "ipv4": "host", "ipv6": "host",
    "path": "path", "file-path": "path", "directory-path": "path",
}  # fmt: skip

_READING: Final = frozenset(
    "read get list search find stat show view fetch check describe count query download open grep".split()
)
_DELETING: Final = frozenset("delete remove rm unlink destroy drop purge erase clear".split())
_MOVING: Final = frozenset("move rename mv".split())
_COPYING: Final = frozenset("copy cp clone".split())
_SENDING: Final = frozenset("post send upload put publish notify share submit push webhook".split())
_TREES: Final = frozenset("recursive tree search find grep".split())


@dataclass(frozen=True, slots=True)
class _Guess:
    """A string somewhere in the arguments, and what its name says of it."""

    tool: frozenset[str]
    tokens: Tokens
    node: Mapping[str, Any]

    @property
    def words(self) -> list[str]:
        named = [token for token in self.tokens if token != WILDCARD]
        return words_of(named[-1]) if named else []

    @property
    def kind(self) -> str | None:
        """The kind of resource that it may name; `None` for what looks like none."""
        words = self.words
        last = words[-1] if words else ""
        of_format = _FORMATS.get(str(self.node.get("format", "")))
        if of_format is not None:
            return of_format
        if last in _COMMANDS or {"command", "cmdline"} & set(words):
            return "shell"
        if last in _URLS:
            return "url"
        if last in _PATHS:
            return "path"
        if last in _HOSTS:
            return "host"
        if last in _EMAILS or (last in _RECIPIENTS and _MAILING & self.tool):
            return "email"
        moves = self.tool & (_MOVING | _COPYING) and self.tool & (_PATHS | {"mv", "cp"})
        if moves and last in _SOURCES | _DESTINATIONS:
            return "path"
        return None

    @property
    def role(self) -> str:
        kind, words = self.kind, set(self.words)
        if words & _SECRETS or {"api", "key"} <= words:
            return "credential"
        if kind == "shell":
            return "command"
        if kind == "email" or words & _DESTINATIONS or (kind in ("url", "host") and self.tool & _SENDING):
            return "destination"
        if kind is not None or "id" in words or "ids" in words:
            return "target"
        closed = "enum" in self.node or "const" in self.node
        # Free text can carry anything out, so it counts as what is sent until somebody says otherwise.
        return "option" if closed else "payload"


def _strings(schema: Mapping[str, Any]) -> Iterator[tuple[Tokens, Mapping[str, Any]]]:
    """Every string argument that a pointer can name, and the items of every array of strings."""

    count = 0

    def walk(node: Any, tokens: Tokens) -> Iterator[tuple[Tokens, Mapping[str, Any]]]:
        nonlocal count
        count += 1
        if count > MAX_ARGUMENTS:
            raise NoDraft(f"it takes over {MAX_ARGUMENTS} arguments, those inside others included")
        resolved = resolve_reference(schema, node) if isinstance(node, Mapping) else None
        only = without_null(schema, resolved)[0] if resolved is not None else None
        if only is None or len(tokens) > MAX_GUESS_DEPTH:
            return
        kind = only.get("type")
        if kind == "string":
            yield tokens, only
        elif kind == "array":
            yield from walk(only.get("items"), (*tokens, WILDCARD))
        elif kind == "object" and isinstance(only.get("properties"), Mapping):
            for name, member in only["properties"].items():
                yield from walk(member, (*tokens, name))

    for tokens, node in walk(schema, ()):
        # An array of strings is named as a whole: it stands for each of its items.
        place = tokens[:-1] if tokens and tokens[-1] == WILDCARD else tokens
        if place and _is_declared(schema, place):
            yield place, node


def _is_declared(schema: Mapping[str, Any], place: Tokens) -> bool:
    try:
        check_declared(schema, place)
    except Undeclared:
        return False
    return True


def _roles(schema: Mapping[str, Any], guesses: list[_Guess]) -> Iterator[tuple[str, str]]:
    declared = (resolve_reference(schema, schema) or {}).get("properties", {})
    by_place = {guess.tokens: guess for guess in guesses}
    for name, node in declared.items() if isinstance(declared, Mapping) else ():
        whole = by_place.get((name,))
        yield format_pointer((name,)), whole.role if whole is not None else _role_of_other(schema, name, node)
        for place, guess in by_place.items():
            if place[0] == name and len(place) > 1 and (guess.kind or guess.role == "credential"):
                yield format_pointer(place), guess.role


def _role_of_other(schema: Mapping[str, Any], name: str, node: Any) -> str:
    """Numbers and flags steer; whatever has parts can carry something."""
    resolved = (resolve_reference(schema, node) if isinstance(node, Mapping) else None) or {}
    only = without_null(schema, resolved)[0] or {}
    if only.get("type") in ("number", "integer") and set(words_of(name)) & _AMOUNTS:
        return "amount"
    if only.get("type") in ("number", "integer", "boolean") or "enum" in only or "const" in only:
        return "option"
    return "payload"


def _accesses(
    schema: Mapping[str, Any], tool: frozenset[str], guesses: list[_Guess]
) -> Iterator[GuessedAccess]:
    tree = bool(tool & _TREES) or any("recursive" in words_of(name) for name in _declared_names(schema))
    count = 0
    for guess in guesses:
        if guess.kind is None:
            continue
        for verb in _verbs(guess, tool):
            count += 1
            if count > MAX_GUESSED_ACCESSES:
                return
            yield GuessedAccess(
                verb=verb,
                kind=guess.kind,
                at=format_pointer(guess.tokens),
                tree=tree and guess.kind == "path",
            )


def _declared_names(schema: Mapping[str, Any]) -> list[str]:
    declared = (resolve_reference(schema, schema) or {}).get("properties", {})
    return list(declared) if isinstance(declared, Mapping) else []


def _verbs(guess: _Guess, tool: frozenset[str]) -> tuple[str, ...]:
    if guess.kind == "shell":
        return ("execute",)
    if guess.kind == "email":
        return ("send",)
    if guess.kind == "host":
        return ("connect",)
    if guess.kind == "url":
        return ("connect", "send" if tool & _SENDING else "read")
    words = set(guess.words)
    if words & _DESTINATIONS and tool & (_MOVING | _COPYING):
        return ("write",)
    if tool & _MOVING:
        # A file under a new name can be read by that name.
        return ("read", "delete")
    if tool & (_COPYING | _READING):
        return ("read",)
    return ("delete",) if tool & _DELETING else ("write",)


def _closings(schema: Mapping[str, Any]) -> Iterator[str]:
    """What is open in the schema: a reviewer closes it, this module changes nothing."""
    found: dict[str, list[str]] = {}
    for _, place, node in subschemas(schema, (), ()):
        where = format_pointer(place) or "the top"
        kind = node.get("type")
        if kind == "object" and node.get("additionalProperties", True) is not False:
            found.setdefault("additionalProperties: false", []).append(where)
        if kind == "string" and not {"maxLength", "enum", "const"} & node.keys():
            found.setdefault("maxLength", []).append(where)
        if kind == "array" and "maxItems" not in node:
            found.setdefault("maxItems", []).append(where)
        if kind in ("number", "integer") and not {"maximum", "exclusiveMaximum", "enum"} & node.keys():
            found.setdefault("minimum and maximum", []).append(where)
    for what, places in found.items():
        unique = list(dict.fromkeys(places))
        more = f" and {len(unique) - MAX_SUGGESTIONS} more" if len(unique) > MAX_SUGGESTIONS else ""
        yield f"{what} at {', '.join(unique[:MAX_SUGGESTIONS])}{more}"
