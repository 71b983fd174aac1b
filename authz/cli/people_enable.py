"""`authz people enable`: let a person in again that was disabled."""

import argparse

from authz.cli.data_location import fail, read_location
from authz.cli.people_orders import add_person_arguments, carry_out, make_order, say_done
from authz.errors import AuthzError
from authz.model.account_writes import OrderKind

HELP = "let a person in again that was disabled"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = "With the passkeys and roles of before; sessions do not come back."
    add_person_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Leave the order, and wait for a service to carry it out."""
    try:
        done = carry_out(read_location(args), make_order(args, OrderKind.ENABLE))
    except AuthzError as fault:
        return fail(fault)
    say_done(done, f"`{args.person}` is enabled")
    return 0
