"""`authz people sign-in-link`: another one-time link to a development server."""

import argparse
from typing import Final

from authz.cli.data_location import fail, read_location
from authz.cli.people_orders import (
    DEV_LINK_MS,
    add_person_arguments,
    carry_out,
    link_url,
    make_order,
    new_link,
    say_done,
)
from authz.config import load_config
from authz.errors import AuthzError
from authz.model.account_writes import OrderKind

HELP = "print a one-time sign-in link to a running `authz serve --dev`"
DEV_PERSON_ROLES: Final = frozenset({"approve", "audit"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "For development alone: a service that runs without `--dev` refuses it, and whatever such a link let "
        "in is void there."
    )
    add_person_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Leave the order; the link alone goes to standard output."""
    try:
        config, location, token = load_config(), read_location(args), new_link()
        order = make_order(args, OrderKind.DEV_LINK, roles=DEV_PERSON_ROLES, token=token, link_ms=DEV_LINK_MS)
        done = carry_out(location, order)
    except AuthzError as fault:
        return fail(fault)
    print(link_url(config.public_url, token))
    say_done(done, f"the link signs `{args.person}` in, once")
    return 0
