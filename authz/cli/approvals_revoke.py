"""`authz approvals revoke`: void what is left of a yes (`POST /approvals/{id}/revoke`)."""

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

HELP = "make void what is left of an approval"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "What was allowed by it stays allowed; no later call is. "
        "Exit code: 0 it is void, 1 refused, or nothing was left, 2 no answer."
    )
    parser.add_argument("approval", metavar="ID")
    add_service_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Revoke."""
    try:
        answer = service_of(args).ask("POST", f"{approval_path(args.approval)}/revoke")
    except AnswerRefused as error:
        return refused(args, error)
    if args.json:
        print_json(answer)
    else:
        print("\n".join(standing_lines(answer)))
    return 0
