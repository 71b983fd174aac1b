"""`authz capabilities verify`: chains as JSON lines in, verdicts as JSON lines out. Needs no service."""

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from authz_client.capabilities import check_line, explain_line

from authz.cli.line_input import bounded_lines

HELP = "verify chains: JSON lines in, JSON lines out"

MAX_LINE_BYTES = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        'A line in is {"chain": [JWS, …], "verify_at": SECONDS, "aud": …, "iss": …, "keys": {KID: JWK}, '
        '"revoked_jti": […]}, or has "token" instead of "chain" for the envelope of one root alone; '
        "`revoked_jti`, `revoked_link` and `revoked_holder` may be left out. A line out is "
        '{"result": "accept" | "reject", "reason": CODE}, written before the next line is read. '
        "A line that is no such question is a reject with the reason `line_invalid`. "
        "Exit code: 0 whatever the verdicts, 2 when the input cannot be read."
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: -, standard input")
    parser.add_argument(
        "--explain", action="store_true", help="say of a reject in words why, and of which link"
    )


def run(args: argparse.Namespace) -> int:
    """Answer every line at once; 0, whatever the answers are."""
    with nullcontext(sys.stdin.buffer) if args.file == "-" else Path(args.file).open("rb") as stream:
        for line in bounded_lines(stream, MAX_LINE_BYTES):
            sys.stdout.write(json.dumps(_answer(line.rstrip(b"\r\n"), explained=args.explain)) + "\n")
            sys.stdout.flush()
    return 0


def _answer(line: bytes, *, explained: bool) -> dict[str, Any]:
    answer: dict[str, Any] = dict(check_line(line))
    if explained and (refusal := explain_line(line)) is not None:
        answer |= {"link": refusal.link, "component": refusal.component, "detail": refusal.detail}
    return answer
