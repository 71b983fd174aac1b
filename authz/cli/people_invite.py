"""`authz people invite`: make an account, and print a one-time link for registering its passkey."""

import argparse
from typing import Final

from authz.cli.data_location import fail, read_location
from authz.cli.people_orders import (
    add_person_arguments,
    carry_out,
    link_url,
    make_order,
    new_link,
    say_done,
)
from authz.config import load_config
from authz.errors import AuthzError
from authz.model.account import PERSON_ROLES
from authz.model.account_writes import OrderKind

HELP = "invite a person: print a one-time link for registering a passkey"
DEFAULT_DAYS: Final = 3
_DAY_MS: Final = 86_400_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Makes the account, or gives it these roles, and prints a link on standard output that is good once, "
        "for registering a passkey and for nothing else. An earlier link of the person is void. A running "
        "service carries it out, with its record in the decision log."
    )
    add_person_arguments(parser)
    parser.add_argument(
        "--role",
        action="append",
        required=True,
        choices=sorted(PERSON_ROLES),
        dest="roles",
        help="what the person may do; may be given again",
    )
    parser.add_argument("--name", default="", metavar="TEXT", help="what to call the person on pages")
    parser.add_argument(
        "--days",
        type=int,
        default=DEFAULT_DAYS,
        choices=range(1, 31),
        metavar="N",
        help=f"how long the link is good; default: {DEFAULT_DAYS}",
    )


def run(args: argparse.Namespace) -> int:
    """Leave the order; the link alone goes to standard output."""
    try:
        config, location, token = load_config(), read_location(args), new_link()
        order = make_order(
            args,
            OrderKind.INVITE,
            roles=frozenset(args.roles),
            display_name=args.name,
            token=token,
            link_ms=args.days * _DAY_MS,
        )
        done = carry_out(location, order)
    except AuthzError as fault:
        return fail(fault)
    print(link_url(config.public_url, token))
    say_done(done, f"`{args.person}` is invited; the link is good once and is not shown again")
    return 0
