"""`authz people disable`: end the sessions of a person, and let nobody in as it."""

import argparse

from authz.cli.data_location import fail, read_location
from authz.cli.people_orders import add_person_arguments, carry_out, make_order, say_done
from authz.errors import AuthzError
from authz.model.account_writes import OrderKind

HELP = "end the sessions of a person, and let nobody in as it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Running services let the person out within one second. "
        "Its passkeys stay for when it is enabled again."
    )
    add_person_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Leave the order, and wait for a service to carry it out."""
    try:
        done = carry_out(read_location(args), make_order(args, OrderKind.DISABLE))
    except AuthzError as fault:
        return fail(fault)
    say_done(done, f"`{args.person}` is disabled; its sessions have ended")
    return 0
