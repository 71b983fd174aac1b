"""`authz approvals list`: requests for approvals (`GET /approvals`)."""

import argparse
import sys
from typing import Final

from authz.cli.approvals_service import AnswerRefused, add_service_arguments, refused, service_of
from authz.cli.approvals_view import line
from authz.cli.data_location import printable
from authz.cli.json_output import add_json_argument, print_json
from authz.model.approval import ApprovalState

HELP = "list requests for approvals"
MAX_LIMIT: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints requests, newest first, one a line. All filters must match. "
        "Exit code: 0 found, 1 nothing found, 2 no answer."
    )
    parser.add_argument(
        "--state", choices=[str(state) for state in ApprovalState], help="default: all", metavar="STATE"
    )
    parser.add_argument("--agent", metavar="NAME", help="who asked")
    parser.add_argument("--user", metavar="NAME", help="on whose behalf")
    parser.add_argument("--session", metavar="ID")
    parser.add_argument("--tool", metavar="SERVER/NAME", help="identity of its server, and its name")
    parser.add_argument("--trace", metavar="ID", help="the `trace_id` of the call")
    parser.add_argument("--live", action="store_true", help="only those of which something is left to use")
    parser.add_argument(
        "--limit", type=_limit, default=50, metavar="N", help=f"1 to {MAX_LIMIT}; default: 50"
    )
    parser.add_argument("--before", metavar="PLACE", help="go on from here; standard error says where")
    add_service_arguments(parser, role="`decide` (what it asked itself) or `audit`")
    add_json_argument(parser, help="print JSON instead of text, one request on one line")


def _limit(text: str) -> int:
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_LIMIT:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is no number from 1 to {MAX_LIMIT}")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    named = {"state": args.state, "agent": args.agent, "on_behalf_of": args.user, "session": args.session}
    named |= {"tool": args.tool, "trace_id": args.trace, "before": args.before}
    named |= {"grants": "true" if args.live else None, "limit": str(args.limit)}
    params = {name: value for name, value in named.items() if value is not None}
    try:
        answer = service_of(args).ask("GET", "/approvals", params=params)
    except AnswerRefused as error:
        return refused(args, error)
    for approval in answer["approvals"]:
        if args.json:
            print_json(approval)
        else:
            print(line(approval))
    if answer["next"] is not None:
        print(f"there are more: --before {printable(answer['next'])}", file=sys.stderr)
    return 0 if answer["approvals"] else 1
