"""`authz canonicalize`: the canonical form of values, by the same code that decides (spec section 4)."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import BinaryIO

from authz.core import strict_json
from authz.core.canonical import KINDS, JsonScalar, canonicalize, describe, opaque, opaque_text
from authz.errors import MalformedInput
from authz.model.resource import Base, NotCanonical, Resource, Volume

HELP = "print the canonical form of values: JSON lines in, JSON lines out"

MAX_LINE_BYTES = 1 << 20

_OPTIONS = frozenset({"cwd", "root", "home", "object_type"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Reads one JSON value a line: a bare value, or an object with the value under its kind or "
        "`value`, and optionally cwd, root, home and object_type. Writes one JSON object a line. "
        "A value that is refused is an answer, not a failure."
    )
    parser.add_argument("--kind", required=True, help=f"{', '.join(KINDS)}; any other kind is opaque")
    parser.add_argument("--cwd", help="absolute directory that relative paths are relative to")
    parser.add_argument("--root", help="absolute directory of the sandbox")
    parser.add_argument("--home", help="absolute directory that ~ stands for")
    parser.add_argument("--object-type", help="type of the objects that ids of kind id name")
    parser.add_argument("--case-insensitive", action="store_true", help="the volume folds letter case")
    parser.add_argument("--nfc", action="store_true", help="the volume stores names in NFC")


def run(args: argparse.Namespace) -> int:
    """Answer every line of standard input at once; 0, whatever the answers are."""
    for line in bounded_lines(sys.stdin.buffer):
        # Escaped, so that no terminal or line reader meets what a value holds.
        sys.stdout.write(json.dumps(answer(args, line.rstrip(b"\r\n"))) + "\n")
        sys.stdout.flush()
    return 0


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of `stream`. Of one that is too long only a part, itself too long, is kept in memory."""
    while line := stream.readline(MAX_LINE_BYTES + 2):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES + 2)
        yield line


def answer(args: argparse.Namespace, line: bytes) -> dict[str, object]:
    """The object to print for one line of input."""
    kind: str = args.kind
    try:
        document = strict_json.loads(line, max_bytes=MAX_LINE_BYTES)
    except MalformedInput as error:
        return _malformed(kind, error.message)
    options: dict[str, str | None] = {
        "cwd": args.cwd,
        "root": args.root,
        "home": args.home,
        "object_type": args.object_type,
    }
    value = document
    if isinstance(document, dict):
        problem = _check_object(kind, document)
        if problem:
            return _malformed(kind, problem)
        value = document[kind] if kind in document else document["value"]
        options |= {name: document[name] for name in _OPTIONS & document.keys()}
    if isinstance(value, dict | list):
        return _malformed(kind, "expected a string, number, boolean or null as value")
    volume = Volume(case_sensitive=not args.case_insensitive, normalization="nfc" if args.nfc else "none")
    base = Base(cwd=options["cwd"], root=options["root"], home=options["home"], volume=volume)
    return _described(kind, value, canonicalize(kind, value, base, object_type=options["object_type"]))


def _check_object(kind: str, document: dict[str, object]) -> str | None:
    """What is wrong with an object line, or `None`. An unknown member is most likely a misspelt one."""
    values = {kind, "value"} & document.keys()
    if len(values) != 1:
        return f"expected the value under either `{kind}` or `value`"
    if document.keys() - values - _OPTIONS:
        return "unknown member, known are the value, " + ", ".join(sorted(_OPTIONS))
    if not all(isinstance(document[name], str | None) for name in _OPTIONS & document.keys()):
        return "expected strings for " + ", ".join(sorted(_OPTIONS))
    return None


def _described(
    kind: str, value: JsonScalar, result: tuple[Resource, ...] | NotCanonical
) -> dict[str, object]:
    if isinstance(result, NotCanonical):
        refusal: dict[str, object] = {
            "kind": kind,
            "error": {"code": result.code, "message": result.message, "understood": result.understood},
        }
        if not result.understood:
            instead = opaque(kind, opaque_text(value), result.code)
            refusal |= {"resource": instead.entity.cedar, "uri": instead.uri}
        return refusal
    if len(result) == 1:
        return describe(result[0])
    return {
        "kind": kind,
        "canonical": ", ".join(resource.value for resource in result),
        "resources": [describe(resource) for resource in result],
    }


def _malformed(kind: str, message: str) -> dict[str, object]:
    return {"kind": kind, "error": {"code": "input.malformed", "message": message, "understood": True}}
