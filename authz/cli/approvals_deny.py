"""`authz approvals deny`: a person says no (`POST /approvals/{id}/deny`)."""

import argparse

from authz.cli.approvals_service import (
    AnswerRefused,
    add_service_arguments,
    approval_path,
    refused,
    service_of,
)
from authz.cli.approvals_view import standing_lines
from authz.cli.json_output import add_json_argument, print_json

HELP = "deny a request: the same call is not asked for again in its session"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = "Exit code: 0 denied, 1 your no does not count, 2 no answer."
    parser.add_argument("approval", metavar="ID")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the agent")
    add_service_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Say no."""
    try:
        path = f"{approval_path(args.approval)}/deny"
        answer = service_of(args).ask("POST", path, body={"reason": args.reason})
    except AnswerRefused as error:
        return refused(args, error)
    if args.json:
        print_json(answer)
    else:
        print("\n".join(standing_lines(answer)))
    return 0
