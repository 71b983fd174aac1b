"""`authz approvals show`: what would run, in the clear, or where a request stands."""

import argparse
import sys

from authz.cli.approvals_service import (
    AnswerRefused,
    add_service_arguments,
    approval_path,
    refused,
    service_of,
)
from authz.cli.approvals_shown import fetch_shown, json_of, text_of
from authz.cli.approvals_view import standing_lines
from authz.cli.json_output import add_json_argument, print_json

HELP = "show what would run if a request were approved, and where it stands"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "To a person who may answer it: all that would run, nothing folded, and the digest by which a yes is "
        "bound to it, which is computed here. To a key: where it stands. "
        "Exit code: 0 shown, 1 it is not yours to see, 2 no answer."
    )
    parser.add_argument("approval", metavar="ID")
    parser.add_argument("--secrets", action="store_true", help="print values that are secret as well")
    parser.add_argument(
        "--state-only", action="store_true", help="only where it stands, in a person's session"
    )
    add_service_arguments(parser, role="`decide` (what it asked itself) or `audit`")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Fetch, check and print."""
    try:
        service = service_of(args)
        if not service.is_person or args.state_only:
            approval = service.ask("GET", approval_path(args.approval))
            if args.json:
                print_json(approval)
            else:
                print("\n".join(standing_lines(approval)))
            return 0
        shown = fetch_shown(service, args.approval)
    except AnswerRefused as error:
        return refused(args, error)
    if args.json:
        print_json(json_of(shown))
    else:
        sys.stdout.write(text_of(shown, secrets=args.secrets))
    return 0
