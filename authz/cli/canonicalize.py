"""`authz canonicalize`: what values name, by the same code that decides (spec section 4).

A line in is a JSON value, or an object with the value under `value` (or under the name of its kind) and what
it is relative to. A line out is `{"accesses": [{"verb", "type", "id", "uri", "scope", "parents", "attrs"}],
"canonical", "opaque", "error"}`. `verb` is null where a tool's descriptor says it, and `error` is
`{"code", "message"}` for a value that is refused. A bad line is answered like any other.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from typing import Any, Final

import rfc8785

from authz.cli.line_input import bounded_lines
from authz.core import strict_json
from authz.core.canonical import KINDS, canonicalize, opaque, opaque_text
from authz.core.canonical.shell import analyse_shell
from authz.core.canonical.sql import DIALECTS, Connection, analyse_sql
from authz.errors import MalformedInput, TooLarge
from authz.model.resource import Base, NotCanonical, Resource, Scope, Verb, Volume

HELP = "print what values name: JSON lines in, JSON lines out"

MAX_LINE_BYTES = 1 << 20

ALL_KINDS: Final = (*KINDS, "shell", "sql", "json")
_OPTIONS: Final = ("cwd", "root", "home", "object_type", "dialect", "database", "default_schema", "os")
_VOLUMES: Final = {
    "posix": Volume(),
    "linux": Volume(),
    "darwin": Volume(case_sensitive=False, normalization="nfc"),
    "macos": Volume(case_sensitive=False, normalization="nfc"),
    "windows": Volume(case_sensitive=False),
}
Answer = dict[str, Any]
_Access = tuple[Verb | None, Resource, Scope]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Reads one JSON value a line: a bare value, or an object with the value under its kind or `value`, "
        f"and optionally {', '.join(_OPTIONS)}; for kind json an object with `json_text`. Writes one JSON "
        "object a line: accesses, canonical, opaque, error. A value that is refused is an answer, no failure."
    )
    parser.add_argument("--kind", required=True, help=f"{', '.join(ALL_KINDS)}; any other kind is opaque")
    parser.add_argument("--cwd", help="absolute directory that relative paths are relative to")
    parser.add_argument("--root", help="absolute directory of the sandbox")
    parser.add_argument("--home", help="absolute directory that ~ stands for")
    parser.add_argument("--object-type", help="type of the objects that ids of kind id name")
    parser.add_argument("--dialect", choices=sorted(DIALECTS), help="how statements of kind sql are read")
    parser.add_argument("--database", default="db", help="what the database of kind sql is called")
    parser.add_argument("--default-schema", help="where tables without a schema are")
    parser.add_argument("--os", choices=sorted(_VOLUMES), help="how the volume spells names")
    parser.add_argument("--case-insensitive", action="store_true", help="the volume folds letter case")
    parser.add_argument("--nfc", action="store_true", help="the volume stores names in NFC")


def run(args: argparse.Namespace) -> int:
    """Answer every line of standard input at once; 0, whatever the answers are."""
    for line in bounded_lines(sys.stdin.buffer, MAX_LINE_BYTES):
        # Escaped, so that no terminal or line reader meets what a value holds.
        sys.stdout.write(json.dumps(answer(args, line.rstrip(b"\r\n"))) + "\n")
        sys.stdout.flush()
    return 0


def answer(args: argparse.Namespace, line: bytes) -> Answer:
    """The object to print for one line of input."""
    kind: str = args.kind
    try:
        document = strict_json.loads(line, max_bytes=MAX_LINE_BYTES)
    except MalformedInput as error:
        return _refused("input.malformed", error.message)
    if kind == "json":
        return _json(document)
    options: dict[str, str | None] = {name: getattr(args, name) for name in _OPTIONS}
    value: Any = document
    if isinstance(document, dict):
        problem = _check_object(kind, document)
        if problem:
            return _refused("input.malformed", problem)
        value = document[kind] if kind in document else document["value"]
        options |= {name: document[name] for name in _OPTIONS if name in document}
    if isinstance(value, dict | list):
        return _refused("input.malformed", "expected a string, number, boolean or null as value")
    return _answer(kind, value, options, _volume(args, options["os"]))


def _check_object(kind: str, document: dict[str, Any]) -> str | None:
    """What is wrong with an object line, or `None`. An unknown member is most likely a misspelt one."""
    values = {kind, "value"} & document.keys()
    if len(values) != 1:
        return f"expected the value under either `{kind}` or `value`"
    if document.keys() - values - set(_OPTIONS):
        return "unknown member, known are the value, " + ", ".join(_OPTIONS)
    if not all(isinstance(document[name], str | None) for name in _OPTIONS if name in document):
        return "expected strings for " + ", ".join(_OPTIONS)
    if document.get("os") not in (None, *_VOLUMES):
        return "unknown `os`, known are " + ", ".join(_VOLUMES)
    if document.get("dialect") not in (None, *DIALECTS):
        return "unknown `dialect`, known are " + ", ".join(sorted(DIALECTS))
    return None


def _volume(args: argparse.Namespace, system: str | None) -> Volume:
    known = _VOLUMES[system or "posix"]
    return Volume(
        case_sensitive=known.case_sensitive and not args.case_insensitive,
        normalization="nfc" if args.nfc else known.normalization,
    )


def _answer(kind: str, value: Any, options: dict[str, str | None], volume: Volume) -> Answer:
    base = Base(cwd=options["cwd"], root=options["root"], home=options["home"], volume=volume)
    found: Iterable[_Access] | NotCanonical
    if kind == "shell":
        line = analyse_shell(value, base)
        found = (
            line if isinstance(line, NotCanonical) else [(one.verb, one.resource, one.scope) for one in line]
        )
    elif kind == "sql":
        found = _statement(value, options)
    else:
        named = canonicalize(kind, value, base, object_type=options["object_type"])
        found = named if isinstance(named, NotCanonical) else [(None, one, Scope.OBJECT) for one in named]
    if not isinstance(found, NotCanonical):
        return _described(kind, value, list(found))
    if found.understood:
        return _refused(found.code, found.message)
    verb = Verb.EXECUTE if kind in ("shell", "sql") else None
    return _described(kind, value, [(verb, opaque(kind, opaque_text(value), found.code), Scope.OBJECT)])


def _statement(value: Any, options: dict[str, str | None]) -> list[_Access] | NotCanonical:
    if options["dialect"] is None:
        return NotCanonical(code="sql.dialect", message="a statement needs a declared `dialect`")
    connection = Connection(
        database=options["database"] or "db",
        dialect=options["dialect"],
        default_schema=options["default_schema"],
    )
    found = analyse_sql(value, connection)
    if isinstance(found, NotCanonical):
        return found
    return [(one.verb, one.resource, one.scope) for one in found]


def _described(kind: str, value: Any, accesses: list[_Access]) -> Answer:
    is_opaque = any(resource.kind == "opaque" for _, resource, _ in accesses)
    return {
        "accesses": [_access(*access) for access in accesses],
        "canonical": _canonical(kind, value, [resource for _, resource, _ in accesses], is_opaque=is_opaque),
        "opaque": is_opaque,
        "error": None,
    }


def _canonical(kind: str, value: Any, resources: list[Resource], *, is_opaque: bool) -> str | None:
    """The one spelling. A line or a statement has none but itself, and what is not understood has none."""
    if kind in ("shell", "sql"):
        return str(value)
    if is_opaque:
        return None
    # Several spellings of a remote reach it differently; its name is one.
    return ", ".join(one.entity.id if kind == "repo" else one.value for one in resources)


def _access(verb: Verb | None, resource: Resource, scope: Scope) -> Answer:
    return {
        "verb": verb.value if verb is not None else None,
        "type": resource.entity.type,
        "id": resource.entity.id,
        "uri": resource.uri,
        "scope": scope.value,
        "parents": [{"type": entity.type, "id": entity.id} for entity in resource.chain[1:]],
        "attrs": dict(resource.entity.attributes),
    }


def _json(document: Any) -> Answer:
    """Kind `json`: the RFC 8785 form of a text and its digest, or what the strict parser refuses it for."""
    if not (isinstance(document, dict) and document.keys() == {"json_text"}):
        return _refused("input.malformed", "expected an object with `json_text`")
    text = document["json_text"]
    if not isinstance(text, str):
        return _refused("input.malformed", "expected a string as `json_text`")
    try:
        canonical = rfc8785.dumps(strict_json.loads(text.encode(), max_bytes=MAX_LINE_BYTES))
    except (MalformedInput, TooLarge) as error:
        return _refused(error.code, error.message) | {"sha256": None}
    return {
        "accesses": [],
        "canonical": canonical.decode(),
        "sha256": hashlib.sha256(canonical).hexdigest(),
        "opaque": False,
        "error": None,
    }


def _refused(code: str, message: str) -> Answer:
    return {
        "accesses": [],
        "canonical": None,
        "opaque": False,
        "error": {"code": code, "message": message},
    }
