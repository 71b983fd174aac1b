"""`authz capabilities issue`: a root for an agent's key (`POST /capabilities`)."""

import argparse

from authz.cli.capabilities_files import add_entries_arguments, malformed
from authz.cli.capabilities_given import add_holder_arguments, asked_for, given_lines
from authz.cli.capabilities_service import ServiceRefused, add_service_arguments, ask, refused
from authz.cli.json_output import add_json_argument, print_json

HELP = "issue a capability to an agent's key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Asks a running service for a root. Issuing is a policy decision, and a record. What --json prints "
        "is a chain to the other commands. Exit code: 0 issued, 1 refused, 2 no answer."
    )
    parser.add_argument("--on-behalf-of", metavar="NAME", help="the user who is accountable")
    add_holder_arguments(parser)
    add_entries_arguments(parser)
    add_service_arguments(parser, role="`issue`")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and print what was given."""
    body = asked_for(args)
    if not body.keys() & {"authorization_details", "task"}:
        raise malformed("say what it allows: `--packet`, `--entries`, or `--action` with `--location`")
    if args.on_behalf_of is not None:
        body["on_behalf_of"] = args.on_behalf_of
    try:
        answer = ask(args, "POST", "/capabilities", body=body)
    except ServiceRefused as error:
        return refused(args, error)
    if args.json:
        print_json(answer)
    else:
        print("\n".join(given_lines(answer)))
    return 0
